"""What `auto` adds to a run's summary, as records."""

from pydantic import Field

from ...channel.estimate_record import DeviationRecord, EstimateRecord, Verdict
from ...records.round_records import Record

# The kinds of parameters, and the class of one that is of all classes together.
OFFSET, MISSING, SWAPPED = "offset", "missing", "swapped"
# What is undone beside them where offsets are: how far the model draws outside zero.
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
        offsets: what it undoes, by class: by how far contours are too far outside.
        missing: likewise: share of the objects that is missing.
        swapped: the share of the objects of which at most it undoes the class, 0 for none.
        overshoot: by class, by how much further its contours move inward in training, as the model draws outside zero.
        unannotated: by class of the missing, share of its objects that it does not annotate: the surest are ignored.
        undone_before_round: the round before whose training it did; None if it did not, or had nothing to undo.
    """

    parameters: dict[str, ParameterRecord]
    offsets: dict[str, float]
    missing: dict[str, float]
    swapped: float = 0.0
    overshoot: dict[str, float] = Field(default_factory=dict)
    unannotated: dict[str, float] = Field(default_factory=dict)
    undone_before_round: int | None

    @property
    def deviates(self) -> bool:
        """Whether any deviation is established."""
        return any(one.established for one in self.parameters.values())


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
