"""What a site undoes, as a record in its run's folder: it outlives a task, a restart, and goes on in another run.

Label files are never changed.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ...data.json_record import JsonRecord, read_record, write_record
from ...data.site_data import SiteData
from ...data.whole_files import private_folder

if TYPE_CHECKING:
    from .undoing import Undoing

UNDONE_FOLDER = "undone_labels"


class ChangedLabel(JsonRecord):
    """A case that is trained on with another class than the given one.

    Args:
        image: the image, relative to the site's data.
        given: the class in its datalist.
        label: the class that it is trained on with.
    """

    image: str
    given: str
    label: str


class UndoneLabels(JsonRecord):
    """What a site undoes from a round on.

    Args:
        round_number: the round before whose training it was decided; its received model judged.
        noise_level: the estimate, a share of the labels.
        changed: the cases with another class.
        transition: T of the noise that is left, ``(C, C)``; None where the loss is not corrected.
        undoes: whether anything is undone; not where a later estimate established nothing.
    """

    round_number: int
    noise_level: float
    changed: tuple[ChangedLabel, ...] = ()
    transition: tuple[tuple[float, ...], ...] | None = None
    undoes: bool = True

    @classmethod
    def of(
        cls, undoing: "Undoing", data: SiteData, data_folder: Path, *, round_number: int, noise_level: float
    ) -> "UndoneLabels":
        """Take over what becomes of a site's labels."""
        changed = tuple(
            ChangedLabel(
                image=case.image_name(data_folder),
                given=data.classes[int(case.label)],
                label=data.classes[int(undoing.labels[index])],
            )
            for index, case in enumerate(data.cases)
            if undoing.changed[index]
        )
        rows = None if undoing.transition is None else tuple(map(tuple, undoing.transition.tolist()))
        return cls(round_number=round_number, noise_level=noise_level, changed=changed, transition=rows)

    def labels(self, data: SiteData, data_folder: Path) -> torch.Tensor:
        """Return the classes to train on, ``(N,)``; a case whose given class is another one by now keeps it."""
        found = {
            (one.image, one.given): data.classes.index(one.label) for one in self.changed if one.label in data.classes
        }
        labels = [
            found.get((case.image_name(data_folder), data.classes[int(case.label)]), int(case.label))
            for case in data.cases
        ]
        return torch.tensor(labels, dtype=torch.long)


def write_undone(run_folder: Path, record: UndoneLabels) -> None:
    """Write a record in one step, beside those of earlier rounds."""
    folder = run_folder / UNDONE_FOLDER
    private_folder(folder)
    write_record(_file(folder, record.round_number), record)


def latest_undone(run_folder: Path, last_round: int) -> UndoneLabels | None:
    """Return the latest record in a run's folder, None if there is none.

    Args:
        run_folder: the folder.
        last_round: the last round that counts: one that is done once more after a restart knows nothing of later ones.

    Raises:
        DataError: if it cannot be read.
    """
    folder = run_folder / UNDONE_FOLDER
    found = (re.fullmatch(r"round_(\d+)\.json", file.name) for file in folder.glob("round_*.json"))
    rounds = [number for match in found if match and (number := int(match[1])) <= last_round]
    return read_record(_file(folder, max(rounds)), UndoneLabels) if rounds else None


def adopt_undone(earlier_folders: Iterable[Path], run_folder: Path, continued_round: int) -> Path | None:
    """Take over what the run undid that is continued, unless there is something already.

    Returns:
        From where; None if nothing was taken over.
    """
    if (run_folder / UNDONE_FOLDER).is_dir():
        return None
    for earlier in earlier_folders:
        if (record := latest_undone(earlier, continued_round)) is not None:
            write_undone(run_folder, record)
            return earlier
    return None


def _file(folder: Path, round_number: int) -> Path:
    return folder / f"round_{round_number}.json"
