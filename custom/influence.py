"""Bounds on what one site can do to the global model, against a broken site or one that lies."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .settings import InfluenceSettings
from .weighting import Floats, LayerWeights

# Two sites cannot tell which of them is the odd one.
_FEWEST_SITES = 3


class InfluenceBounds:
    """The bounds of one round, and whom they touched.

    Args:
        settings: the bounds.
        log: called with a sentence for every site whose influence is bounded.

    Attributes:
        touched: what was bounded by site: ``share`` (its weights in all blocks) and ``update_factor``.
    """

    def __init__(self, settings: InfluenceSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self.touched: dict[str, dict[str, Any]] = {}

    def weights(self, weights: LayerWeights) -> LayerWeights:
        """Return weights within the bounds of shares."""
        if not self._settings.bounds_shares:
            return weights
        bounded = bounded_weights(weights, self._settings.min_share, self._settings.max_share)
        for site, before, after in zip(weights.sites, weights.values, bounded.values, strict=True):
            if not np.allclose(before, after):
                self.touched.setdefault(site, {})["share"] = after.tolist()
                self._log(f"Bounded {site}: its shares were up to {max(before):.3g} and are up to {max(after):.3g}.")
        return bounded

    def update_factors(self, norms: Mapping[str, float]) -> dict[str, float] | None:
        """Return by how much updates of these norms are scaled down, None where they have no bound."""
        if (ratio := self._settings.max_update_ratio) is None:
            return None
        factors = update_factors(norms, ratio)
        for site, factor in factors.items():
            if factor < 1.0:
                self.touched.setdefault(site, {})["update_factor"] = factor
                self._log(f"Clipped {site}: its update counts {factor:.3g} times, at {ratio:g} times the median.")
        return factors


def bounded_weights(weights: LayerWeights, smallest: float, largest: float) -> LayerWeights:
    """Keep every site's share of a block between two bounds; the others divide the rest as before.

    A share is min(max(t w_i, smallest), largest) with the one factor t for which the block's shares sum to one. Bounds
    that no shares can meet (largest below 1/K, smallest above it) give equal shares. Where the sites with any weight
    cannot fill a block below the upper bound, they stay at it, and the sum is below one.

    Args:
        weights: weights of K sites.
        smallest: lower bound of a share, 0 for none.
        largest: upper bound, 1 for none.
    """
    equal = 1.0 / len(weights.sites)
    low, high = min(smallest, equal), max(largest, equal)
    values = np.stack([_bounded_shares(column, low, high) for column in weights.values.T], axis=1)
    values.setflags(write=False)
    return LayerWeights(weights.sites, weights.blocks, values)


def _bounded_shares(shares: Floats, low: float, high: float) -> Floats:
    """Find the factor exactly: where a share meets a bound the sum changes its slope, and between it is linear."""
    shares = shares / shares.sum()
    positive = shares[shares > 0]
    corners = np.unique(np.concatenate([low / positive, high / positive]))
    sums = np.array([np.clip(corner * shares, low, high).sum() for corner in corners])
    if sums[-1] <= 1.0:
        factor = corners[-1]
    elif sums[0] >= 1.0:
        factor = corners[0]
    else:
        factor = np.interp(1.0, sums, corners)
    return np.asarray(np.clip(factor * shares, low, high), dtype=np.float64)


def update_factors(norms: Mapping[str, float], largest_ratio: float) -> dict[str, float]:
    """Return by how much each site's update is scaled down: to so many times the median norm of the others'.

    Fewer than three sites are left as they are.

    Args:
        norms: ‖θ_k − θ‖ of every site.
        largest_ratio: bound of a norm by the others' median.
    """
    if len(norms) < _FEWEST_SITES:
        return dict.fromkeys(sorted(norms), 1.0)
    factors = {}
    for site in sorted(norms):
        allowed = largest_ratio * statistics.median(norm for other, norm in norms.items() if other != site)
        factors[site] = 1.0 if norms[site] <= allowed else allowed / norms[site]
    return factors
