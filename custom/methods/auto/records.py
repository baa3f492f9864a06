"""What `auto` adds to a run's summary, as records."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from ...annotation_bias.estimate_record import EstimateRecord, ParameterRecord, ReferenceLevelRecord
from ...annotation_bias.parameters import ParameterKey
from ...annotation_bias.statuses import Unit
from ...corrections.kinds import Correction, Kind, of_kind, server_corrections
from ...records.round_records import Record
from .version_1 import bias_of_version_1, rollback_of_version_1


class SiteBiasRecord(Record):
    """What was concluded of a site.

    Attributes:
        parameters: by kind and class.
        corrections: what the server asks it to correct; empty for nothing.
        corrected_before_round: the round before whose training it did; None if it did not, or had nothing to correct.
    """

    parameters: dict[ParameterKey, ParameterRecord]
    corrections: tuple[Correction, ...]
    corrected_before_round: int | None

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_form(cls, values: Any) -> Any:
        """Read summaries and states of earlier versions, which had a key for each kind of correction."""
        if not isinstance(values, Mapping) or "undone_before_round" not in values:
            return values
        earlier = dict(values)
        # How far the model itself was to be moved, which no version does any more.
        earlier.pop("overshoot", None)
        kinds = {key: earlier.pop(key, {}) for key in ("offsets", "missing", "unannotated")}
        offsets, missing, unannotated = (_by_label(numbers) for numbers in kinds.values())
        corrections = server_corrections(
            bias=offsets,
            missed=missing,
            ignored={**missing, **unannotated},
            relabelled=earlier.pop("swapped", 0.0),
        )
        number = earlier.pop("undone_before_round")
        return earlier | {"corrections": corrections, "corrected_before_round": number}

    def of(self, kind: type[Kind]) -> Kind | None:
        """Return the correction of a kind, None without one."""
        return of_kind(self.corrections, kind)

    @property
    def deviates(self) -> bool:
        """Whether any effect is confirmed."""
        return any(parameter.is_confirmed for parameter in self.parameters.values())


class Outcome(StrEnum):
    """What follows from one estimate of all sites.

    Attributes:
        CORRECTED: some sites correct what is confirmed of them.
        TOLERATED: confirmed offsets stay: federated averaging's contours lie near the reference level.
        MEASURED: what is confirmed is not corrected, as the settings ask.
        NOTHING: nothing is confirmed.
        UNFIT: the model finds too few of the annotated patients, so nothing was tested.
        TEXT: a sentence of version 1.
    """

    CORRECTED = "corrected"
    TOLERATED = "tolerated"
    MEASURED = "measured"
    NOTHING = "nothing"
    UNFIT = "unfit"
    TEXT = "text"


class DecisionRecord(Record):
    """What follows from one estimate of all sites.

    Attributes:
        outcome: what does.
        is_applied: whether sites act on it; an audit only says what `auto` would do.
        corrected: the sites that correct something, by name.
        confirmed: the sites of which anything is confirmed.
        tolerated: by class, the range from the reference level in which federated averaging's contours lie.
        found_share: fraction of the annotated patients in whom the model finds an annotated object.
        expected_share: that at least is expected.
        unit: of the lengths.
        text: the sentence of version 1.
    """

    outcome: Outcome
    is_applied: bool = True
    corrected: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    tolerated: dict[int, tuple[float, float]] = Field(default_factory=dict)
    found_share: float | None = None
    expected_share: float | None = None
    unit: Unit | None = None
    text: str = ""


def _by_label(values: Mapping[Any, float]) -> dict[int, float]:
    return {int(label): value for label, value in values.items()}


class BiasRecord(Record):
    """One estimate of all sites; the form of version 1, with sentences, is read as well.

    Attributes:
        before_round: the round before whose training it was made.
        reference_levels: by class, where the reference level of the offsets is; None where no site has an estimate.
        decision: what follows.
        sites: by name; of one that did not answer what was concluded before.
    """

    before_round: int
    reference_levels: dict[int, ReferenceLevelRecord | None]
    decision: DecisionRecord
    sites: dict[str, SiteBiasRecord]

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return bias_of_version_1(values) if isinstance(values, Mapping) and "zero" in values else values


class BiasFindings(Record):
    """What the summary of a run has.

    Attributes:
        channels: the estimates in their order; the last one counts.
    """

    channels: tuple[BiasRecord, ...]


class RollbackRoundRecord(EstimateRecord):
    """Difference in score between the other model and the model in use after one round, of scores from 0 to 1.

    Attributes:
        round: the round.
        sites: number of sites whose patients count.
    """

    round: int
    sites: int


class RollbackOf(StrEnum):
    """What the model in use is compared with: the average by numbers of samples, or the model of before."""

    WEIGHTS_BY_SAMPLES = "weights_by_samples"
    MODEL_BEFORE = "model_before"


class RollbackScore(StrEnum):
    """What models are compared by: the mean Dice of a patient, or its part in the mean recall of all classes."""

    DICE = "dice"
    BALANCED_ACCURACY = "balanced_accuracy"


class NotCompared(StrEnum):
    """Why no round was compared.

    Attributes:
        NO_PATIENTS: no site has reviewed or held-out patients.
        TOO_FEW_PATIENTS: no site has enough of them, or ones whose annotations may be asked.
        SINGLE_SITES: so few sites have other weights that both averages would tell the updates of single ones.
        NO_ROUND: no round was compared yet.
        TEXT: a sentence of version 1.
    """

    NO_PATIENTS = "no_patients"
    TOO_FEW_PATIENTS = "too_few_patients"
    SINGLE_SITES = "single_sites"
    NO_ROUND = "no_round"
    TEXT = "text"


class RollbackRecord(Record):
    """Whether what `auto` has done was found to do harm; the form of version 1 is read as well.

    Attributes:
        rollback_of: what the second model is.
        score: by what they are compared.
        before_round: of the model of before, the round before whose training it was made.
        wanted_rounds: number of rounds to compare before it is decided; None in a record of version 1.
        rounds: that were compared.
        has_vetoed: whether everything was rolled back.
        not_compared: why no round was; None where any was.
        text: the sentence of version 1.
    """

    rollback_of: RollbackOf
    score: RollbackScore = RollbackScore.DICE
    before_round: int | None = None
    wanted_rounds: int | None
    rounds: tuple[RollbackRoundRecord, ...]
    has_vetoed: bool
    not_compared: NotCompared | None = None
    text: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return rollback_of_version_1(values) if isinstance(values, Mapping) and "shadow_is" in values else values


class RollbackFindings(Record):
    """What the summary of a run has; None where there was nothing to check."""

    rollback: RollbackRecord | None
