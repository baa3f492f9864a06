"""What a site has undone of its annotation channel: parameters and their provenance; annotations stay as they are."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...transforms.errors import DataError
from .json_record import JsonRecord, read_record, write_record
from .whole_files import new_folder

# In a site's run folder; in it a folder for each round before which something was undone.
UNDONE_FOLDER = "undone"
UNDONE_FILE = "undone.json"
_IGNORED_FILE = "ignored.npz"


class UndoneCase(JsonRecord):
    """What is undone in one given annotation.

    Args:
        label: the given annotation, relative to the site's data.
        image: its image, likewise.
        ignored_objects: objects that are probably missing in it, and are ignored.
        reverted: whether the given annotation counts again.
    """

    label: str
    image: str
    ignored_objects: int = 0
    reverted: bool = False


class Undone(JsonRecord):
    """The content of ``undone.json``: what a site was told to undo, and in which annotations.

    Args:
        site: the site's name.
        data: the folder with the site's data.
        method: the method whose decision it was.
        round_number: the round before whose training it happened.
        model_sha256: hash of the model that was received for that round.
        made: when, by the site's clock.
        offsets: by label, by how far contours were too far outside, in millimetres (pixels without spacing).
        missing: by label, share of the objects that are missing.
        cases: the annotations.
    """

    site: str
    data: str
    method: str
    round_number: int
    model_sha256: str
    made: str
    offsets: dict[str, float]
    missing: dict[str, float]
    cases: tuple[UndoneCase, ...]

    @property
    def moves(self) -> dict[int, float]:
        """By how far the contours of each label are moved, positive outward."""
        return {int(label): -offset for label, offset in self.offsets.items()}

    @property
    def reverted(self) -> frozenset[str]:
        """The given annotations that count as they are."""
        return frozenset(case.label for case in self.cases if case.reverted)

    @property
    def changes_anything(self) -> bool:
        """Whether any annotation counts otherwise than it was given."""
        return bool(self.offsets or self.missing) and not all(case.reverted for case in self.cases)


def write_undone(folder: Path, undone: Undone, ignored: Mapping[str, NDArray[np.bool_]]) -> None:
    """Write what is undone before a round, in one step; what was written for that round before is replaced.

    Args:
        folder: :data:`UNDONE_FOLDER` of a site's run folder.
        undone: the record.
        ignored: by given annotation, the pixels that are ignored ``(S, H, W[, D])``.
    """
    target = folder / f"round_{undone.round_number}"
    if (target / UNDONE_FILE).is_file():
        (target / UNDONE_FILE).unlink()
        (target / _IGNORED_FILE).unlink(missing_ok=True)
    with new_folder(target) as unfinished:
        np.savez_compressed(unfinished / _IGNORED_FILE, allow_pickle=False, **dict(ignored))
        write_record(unfinished / UNDONE_FILE, undone)


def latest_undone(places: Sequence[tuple[Path, int]]) -> tuple[Path, Undone] | None:
    """Return the latest record there is, with the folder that it lies in; None if there is none.

    Args:
        places: folders to look in, in this order, each with the last round that counts there.

    Raises:
        DataError: if a record cannot be read.
    """
    for folder, last_round in places:
        numbers = (re.fullmatch(r"round_(\d+)", path.name) for path in folder.glob("round_*"))
        for number in sorted((int(match[1]) for match in numbers if match), reverse=True):
            found = read_record(folder / f"round_{number}" / UNDONE_FILE, Undone)
            if number <= last_round and found is not None:
                return folder / f"round_{number}", found
    return None


def ignored_pixels(folder: Path) -> dict[str, NDArray[np.bool_]]:
    """Return by given annotation the pixels that are ignored ``(S, H, W[, D])``.

    Args:
        folder: that of the record.

    Raises:
        DataError: if they cannot be read.
    """
    file = folder / _IGNORED_FILE
    try:
        with np.load(file, allow_pickle=False) as content:
            return {name: content[name].astype(np.bool_) for name in content.files}
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: cannot be read ({error}); expected the pixels that a site ignores.") from error
