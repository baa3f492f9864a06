"""What sites' noise levels prove, and which sites have wrong labels to undo."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...channel.anchor import deviation_of
from ...channel.established import Criterion, Finding, established
from ...channel.estimate import Estimate
from .outbound import NOISE_LEVEL

# Where more than half of the labels look wrong, one more is told from the others with this AUROC; and where few samples
# are there, the slope of the right one spreads by as much.
_SMALLEST_AUROC = 0.6
_SLOPES = (0.5, 1.5)

Neutral = Literal["zero", "least_noisy"]


@dataclass(frozen=True)
class SiteDecision:
    """What was concluded of a site.

    Attributes:
        estimate: its noise level.
        finding: what that proves.
        can_tell: whether it could prove anything.
    """

    estimate: Estimate
    finding: Finding
    can_tell: bool

    @property
    def is_noisy(self) -> bool:
        """Whether more of its labels are wrong than neutral; fewer are no fault."""
        return self.finding.established and self.finding.deviation > 0


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


def decide(estimates: Mapping[str, Estimate], neutral: Neutral, floor: float) -> Decision:
    """Decide which sites have wrong labels to undo (Holm over the sites).

    Args:
        estimates: of the noise levels, by site.
        neutral: see :class:`fedannot.custom.methods.auto_classification.settings.AutoClassificationSettings`.
        floor: likewise.
    """
    criterion, sentence = _criterion(estimates, neutral, floor)
    findings = established(
        {site: {NOISE_LEVEL: estimate} for site, estimate in estimates.items()},
        {site: {NOISE_LEVEL: criterion} for site in estimates},
    )
    sites = {
        site: SiteDecision(
            estimates[site], of_site[NOISE_LEVEL], estimates[site].is_known and criterion.doubt(estimates[site]) is None
        )
        for site, of_site in findings.items()
    }
    return Decision(sites, criterion.neutral, sentence)


def _criterion(estimates: Mapping[str, Estimate], neutral: Neutral, floor: float) -> tuple[Criterion, str]:
    known = {site: estimate for site, estimate in sorted(estimates.items()) if estimate.is_known}
    if neutral == "zero" or not known:
        sentence = (
            "Right labels have a noise level of 0: it is assumed that the model is right of the samples of which it is "
            "surest."
        )
        return Criterion(0.0, floor, smallest_auroc=_SMALLEST_AUROC, slopes=_SLOPES), sentence
    least = min(known, key=lambda site: known[site].value)
    deviation = deviation_of(known[least])
    sentence = (
        f"Right labels have the noise level of {least}, the least of all sites: what is wrong at all sites alike "
        "cannot be told."
    )
    return Criterion(known[least].value, floor, deviation, smallest_auroc=_SMALLEST_AUROC, slopes=_SLOPES), sentence
