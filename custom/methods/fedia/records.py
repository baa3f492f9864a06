"""What FedIA adds to a run's summary, as records."""

from ...records.plain_values import finite
from ...records.round_records import Record
from .completeness import Completeness


class CompletenessRecord(Record):
    """What was concluded of a site.

    Attributes:
        estimate: â (Eq. 3), 1 where it is not estimable.
        is_estimable: whether the warm-up model found any lesion.
        num_annotated_lesions: Σ c^n.
        num_predicted_lesions: Σ c^p.
        low: lower end of the estimate's 90 % interval over patients; None where nobody says it, also below.
        high: upper end.
        recall: fraction of the annotated lesions that the model finds.
        precision: fraction of their predicted voxels that are annotated.
        is_confirmed: whether it is below one beyond doubt.
        corrected_before_round: the round before whose training it corrected its annotations; None if it has not.
    """

    estimate: float
    is_estimable: bool
    num_annotated_lesions: int
    num_predicted_lesions: int
    low: float | None = None
    high: float | None = None
    recall: float | None = None
    precision: float | None = None
    is_confirmed: bool | None = None
    corrected_before_round: int | None


class CompletenessFindings(Record):
    """What the summary of a run has.

    Attributes:
        completeness: by site; None before the estimate.
        corrected_before_round: of the sites that have corrected.
    """

    completeness: dict[str, CompletenessRecord] | None
    corrected_before_round: dict[str, int] | None = None


def completeness_record(estimate: Completeness, corrected_before_round: int | None, floor: float) -> CompletenessRecord:
    """Return what a summary has of a site.

    Args:
        estimate: of its given annotations.
        corrected_before_round: the round before whose training it corrected them; None if it has not.
        floor: see :meth:`fedannot.custom.methods.fedia.completeness.Completeness.is_confirmed`.
    """
    known: dict[str, float | bool] = {}
    if (assessment := estimate.assessment) is not None:
        known = {
            "low": assessment.low,
            "high": assessment.high,
            "recall": assessment.recall,
            "precision": assessment.precision,
        }
        known["is_confirmed"] = estimate.is_confirmed(floor)
    return CompletenessRecord(
        estimate=estimate.value,
        is_estimable=estimate.is_estimable,
        num_annotated_lesions=estimate.num_annotated,
        num_predicted_lesions=estimate.num_predicted,
        corrected_before_round=corrected_before_round,
        **finite(known),
    )
