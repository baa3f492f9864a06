"""What a site records of its relabelling: its corrections, and for evaluation how right they are if that is known."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ....transforms.array_types import Floats
from ...corrections.kinds import CasesRelabelled
from ...corrections.model import CaseCorrection, Corrections, CorrectionState, NewClass, Provenance
from ...data.site_data import SiteData
from ..fedgsca.records import DetectionRecord
from .relabelling import Relabelling

# Of a label and the other class that is most probable the label is the less probable one.
_EVEN = 0.5


def relabelled_cases(
    data: SiteData,
    relabelling: Relabelling,
    probabilities: Floats,
    *,
    data_folder: Path,
    provenance: Provenance,
    noise_level: float,
    reverted: Collection[str] = (),
) -> Corrections:
    """Return a site's corrections, the least probable labels first; they stay at the site.

    Args:
        data: the site's data.
        relabelling: what is changed of its labels.
        probabilities: of the model that predicted, ``(N, C)``.
        data_folder: the folder of the site's data, to which images are relative.
        provenance: where they come from.
        noise_level: the estimate.
        reverted: images whose given class the data manager lets count.
    """
    cases = []
    for index in np.flatnonzero(relabelling.changed).tolist():
        case, seems = data.cases[index], int(relabelling.labels[index])
        of_given, of_other = float(probabilities[index, int(case.label)]), float(probabilities[index, seems])
        image = case.image_name(data_folder)
        cases.append(
            CaseCorrection(
                image=image,
                state=CorrectionState.REVERTED if image in reverted else CorrectionState.ACTIVE,
                new_class=NewClass(
                    given=data.classes[int(case.label)],
                    becomes=data.classes[seems],
                    predicted=data.classes[seems],
                    confidence=of_other,
                    clean_probability=of_given / (of_given + of_other),
                ),
            )
        )
    rows = None if relabelling.transition is None else tuple(map(tuple, relabelling.transition.tolist()))
    return Corrections(
        site=data.site,
        data=str(data_folder.resolve()),
        provenance=provenance,
        corrections=(CasesRelabelled(noise_level=noise_level, threshold=_EVEN, transition=rows),),
        cases=tuple(sorted(cases, key=_clean_probability)),
    )


def _clean_probability(case: CaseCorrection) -> float:
    return (
        1.0 if case.new_class is None or case.new_class.clean_probability is None else case.new_class.clean_probability
    )


def detection_record(
    data: SiteData, round_number: int, *, noise_level: float, relabelling: Relabelling | None = None
) -> DetectionRecord:
    """Return how many labels are changed, and how many of them rightly where true labels are known; for evaluation.

    Args:
        data: the site's data.
        round_number: the round.
        noise_level: the estimate.
        relabelling: what is changed of its labels; None where nothing is.
    """
    given = data.labels.numpy().astype(np.int64)
    changed = np.zeros(len(given), dtype=np.bool_) if relabelling is None else relabelling.changed
    labels = given if relabelling is None else relabelling.labels
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
