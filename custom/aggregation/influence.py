"""Bounds on what one site can do to the global model, against a broken site or one that lies."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import numpy as np
import torch

from ...transforms.array_types import Floats
from .settings import InfluenceSettings
from .weighting import LayerWeights, quantity_weights

# Two sites cannot tell which of them is the odd one.
_FEWEST_SITES = 3
# Of whose values three are left in each coordinate when the smallest and the largest are dropped.
_FEWEST_SITES_TO_TRIM = 5
# Fraction of the weights by quantity that is mixed into others: sites without any weight fill what bounds leave over.
_TRACE = 1e-12
# Rounding is no violation of a bound.
_SLACK = 1e-9
# Bounds of jobs for hospitals, see deployed_influence.
_DEPLOYED_UPDATE_RATIO, _DEPLOYED_QUALITY_RATIO, _DEPLOYED_SHARE_RATIO = 1.0, 3.0, 1.5
# Below the half that all others together must have more than; and where the number of sites is not known.
_DEPLOYED_SHARE, _DEPLOYED_SHARE_OF_UNKNOWN = 0.4, 0.25
# Half of all honest updates are longer than the median of the others, those of a few biases 2.5 times; what is
# below is worth a line in the log.
_NOTABLE_FACTOR = 1 / 3


class Touched(TypedDict, total=False):
    """What was bounded of a site: its share in every block, and its update in the group where it is scaled most."""

    share: list[float]
    update_factor: float
    update_group: str


class _ShareBounds(TypedDict):
    """What :func:`share_limits` takes."""

    smallest: float
    largest: float
    quality_ratio: float | None


class InfluenceBounds:
    """The bounds of one round, and whom they touched.

    Args:
        settings: the bounds.
        log: called with a sentence for every site whose share is bounded, or whose update counts less than a third.

    Attributes:
        touched: what was bounded from above, by site: ``share`` (its weights in all blocks), and ``update_factor``, the
            smallest one of its groups of parameters, with that group, ``update_group``.
    """

    def __init__(self, settings: InfluenceSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self.touched: dict[str, Touched] = {}

    @property
    def bounds_shares(self) -> bool:
        """Whether the share of a site has a bound."""
        return self._settings.bounds_shares

    def mean_weights(self, num_samples: Mapping[str, int]) -> dict[str, float]:
        """Return what sites count in a mean over them: their samples, or shares where these have bounds."""
        if not self._settings.bounds_shares:
            return {site: float(num_samples[site]) for site in sorted(num_samples)}
        shares = quantity_weights(num_samples)
        bounded = _bounded_quantity(np.array(list(shares.values())), self._settings.min_share, self._settings.max_share)
        return dict(zip(shares, bounded.tolist(), strict=True))

    def bounded(self, weights: LayerWeights, num_samples: Mapping[str, int]) -> LayerWeights:
        """Return weights within the bounds of shares; the same object where all are, so that its bits stay.

        Args:
            weights: of K sites.
            num_samples: of these sites, as far as their claims count.
        """
        if not self._settings.bounds_shares:
            return weights
        quantity = quantity_weights(num_samples)
        low, high = (limits[:, None] for limits in share_limits(_in_order(weights, quantity), **self._share_bounds))
        if np.all((weights.values >= low * (1 - _SLACK)) & (weights.values <= high * (1 + _SLACK))):
            return weights
        return bounded_weights(weights, quantity, **self._share_bounds)

    def weights(self, weights: LayerWeights, num_samples: Mapping[str, int]) -> LayerWeights:
        """Return weights as :meth:`bounded` does, and take note of sites that would have had more."""
        bounded = self.bounded(weights, num_samples)
        if bounded is weights:
            return weights
        _, high = share_limits(_in_order(weights, quantity_weights(num_samples)), **self._share_bounds)
        for site, most, before, after in zip(weights.sites, high, weights.values, bounded.values, strict=True):
            if max(before) > most * (1 + _SLACK):
                self.touched.setdefault(site, {})["share"] = after.tolist()
                self._log(f"Bounded {site}: its shares were up to {max(before):.3g} and are up to {max(after):.3g}.")
        return bounded

    def update_factors(self, norms: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Return by how much updates are scaled down in each group of parameters, by site; 1 where they have no bound.

        Args:
            norms: by site the norm of its update in every group.
        """
        if (ratio := self._settings.max_update_ratio) is None:
            return {site: dict.fromkeys(of_site, 1.0) for site, of_site in norms.items()}
        factors = group_factors(norms, ratio)
        for site, of_site in factors.items():
            group, factor = min(of_site.items(), key=lambda item: item[1])
            if factor < 1.0:
                self.touched.setdefault(site, {}).update({"update_factor": factor, "update_group": group})
            if factor < _NOTABLE_FACTOR:
                self._log(
                    f"Clipped {site}: its update counts {factor:.3g} times in {group}, at {ratio:g} times the median."
                )
        return factors

    @property
    def _share_bounds(self) -> _ShareBounds:
        return {
            "smallest": self._settings.min_share,
            "largest": self._settings.max_share,
            "quality_ratio": self._settings.max_quality_ratio,
        }


