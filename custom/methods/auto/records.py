"""What `auto` adds to a run's summary, as records."""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import Field, model_validator

from ....transforms.natural_order import natural_order
from ...annotation_bias.estimate_record import EstimateRecord, ParameterRecord, ReferenceLevelRecord
from ...annotation_bias.parameters import ParameterKey
from ...annotation_bias.statuses import Unit
from ...corrections.kinds import Correction, Kind, of_kind, server_corrections
from ...records.round_records import Record
from .asked_groups import AnnotatorGroup
from .version_1 import bias_of_version_1, rollback_of_version_1

T = TypeVar("T")


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


def names_where(sites: Mapping[str, SiteBiasRecord], holds: Callable[[SiteBiasRecord], bool]) -> tuple[str, ...]:
    """Return the names of the sites of which something holds, in their natural order."""
    return tuple(sorted((site for site, of in sites.items() if holds(of)), key=natural_order))


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


class ImageBiasRecord(EstimateRecord):
    """The boundary bias of a class at a site as its images show it, from the image boundary.

    Attributes:
        is_known: whether images show it; else it is no evidence.
        prominence: of the boundary in the sites' mean curve.
        correlation: of the site's curve with the others'.
        from_model: the bias from the model, from the contours that it predicts; None where there is none.
    """

    is_known: bool
    prominence: float | None
    correlation: float | None
    from_model: EstimateRecord | None = None


class WitnessRecord(Record):
    """What images and model say of the boundary biases of a class, how they agree, and what was used.

    Attributes:
        is_shown: whether images show the biases of most sites; else only the model counts.
        is_model_used: whether the model counts besides the images.
        constant: by how far the model draws inside the image boundary; None where that is not known.
        spread: standard deviation over sites of the difference of both, in pixels; None of fewer than three sites.
        chi_square: squared differences by what both errors explain; None as above.
        sites: by name.
    """

    is_shown: bool
    is_model_used: bool = False
    constant: float | None = None
    spread: float | None = None
    chi_square: float | None = None
    sites: dict[str, ImageBiasRecord]


class BiasRecord(Record):
    """One estimate of all sites; the form of version 1, with sentences, is read as well.

    Attributes:
        before_round: the round before whose training it was made.
        reference_levels: by class, where the reference level of the offsets is; None where no site has an estimate.
        decision: what follows.
        sites: by name; of one that did not answer what was concluded before.
        is_of_images: whether it is of images alone, before the first round.
        witnesses: by class, what images and model say of the boundary biases; empty where images were not asked.
        moved_masks: by site that has moved all its masks back, the number of its patients.
        groups: where estimates are by annotator, whose cases each of the names stands for; else empty.
    """

    before_round: int
    reference_levels: dict[int, ReferenceLevelRecord | None]
    decision: DecisionRecord
    sites: dict[str, SiteBiasRecord]
    is_of_images: bool = False
    witnesses: dict[int, WitnessRecord] = Field(default_factory=dict)
    moved_masks: dict[str, int] = Field(default_factory=dict)
    groups: dict[str, AnnotatorGroup] = Field(default_factory=dict)

    def of_sites(self, names: Collection[str]) -> "BiasRecord":
        """Return what it says of some sites."""
        witnesses = {
            label: witness.model_copy(update={"sites": _only(witness.sites, names)})
            for label, witness in self.witnesses.items()
        }
        groups = _only(self.groups, names)
        result = self.model_copy(update={"sites": _only(self.sites, names), "witnesses": witnesses, "groups": groups})
        return result.with_moved_masks(_only(self.moved_masks, names), only=True)

    def with_moved_masks(self, moved: Mapping[str, int], *, only: bool = False) -> "BiasRecord":
        """Return the same with further sites that have moved their masks, or with these alone; as it is without any."""
        sites = {**moved} if only else {**self.moved_masks, **moved}
        return self if sites == self.moved_masks else self.model_copy(update={"moved_masks": sites})

    def with_sites(self, other: "BiasRecord") -> "BiasRecord":
        """Return the same with those sites of another record of which this one says nothing."""
        witnesses = dict(other.witnesses)
        for label, own in self.witnesses.items():
            others = witnesses[label].sites if label in witnesses else {}
            witnesses[label] = own.model_copy(update={"sites": {**others, **own.sites}})
        sites = {**other.sites, **self.sites}
        corrected = names_where(sites, lambda of: bool(of.corrections))
        decision = self.decision.model_copy(
            update={
                "corrected": corrected,
                "confirmed": names_where(sites, lambda of: of.deviates),
                "outcome": Outcome.CORRECTED if corrected else self.decision.outcome,
            }
        )
        together = self.model_copy(update={"sites": sites, "witnesses": witnesses, "decision": decision})
        together = together.model_copy(update={"groups": {**other.groups, **self.groups}})
        return together.with_moved_masks(other.moved_masks)

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return bias_of_version_1(values) if isinstance(values, Mapping) and "zero" in values else values


def _only(of_sites: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {site: one for site, one in of_sites.items() if site in names}


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
