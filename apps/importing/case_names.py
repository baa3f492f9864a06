"""Names of imported cases: one of its own for every case, which every disk can have."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ...custom.data.masks import plain_name
from ...transforms.folded_names import folded
from .channel_files import NUMBERED, channel_name
from .source import SourceCase

# Of the name of a case: a disk has names of 255 bytes, and suffixes, sites and temporary marks come to it.
_MOST_BYTES = 200


def case_names(cases: Sequence[SourceCase]) -> list[str]:
    """Return a name of its own for every case: that of its image, with its folder's where several have one."""
    names = [case.name or _name_of(case) for case in cases]
    # Upper and lower case are the same on some disks.
    count = Counter(folded(name) for name in names)
    taken: set[str] = set()
    unique = []
    for case, name in zip(cases, names, strict=True):
        longer = name if count[folded(name)] == 1 else f"{case.image.parent.name}_{name}"
        longer = _shortened(longer)
        own, attempt = longer, 1
        while not taken.isdisjoint(files := _folded_files(case, own)):
            attempt += 1
            own = f"{longer}_{attempt}"
        taken |= files
        unique.append(own)
    return unique


def _folded_files(case: SourceCase, name: str) -> set[str]:
    """Names of the files of a case, masks and images, without suffixes."""
    return {folded(name), *(folded(channel_name(name, number)) for number in range(len(case.channels)))}


def _shortened(name: str) -> str:
    """The name, without its end where a disk could not have it with what is put around it."""
    while len(os.fsencode(name)) > _MOST_BYTES:
        name = name[:-1]
    return name


def _name_of(case: SourceCase) -> str:
    """The name of its image; of several channels without the number of the first."""
    stem = _stem(case.image)
    match = NUMBERED.fullmatch(stem) if case.channels else None
    return stem if match is None else match[1]


def _stem(file: Path) -> str:
    return file.name if file.is_dir() else plain_name(file)
