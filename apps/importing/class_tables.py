"""A data set whose classes stand in a table: a row for each picture, with its name and its class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ...custom.data.annotations import UNDECIDED, Annotation, annotator_name, checked_annotations
from ...transforms.errors import DataError
from ...transforms.folded_names import folded
from .class_names import ClassSpellings, is_missing
from .found_files import other_files
from .layouts.listing import Listing, list_files
from .layouts.tables import read_table
from .source import LeftOut, SourceCase, SourceDataset


@dataclass(frozen=True)
class TableColumns:
    """Which columns of a table say what.

    Attributes:
        image: the picture's path below the folder of images, or its name, with or without suffix.
        label: its class, by name or by number.
        group: the patient, None for no such column.
        source: the centre, as above.
        annotator: who gave the class; then a picture may have several rows, one by each annotator.
    """

    image: str
    label: str
    group: str | None = None
    source: str | None = None
    annotator: str | None = None

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [name for name in (self.image, self.label, self.group, self.source, self.annotator) if name is not None]


def read_class_table(
    file: Path, images: Path, columns: TableColumns, *, names: Sequence[str] | None = None
) -> SourceDataset:
    """Find the pictures that a table names, with the classes that it gives them.

    Args:
        file: the table, ``.csv`` or ``.xlsx``.
        images: folder of the pictures.
        columns: what its columns say.
        names: the classes in their order, by which the table calls them, or which it numbers from 0; None takes all
            that the table has, in natural order.

    Raises:
        DataError: if the table cannot be read, lacks a column, names fewer than two classes or others than were given,
            or no picture of it is there.
    """
    rows = read_table(file, columns.names)
    listing = list_files(images)
    named = set(names or ())
    has_class = [row[columns.label] in named or not is_missing(row[columns.label]) for _, row in rows]
    spellings = ClassSpellings.among(
        [row[columns.label] for (_, row), has in zip(rows, has_class, strict=True) if has], names
    )
    classes, index_of = _classes(spellings, names, file, columns.label)
    pictures = _Pictures(listing)
    cases: dict[Path, SourceCase] = {}
    skipped: list[LeftOut] = []
    named_pictures: set[Path] = set()
    for (place, row), has in zip(rows, has_class, strict=True):
        name, label = row[columns.image], row[columns.label]
        picture = pictures.named(name, file)
        if isinstance(picture, Path):
            named_pictures.add(picture)
        if isinstance(picture, str) or not has:
            reason = picture if isinstance(picture, str) else f"no class ({label})" if label else "no class"
            skipped.append(LeftOut(name or f"{file.name}, {place}", reason))
            continue
        group, source = (_known(row, column) for column in (columns.group, columns.source))
        case = SourceCase(picture, index_of[label], group=group, source=source, section=listing.section(picture))
        known = cases.get(picture, case)
        if columns.annotator is not None:
            case = _with_annotation(known, row[columns.annotator], index_of[label], f"{file}: {place}: {name} has rows")
            cases[picture] = case
            continue
        cases[picture] = known
        if known.label != case.label:
            raise DataError(
                f"{file}: {place}: gives {name} the classes {classes[_index(known)]!r} and {label!r}; expected one "
                "class."
            )
    if not cases:
        raise DataError(
            f"{file}: found no picture of its column {columns.image!r} in {images}; expected paths or names of files "
            f"there. First row: {skipped[0] if skipped else 'none'}."
        )
    if len({case.section for case in cases.values()}) == 1:
        # What all cases share says nothing about where to train and where to test.
        cases = {key: replace(one, section=None) for key, one in cases.items()}
    unnamed = [picture for picture in listing.pictures() if picture not in named_pictures]
    skipped += [LeftOut(listing.shown(picture), f"not in {file.name}") for picture in unnamed]
    return SourceDataset(
        file.stem,
        "classification",
        False,
        tuple(cases.values()),
        classes,
        channels=None,
        skipped=(*skipped, *other_files(listing, file), *listing.refused),
        notes=spellings.notes,
    )


def _with_annotation(case: SourceCase, annotator: str, label: int, named: str) -> SourceCase:
    """The case with the class that one more annotator gave."""
    own = Annotation(label, annotator_name("" if is_missing(annotator) else annotator, named))
    others = [annotation for annotation in case.annotations if isinstance(annotation, Annotation)]
    return replace(case, label=UNDECIDED, annotations=checked_annotations([*others, own], named))


def _known(row: Mapping[str, str], column: str | None) -> str | None:
    """What a row says in a column, None where it says nothing."""
    return None if column is None or is_missing(row[column]) else row[column]


class _Pictures:
    """The pictures of a folder by path, name, and name without suffix, whatever its capitals and accents."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._by_name: dict[str, list[Path]] = {}
        for picture in listing.pictures():
            path = PurePosixPath(listing.shown(picture))
            for name in {str(path), path.name, path.stem, str(path.with_suffix(""))}:
                self._by_name.setdefault(folded(name), []).append(picture)

    def named(self, name: str, table: Path) -> Path | str:
        """The picture, or why there is none."""
        if not name:
            return "no name of a picture"
        result = self._by_name.get(folded(name.replace("\\", "/").removeprefix("./")), [])
        if len(result) > 1:
            shown = ", ".join(self._listing.shown(picture) for picture in result[:2])
            raise DataError(f"{table}: names {name}, and there are {shown}; expected paths that tell them apart.")
        return result[0] if result else "no such picture"


def _classes(
    found: ClassSpellings, names: Sequence[str] | None, file: Path, column: str
) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """The classes, and which of them each text of the table is."""
    classes = tuple(found.names if names is None else names)
    place = {name: index for index, name in enumerate(classes)}
    if names is not None:
        if not set(found.names) <= place.keys():
            place = {str(index): index for index in range(len(classes))}
        if unknown := [text for text in found.names if text not in place]:
            raise DataError(
                f"{file}: column {column!r} has {', '.join(map(repr, unknown[:5]))}; expected the names of --classes, "
                f"{', '.join(classes)}, or their numbers from 0 to {len(classes) - 1}."
            )
    if len(classes) < 2:
        raise DataError(f"{file}: column {column!r} has {len(classes)} classes; expected at least two.")
    return classes, {text: place[name] for text, name in found.of.items()}


def _index(case: SourceCase) -> int:
    assert isinstance(case.label, int)
    return case.label