def deployed_influence(num_sites: int | None, *, takes_rule: bool = True) -> dict[str, float]:
    """Return the bounds of a job for hospitals with a server, as settings of ``influence``.

    A site with the share s whose update points the other way, at ρ times the length of the others', takes back ρ s of
    their 1 − s. With ρ = 1 and s = 1.5/K that is 0.375 of 0.625 for four sites. With ρ = 1.5 the training of a phantom
    stayed far behind the honest one. Fractions of 1/K would leave no room to quantity and quality. Two sites cannot
    tell which of them lies: there only quality is bounded.

    Where the rule drops the extremes (:func:`deployed_aggregation`) updates have no bound by their length: it would
    bring one that is far too long back among the others.

    The bounds need all results at one place: a swarm has none, and FedCurv takes none.

    Args:
        num_sites: number of sites K that the job names; None where it names none.
        takes_rule: whether a rule can make the job's model; where none can, updates have a bound whatever K is.
    """
    bounds = {"max_quality_ratio": _DEPLOYED_QUALITY_RATIO}
    if not (takes_rule and deployed_aggregation(num_sites)):
        bounds["max_update_ratio"] = _DEPLOYED_UPDATE_RATIO
    if num_sites is not None and num_sites < _FEWEST_SITES:
        return bounds
    if num_sites is None:
        return bounds | {"max_share": _DEPLOYED_SHARE_OF_UNKNOWN}
    return bounds | {"max_share": min(_DEPLOYED_SHARE, _DEPLOYED_SHARE_RATIO / num_sites)}


def deployed_aggregation(num_sites: int | None) -> dict[str, int | str]:
    """Return the rule of a job for hospitals with a server, as settings of ``aggregation``.

    Bounds leave a liar's update in the mean, at the typical length and a fraction of at most 1.5/K. A trimmed mean
    leaves no coordinate beyond the honest ones, and has three values or more in each where five sites answer. Jobs for
    fewer sites, or that name none, keep the mean.

    Args:
        num_sites: number of sites K that the job names; None where it names none.
    """
    if num_sites is None or num_sites < _FEWEST_SITES_TO_TRIM:
        return {}
    return {"rule": "trimmed_mean", "trim": 1}


def share_limits(
    quantity: Floats, *, smallest: float = 0.0, largest: float = 1.0, quality_ratio: float | None = None
) -> tuple[Floats, Floats]:
    """Return the smallest and the largest share that each of K sites may have in a block, ``(K,)`` both.

    Bounds that no shares can meet (largest below 1/K, smallest above it) are moved to equal shares. With a ratio r a
    site's share is from 1/r to r times that by quantity, and the latter is itself within the bounds.

    Args:
        quantity: shares by quantity ``(K,)``, positive.
        smallest: lower bound of a share, 0 for none.
        largest: upper bound, 1 for none.
        quality_ratio: r, at least 1; None for none.
    """
    equal = 1.0 / len(quantity)
    low, high = (np.full(len(quantity), bound) for bound in (min(smallest, equal), max(largest, equal)))
    if quality_ratio is None:
        return low, high
    bounded = _bounded_quantity(quantity, smallest, largest)
    return np.maximum(low, bounded / quality_ratio), np.minimum(high, bounded * quality_ratio)


def bounded_weights(
    weights: LayerWeights,
    quantity: Mapping[str, float],
    *,
    smallest: float = 0.0,
    largest: float = 1.0,
    quality_ratio: float | None = None,
) -> LayerWeights:
    """Keep every site's fraction of a block within :func:`share_limits`; the others divide the rest as before.

    A share is min(max(t w_i, low_i), high_i) with the one factor t for which the block's shares sum to one. Where sites
    with any weight cannot fill a block below their upper bounds, the others divide the rest by quantity.

    Args:
        weights: weights of K sites.
        quantity: these sites' shares by quantity.
        smallest: lower bound of a share, 0 for none.
        largest: upper bound, 1 for none.
        quality_ratio: largest ratio of a share to that by quantity, and of the latter to the former; None for none.
    """
    by_quantity = _in_order(weights, quantity)
    low, high = share_limits(by_quantity, smallest=smallest, largest=largest, quality_ratio=quality_ratio)
    values = np.stack([_bounded_shares(column, by_quantity, low, high) for column in weights.values.T], axis=1)
    values.setflags(write=False)
    return LayerWeights(weights.sites, weights.blocks, values)


def _in_order(weights: LayerWeights, quantity: Mapping[str, float]) -> Floats:
    return np.array([quantity[site] for site in weights.sites], dtype=np.float64)


def _bounded_quantity(quantity: Floats, smallest: float, largest: float) -> Floats:
    return _bounded_shares(quantity, quantity, *share_limits(quantity, smallest=smallest, largest=largest))


def _bounded_shares(shares: Floats, quantity: Floats, low: Floats, high: Floats) -> Floats:
    """Find the factor exactly: where a share meets a bound the sum changes its slope, and between it is linear."""
    shares = (1 - _TRACE) * shares / shares.sum() + _TRACE * quantity
    corners = np.unique(np.concatenate([low / shares, high / shares]))
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


def group_factors(norms: Mapping[str, Mapping[str, float]], largest_ratio: float) -> dict[str, dict[str, float]]:
    """Return :func:`update_factors` of every group of parameters by itself.

    What a site may move in one group does not depend on what it moves in others, so that no site has the length of a
    whole update for a layer's few biases. In a group that most of the others leave as it is, nobody moves anything.

    Args:
        norms: by site the norm of its update in every group, the same groups for all.
        largest_ratio: bound of a norm by the median of the others' in that group.
    """
    sites = sorted(norms)
    factors: dict[str, dict[str, float]] = {site: {} for site in sites}
    for group in norms[sites[0]] if sites else ():
        for site, factor in update_factors({site: norms[site][group] for site in sites}, largest_ratio).items():
            factors[site][group] = factor
    return factors


def inner_ranges(values: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return for every entry the second smallest and the second largest value of the sites, element by element.

    Within them, no site goes beyond what the others have; with three sites they are the median. Fewer than three sites
    have no range.

    Args:
        values: the same entries of every site.
    """
    if len(values) < _FEWEST_SITES:
        return {}
    ranges = {}
    for name in values[0]:
        ordered = torch.stack([of_site[name] for of_site in values]).sort(dim=0).values
        ranges[name] = (ordered[1], ordered[-2])
    return ranges
