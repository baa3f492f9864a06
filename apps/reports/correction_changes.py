"""What became of each case of a site's corrections, counted from the site's data, and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...custom.corrections.in_files import named_moves, pixels_in_use, segmentation_description, unit_of
from ...custom.corrections.kinds import (
    BoundaryShift,
    CasesRelabelled,
    CorrectionBase,
    LesionsAdded,
    MaskShift,
    MasksReplaced,
    MissedObjectsIgnored,
    ObjectsRelabelled,
    PixelsRelabelled,
    PixelsReplaced,
    Purpose,
)
from ...custom.corrections.model import CaseCorrection, Corrections, CorrectionState
from ...custom.corrections.pixels import CasePixels
from ...custom.corrections.store import StoredCorrections
from ...custom.corrections.targets import case_files, corrected_label, relabelled_in_case
from ...custom.data.datalist import TRAINING
from ...custom.data.description import SegmentationDescription
from ...custom.data.site_data import LoadedCase, load_site_data
from ...custom.data.store_location import participant_store
from ...transforms.array_types import Classes
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ..wording.phrases import along_axes


@dataclass(frozen=True)
class CaseChange:
    """What became of one case, whether it is reverted or not.

    Attributes:
        record: what the site kept of it.
        moved_pixels: pixels or voxels of the network's images whose class changed; None where that is not known.
        ignored_pixels: those of which training learns nothing.
        relabelled: objects of another class, as the annotation is now; None where it cannot be read.
        problem: why it cannot be read, or why not all that was decided counts; empty if all is well.
    """

    record: CaseCorrection
    moved_pixels: int | None = None
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

    @property
    def state(self) -> str:
        """What counts of the case, in a word or a few."""
        record, has_file = self.record, self.record.mask is not None or self.record.new_class is not None
        if record.state is CorrectionState.PROPOSED:
            return "proposed"
        if record.is_reverted:
            return "reverted"
        if not has_file and self.moved_pixels is None:
            return "unknown"
        if not has_file and not self.changed_pixels:
            return "unchanged"
        reverted = 0 if record.mask is None else sum(lesion.is_reverted for lesion in record.mask.lesions)
        return f"corrected, without {count(reverted, 'added lesion')}" if reverted else "corrected"


class SiteChanges:
    """What became of a site's annotations.

    Args:
        stored: the site's corrections.
        description: the site's description.
        cases: the site's training cases, by their given annotation.
        pixels: by given annotation the decisions on its pixels.
    """

    def __init__(
        self,
        stored: StoredCorrections,
        description: SegmentationDescription,
        cases: Mapping[str, LoadedCase],
        pixels: Mapping[str, CasePixels],
    ) -> None:
        self.description = description
        self._corrections, self._cases, self._pixels = stored.corrections, cases, pixels

    def labels(self, record: CaseCorrection) -> tuple[LoadedCase, Classes]:
        """Return a case with what its annotation becomes where it is not reverted, ``(S, H, W[, D])``.

        Raises:
            DataError: if the case cannot be read.
        """
        case = self._cases.get(record.name)
        if case is None:
            raise DataError(
                f"Site {self._corrections.site}: {record.name} is no usable training case of its data any more."
            )
        own = self._corrections.of_case(record.name)
        return case, corrected_label(own, self._of(record), case, Purpose.REVIEW).numpy()

    def cases(self) -> list[CaseChange]:
        """Return what became of every annotation, in the order of the record."""
        return [self._change(record) for record in self._corrections.cases]

    def _change(self, record: CaseCorrection) -> CaseChange:
        if record.name not in self._cases:
            return CaseChange(record, problem="no usable training case any more")
        case, counts = self.labels(record)
        ignored = counts == IGNORED_LABEL
        given = case.label.numpy()
        moved = int(np.count_nonzero((counts != given) & ~ignored))
        relabelled, problem = self._relabelled(record, case)
        # What the site's own masks ignore is no change.
        return CaseChange(record, moved, int(np.count_nonzero(ignored & (given != IGNORED_LABEL))), relabelled, problem)

    def _relabelled(self, record: CaseCorrection, case: LoadedCase) -> tuple[int, str]:
        """How many objects have another class, and why they are not all that were to get one."""
        pixels = self._of(record)
        if not pixels.fits(case):
            return 0, "another size than when objects were chosen: none is ignored or of another class"
        relabelled = relabelled_in_case(self._corrections, pixels, case)
        others = record.relabelled_objects - relabelled
        changed = f"{count(others, 'object')} changed since objects were chosen: the given class counts"
        return relabelled, changed if pixels.relabelled is not None and others > 0 else ""

    def _of(self, record: CaseCorrection) -> CasePixels:
        return self._pixels.get(record.name, CasePixels())


def read_changes(stored: StoredCorrections) -> SiteChanges:
    """Read a site's annotations and the decisions on their pixels.

    Raises:
        DataError: if the site's data or the decisions cannot be read.
    """
    folder = Path(stored.corrections.data)
    description = segmentation_description(folder, stored.site)
    pixels = pixels_in_use(stored, description)
    rule = stored.corrections.consensus or None
    data = load_site_data(folder, participant_store(), section=TRAINING, site=stored.site, consensus=rule)
    cases = {case_files(case, folder)[0]: case for case in data.cases}
    return SiteChanges(stored, description, cases, pixels)


def in_words(corrections: Corrections, description: SegmentationDescription | None) -> list[str]:
    """Return all corrections, a phrase for each kind and class.

    Args:
        corrections: of a site.
        description: the site's; None where it cannot be read, then classes are numbers and distances have no unit.
    """
    words = [
        phrase for correction in corrections.corrections for phrase in _phrases(correction, corrections, description)
    ]
    for number in sorted(corrections.by_annotator):
        own = corrections.of_group(number)
        name = f"annotator {number}" if number else "other cases"
        words += [
            f"{name}: {phrase}" for correction in own.corrections for phrase in _phrases(correction, own, description)
        ]
    return words or ["nothing is corrected any more"]


def _phrases(
    correction: CorrectionBase, corrections: Corrections, description: SegmentationDescription | None
) -> list[str]:
    """The phrases of one correction; a new kind has its own here."""
    match correction:
        case MaskShift(moves=moves):
            return [f"all masks moved by {along_axes(moves, '' if description is None else unit_of(description))}"]
        case BoundaryShift():
            return _moves_in_words(correction, corrections, description)
        case ObjectsRelabelled():
            objects = [case.relabelled_objects for case in corrections.cases if case.relabelled_objects]
            return [f"{_in_annotations(objects, corrections)}: {_verb(objects, 'gets', 'get')} the predicted class"]
        case MissedObjectsIgnored():
            objects = [case.ignored_objects for case in corrections.cases if case.ignored_objects]
            return [f"{_in_annotations(objects, corrections)}: {_verb(objects, 'is', 'are')} ignored as missed objects"]
        case PixelsRelabelled(threshold=threshold, only_added=only_added):
            what = "background" if only_added else "pixels"
            return [f"{what} with a probability of the predicted class above {threshold:g} may become that class"]
        case CasesRelabelled(noise_level=level, transition=transition):
            loss = [] if transition is None else ["the loss is corrected for the other wrong labels"]
            return [f"{100 * level:z.1f} % of the labels are wrong by the estimate", *loss]
        case PixelsReplaced():
            return _replaced_in_words(correction, description)
        case LesionsAdded(smallest_lesion=None, threshold=threshold):
            return [f"background with a probability above {threshold:g} becomes foreground"]
        case LesionsAdded(smallest_lesion=smallest):
            return [
                f"new lesions of at least {smallest} voxels are added as a whole, as confident as annotated ones, not "
                "more than are missing"
            ]
        case MasksReplaced(source=source):
            return [f"a reviewer's masks replace the given ones: {source}"]
        case _:
            return [correction.kind.replace("_", " ")]


def _moves_in_words(
    shift: BoundaryShift, corrections: Corrections, description: SegmentationDescription | None
) -> list[str]:
    if description is None:
        names, unit = [str(label) for label in shift.moves], ""
    else:
        names, unit = [repr(name) for name in named_moves(corrections, description)], f" {unit_of(description)}"
    return [
        f"contours of class {name} moved by {distance:+z.1f}{unit}"
        for name, distance in zip(names, shift.moves.values(), strict=True)
    ]


def _replaced_in_words(correction: PixelsReplaced, description: SegmentationDescription | None) -> list[str]:
    above, below = correction.foreground_threshold, correction.background_threshold
    removed = "" if below is None else f", and its pixels become background with one above {below:g}"
    names = {} if description is None else dict(enumerate(map(repr, description.classes), start=1))
    return [
        f"background becomes class {names.get(label, label)} with a probability above {above:g}{removed}"
        for label in correction.labels
    ]


def _in_annotations(objects: Sequence[int], corrections: Corrections) -> str:
    return f"{len(objects)} of {count(len(corrections.cases), 'annotation')}"


def _verb(objects: Sequence[int], one: str, many: str) -> str:
    total = sum(objects)
    return f"{count(total, 'object')} {one if total == 1 else many}"


def count(number: int, thing: str) -> str:
    """Return a number of things in words, such as ``1 object`` or ``2 objects``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
