"""What sites and server say of two models, put together; and what two averages together tell of single sites."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...aggregation.influence import InfluenceBounds
from ...aggregation.weighted_median import weighted_median
from ...aggregation.weighting import LayerWeights
from ...annotation_bias.estimate import INTERVAL_DEVIATIONS, MEDIAN_SPREAD, Estimate
from ...annotation_bias.reference_level import standard_error_of
from ...annotation_bias.thresholds import THRESHOLDS as BIAS_THRESHOLDS
from .records import RollbackRoundRecord
from .thresholds import THRESHOLDS


def fewest_found(weights: LayerWeights, samples: Mapping[str, int]) -> int:
    """Return of how few sites a combination of two averages can be: one by weights, one by numbers of samples.

    Sites whose weights have one ratio to their numbers vanish together from a combination; the others are left.

    Args:
        weights: of the sites in both.
        samples: of these sites.
    """
    numbers = np.array([samples[site] for site in weights.sites], dtype=np.float64)
    ratios = weights.values / numbers[:, None]
    alike = np.isclose(ratios[:, None], ratios[None], rtol=THRESHOLDS.same_ratio, atol=0).sum(axis=1)
    return len(weights.sites) - int(alike.max())


def negative(gain: Estimate) -> Estimate:
    """Return by how much the other one of two models is better."""
    return Estimate(gain.patients, -gain.value, -gain.high, -gain.low)


def pooled_gains(gains: Mapping[str, Estimate], of_server: Estimate | None, bounds: InfluenceBounds) -> Estimate:
    """Return the mean gain over the patients of sites, as far as their claims count, and of the server.

    Where shares of sites are bounded, and from three sites on, theirs is the weighted median: less than half of the
    weight moves it no further than to the next site.

    Args:
        gains: known ones, by site.
        of_server: on the server's reviewed patients; None where it has none.
        bounds: on what one site can do.
    """
    of_sites = _gain_of_sites(gains, bounds) if gains else None
    both = {name: one for name, one in (("sites", of_sites), ("server", of_server)) if one is not None}
    return pooled_gain(both, {name: float(one.patients) for name, one in both.items()})


def _gain_of_sites(gains: Mapping[str, Estimate], bounds: InfluenceBounds) -> Estimate:
    weights = bounds.mean_weights({site: one.patients for site, one in gains.items()})
    mean = pooled_gain(gains, weights)
    if not bounds.bounds_shares or len(gains) < BIAS_THRESHOLDS.min_sites_of_median:
        return mean
    sites = sorted(gains)
    (value,) = weighted_median(np.array([[gains[site].value] for site in sites]), [weights[site] for site in sites])
    half = MEDIAN_SPREAD * (mean.high - mean.value)
    return Estimate(mean.patients, float(value), float(value) - half, float(value) + half)


def pooled_gain(gains: Mapping[str, Estimate], weights: Mapping[str, float]) -> Estimate:
    """Return the weighted mean of sites' gains, with the interval that follows from theirs.

    Args:
        gains: known ones, by site.
        weights: of these sites, positive; only their ratios count.
    """
    total = sum(weights[site] for site in gains)
    shares = {site: weights[site] / total for site in sorted(gains)}
    value = sum(share * gains[site].value for site, share in shares.items())
    half = INTERVAL_DEVIATIONS * math.sqrt(
        sum((share * standard_error_of(gains[site])) ** 2 for site, share in shares.items())
    )
    return Estimate(sum(gain.patients for gain in gains.values()), value, value - half, value + half)


def mean_of_rounds(rounds: Sequence[RollbackRoundRecord]) -> Estimate:
    """Return the mean of the rounds' gains with the mean of their intervals' widths."""
    value = sum(item.estimate or 0.0 for item in rounds) / len(rounds)
    half = sum(((item.high or 0.0) - (item.low or 0.0)) / 2 for item in rounds) / len(rounds)
    return Estimate(min(item.patients for item in rounds), value, value - half, value + half)
