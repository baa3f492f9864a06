"""What sites' noise levels prove, and which sites have wrong labels to undo."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ...channel.anchor import deviation_of
from ...channel.established import Criterion, Finding, established
from ...channel.estimate import Estimate
from .outbound import NOISE_LEVEL
from .thresholds import THRESHOLDS

Neutral = Literal["zero", "least_noisy"]


@dataclass(frozen=True)
class SiteDecision:
    """What was concluded of a site.

    Attributes:
        estimate: its noise level.
        support: share of its doubted labels in which its other samples side with the model.
        finding: what that proves.
        doubt: why nothing can be told; None where it can.
    """

    estimate: Estimate
    support: Estimate
    finding: Finding
    doubt: str | None

    @property
    def can_tell(self) -> bool:
        """Whether the estimate could prove anything."""
        return self.doubt is None

    @property
    def is_noisy(self) -> bool:
        """Whether more of its labels are wrong than neutral; fewer are no fault."""
        return self.can_tell and self.finding.established and self.finding.deviation > 0


@dataclass(frozen=True)
class Decision:
    """What was concluded of all sites.

    Attributes:
        sites: by name.
        neutral: the noise level that is taken as that of right labels.
        neutral_is: what that is, in words.
    """

    sites: Mapping[str, SiteDecision]
    neutral: float
    neutral_is: str

    @property
    def noisy(self) -> frozenset[str]:
        """The sites that have wrong labels to undo."""
        return frozenset(site for site, one in self.sites.items() if one.is_noisy)

    @property
    def not_noisy(self) -> frozenset[str]:
        """The sites of which it could be told, and was not established."""
        return frozenset(site for site, one in self.sites.items() if one.can_tell) - self.noisy


def decide(
    estimates: Mapping[str, Estimate], supports: Mapping[str, Estimate], neutral: Neutral, floor: float
) -> Decision:
    """Decide which sites have wrong labels to undo (Holm over the sites).

    Where the noise level is established, samples that look alike have to side with the model in most of the doubted
    labels, by the lower end of the interval: else the model may not know the site's images, and nothing can be told.

    Args:
        estimates: of the noise levels, by site.
        supports: of the shares of doubted labels in which other samples side with the model, by site.
        neutral: see :class:`fedannot.custom.methods.auto_classification.settings.AutoClassificationSettings`.
        floor: likewise.
    """
    criterion, sentence = _criterion(estimates, neutral, floor)
    findings = established(
        {site: {NOISE_LEVEL: estimate} for site, estimate in estimates.items()},
        {site: {NOISE_LEVEL: criterion} for site in estimates},
    )
    sites = {}
    for site, of_site in findings.items():
        estimate, support, finding = estimates[site], supports[site], of_site[NOISE_LEVEL]
        doubt = criterion.doubt(estimate) if estimate.is_known else "there is no estimate"
        if doubt is None and finding.established and not support.low > THRESHOLDS.min_support:
            doubt = "the site's other samples do not side with the model, which may not know its images"
            finding = replace(finding, established=False, reason=f"Cannot tell: {doubt}.")
        sites[site] = SiteDecision(estimate, support, finding, doubt)
    return Decision(sites, criterion.neutral, sentence)


def _criterion(estimates: Mapping[str, Estimate], neutral: Neutral, floor: float) -> tuple[Criterion, str]:
    known = {site: estimate for site, estimate in sorted(estimates.items()) if estimate.is_known}
    if neutral == "zero" or not known:
        sentence = (
            "Right labels have a noise level of 0: it is assumed that the model is right of the samples of which it is "
            "surest."
        )
        return Criterion(0.0, floor, smallest_auroc=THRESHOLDS.min_auroc, slopes=THRESHOLDS.slopes), sentence
    least = min(known, key=lambda site: known[site].value)
    deviation = deviation_of(known[least])
    sentence = (
        f"Right labels have the noise level of {least}, the least of all sites: what is wrong at all sites alike "
        "cannot be told."
    )
    return Criterion(
        known[least].value, floor, deviation, smallest_auroc=THRESHOLDS.min_auroc, slopes=THRESHOLDS.slopes
    ), sentence
