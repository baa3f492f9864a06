"""A data set whose classes stand in a table: a row for each picture, with its name and its class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from .layouts.listing import Listing, list_files
from .layouts.tables import read_table
from .source import SourceCase, SourceDataset


@dataclass(frozen=True)
class TableColumns:
    """Which columns of a table say what.

    Attributes:
        image: the picture's path below the folder of images, or its name, with or without suffix.
        label: its class, by name or by number.
        group: the patient, None for no such column.
        source: the centre, as above.
    """

    image: str
    label: str
    group: str | None = None
    source: str | None = None

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [name for name in (self.image, self.label, self.group, self.source) if name is not None]


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
    result = sorted({row[columns.label] for row in rows if row[columns.label]}, key=natural_order)
    classes, index_of = _classes(result, names, file, columns.label)
    pictures = _Pictures(listing)
    cases: dict[Path, SourceCase] = {}
    skipped: list[str] = []
    for row in rows:
        name, label = row[columns.image], row[columns.label]
        picture = pictures.named(name, file)
        if isinstance(picture, str) or not label:
            skipped.append(f"{name or 'a row'}: {picture if isinstance(picture, str) else 'no class'}")
            continue
        group, source = (row[column] or None if column else None for column in (columns.group, columns.source))
        case = SourceCase(picture, index_of[label], group=group, source=source, section=listing.section(picture))
        known = cases.setdefault(picture, case)
        if known.label != case.label:
            raise DataError(
                f"{file}: gives {name} the classes {classes[_index(known)]!r} and {label!r}; expected one class."
            )
    if not cases:
        raise DataError(
            f"{file}: found no picture of its column {columns.image!r} in {images}; expected paths or names of files "
            f"there. First row: {skipped[0] if skipped else 'none'}."
        )
    if len({case.section for case in cases.values()}) == 1:
        # What all cases share says nothing about where to train and where to test.
        cases = {
            key: SourceCase(one.image, one.label, group=one.group, source=one.source) for key, one in cases.items()
        }
    unnamed = [picture for picture in listing.pictures() if picture not in cases]
    skipped += [f"{listing.shown(picture)}: not in {file.name}" for picture in unnamed]
    left_out = (*skipped, *listing.refused)
    return SourceDataset(
        file.stem, "classification", False, tuple(cases.values()), classes, channels=None, skipped=left_out
    )


class _Pictures:
    """The pictures of a folder by path, name, and name without suffix; upper and lower case count as the same."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._by_name: dict[str, list[Path]] = {}
        for picture in listing.pictures():
            path = PurePosixPath(listing.shown(picture))
            for name in {str(path), path.name, path.stem, str(path.with_suffix(""))}:
                self._by_name.setdefault(name.casefold(), []).append(picture)

    def named(self, name: str, table: Path) -> Path | str:
        """The picture, or why there is none."""
        if not name:
            return "no name of a picture"
        result = self._by_name.get(name.replace("\\", "/").removeprefix("./").casefold(), [])
        if len(result) > 1:
            shown = ", ".join(self._listing.shown(picture) for picture in result[:2])
            raise DataError(f"{table}: names {name}, and there are {shown}; expected paths that tell them apart.")
        return result[0] if result else "no such picture"


def _classes(
    found: Sequence[str], names: Sequence[str] | None, file: Path, column: str
) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """The classes, and which of them each text of the table is."""
    if names is None:
        classes = tuple(found)
        index_of = {name: index for index, name in enumerate(classes)}
    else:
        classes = tuple(names)
        index_of = {name: index for index, name in enumerate(classes)}
        if not set(found) <= index_of.keys():
            index_of = {str(index): index for index in range(len(classes))}
        if unknown := [text for text in found if text not in index_of]:
            raise DataError(
                f"{file}: column {column!r} has {', '.join(map(repr, unknown[:5]))}; expected the names of --classes, "
                f"{', '.join(classes)}, or their numbers from 0 to {len(classes) - 1}."
            )
    if len(classes) < 2:
        raise DataError(f"{file}: column {column!r} has {len(classes)} classes; expected at least two.")
    return classes, index_of


def _index(case: SourceCase) -> int:
    assert isinstance(case.label, int)
    return case.label
