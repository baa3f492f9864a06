"""What is known of a parameter, and why, as codes and numbers; sentences are made of them elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

# Of a length: pixels, or millimetres.
Unit = Literal["px", "mm"]


class Status(StrEnum):
    """What a test says of one parameter of one site.

    Attributes:
        CONFIRMED: significant after the correction for all sites and classes, at least the minimum effect, and of an
            estimate that could be tested: with a reference level that is sure, at a site in domain with enough
            sensitivity to injected errors, by a model that detects enough. Or it was confirmed before, and this
            estimate does not contradict it. Or it follows other sites, of which that holds.
        SMALL: significant, and below the minimum effect.
        NOT_SIGNIFICANT: the test was made and does not reject.
        UNKNOWN: nothing could be tested.
    """

    CONFIRMED = "confirmed"
    SMALL = "small"
    NOT_SIGNIFICANT = "not_significant"
    UNKNOWN = "unknown"


class EvidenceCode(StrEnum):
    """What a status or a reference level rests on; behind each code the numbers and names that go with it.

    Attributes:
        TEXT: a sentence that a record of version 1 holds: ``text``.
        THRESHOLDS: of the test: ``level``, ``minimum_effect``.
        NO_ESTIMATE: the site has no estimate.
        NO_REFERENCE_LEVEL: no site has an estimate that the reference level could be.
        REFERENCE_UNSURE: there is a reference level, and it may be wrong.
        INJECTED_ERRORS_UNTRIED: no error could be injected, so the site's sensitivity is not known.
        AUROC_LOW: injected errors are not distinguished from none: ``auroc``.
        SLOPE_OFF: an injected error is measured with the wrong size: ``slope``.
        IMAGES_DIFFER: out of the domain of the other sites: ``unlike``, ``others``, ``auroc``, ``feature``.
        IMAGES_ALIKE: ``alike`` of ``others`` sites have such images.
        IMAGES_UNKNOWN: the site says nothing of its images.
        IMAGES_ALONE: no other site says what its images are.
        MODEL_UNFIT: the model finds too few of the annotated patients: ``found``, ``expected``.
        MISLABELLED: most objects of the site have the label of another class.
        NO_SUPPORT: the site's other samples do not agree with the model.
        EARLIER_AGREES: an effect that was confirmed before stays, as this estimate does not contradict it: ``effect``.
        REVIEWED_AGREE: an effect that is confirmed without the reviewed cases stays, as they do not contradict it:
            ``effect``.
        FOLLOWS_OTHERS: other sites are confirmed, and correcting this one is expected to make its error smaller.
        REVIEWED: the reference level is that of reviewed annotations: ``patients``, ``at_server`` (0 or 1).
        REVIEWED_ABSENT: the setting asks for it, and there are none.
        REVIEWED_DIFFER: the server's reviewed images are out of the sites' domain.
        SITE: it is the way in which one site annotates: ``site``.
        SITE_ABSENT: the setting asks for it, and there is no estimate: ``site``.
        EDGES: it is the image boundary.
        EDGES_ABSENT: the setting asks for it, and there is no estimate.
        HALF_WAY: it is half-way between two groups of sites.
        MOVED_TO_EDGES: it was moved to ``distance`` from the image boundary.
        EDGES_NEAR: the image boundary is at ``difference`` from it, near enough.
        EDGES_FAR: the image boundary is at ``difference`` from it, too far.
        MEDIAN: it is the median of ``sites``, with which ``agreeing`` agree.
        MEDIAN_UNSURE: it is the median of ``sites``, with which too few (``agreeing``) agree.
        GROUPS_OF_EARLIER: the two groups are those of the estimate before.
        MEAN_OF_ESTIMATES: it is of the means of two estimates; the last one alone differs by ``difference``.
        OBJECTS_LEFT_OUT: the fraction of a ``class`` that seems to be left out: ``share``, ``low``, ``high``; where it
            is of objects below the size ``limit`` in ``unit`` alone, the fraction of the ``larger`` ones, too.
        BOUNDARY_NOT_SHOWN: the site's images do not show the boundary clearly enough.
        CONVENTION: the known biases of ``sites`` are alike, ``distance`` outside the image boundary.
        RIGHT_LABELS_ZERO: right labels have a noise level of 0.
        RIGHT_LABELS_LEAST: right labels have the noise level of the site with the least: ``site``.
        FEW_PATIENTS: an annotator has annotated too few ``patients``; ``needed`` are more.
        TWO_ANNOTATORS: fewer than three annotators can be compared, so that nobody knows which of them deviates.
        PAIRS: cases have two of at least three annotators; the estimate is of the differences of pairs.
    """

    TEXT = "text"
    THRESHOLDS = "thresholds"
    NO_ESTIMATE = "no_estimate"
    NO_REFERENCE_LEVEL = "no_reference_level"
    REFERENCE_UNSURE = "reference_unsure"
    INJECTED_ERRORS_UNTRIED = "injected_errors_untried"
    AUROC_LOW = "auroc_low"
    SLOPE_OFF = "slope_off"
    IMAGES_DIFFER = "images_differ"
    IMAGES_ALIKE = "images_alike"
    IMAGES_UNKNOWN = "images_unknown"
    IMAGES_ALONE = "images_alone"
    MODEL_UNFIT = "model_unfit"
    MISLABELLED = "mislabelled"
    NO_SUPPORT = "no_support"
    EARLIER_AGREES = "earlier_agrees"
    REVIEWED_AGREE = "reviewed_agree"
    FOLLOWS_OTHERS = "follows_others"
    REVIEWED = "reviewed"
    REVIEWED_ABSENT = "reviewed_absent"
    REVIEWED_DIFFER = "reviewed_differ"
    SITE = "site"
    SITE_ABSENT = "site_absent"
    EDGES = "edges"
    EDGES_ABSENT = "edges_absent"
    HALF_WAY = "half_way"
    MOVED_TO_EDGES = "moved_to_edges"
    EDGES_NEAR = "edges_near"
    EDGES_FAR = "edges_far"
    MEDIAN = "median"
    MEDIAN_UNSURE = "median_unsure"
    GROUPS_OF_EARLIER = "groups_of_earlier"
    MEAN_OF_ESTIMATES = "mean_of_estimates"
    OBJECTS_LEFT_OUT = "objects_left_out"
    BOUNDARY_NOT_SHOWN = "boundary_not_shown"
    CONVENTION = "convention"
    RIGHT_LABELS_ZERO = "right_labels_zero"
    RIGHT_LABELS_LEAST = "right_labels_least"
    FEW_PATIENTS = "few_patients"
    TWO_ANNOTATORS = "two_annotators"
    PAIRS = "pairs"


@dataclass(frozen=True)
class Evidence:
    """One thing that a status, or a reference level, rests on.

    Attributes:
        code: what it is.
        numbers: that go with it, by name; see :class:`EvidenceCode`.
        names: of sites, classes, features and units, by name.
    """

    code: EvidenceCode
    numbers: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TestResult:
    """What is known of one parameter of one site.

    Attributes:
        effect: the estimate less the reference; NaN where there is none.
        standard_error: of the effect, including that of the reference level; NaN without an effect.
        p_value: corrected for all sites and classes (Holm); NaN where it was not tested.
        status: what follows.
        evidence: what it rests on, why nothing could be tested first.
    """

    # Its name is no test's.
    __test__ = False

    effect: float
    standard_error: float
    p_value: float
    status: Status
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_confirmed(self) -> bool:
        """Whether the effect is significant and large enough to act on."""
        return self.status is Status.CONFIRMED


class ReferenceKind(StrEnum):
    """How a reference level was chosen."""

    REFERENCE = "reference"
    BALANCED = "balanced"
    MEDIAN = "median"
    EDGES = "edges"
    SITE = "site"
    CONVENTION = "convention"


@dataclass(frozen=True)
class ReferenceLevel:
    """What counts as no offset; to be shown wherever an offset is.

    Attributes:
        kind: how it was chosen.
        value: r, what is subtracted from the sites' estimates.
        standard_error: of the value, as far as it follows from those of the estimates.
        reasons: how it came about and what it assumes; they name no site that the choice does not.
        is_confident: whether anything may be done on its strength; a median is not where most sites disagree with it,
            nor what was asked for and is not there.
        groups: the two groups of sites that it lies between; empty otherwise.
        minimum_effect: smaller offsets from it are not corrected, in pixels; 0 where only the settings say it.
        tolerated: nothing is corrected while federated averaging's contours are so near to it, in pixels; 0 as above.
    """

    kind: ReferenceKind
    value: float
    standard_error: float
    reasons: tuple[Evidence, ...] = ()
    is_confident: bool = True
    groups: tuple[tuple[str, ...], ...] = ()
    minimum_effect: float = 0.0
    tolerated: float = 0.0

    @property
    def is_inferred(self) -> bool:
        """Whether it follows from the sites' offsets alone, and nobody said or reviewed where it is."""
        return self.kind in (ReferenceKind.BALANCED, ReferenceKind.MEDIAN)

    @property
    def all_follow(self) -> bool:
        """Whether it is the image boundary as images say it, and no site's distance from it is tolerated."""
        return self.kind is ReferenceKind.EDGES and self.minimum_effect > 0 and self.tolerated == 0

    @property
    def is_of_server(self) -> bool:
        """Whether it is that of reviewed cases at the server."""
        return any(one.code is EvidenceCode.REVIEWED and one.numbers.get("at_server") for one in self.reasons)

    def because(self, code: EvidenceCode, **numbers: float) -> "ReferenceLevel":
        """Return the same level with one reason more."""
        return replace(self, reasons=(*self.reasons, Evidence(code, numbers)))


def has(evidence: tuple[Evidence, ...], code: EvidenceCode) -> bool:
    """Return whether something rests on this."""
    return any(item.code is code for item in evidence)
