"""RIGA: fundus photographs, on copies of which six ophthalmologists drew the contours of the optic disc and cup."""

import re
from collections import defaultdict
from pathlib import Path

from ....custom.data.annotations import UNDECIDED
from ....transforms.natural_order import natural_order
from ..contour_pictures import NestedContours
from ..source import LeftOut, SourceAnnotation, SourceCase, SourceDataset
from .listing import Listing, checked, list_files, second_of

EXPECTED = "image1prime.jpg with image1-1.jpg to image1-6.jpg, in BinRushed, Magrabia and MESSIDOR"

CLASSES = ("optic disc", "optic cup")
_IMAGE, _COPY = re.compile(r"(image\d+)prime", re.IGNORECASE), re.compile(r"(image\d+)-(\d)", re.IGNORECASE)
# What the name of a folder begins with → the source.
_SOURCES = {"binrushed": "binrushed", "magrab": "magrabia", "messidor": "messidor"}
_CORRECTED = re.compile(r"(.+)-corrected", re.IGNORECASE)


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the photographs with the contours of each ophthalmologist, who has the same number in all of them.

    The optic disc without the cup is the first class, the cup the second. A folder of which there is a corrected one
    next to it is left out.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    images: dict[tuple[Path, str], Path] = {}
    copies: defaultdict[tuple[Path, str], dict[str, Path]] = defaultdict(dict)
    skipped = []
    replaced = _replaced(listing)
    for file in listing.pictures():
        if any(parent in replaced for parent in file.parents):
            skipped.append(LeftOut(listing.shown(file), "there is a corrected folder"))
        elif match := _IMAGE.fullmatch(file.stem):
            skipped += _second(listing, file, images.setdefault((file.parent, match[1].lower()), file))
        elif match := _COPY.fullmatch(file.stem):
            skipped += _second(listing, file, copies[file.parent, match[1].lower()].setdefault(match[2], file))
        else:
            skipped.append(LeftOut(listing.shown(file), "its name is neither of a photograph nor of a copy"))
    skipped += [LeftOut(listing.shown(file), "no mask") for key, file in images.items() if key not in copies]
    skipped += [
        LeftOut(listing.shown(file), "no image")
        for key, of_image in copies.items()
        if key not in images
        for file in of_image.values()
    ]
    cases = tuple(
        SourceCase(
            images[key],
            UNDECIDED,
            source=_source(listing, images[key]),
            name=f"{key[0].name}_{key[1]}",
            annotations=tuple(
                SourceAnnotation(NestedContours(file), f"ophthalmologist-{number}")
                for number, file in sorted(copies[key].items())
            ),
        )
        for key in sorted(images.keys() & copies.keys(), key=lambda key: natural_order(listing.shown(images[key])))
    )
    labels = {number: number for number in range(len(CLASSES) + 1)}
    dataset = SourceDataset("riga", "segmentation", False, cases, CLASSES, labels, 3, skipped=tuple(skipped))
    return checked(dataset, listing, EXPECTED)


def _second(listing: Listing, file: Path, first: Path) -> list[LeftOut]:
    """The file, where another one of its name came first."""
    return [] if file == first else [second_of(listing, file, first)]


def _replaced(listing: Listing) -> set[Path]:
    """Folders next to which a corrected one lies."""
    parents = {parent for file in listing.files for parent in file.parents if parent.is_relative_to(listing.folder)}
    return {parent.with_name(match[1]) for parent in parents if (match := _CORRECTED.fullmatch(parent.name))}


def _source(listing: Listing, file: Path) -> str | None:
    """The hospital or data set by the folders above a file."""
    names = file.relative_to(listing.folder).parts[:-1]
    found = (source for name in names for start, source in _SOURCES.items() if name.lower().startswith(start))
    return next(found, None)
