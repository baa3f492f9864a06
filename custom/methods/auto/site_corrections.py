"""A site makes the corrections that the server asks for: it chooses objects, and keeps what became of each case."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from ....transforms.array_types import Booleans, Classes
from ...annotation_bias.ignored_objects import whole_objects
from ...annotation_bias.predicted_samples import predicted_samples
from ...corrections.kinds import (
    Correction,
    MaskShift,
    MissedObjectsIgnored,
    ObjectsRelabelled,
    Purpose,
    Sample,
    in_order,
    of_kind,
)
from ...corrections.model import CaseCorrection, Corrections, CorrectionState, Provenance
from ...corrections.pixels import CasePixels, OtherClasses, relabelled_objects
from ...corrections.targets import case_files
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference
from ...networks.hashing import model_hash
from .ignoring import UnannotatedObjects
from .relabelling import ConfusedObjects


def site_corrections(
    network: nn.Module,
    data: SiteData,
    asked: Sequence[Correction],
    *,
    data_folder: Path,
    method: str,
    round_number: int,
    inference: Inference,
    reverted: Collection[str] = (),
) -> tuple[Corrections, dict[str, CasePixels]]:
    """Return the corrections of a site, and by annotation the decisions on its pixels.

    :class:`UnannotatedObjects` chooses the ignored objects, :class:`ConfusedObjects` the relabelled ones.

    Args:
        network: the received model.
        data: the site's training cases with their given annotations.
        asked: the corrections that the server asks for.
        data_folder: the folder of the site's data, to which recorded paths are relative.
        method: the method whose decision it is.
        round_number: the round before whose training it happens.
        inference: how the model is run.
        reverted: given annotations that the data manager has reverted.
    """
    ignored, relabelled = _chosen(network, data, asked, inference)
    cases, pixels, start = [], {}, 0
    for case in data.cases:
        label, image = case_files(case, data_folder)
        part = slice(start, start + len(case.label))
        start = part.stop
        cases.append(
            CaseCorrection(
                label=label,
                image=image,
                state=CorrectionState.REVERTED if label in reverted else CorrectionState.ACTIVE,
                ignored_objects=sum(count for _, count in ignored[part]),
                relabelled_objects=sum(count for _, count in relabelled[part]),
            )
        )
        of_case = CasePixels(_ignored(ignored[part]), _other_classes(relabelled[part]))
        if of_case:
            pixels[label] = of_case
    corrections = Corrections(
        site=data.site,
        data=str(data_folder.resolve()),
        provenance=Provenance.now(method, round_number, model_hash(network.state_dict())),
        corrections=in_order(asked),
        cases=tuple(cases),
    )
    return corrections, pixels


def _chosen(
    network: nn.Module, data: SiteData, asked: Sequence[Correction], inference: Inference
) -> tuple[list[tuple[Booleans, int]], list[tuple[OtherClasses, int]]]:
    """The ignored pixels and other classes of every sample, with numbers of objects; empty if none are asked."""
    missed, other_classes = of_kind(asked, MissedObjectsIgnored), of_kind(asked, ObjectsRelabelled)
    unannotated = {} if missed is None else missed.ignored
    fraction = 0.0 if other_classes is None else other_classes.fraction
    if not unannotated and fraction == 0:
        return [], []
    shift, whole = of_kind(asked, MaskShift), whole_objects(data.description)
    of_none, of_other_class, samples = UnannotatedObjects(unannotated), ConfusedObjects(fraction), _samples(data.cases)
    if fraction > 0:
        for predicted in predicted_samples(network, data.cases, inference):
            of_other_class.see(whole(predicted))
    relabelled = of_other_class.relabelled(samples)
    if unannotated:
        # How many are ignored hangs on how many are annotated, by the classes that count.
        of_samples = zip(predicted_samples(network, data.cases, inference), relabelled, strict=True)
        for predicted, (other, _) in of_samples:
            annotation = relabelled_objects(predicted.annotation, other)[0]
            moved_back = predicted.with_annotation(_moved(annotation, predicted.spacing, shift))
            of_none.see(whole(moved_back))
    spacings = [case.spacing for case in data.cases for _ in case.label]
    moved = [_moved(given, spacing, shift) for given, spacing in zip(samples, spacings, strict=True)]
    return of_none.ignored(moved), relabelled


def _moved(annotation: Classes, spacing: Sequence[float] | None, shift: MaskShift | None) -> Classes:
    """An annotation where the predicted objects are: objects are chosen beside masks that are moved back."""
    if shift is None:
        return annotation
    return shift.apply(Sample(annotation, None if spacing is None else tuple(spacing)), Purpose.TRAINING)[0]


def _samples(cases: Sequence[LoadedCase]) -> list[Classes]:
    return [given.numpy() for case in cases for given in case.label]


def _ignored(samples: Sequence[tuple[Booleans, int]]) -> Booleans | None:
    """The pixels of a case ``(S, H, W[, D])``, None where no object is ignored."""
    return np.stack([pixels for pixels, _ in samples]) if any(count for _, count in samples) else None


def _other_classes(samples: Sequence[tuple[OtherClasses, int]]) -> OtherClasses | None:
    """As above, None where no object gets another class."""
    if not any(count for _, count in samples):
        return None
    return OtherClasses(*(np.stack(pixels) for pixels in zip(*(other for other, _ in samples), strict=True)))
