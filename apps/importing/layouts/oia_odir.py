"""OIA-ODIR: fundus photographs of both eyes with diagnostic keywords for each eye."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..source import LeftOut, SourceCase, SourceDataset
from .listing import Listing, checked, list_files
from .tables import TABLE_SUFFIXES, read_table

EXPECTED = (
    "Training Set/Images/1_left.jpg with Training Set/Annotation/training annotation (English).xlsx (or exported as "
    ".csv), and so in Off-site Test Set and On-site Test Set"
)

# In the order of the published columns N, D, G, C, A, H, M, O and of the FedGSCA paper, which calls the second
# Hypertensive Retinopathy; the publishers' D is diabetes.
CLASSES = (
    "Normal",
    "Diabetic Retinopathy",
    "Glaucoma",
    "Cataract",
    "AMD",
    "Hypertension Complications",
    "Pathologic Myopia",
    "Other Diseases/Abnormalities",
)

# A keyword belongs to the first class of which it has a word; hypertensive retinopathy is no diabetic one.
_WORDS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (0, ("normal fundus",)),
    (5, ("hypertensive",)),
    (1, ("diabetic", "proliferative retinopathy")),
    (2, ("glaucoma",)),
    (3, ("cataract",)),
    (4, ("age-related macular degeneration",)),
    (6, ("myopi",)),
)
_OTHER = len(CLASSES) - 1
# What the keywords say of the photograph, not of the eye; the last two mean that no fundus can be seen.
_REMARKS = frozenset({"lens dust", "optic disk photographically invisible", "low image quality", "image offset"})
_NO_FUNDUS = frozenset({"anterior segment image", "no fundus image"})

_EYES = (("Left-Fundus", "Left-Diagnostic Keywords"), ("Right-Fundus", "Right-Diagnostic Keywords"))
_COLUMNS = ("ID", *(column for eye in _EYES for column in eye))


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the photographs; the class of an eye with several diagnoses is the first in the order of the classes.

    The diagnoses are those of the eye's own keywords, because the columns N to O are about both eyes together. Both
    test sets are for testing. Photographs of a patient stay together.

    Raises:
        DataError: if the folder does not have the layout, a table cannot be read or names a file outside the folder.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    untold = dict.fromkeys(listing.pictures())
    for table, patient, name, keywords in _photographs(listing):
        root = table.parent.parent / "Images"
        image = listing.named(root, name, table)
        label = diagnosis(keywords)
        if image is None:
            skipped.append(LeftOut(listing.shown(root / name), "no such file"))
            continue
        untold.pop(image, None)
        if label is None:
            shown = listing.shown(image)
            text = f"{shown}: no diagnosis in its keywords, {keywords!r}"
            skipped.append(LeftOut(shown, "no diagnosis in its keywords", text))
        else:
            cases.append(SourceCase(image, label, group=patient, section=listing.section(table)))
    skipped += [LeftOut(listing.shown(file), "in no table") for file in untold]
    dataset = SourceDataset(
        "oia-odir", "classification", False, tuple(cases), CLASSES, channels=3, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)


def diagnosis(keywords: str) -> int | None:
    """Return the class of an eye from its keywords, None if they hold no diagnosis.

    Args:
        keywords: separated by commas, Latin or Chinese ones.
    """
    words = [word.strip().lower() for word in re.split("[,，]", keywords) if word.strip()]
    if _NO_FUNDUS.intersection(words):
        return None
    return min((_class_of(word) for word in words if word not in _REMARKS), default=None)


def _class_of(keyword: str) -> int:
    return next((label for label, words in _WORDS if any(word in keyword for word in words)), _OTHER)


def _photographs(listing: Listing) -> Iterator[tuple[Path, str, str, str]]:
    """Table, patient, file name and keywords of every photograph that a table names."""
    for table in _annotation_tables(listing):
        for _, row in read_table(table, _COLUMNS):
            for name, keywords in _EYES:
                yield table, row["ID"], row[name], row[keywords]


def _annotation_tables(listing: Listing) -> list[Path]:
    """One table of each folder ``Annotation``: the English one, and as CSV where there are both."""
    tables: dict[Path, list[Path]] = {}
    for file in listing.files:
        is_table = file.suffix.lower() in TABLE_SUFFIXES and file.parent.name.lower() == "annotation"
        # Spreadsheet programs leave files with ~$ next to an open table.
        if is_table and file.parent != listing.folder and not re.match("~|.*chinese", file.name.lower()):
            tables.setdefault(file.parent, []).append(file)
    return [min(files, key=lambda file: TABLE_SUFFIXES.index(file.suffix.lower())) for files in tables.values()]
