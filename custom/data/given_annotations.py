"""Given annotations by the names that a person types."""

from collections.abc import Sequence
from pathlib import Path

from ...transforms.errors import DataError


def find_given(known: Sequence[str], names: Sequence[str], *, what: str, source: Path) -> frozenset[str]:
    """Return the given annotations that are meant by some names.

    Args:
        known: paths of the annotations in the site's data.
        names: such paths, or file names.
        what: the kind of annotation, for an error.
        source: the record that they stand in, for an error.

    Raises:
        DataError: if a name is not that of exactly one annotation.
    """
    meant = set()
    for name in names:
        found = [name] if name in known else sorted({path for path in known if name == Path(path).name})
        if len(found) != 1:
            count = f"no {what} annotation" if not found else f"{len(found)} {what} annotations"
            raise DataError(f"{source}: found {count} {name!r}; expected one of: {', '.join(known) or 'none'}.")
        meant.add(found[0])
    return frozenset(meant)
