"""What `auto` adds to a run's summary, as records."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from ...channel.estimate_record import DeviationRecord, EstimateRecord, Verdict
from ...corrections.kinds import Correction, Kind, of_kind, server_corrections
from ...records.round_records import Record

# The kinds of parameters, and the class of one that is of all classes together.
OFFSET, MISSING, SWAPPED = "offset", "missing", "swapped"
# What is corrected with offsets: how far the model draws outside zero.
OVERSHOOT = "overshoot"
ALL_CLASSES = 0


def parameter(kind: str, label: int) -> str:
    """Return the name of a parameter of a class, such as ``offset 1``; of all together ``swapped 0``."""
    return f"{kind} {label}"


SWAPPED_OBJECTS = parameter(SWAPPED, ALL_CLASSES)


class ParameterRecord(DeviationRecord):
    """What is known of one parameter of a site; an offset is on the model's scale.

    Attributes:
        p_value: corrected for all sites and parameters.
        established: whether the deviation is.
        reason: evidence, threshold and decision in words.
    """

    p_value: float | None
    established: bool
    reason: str

    def verdict(self, level: float) -> Verdict:
        """Return what is known in a word or two.

        Args:
            level: of the test.
        """
        if self.established:
            return "established"
        if self.p_value is None or self.from_zero is None:
            return "cannot tell"
        return "small" if self.p_value <= level else "none"


class SiteChannelRecord(Record):
    """What was concluded of a site.

    Attributes:
        parameters: by kind and class, such as ``offset 1``.
        corrections: what the server asks it to correct; empty for nothing.
        corrected_before_round: the round before whose training it did; None if it did not, or had nothing to correct.
    """

    parameters: dict[str, ParameterRecord]
    corrections: tuple[Correction, ...]
    corrected_before_round: int | None

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_form(cls, values: Any) -> Any:
        """Read summaries and states of earlier versions, which had a key for each kind of correction."""
        if not isinstance(values, Mapping) or "undone_before_round" not in values:
            return values
        earlier = dict(values)
        kinds = {key: earlier.pop(key, {}) for key in ("offsets", "overshoot", "missing", "unannotated")}
        offsets, overshoot, missing, unannotated = (_by_label(numbers) for numbers in kinds.values())
        corrections = server_corrections(
            bias=offsets,
            model_bias=overshoot,
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
        """Whether any deviation is established."""
        return any(one.established for one in self.parameters.values())


def _by_label(values: Mapping[Any, float]) -> dict[int, float]:
    return {int(label): value for label, value in values.items()}


class ChannelRecord(Record):
    """One estimate of all sites.

    Attributes:
        before_round: the round before whose training it was made.
        zero: by class, where the zero of the offsets comes from and what that assumes.
        inferred_zero: the classes whose zero follows from the sites' offsets, and was sure.
        balanced_zero: of these, the classes whose zero lies half-way between two groups of sites.
        decision: what follows, in a sentence.
        sites: by name; of one that did not answer what was concluded before.
    """

    before_round: int
    zero: dict[str, str]
    inferred_zero: tuple[str, ...] = ()
    balanced_zero: tuple[str, ...] = ()
    decision: str
    sites: dict[str, SiteChannelRecord]


class ChannelFindings(Record):
    """What the summary of a run has.

    Attributes:
        channels: the estimates in their order; the last one counts.
    """

    channels: tuple[ChannelRecord, ...]


class ShadowRoundRecord(EstimateRecord):
    """By how much the shadow scores better than the model in use after one round, in Dice from 0 to 1.

    Attributes:
        round: the round.
        sites: number of sites whose patients count.
    """

    round: int
    sites: int


class ShadowRecord(Record):
    """Whether what `auto` has done was found to do harm.

    Attributes:
        shadow_is: what the second average is of.
        rounds: that were compared.
        has_vetoed: whether everything was taken back.
        sentence: evidence, threshold, decision, and what would have changed it; or why nothing was checked.
    """

    shadow_is: str
    rounds: tuple[ShadowRoundRecord, ...]
    has_vetoed: bool
    sentence: str


class ShadowFindings(Record):
    """What the summary of a run has; None where there was nothing to check."""

    shadow: ShadowRecord | None
