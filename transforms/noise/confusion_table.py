"""Which classes clinicians confuse: tables as YAML files, those of the papers and any that a user writes."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import DataError, shown
from ..strict_files import read_yaml

_FOLDER = Path(__file__).parent / "confusion_tables"
_ANY = "any"


def known_tables() -> tuple[str, ...]:
    """Return the names of the tables that come with the software."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def read_confusions(table: str | Path, classes: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return for each of a data set's classes the indices of those that it is mistaken for.

    Upper and lower case do not matter. Classes that the data do not have are passed over.

    Args:
        table: name of a table that comes with the software, or a YAML file.
        classes: names of the classes, in the order of their indices.

    Raises:
        DataError: if there is no such table, it cannot be read, or does not have one of the classes.
    """
    file = _FOLDER / f"{table}.yaml" if str(table) in known_tables() else Path(table)
    candidates = _read(file)
    if absent := [name for name in classes if name.casefold() not in candidates]:
        raise _refused(file, f"found no entry for the classes {absent}")
    index_of = {name.casefold(): index for index, name in enumerate(classes)}

    def others(name: str) -> tuple[int, ...]:
        named = candidates[name.casefold()]
        chosen = [other for other in index_of if other != name.casefold()] if named is None else named
        return tuple(sorted({index_of[other] for other in chosen if other in index_of}))

    return tuple(others(name) for name in classes)


def _read(file: Path) -> dict[str, list[str] | None]:
    """The table with names in lower case; None stands for every other class."""
    if not file.is_file():
        known = ", ".join(known_tables())
        raise DataError(f"{file}: found no such confusion table; expected a YAML file or one of: {known}.")
    values = read_yaml(file, "a table of confused classes")
    if not isinstance(values, dict):
        raise _refused(file, f"found {type(values).__name__}")
    table: dict[str, list[str] | None] = {}
    for name, others in values.items():
        if others != _ANY and not isinstance(others, list):
            raise _refused(file, f"the class {name!r} has {shown(others)}")
        table[str(name).casefold()] = None if others == _ANY else [str(other).casefold() for other in others]
    unknown = {other for others in table.values() for other in others or ()} - set(table)
    if unknown:
        raise _refused(file, f"classes are mistaken for {sorted(unknown)}, which have no entry")
    if wrong := [name for name, others in table.items() if others and name in others]:
        raise DataError(f"{file}: the classes {wrong} are mistaken for themselves; expected other classes.")
    return table


def _refused(file: Path, found: str) -> DataError:
    return DataError(
        f"{file}: {found}; expected the name of each class with a list of the classes that it is mistaken for, or "
        f"{_ANY!r}."
    )
