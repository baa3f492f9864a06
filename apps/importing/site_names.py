"""Names of sites, which are folders and clients of a federation, from the names of sources, which can be any text."""

import re
import unicodedata
from collections.abc import Mapping

from ...custom.data.federation import TEST_FOLDER

# Folders and clients that are no sites.
_RESERVED = (TEST_FOLDER, "server")
_LONGEST_NAME = 60


def site_names(counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Name the sites of every source, ``centre`` or, of several, ``centre-1``, ``centre-2``, ….

    Names have letters without accents, digits, ``-`` and ``_``; all differ, also where upper and lower case do not
    count.

    Args:
        counts: source → number of its sites.
    """
    taken: set[str] = set()
    names: dict[str, tuple[str, ...]] = {}
    for source, count in counts.items():
        plain = _plain(source)
        name, attempt = plain, 1
        while any(own.casefold() in taken for own in _numbered(name, count)):
            attempt += 1
            name = f"{plain}-{attempt}"
        names[source] = _numbered(name, count)
        taken |= {own.casefold() for own in names[source]}
    return names


def _plain(source: str) -> str:
    """A source's name with what names of sites may have."""
    letters = "".join(letter for letter in unicodedata.normalize("NFKD", source) if not unicodedata.combining(letter))
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", letters).strip("-_")[:_LONGEST_NAME].rstrip("-_")
    if not name:
        return "source"
    return f"source-{name}" if name.casefold() in _RESERVED else name


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}-{index + 1}" for index in range(count))
