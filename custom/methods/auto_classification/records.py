"""What `auto` for classification adds to a run's summary, as records."""

from enum import StrEnum
from typing import Any

from pydantic import model_validator

from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.statuses import Evidence
from ...records.round_records import Record
from .version_1 import noise_level_of_version_1, with_right_labels


class Follows(StrEnum):
    """What follows for a site.

    Attributes:
        RELABEL: it trains on its surely wrong labels as the classes that they look like.
        FORWARD: its loss is corrected.
        BOTH: the first, and the second for the rest.
        FEDGSCA: FedGSCA selects the samples of all sites.
        GIVEN: its labels are used as they are.
        UNCHANGED: nothing changes, since nothing could be tested.
        NONE: nothing is corrected, as the settings ask.
        TEXT: a sentence of version 1.
    """

    RELABEL = "relabel"
    FORWARD = "forward"
    BOTH = "both"
    FEDGSCA = "fedgsca"
    GIVEN = "given"
    UNCHANGED = "unchanged"
    NONE = "none"
    TEXT = "text"


class NoiseLevelRecord(ParameterRecord):
    """What was estimated of a site, the fraction of its labels that are wrong, and decided.

    The form of version 1, with sentences, is read as well.

    Attributes:
        support: fraction of the doubted labels in which other samples that look alike side with the model.
        support_low: lower end of its 90 % interval, which has to be above a half.
        follows: what does.
        text: the sentence of version 1.
    """

    support: float | None
    support_low: float | None
    follows: Follows
    text: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return noise_level_of_version_1(values)


class NoiseLevelEstimate(Record):
    """An estimate at all sites; the form of version 1 is read as well.

    Attributes:
        before_round: the round before whose training it was made.
        neutral: the noise level that is taken as that of right labels.
        right_labels: what that is.
        floor: the smallest deviation from it that is acted on.
        threshold: the smallest noise level that is acted on, their sum.
        sites: by name.
    """

    before_round: int
    neutral: float
    right_labels: Evidence | None
    floor: float
    threshold: float
    sites: dict[str, NoiseLevelRecord]

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return with_right_labels(values)


class ConfusionFindings(Record):
    """What the summary of a run has.

    Attributes:
        noise_levels: the estimates in their order.
        corrected_from_round: the round from which a site corrects its wrong labels, of those that do.
    """

    noise_levels: tuple[NoiseLevelEstimate, ...]
    corrected_from_round: dict[str, int]
