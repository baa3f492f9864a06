"""What sites' noise levels prove, and which sites have wrong labels to correct."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ...annotation_bias.estimate import Estimate
from ...annotation_bias.hysteresis import standing
from ...annotation_bias.parameters import WRONG_LABELS
from ...annotation_bias.reference_level import standard_error_of
from ...annotation_bias.significance import Criterion, effect_tests
from ...annotation_bias.statuses import Evidence, EvidenceCode, Status, TestResult
from .thresholds import THRESHOLDS

Neutral = Literal["zero", "least_noisy"]


@dataclass(frozen=True)
class SiteDecision:
    """What was concluded of a site.

    Attributes:
        estimate: its noise level.
        support: fraction of its doubted labels in which its other samples side with the model.
        result: what the test says of it; fewer wrong labels than neutral are never confirmed.
    """

    estimate: Estimate
    support: Estimate
    result: TestResult

    @property
    def can_tell(self) -> bool:
        """Whether the estimate could prove anything."""
        return self.result.status is not Status.UNKNOWN

    @property
    def is_noisy(self) -> bool:
        """Whether more of its labels are wrong than neutral; fewer are no fault."""
        return self.result.is_confirmed


@dataclass(frozen=True)
class Decision:
    """What was concluded of all sites.

    Attributes:
        sites: by name.
        neutral: the noise level that is taken as that of right labels.
        right_labels: what that is.
    """

    sites: Mapping[str, SiteDecision]
    neutral: float
    right_labels: Evidence

    @property
    def noisy(self) -> frozenset[str]:
        """The sites that have wrong labels to correct."""
        return frozenset(site for site, one in self.sites.items() if one.is_noisy)

    @property
    def not_noisy(self) -> frozenset[str]:
        """The sites of which it was known, and was not confirmed."""
        return frozenset(site for site, one in self.sites.items() if one.can_tell) - self.noisy


def decide(
    estimates: Mapping[str, Estimate],
    supports: Mapping[str, Estimate],
    neutral: Neutral,
    floor: float,
    *,
    before: Decision | None = None,
) -> Decision:
    """Decide which sites have wrong labels to correct (Holm over the sites).

    What an earlier estimate has confirmed stays where this one does not contradict it
    (:func:`fedannot.custom.annotation_bias.hysteresis.contradicts`): a model that has learnt wrong labels finds fewer.

    Where the noise level is confirmed, samples that look alike have to side with the model in most of the doubted
    labels, by the lower end of the interval: else the model may not know the site's images, and nothing can be tested.

    Args:
        estimates: of the noise levels, by site.
        supports: of the fractions of doubted labels in which other samples side with the model, by site.
        neutral: see :class:`fedannot.custom.methods.auto_classification.settings.AutoClassificationSettings`.
        floor: as above.
        before: what was concluded of the earlier estimate.
    """
    criterion, right_labels = _criterion(estimates, neutral, floor)
    findings = effect_tests(
        {site: {WRONG_LABELS: estimate} for site, estimate in estimates.items()},
        {site: {WRONG_LABELS: criterion} for site in estimates},
    )
    sites = {}
    for site, of_site in findings.items():
        result = _supported(of_site[WRONG_LABELS], supports[site])
        if before is not None and site in before.noisy:
            earlier = before.sites[site].result
            result = standing(
                result, earlier.effect, floor, standard_error=earlier.standard_error, p_value=earlier.p_value
            )
        sites[site] = SiteDecision(estimates[site], supports[site], result)
    return Decision(sites, criterion.reference, right_labels)


def _supported(result: TestResult, support: Estimate) -> TestResult:
    """The result as far as other samples support it."""
    if not result.is_confirmed or support.low > THRESHOLDS.min_support:
        return result
    return replace(result, status=Status.UNKNOWN, evidence=(Evidence(EvidenceCode.NO_SUPPORT),))


def _criterion(estimates: Mapping[str, Estimate], neutral: Neutral, floor: float) -> tuple[Criterion, Evidence]:
    known = {site: estimate for site, estimate in sorted(estimates.items()) if estimate.is_known}
    if neutral == "zero" or not known:
        criterion = Criterion(0.0, floor, smallest_auroc=THRESHOLDS.min_auroc, slopes=THRESHOLDS.slopes)
        return criterion, Evidence(EvidenceCode.RIGHT_LABELS_ZERO)
    least = min(known, key=lambda site: known[site].value)
    error = standard_error_of(known[least])
    criterion = Criterion(
        known[least].value, floor, error, smallest_auroc=THRESHOLDS.min_auroc, slopes=THRESHOLDS.slopes
    )
    return criterion, Evidence(EvidenceCode.RIGHT_LABELS_LEAST, names={"site": least})
