"""What a site has undone of its annotation channel: parameters and their provenance; annotations stay as they are."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from ...transforms.errors import DataError
from .given_annotations import find_given
from .json_record import JsonRecord, read_record, write_record
from .undone_pixels import CasePixels, read_ignored, read_relabelled, write_pixels
from .whole_files import private_folder

# In a site's run folder; in it a folder for each round before which something was undone.
UNDONE_FOLDER = "undone"
UNDONE_FILE = "undone.json"

# Numbers as they are written there; another writing of one would be a second record of a round.
_ROUND_FOLDER = re.compile("round_(0|[1-9][0-9]*)")


class UndoneCase(JsonRecord):
    """What is undone in one given annotation.

    Args:
        label: the given annotation, relative to the site's data.
        image: its image, likewise.
        ignored_objects: objects that are probably missing in it, and are ignored.
        relabelled_objects: annotated objects that look like another class, and get it.
        reverted: whether the given annotation counts again.
    """

    label: str
    image: str
    ignored_objects: int = 0
    relabelled_objects: int = 0
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
        missing: by label, share of the objects that are missing: the loss asks for the others.
        swapped: share of the objects, of all classes, that are annotated as another class.
        overshoot: by label of the offsets, how far the model itself draws outside zero, in their unit. Contours move
            inward by that, too, in training alone: it says nothing of the annotations.
        cases: the annotations.
        ignored_file: the file beside the record with the pixels that are ignored, named by its hash; empty where none
            are.
        relabelled_file: likewise, with the given and the new classes of objects that get another one.
    """

    site: str
    data: str
    method: str
    round_number: int
    model_sha256: str
    made: str
    offsets: dict[str, float]
    missing: dict[str, float]
    swapped: float = 0.0
    overshoot: dict[str, float] = Field(default_factory=dict)
    cases: tuple[UndoneCase, ...]
    ignored_file: Annotated[str, Field(pattern=r"^(ignored-[0-9a-f]{16}\.npz)?$")] = ""
    relabelled_file: Annotated[str, Field(pattern=r"^(relabelled-[0-9a-f]{16}\.npz)?$")] = ""

    @property
    def moves(self) -> dict[int, float]:
        """By how far the contours of each label are moved to undo the site's offset, positive outward."""
        return {int(label): -offset for label, offset in self.offsets.items()}

    @property
    def moves_in_training(self) -> dict[int, float]:
        """The same with what is done about the model's overshoot."""
        return {label: move - self.overshoot.get(str(label), 0.0) for label, move in self.moves.items()}

    @property
    def reverted(self) -> frozenset[str]:
        """The given annotations that count as they are."""
        return frozenset(case.label for case in self.cases if case.reverted)

    @property
    def changes_anything(self) -> bool:
        """Whether any annotation counts otherwise than it was given."""
        return bool(self.offsets or self.missing or self.swapped) and not all(case.reverted for case in self.cases)


def write_undone(folder: Path, undone: Undone, pixels: Mapping[str, CasePixels]) -> None:
    """Write what is undone before a round, in one step; what was written for that round before is replaced.

    Args:
        folder: :data:`UNDONE_FOLDER` of a site's run folder.
        undone: the record.
        pixels: by given annotation, those that count otherwise than they were given.
    """
    target = folder / f"round_{undone.round_number}"
    private_folder(target)
    ignored = {name: of.ignored for name, of in pixels.items() if of.ignored is not None}
    relabelled = {name: np.stack(of.relabelled) for name, of in pixels.items() if of.relabelled is not None}
    names = {
        "ignored_file": write_pixels(target, "ignored", ignored),
        "relabelled_file": write_pixels(target, "relabelled", relabelled),
    }
    # The record names the files: with it they are replaced all at once.
    write_record(target / UNDONE_FILE, undone.model_copy(update=names))
    for file in target.glob("*.npz"):
        if file.name not in names.values():
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


def undone_pixels(folder: Path, num_classes: int) -> dict[str, CasePixels]:
    """Return by given annotation the pixels that count otherwise than they were given.

    Args:
        folder: that of the record.
        num_classes: foreground classes of the site.

    Raises:
        DataError: if the record or they cannot be read, or an object would get a class that the site does not have.
    """
    undone = read_undone(folder)
    ignored = read_ignored(folder / undone.ignored_file) if undone.ignored_file else {}
    relabelled = read_relabelled(folder / undone.relabelled_file, num_classes) if undone.relabelled_file else {}
    names = dict.fromkeys([*ignored, *relabelled])
    return {name: CasePixels(ignored.get(name), relabelled.get(name)) for name in names}


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
