"""What a site keeps of its selection of samples: its corrections, and how right they are if that is known."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ....transforms.array_types import Floats
from ...corrections.kinds import CasesRelabelled
from ...corrections.model import CaseCorrection, Corrections, CorrectionState, NewClass, Provenance
from ...data.site_data import SiteData
from .label_selection import Selection
from .records import DetectionRecord


def doubted_cases(
    data: SiteData,
    selection: Selection,
    probabilities: Floats,
    *,
    data_folder: Path,
    provenance: Provenance,
    reverted: Collection[str] = (),
) -> Corrections:
    """Return the samples outside the clean subset as corrections, the most doubted first.

    A sample with a pseudo-label is relabelled, one that is not used is left out. Where all samples are used as they are
    given, corrections are proposed alone.

    Args:
        data: the site's data.
        selection: what became of its samples.
        probabilities: what the received model said of them, ``(N, C)``.
        data_folder: the folder of the site's data, to which images are relative.
        provenance: where the corrections come from.
        reverted: images whose given class the data manager lets count.
    """
    # Of those that are certainly not clean, the one first of which the model is most confident what else it is.
    order = np.lexsort((-probabilities.max(axis=1), selection.clean_probability))
    return Corrections(
        site=data.site,
        data=str(data_folder.resolve()),
        provenance=provenance,
        corrections=(CasesRelabelled(noise_level=selection.noise_level, threshold=selection.coefficient),),
        cases=tuple(
            _doubted(data, selection, probabilities, index, data_folder, reverted)
            for index in order[~selection.clean[order]].tolist()
        ),
    )


def _doubted(
    data: SiteData,
    selection: Selection,
    probabilities: Floats,
    index: int,
    data_folder: Path,
    reverted: Collection[str],
) -> CaseCorrection:
    case, predicted = data.cases[index], int(probabilities[index].argmax())
    image, is_relabelled = case.image_name(data_folder), bool(selection.pseudo[index])
    state = CorrectionState.ACTIVE
    if selection.used[index] and not is_relabelled:
        state = CorrectionState.PROPOSED
    return CaseCorrection(
        image=image,
        state=CorrectionState.REVERTED if image in reverted else state,
        new_class=NewClass(
            given=data.classes[int(case.label)],
            becomes=data.classes[predicted] if is_relabelled else "",
            predicted=data.classes[predicted],
            confidence=float(probabilities[index, predicted]),
            clean_probability=float(selection.clean_probability[index]),
        ),
    )


def detection_record(data: SiteData, selection: Selection, round_number: int) -> DetectionRecord:
    """Return the numbers of suspects and pseudo-labels, and how many are right where true labels are known.

    For evaluation in research runs; it stays at the site.
    """
    return DetectionRecord(
        round=round_number,
        num_samples=len(selection.clean),
        coefficient=selection.coefficient,
        noise_level=selection.noise_level,
        num_suspects=int(np.count_nonzero(~selection.clean)),
        num_pseudo=int(np.count_nonzero(selection.pseudo)),
        num_used=int(np.count_nonzero(selection.used)),
        **_against_true_labels(data, selection),
    )


def _against_true_labels(data: SiteData, selection: Selection) -> dict[str, int]:
    if data.clean_labels is None:
        return {}
    true = data.clean_labels.numpy()
    wrong = data.labels.numpy() != true
    return {
        "num_wrong": int(np.count_nonzero(wrong)),
        "num_wrong_suspects": int(np.count_nonzero(wrong & ~selection.clean)),
        "num_right_pseudo": int(np.count_nonzero(selection.pseudo & (selection.labels == true))),
    }
