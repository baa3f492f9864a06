"""The labels that a site's corrections have made so far, and the record of the next ones (FedCorr)."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ...corrections.kinds import CasesRelabelled, PixelsRelabelled
from ...corrections.model import CaseCorrection, Corrections, CorrectionState, NewClass, Provenance
from ...corrections.pixels import CasePixels, OtherClasses
from ...corrections.store import StoredCorrections
from ...corrections.targets import active_targets, case_files
from ...data.site_data import LoadedCase, SiteData

# By the name of a case, which of its pixels get which class.
Pixels = dict[str, CasePixels]


def with_corrections(
    data: SiteData, stored: StoredCorrections | None, data_folder: Path, reviewed: Collection[str] = ()
) -> SiteData:
    """Return the data with the labels that count by a record; such a case has one annotation, whatever the rule is.

    Args:
        data: the site's cases as they are given, by the rule for several annotations.
        stored: the record; None for none.
        data_folder: the folder of the site's data.
        reviewed: names of the cases that a review has decided, perhaps since; their labels stay.
    """
    labels = active_targets(stored, data, data_folder).labels
    if labels is None:
        return data
    waiting = iter(labels)
    cases: list[LoadedCase] = []
    for case in data.cases:
        label = torch.stack([next(waiting) for _ in range(len(case.image))]).to(case.label.dtype)
        is_new = case_files(case, data_folder)[0] not in reviewed and not torch.equal(label, case.label)
        cases.append(replace(case, label=label, annotations=None) if is_new else case)
    return replace(data, cases=tuple(cases))


def pixel_corrections(
    given: SiteData,
    masks: Iterable[torch.Tensor],
    data_folder: Path,
    provenance: Provenance,
    rule: PixelsRelabelled,
    reverted: Collection[str],
) -> tuple[Corrections, Pixels]:
    """Return what a site keeps of its corrected masks, as differences from those in use without any correction.

    Args:
        given: the site's cases without corrections.
        masks: of each of them, ``(S, H, W[, D])``.
        data_folder: the folder of the site's data.
        provenance: where the corrections come from.
        rule: which pixels were replaced.
        reverted: names of the cases whose given annotation counts.
    """
    cases: list[CaseCorrection] = []
    pixels: Pixels = {}
    for case, mask in zip(given.cases, masks, strict=True):
        label, image = case_files(case, data_folder)
        record = CaseCorrection(label="" if label == image else label, image=image, state=_state(label, reverted))
        cases.append(record)
        before, after = case.label.numpy(), mask.numpy()
        if (changed := before != after).any():
            other = OtherClasses(*(np.where(changed, of, 0).astype(np.uint8) for of in (before, after)))
            pixels[record.name] = CasePixels(relabelled=other)
    return _record(given, data_folder, provenance, rule, cases), pixels


def class_corrections(
    given: SiteData,
    labels: torch.Tensor,
    probabilities: torch.Tensor,
    data_folder: Path,
    provenance: Provenance,
    rule: CasesRelabelled,
    reverted: Collection[str],
    left_out: Collection[int] = (),
) -> Corrections:
    """Return what a site keeps of its corrected classes: the cases that get another one, or none.

    Args:
        given: the site's cases without corrections.
        labels: of each of them, ``(N,)``.
        probabilities: of the received model, ``(N, C)``.
        data_folder: the folder of the site's data.
        provenance: where the corrections come from.
        rule: which classes were replaced.
        reverted: names of the cases whose given class counts.
        left_out: indices of the cases whose class does not count.
    """
    cases: list[CaseCorrection] = []
    names, predicted = given.classes, probabilities.argmax(dim=1).tolist()
    for index, (case, label) in enumerate(zip(given.cases, labels.tolist(), strict=True)):
        if index in left_out or label != int(case.label):
            image = case.image_name(data_folder)
            new = NewClass(
                given=names[int(case.label)],
                becomes="" if index in left_out else names[label],
                predicted=names[predicted[index]],
                confidence=float(probabilities[index, predicted[index]]),
            )
            cases.append(CaseCorrection(image=image, state=_state(image, reverted), new_class=new))
    return _record(given, data_folder, provenance, rule, cases)


def _state(name: str, reverted: Collection[str]) -> CorrectionState:
    return CorrectionState.REVERTED if name in reverted else CorrectionState.ACTIVE


def _record(
    given: SiteData,
    data_folder: Path,
    provenance: Provenance,
    rule: PixelsRelabelled | CasesRelabelled,
    cases: list[CaseCorrection],
) -> Corrections:
    return Corrections(
        site=given.site,
        data=str(data_folder.resolve()),
        provenance=provenance,
        corrections=(rule,),
        cases=tuple(cases),
        consensus="" if given.consensus is None else str(given.consensus),
    )
