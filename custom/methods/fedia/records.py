"""What FedIA adds to the records of rounds and to a run's summary, as records."""

from ...run.records import Record


class CompletenessRecord(Record):
    """What was concluded of a site.

    Attributes:
        estimate: â (Eq. 3), 1 where it is not estimable.
        is_estimable: whether the warm-up model found any lesion.
        num_annotated_lesions: Σ c^n.
        num_predicted_lesions: Σ c^p.
        corrected_before_round: the round before whose training it corrected its annotations; None if it has not.
    """

    estimate: float
    is_estimable: bool
    num_annotated_lesions: int
    num_predicted_lesions: int
    corrected_before_round: int | None


class CompletenessFindings(Record):
    """What the summary of a run has.

    Attributes:
        completeness: by site; None before the estimate.
        corrected_before_round: of the sites that have corrected.
    """

    completeness: dict[str, CompletenessRecord] | None
    corrected_before_round: dict[str, int] | None = None
