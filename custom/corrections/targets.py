"""What a site trains on in a round: given labels, changed by the corrections that are active; made in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ...transforms.array_types import Classes
from ...transforms.printable import printable_logger
from ..data.site_data import LoadedCase, SiteData
from .kept_labels import KeptLabels
from .kinds import CasesRelabelled, MissedObjectsIgnored, ObjectsRelabelled, Purpose, Sample
from .model import Corrections
from .pixels import CasePixels
from .store import StoredCorrections

_LOGGER = printable_logger(__name__)
# Of this process: rounds after the first one find the labels of volumes here.
_KEPT = KeptLabels()


@dataclass(frozen=True)
class Targets:
    """What counts of a site's labels in one round; nothing of it leaves the site.

    Attributes:
        labels: of each sample or volume, ``(N, H, W[, D])`` or ``(N,)``; None for the given ones.
        used: which samples are trained on, ``(N,)`` booleans; None for all.
        completeness: annotated fraction of the objects in each sample by foreground class, ``(N, C)``; None where
            annotations count as complete.
        transition: T of the label noise that the loss is corrected for, ``(C, C)``; None for a loss without correction.
    """

    labels: Sequence[torch.Tensor] | torch.Tensor | None = None
    used: torch.Tensor | None = None
    completeness: torch.Tensor | None = None
    transition: torch.Tensor | None = None


AS_GIVEN = Targets()


def active_targets(stored: StoredCorrections | None, data: SiteData, data_folder: Path) -> Targets:
    """Return what a site trains on by its corrections; given labels are not changed.

    Args:
        stored: the corrections that count; None without any.
        data: the site's training cases. New files are in place of given ones there already.
        data_folder: the folder of the site's data, to which recorded paths are relative.

    Raises:
        DataError: if decisions on pixels cannot be read.
    """
    if stored is None:
        return AS_GIVEN
    corrections = stored.corrections
    relabelled = corrections.of(CasesRelabelled)
    if relabelled is not None:
        return _class_targets(corrections, relabelled, data, data_folder)
    if not corrections.changes_labels:
        return AS_GIVEN
    labels = corrected_labels(corrections, stored.pixels(len(data.classes)), data.cases, data_folder)
    missed = corrections.of(MissedObjectsIgnored)
    completeness = None if missed is None else _completeness(corrections, missed, data, data_folder)
    return Targets(labels, completeness=completeness)


def _class_targets(corrections: Corrections, relabelled: CasesRelabelled, data: SiteData, data_folder: Path) -> Targets:
    """The targets of a classification; a case whose given class is another one by now keeps it."""
    changes = {
        (case.image, case.new_class.given): case.new_class.becomes
        for case in corrections.cases
        if case.is_active and case.new_class is not None
    }
    labels, used = [], []
    for case in data.cases:
        given = data.classes[int(case.label)]
        becomes = changes.get((case.image_name(data_folder), given), given)
        labels.append(data.classes.index(becomes) if becomes in data.classes else int(case.label))
        used.append(becomes != "")
    transition = relabelled.transition
    return Targets(
        torch.tensor(labels, dtype=torch.long),
        used=None if all(used) else torch.tensor(used),
        transition=None if transition is None else torch.tensor(transition, dtype=torch.float64),
    )


def corrected_labels(
    corrections: Corrections, pixels: Mapping[str, CasePixels], cases: Sequence[LoadedCase], data_folder: Path
) -> list[torch.Tensor]:
    """Return the labels to train on, one ``(H, W[, D])`` for each sample.

    Pixels that do not fit their annotation, as it has changed since, are not used; the site's log says so.

    Args:
        corrections: the site's.
        pixels: by given annotation the decisions on its pixels.
        cases: of the site.
        data_folder: the folder of the site's data, to which recorded paths are relative.
    """
    labels: list[torch.Tensor] = []
    reverted = corrections.reverted
    for case in cases:
        name, _ = case_files(case, data_folder)
        if name in reverted:
            labels.extend(case.label)
            continue
        of_case = pixels.get(name, CasePixels())
        if not of_case.fits(case):
            _LOGGER.warning(
                "Site %s: %s has another size than when objects were assessed; none is ignored or of another class.",
                corrections.site,
                name,
            )
        labels.extend(corrected_label(corrections.of_case(name), of_case, case, Purpose.TRAINING))
    return labels


def with_relabelled_objects(
    stored: StoredCorrections, cases: Sequence[LoadedCase], num_classes: int, data_folder: Path
) -> list[LoadedCase]:
    """Return the cases with relabelled objects, without any other correction.

    Args:
        stored: the corrections that count.
        cases: of the site.
        num_classes: foreground classes of the site.
        data_folder: the folder of the site's data, to which recorded paths are relative.
    """
    relabelled = {
        name: CasePixels(relabelled=of_case.relabelled) for name, of_case in stored.pixels(num_classes).items()
    }
    labels = iter(corrected_labels(stored.corrections.only(ObjectsRelabelled), relabelled, cases, data_folder))
    return [replace(case, label=torch.stack([next(labels) for _ in case.label])) for case in cases]


def corrected_label(corrections: Corrections, pixels: CasePixels, case: LoadedCase, purpose: Purpose) -> torch.Tensor:
    """Return a case's annotation ``(S, H, W[, D])`` with all corrections; the given one is not changed.

    Args:
        corrections: the site's.
        pixels: the decisions on its pixels; not used where they do not fit.
        case: the case with its given annotation.
        purpose: what it is for.
    """
    samples = _samples(case, pixels if pixels.fits(case) else CasePixels())
    return torch.from_numpy(np.stack([_corrected(corrections, sample, purpose) for sample in samples]))


def _corrected(corrections: Corrections, sample: Sample, purpose: Purpose) -> Classes:
    return _KEPT.label(corrections, sample, purpose, lambda: corrected_sample(corrections, sample, purpose)[0])


def relabelled_in_case(corrections: Corrections, pixels: CasePixels, case: LoadedCase) -> int:
    """Return how many objects of a case get another class as its annotation is now.

    Args:
        corrections: the site's.
        pixels: the decisions on its pixels, which fit.
        case: the case.
    """
    relabelled = corrections.only(ObjectsRelabelled)
    return sum(corrected_sample(relabelled, sample, Purpose.REVIEW)[1] for sample in _samples(case, pixels))


def corrected_sample(corrections: Corrections, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
    """Return a sample's classes after all corrections in their order, and the number of relabelled objects."""
    relabelled = 0
    for correction in corrections.corrections:
        classes, count = correction.apply(sample, purpose)
        sample, relabelled = replace(sample, classes=classes), relabelled + count
    return sample.classes, relabelled


def _samples(case: LoadedCase, pixels: CasePixels) -> Iterator[Sample]:
    for index, given in enumerate(case.label.numpy()):
        yield Sample(given, case.spacing, pixels.of_sample(index))


def _completeness(
    corrections: Corrections, missed: MissedObjectsIgnored, data: SiteData, data_folder: Path
) -> torch.Tensor:
    """The site's completeness for each sample; a reverted annotation is complete."""
    of_site = torch.tensor(missed.completeness(len(data.classes)))
    fractions, reverted = [], corrections.reverted
    for case in data.cases:
        is_reverted = case_files(case, data_folder)[0] in reverted
        fractions += len(case.label) * [torch.ones_like(of_site) if is_reverted else of_site]
    return torch.stack(fractions)


def case_files(case: LoadedCase, data_folder: Path) -> tuple[str, str]:
    """Return the annotation and the image of a case, relative to the site's data; without an own file the image."""
    image = case.image_name(data_folder)
    return case.label_name(data_folder) or image, image
