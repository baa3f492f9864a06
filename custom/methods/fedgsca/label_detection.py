"""What a site keeps of its selection of samples: suspects for its data manager, and how right they are if known."""

from pathlib import Path
from typing import Any

import numpy as np

from ....transforms.array_types import Floats
from ...data.label_suspicions import LabelSuspicions, SuspectCase
from ...data.site_data import SiteData
from .label_selection import Selection
from .records import DetectionRecord


def suspicions(
    data: SiteData,
    selection: Selection,
    probabilities: Floats,
    *,
    data_folder: Path,
    method: str,
    round_number: int,
) -> LabelSuspicions:
    """List the samples outside the clean subset, the most suspect first.

    Args:
        data: the site's data.
        selection: what became of its samples.
        probabilities: what the received model said of them, ``(N, C)``.
        data_folder: the folder of the site's data, to which images are relative.
        method: the method whose rule it is, for the record.
        round_number: likewise.
    """
    # Of those that are surely not clean, the one first of which the model is surest what else it is.
    order = np.lexsort((-probabilities.max(axis=1), selection.clean_probability))
    found = []
    for index in order[~selection.clean[order]].tolist():
        case, predicted = data.cases[index], int(probabilities[index].argmax())
        image = case.image_name(data_folder)
        found.append(
            SuspectCase(
                image=image,
                given=data.classes[int(case.label)],
                predicted=data.classes[predicted],
                confidence=float(probabilities[index, predicted]),
                clean_probability=float(selection.clean_probability[index]),
                relabelled=bool(selection.pseudo[index]),
            )
        )
    return LabelSuspicions(
        site=data.site,
        data=str(data_folder.resolve()),
        method=method,
        round_number=round_number,
        noise_level=selection.noise_level,
        coefficient=selection.coefficient,
        suspects=tuple(found),
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


def _against_true_labels(data: SiteData, selection: Selection) -> dict[str, Any]:
    if data.clean_labels is None:
        return {}
    true = data.clean_labels.numpy()
    wrong = data.labels.numpy() != true
    return {
        "num_wrong": int(np.count_nonzero(wrong)),
        "num_wrong_suspects": int(np.count_nonzero(wrong & ~selection.clean)),
        "num_right_pseudo": int(np.count_nonzero(selection.pseudo & (selection.labels == true))),
    }
