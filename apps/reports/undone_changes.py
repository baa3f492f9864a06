"""What became of each annotation where a site undid how it annotates, counted from the site's data."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...custom.data.datalist import TRAINING
from ...custom.data.description import SegmentationDescription
from ...custom.data.site_data import LoadedCase, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.data.undone import Undone, UndoneCase, undone_pixels
from ...custom.data.undone_files import named_moves, segmentation_description, unit_of
from ...custom.data.undone_labels import case_files, relabelled_samples, undone_label
from ...custom.data.undone_pixels import CasePixels
from ...transforms.array_types import Classes
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from .corrections import SiteUndone


@dataclass(frozen=True)
class CaseChange:
    """What became of one annotation, whether it is reverted or not.

    Attributes:
        record: what the site kept of it.
        moved_pixels: pixels or voxels of the network's images whose class changed; None where it cannot be read.
        ignored_pixels: those of which training learns nothing.
        relabelled: objects of another class, as the annotation is now; None where it cannot be read.
        problem: why it cannot be read, or why not all that was decided counts; empty if all is well.
    """

    record: UndoneCase
    moved_pixels: int | None
    ignored_pixels: int = 0
    relabelled: int | None = None
    problem: str = ""

    @property
    def changed_pixels(self) -> int:
        """Pixels that count otherwise than they were given."""
        return (self.moved_pixels or 0) + self.ignored_pixels

    @property
    def relabelled_objects(self) -> int:
        """Objects of another class: those of the annotation, or of the record where it cannot be read."""
        return self.record.relabelled_objects if self.relabelled is None else self.relabelled


class SiteChanges:
    """What became of a site's annotations.

    Args:
        undone: what is undone.
        description: the site's description.
        cases: the site's training cases, by their given annotation.
        pixels: by given annotation those that count otherwise.
    """

    def __init__(
        self,
        undone: Undone,
        description: SegmentationDescription,
        cases: Mapping[str, LoadedCase],
        pixels: Mapping[str, CasePixels],
    ) -> None:
        self.description = description
        self._undone, self._cases, self._pixels = undone, cases, pixels

    def labels(self, record: UndoneCase) -> tuple[LoadedCase, Classes]:
        """Return a case with what its annotation becomes where it is not reverted, ``(S, H, W[, D])``.

        Raises:
            DataError: if the case cannot be read.
        """
        case = self._cases.get(record.label)
        if case is None:
            raise DataError(
                f"Site {self._undone.site}: {record.label} is no usable training case of its data any more."
            )
        return case, undone_label(self._undone.moves, self._of(record), case).numpy()

    def cases(self) -> list[CaseChange]:
        """Return what became of every annotation, in the order of the record."""
        return [self._change(record) for record in self._undone.cases]

    def _change(self, record: UndoneCase) -> CaseChange:
        if record.label not in self._cases:
            return CaseChange(record, None, problem="no usable training case any more")
        case, counts = self.labels(record)
        ignored = counts == IGNORED_LABEL
        moved = int(np.count_nonzero((counts != case.label.numpy()) & ~ignored))
        relabelled, problem = self._relabelled(record, case)
        return CaseChange(record, moved, int(np.count_nonzero(ignored)), relabelled, problem)

    def _relabelled(self, record: UndoneCase, case: LoadedCase) -> tuple[int, str]:
        """How many objects have another class, and why they are not all that were to get one."""
        pixels = self._of(record)
        if not pixels.fits(case):
            return 0, "another size than when objects were judged: none is ignored or of another class"
        if pixels.relabelled is None:
            return 0, ""
        _, found = relabelled_samples(case.label.numpy(), pixels.relabelled)
        others = record.relabelled_objects - found
        changed = f"{count(others, 'object')} changed since objects were judged: the given class counts"
        return found, changed if others > 0 else ""

    def _of(self, record: UndoneCase) -> CasePixels:
        return self._pixels.get(record.label, CasePixels())


@contextmanager
def read_changes(site: SiteUndone) -> Iterator[SiteChanges]:
    """Read a site's annotations and what was undone in them; both can be used as long as the context lasts.

    Raises:
        DataError: if the site's data or the record's pixels cannot be read.
    """
    folder = Path(site.undone.data)
    description = segmentation_description(folder, site.site)
    pixels = undone_pixels(site.folder, len(description.classes))
    data = load_site_data(folder, participant_store(), section=TRAINING, site=site.site)
    cases = {case_files(case, folder)[0]: case for case in data.cases}
    yield SiteChanges(site.undone, description, cases, pixels)


def moves_in_words(undone: Undone, description: SegmentationDescription | None) -> list[str]:
    """Return by how far contours were moved, a phrase for each class.

    Args:
        undone: what is undone.
        description: the site's; None where it cannot be read, then classes are numbers and distances have no unit.
    """
    if description is None:
        names, unit = [str(label) for label in undone.moves], ""
    else:
        names, unit = [repr(name) for name in named_moves(undone, description)], f" {unit_of(description)}"
    found = []
    for name, (label, distance) in zip(names, undone.moves.items(), strict=True):
        moved = f"contours of class {name} moved by {distance:+.1f}{unit}"
        overshoot = undone.overshoot.get(str(label), 0.0)
        side = "outside" if overshoot > 0 else "inside"
        in_training = f" (in training by {undone.moves_in_training[label]:+.1f}, as the model draws {side} of zero)"
        found.append(moved + (in_training if round(overshoot, 1) else ""))
    return found


def ignored_in_words(undone: Undone) -> list[str]:
    """Return in how many annotations how many objects are ignored; nothing where none were looked for."""
    if not undone.missing:
        return []
    objects = [case.ignored_objects for case in undone.cases if case.ignored_objects]
    verb = "is" if sum(objects) == 1 else "are"
    return [
        f"{len(objects)} of {count(len(undone.cases), 'annotation')}: {count(sum(objects), 'object')} that {verb} "
        f"probably missing {verb} ignored"
    ]


def relabelled_in_words(undone: Undone) -> list[str]:
    """Return in how many annotations how many objects get another class; nothing where none were looked for."""
    if not undone.swapped:
        return []
    objects = [case.relabelled_objects for case in undone.cases if case.relabelled_objects]
    verb = "gets" if sum(objects) == 1 else "get"
    return [
        f"{len(objects)} of {count(len(undone.cases), 'annotation')}: {count(sum(objects), 'object')} {verb} the class "
        "that the model sees"
    ]


def undone_in_words(undone: Undone, description: SegmentationDescription | None) -> Sequence[str]:
    """Return all that is undone, a phrase for each kind and class."""
    found = [*moves_in_words(undone, description), *relabelled_in_words(undone), *ignored_in_words(undone)]
    return found or ["nothing is undone any more"]


def count(number: int, thing: str) -> str:
    """Return a number of things in words, such as ``1 object`` or ``2 objects``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
