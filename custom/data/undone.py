"""What a site has undone of its annotation channel: parameters and their provenance; annotations stay as they are."""

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...transforms.errors import DataError
from .given_annotations import find_given
from .json_record import JsonRecord, read_record, write_record
from .whole_files import replaced

# In a site's run folder; in it a folder for each round before which something was undone.
UNDONE_FOLDER = "undone"
UNDONE_FILE = "undone.json"

# Numbers as they are written there; another writing of one would be a second record of a round.
_ROUND_FOLDER = re.compile("round_(0|[1-9][0-9]*)")
_NAMES = "annotations"
_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


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
        ignored_file: the file beside the record with the pixels that are ignored, named by its hash; empty where none
            are.
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
    ignored_file: Annotated[str, Field(pattern=r"^(ignored-[0-9a-f]{16}\.npz)?$")] = ""

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
    target.mkdir(parents=True, exist_ok=True)
    name = _write_ignored(target, ignored) if ignored else ""
    # The record names the file: with it the one is replaced as soon as the other.
    write_record(target / UNDONE_FILE, undone.model_copy(update={"ignored_file": name}))
    for file in target.glob("ignored-*.npz"):
        if file.name != name:
            file.unlink()


def undone_records(folder: Path) -> list[Path]:
    """Return the folders of all records of a run, the latest first.

    Args:
        folder: :data:`UNDONE_FOLDER` of a site's run folder, which need not exist.
    """
    numbers = (_ROUND_FOLDER.fullmatch(path.name) for path in folder.glob("round_*"))
    rounds = sorted((int(match[1]) for match in numbers if match), reverse=True)
    records = [folder / f"round_{number}" for number in rounds]
    return [record for record in records if (record / UNDONE_FILE).is_file()]


def read_undone(folder: Path) -> Undone:
    """Read a record.

    Args:
        folder: that of the record.

    Raises:
        DataError: if it is not there, cannot be read, or was made before another round than its folder says.
    """
    file = folder / UNDONE_FILE
    undone = read_record(file, Undone)
    if undone is None:
        raise DataError(f"{file}: found no such file; expected what a site has undone.")
    if folder.name != f"round_{undone.round_number}":
        raise DataError(
            f"{file}: found what was undone before round {undone.round_number}; expected it in a folder "
            f"round_{undone.round_number}. Move it there, or remove it."
        )
    return undone


def latest_undone(places: Sequence[tuple[Path, int]]) -> tuple[Path, Undone] | None:
    """Return the latest record there is, with the folder that it lies in; None if there is none.

    Args:
        places: folders to look in, in this order, each with the last round that counts there.

    Raises:
        DataError: if the record cannot be read.
    """
    for folder, last_round in places:
        for record in undone_records(folder):
            if int(record.name.removeprefix("round_")) <= last_round:
                return record, read_undone(record)
    return None


def ignored_pixels(folder: Path) -> dict[str, NDArray[np.bool_]]:
    """Return by given annotation the pixels that are ignored ``(S, H, W[, D])``.

    Args:
        folder: that of the record.

    Raises:
        DataError: if the record or they cannot be read.
    """
    name = read_undone(folder).ignored_file
    if not name:
        return {}
    file = folder / name
    try:
        content = file.read_bytes()
        if _ignored_name(content) != name:
            raise ValueError("its hash is another than its name says")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            names = arrays[_NAMES].tolist()
            return {str(one): arrays[_pixels(index)].astype(np.bool_) for index, one in enumerate(names)}
    except _UNREADABLE as error:
        raise DataError(f"{file}: cannot be read ({error}); expected the pixels that a site ignores.") from error


def revert_undone(folder: Path, names: Sequence[str] | None = None) -> Undone:
    """Let given annotations count as they are, from the site's next training on.

    Args:
        folder: that of the record.
        names: given annotations, by their path in the site's data or their file name; None for all.

    Returns:
        The record as it is now.

    Raises:
        DataError: if the record cannot be read, or a name is not that of exactly one annotation.
    """
    return _with_reverted(folder, names, reverted=True)


def restore_undone(folder: Path, names: Sequence[str] | None = None) -> Undone:
    """Take a revert back.

    Args:
        folder: that of the record.
        names: given annotations, by their path in the site's data or their file name; None for all.

    Returns:
        The record as it is now.

    Raises:
        DataError: as :func:`revert_undone`.
    """
    return _with_reverted(folder, names, reverted=False)


def _with_reverted(folder: Path, names: Sequence[str] | None, *, reverted: bool) -> Undone:
    """Set which annotation counts, of all named cases in one step."""
    undone = read_undone(folder)
    known = [case.label for case in undone.cases]
    chosen = known if names is None else find_given(known, names, what="undone", source=folder / UNDONE_FILE)
    cases = tuple(
        case.model_copy(update={"reverted": reverted}) if case.label in chosen else case for case in undone.cases
    )
    changed = undone.model_copy(update={"cases": cases})
    write_record(folder / UNDONE_FILE, changed)
    return changed


def _write_ignored(folder: Path, ignored: Mapping[str, NDArray[np.bool_]]) -> str:
    """Write ignored pixels and return the file's name."""
    arrays = {_pixels(index): pixels for index, pixels in enumerate(ignored.values())}
    content = io.BytesIO()
    # Names of annotations can be any text, those of arrays cannot.
    np.savez_compressed(content, allow_pickle=False, **{_NAMES: np.array(list(ignored))}, **arrays)
    name = _ignored_name(content.getvalue())
    with replaced(folder / name) as temporary:
        temporary.write_bytes(content.getvalue())
    return name


def _ignored_name(content: bytes) -> str:
    return f"ignored-{hashlib.sha256(content).hexdigest()[:16]}.npz"


def _pixels(index: int) -> str:
    return f"pixels_{index}"
