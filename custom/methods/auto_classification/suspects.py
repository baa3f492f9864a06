"""Records of changed labels: for the site's data manager, and for evaluation where true labels are known."""

from pathlib import Path

import numpy as np

from ....transforms.array_types import Floats
from ...data.label_suspicions import LabelSuspicions, SuspectCase
from ...data.site_data import SiteData
from ..fedgsca.records import DetectionRecord
from .undoing import Undoing

# Of a label and the other class that is most probable the label is the less probable one.
_EVEN = 0.5


def suspicions(
    data: SiteData,
    undoing: Undoing,
    probabilities: Floats,
    *,
    data_folder: Path,
    method: str,
    round_number: int,
    noise_level: float,
) -> LabelSuspicions:
    """List the samples whose label is changed, the least likely labels first; it stays at the site.

    Args:
        data: the site's data.
        undoing: what became of its labels.
        probabilities: of the model that judged, ``(N, C)``.
        data_folder: the folder of the site's data, to which images are relative.
        method: the method whose rule it is, for the record.
        round_number: likewise.
        noise_level: the estimate.
    """
    found = []
    for index in np.flatnonzero(undoing.changed).tolist():
        case, seems = data.cases[index], int(undoing.labels[index])
        of_given, of_other = float(probabilities[index, int(case.label)]), float(probabilities[index, seems])
        found.append(
            SuspectCase(
                image=case.image_name(data_folder),
                given=data.classes[int(case.label)],
                predicted=data.classes[seems],
                confidence=of_other,
                clean_probability=of_given / (of_given + of_other),
                relabelled=True,
            )
        )
    return LabelSuspicions(
        site=data.site,
        data=str(data_folder.resolve()),
        method=method,
        round_number=round_number,
        noise_level=noise_level,
        coefficient=_EVEN,
        suspects=tuple(sorted(found, key=lambda one: one.clean_probability)),
    )


def detection_record(
    data: SiteData, round_number: int, *, noise_level: float, undoing: Undoing | None = None
) -> DetectionRecord:
    """Return how many labels are changed, and how many of them rightly where true labels are known; for evaluation.

    Args:
        data: the site's data.
        round_number: the round.
        noise_level: the estimate.
        undoing: what became of its labels; None where nothing is undone.
    """
    given = data.labels.numpy().astype(np.int64)
    changed = np.zeros(len(given), dtype=np.bool_) if undoing is None else undoing.changed
    labels = given if undoing is None else undoing.labels
    against_true = {}
    if data.clean_labels is not None:
        true = data.clean_labels.numpy()
        against_true = {
            "num_wrong": int(np.count_nonzero(given != true)),
            "num_wrong_suspects": int(np.count_nonzero(changed & (given != true))),
            "num_right_pseudo": int(np.count_nonzero(changed & (labels == true))),
        }
    number = int(np.count_nonzero(changed))
    return DetectionRecord(
        round=round_number,
        num_samples=len(given),
        coefficient=_EVEN,
        noise_level=noise_level,
        num_suspects=number,
        num_pseudo=number,
        num_used=len(given),
        **against_true,
    )
