"""A site corrects its annotations: confident predictions without an annotation become foreground (FedIA)."""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Classes
from ....transforms.connected_lesions import label_lesions
from ....transforms.errors import DataError
from ...corrections.kinds import LesionsAdded
from ...corrections.lesions import added_lesions
from ...corrections.model import CaseCorrection, Corrections, CorrectionState, NewMask, Provenance
from ...corrections.store import mask_target, write_corrections
from ...data.description import SegmentationDescription
from ...data.masks import plain_name, write_with_additions
from ...data.preparation import build_restoration
from ...data.site_data import LoadedCase, SiteData
from ...data.whole_files import new_folder
from ...evaluation.inference import Inference
from ...networks.hashing import model_hash
from .correction import confident_classes
from .predicted_lesions import as_mask, missing_lesions, predict_lesions


def correct_annotations(
    network: nn.Module,
    data: SiteData,
    folder: Path,
    *,
    data_folder: Path,
    method: str,
    round_number: int,
    threshold: float,
    inference: Inference,
    smallest_lesion: int | None = None,
    is_proposed: bool = False,
    reverted: Collection[str] = (),
) -> Corrections:
    """Add what the model predicts with confidence to every annotation, and write those that change as new files.

    A background voxel becomes foreground where the model's probability of a foreground class is above the threshold, in
    evaluation mode; nothing that is annotated changes (FedIA, Sec. 2.4). Where a smallest lesion is given, whole
    lesions are added in its place, of which nothing is annotated and not more than are missing; see
    :func:`fedannot.custom.methods.fedia.predicted_lesions.missing_lesions`. A volume's annotation is corrected in its
    own geometry, where each voxel takes the nearest sample's addition. Nothing of it leaves the site.

    Args:
        network: the model that the site received.
        data: the site's training cases with their given annotations.
        folder: where the corrections are written, absent or empty; it appears when everything is written.
        data_folder: the folder of the site's data, to which the recorded paths are relative.
        method: the method whose rule it is, for the record.
        round_number: the round before whose training it happens, for the record.
        threshold: τ, from 0.5 to below 1.
        inference: how the model is run.
        smallest_lesion: voxels of the smallest lesions that are added as a whole; None adds voxels by the threshold.
        is_proposed: whether given annotations count until the site's data manager has decided.
        reverted: names of cases whose given annotation counts, because the data manager has decided so before.

    Returns:
        What was written to ``corrections.json``.

    Raises:
        DataError: if the folder holds files.
        ValueError: if the threshold is out of range.
    """
    if smallest_lesion is None:
        result: Iterable[torch.Tensor] = inference.predictions(network, data.cases, confident_classes(threshold))
    else:
        result = _whole_lesions(network, data, inference, smallest_lesion)
    state = CorrectionState.PROPOSED if is_proposed else CorrectionState.ACTIVE
    with new_folder(folder) as unfinished:
        cases, failed = _write_cases(unfinished, data, data_folder, result, state)
        cases = tuple(
            case.model_copy(update={"state": CorrectionState.REVERTED}) if case.name in reverted else case
            for case in cases
        )
        corrections = Corrections(
            site=data.site,
            data=str(data_folder.resolve()),
            provenance=Provenance.now(method, round_number, model_hash(network.state_dict())),
            corrections=(LesionsAdded(threshold=threshold, smallest_lesion=smallest_lesion),),
            cases=cases,
            failed=failed,
        )
        write_corrections(unfinished, corrections)
    return corrections


def _write_cases(
    folder: Path, data: SiteData, data_folder: Path, additions: Iterable[torch.Tensor], state: CorrectionState
) -> tuple[tuple[CaseCorrection, ...], tuple[tuple[str, str], ...]]:
    """Write the annotations to which something is added; return the cases, and the annotations that failed with why.

    Args:
        folder: where they are written.
        data: the site's training cases.
        data_folder: to which paths are relative.
        additions: of each case, classes of its samples ``(S, H, W[, D])``; what is annotated there keeps its class.
        state: of a case that changes.
    """
    description = data.description
    assert isinstance(description, SegmentationDescription)
    restore = build_restoration(description)
    cases: list[CaseCorrection] = []
    failed: list[tuple[str, str]] = []
    for position, (case, confident) in enumerate(zip(data.cases, additions, strict=True)):
        given, image = _files(case)
        record = CaseCorrection(label=os.path.relpath(given, data_folder), image=os.path.relpath(image, data_folder))
        added = torch.where(case.label == 0, confident, 0)
        if not added.any():
            cases.append(record)
            continue
        try:
            mask = _write(folder, position, given, restore(image, given, added), description)
        except DataError as error:
            failed.append((record.label, str(error)))
        else:
            cases.append(record.model_copy(update={"mask": mask, "state": state}))
    return tuple(cases), tuple(failed)


def _whole_lesions(network: nn.Module, data: SiteData, inference: Inference, smallest: int) -> Iterator[torch.Tensor]:
    """Yield the lesions to add to one case after the other, as classes of its samples ``(S, H, W[, D])``."""
    lesions = predict_lesions(network, data.cases, inference, smallest=smallest)
    chosen = missing_lesions(lesions, len(data.classes))
    for case, of_case, missing in zip(data.cases, lesions, chosen, strict=True):
        yield torch.from_numpy(as_mask(missing, of_case.shape)).reshape(case.label.shape)


def _write(folder: Path, position: int, given: Path, placed: Classes, description: SegmentationDescription) -> NewMask:
    """Write a given annotation with what is added.

    Raises:
        DataError: if the given annotation cannot be read.
    """
    target = mask_target(folder, position, plain_name(given))
    file, before, kept = write_with_additions(target, given, placed, description)
    return NewMask(
        file=str(file.relative_to(folder)),
        added_voxels=int(np.count_nonzero(kept)),
        new_lesions=_new_lesions(before, kept),
        lesions=added_lesions(kept),
    )


def _files(case: LoadedCase) -> tuple[Path, Path]:
    """The files of a case's annotation and image."""
    assert case.files is not None
    assert isinstance(case.files.label, Path)
    return case.files.label, case.files.image


def _new_lesions(given: Classes, added: Classes) -> int:
    """Number of connected lesions of a corrected annotation that have nothing of the given one."""
    numbers, count = label_lesions((given != 0) | (added != 0))
    return count - int(np.count_nonzero(np.unique(numbers[given != 0])))
