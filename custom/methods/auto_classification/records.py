"""What `auto` for classification adds to a run's summary, as records."""

from ...channel.estimate_record import EstimateRecord
from ...records.round_records import Record


class NoiseLevelRecord(EstimateRecord):
    """What was estimated of a site, the share of its labels that are wrong, and decided.

    Attributes:
        support: share of the doubted labels in which other samples that look alike side with the model.
        support_low: lower end of its 90 % interval, which has to be above a half.
        p_value: corrected for the number of sites.
        is_established: whether the noise is.
        decision: what follows, in words.
        reason: evidence and threshold, in words.
    """

    support: float | None
    support_low: float | None
    p_value: float | None
    is_established: bool
    decision: str
    reason: str


class NoiseLevelEstimate(Record):
    """An estimate at all sites.

    Attributes:
        before_round: the round before whose training it was made.
        neutral: the noise level that is taken as that of right labels.
        neutral_is: what that is, in words.
        floor: the smallest deviation from it that is acted on.
        threshold: the smallest noise level that is acted on, their sum.
        sites: by name.
    """

    before_round: int
    neutral: float
    neutral_is: str
    floor: float
    threshold: float
    sites: dict[str, NoiseLevelRecord]


class ConfusionFindings(Record):
    """What the summary of a run has.

    Attributes:
        noise_levels: the estimates in their order.
        undone_from_round: the round from which a site undoes its wrong labels, of those that do.
    """

    noise_levels: tuple[NoiseLevelEstimate, ...]
    undone_from_round: dict[str, int]
