"""Weights by completeness where that is confirmed below one, with a least fraction of the sites in effect."""

from collections.abc import Mapping

import numpy as np

from ....transforms.array_types import Floats
from ...aggregation.weighting import quantity_weights

# The scale is found to this relative accuracy, from the side on which enough sites are in effect.
_STEPS = 60
_LARGEST_FACTOR = 2.0**20


def confirmed_weights(
    num_samples: Mapping[str, int], completeness: Mapping[str, float], scale: float, least_share: float = 0.5
) -> dict[str, float]:
    """Return w_k ∝ n_k exp(â_k / s), s being the scale or, where that leaves too few sites in effect, a larger one.

    The number of sites in effect, 1/Σw², stays at the least fraction of that by quantity. FedIA's softmax(â_k / ℓ_k)
    has no such bound: with losses near 0 one site has all the weight.

    Args:
        num_samples: n_k of every site.
        completeness: â_k of sites in which it is confirmed below one; others count as complete.
        scale: by how much the completeness of two sites differs whose weights differ by the factor e.
        least_share: fraction of the sites in effect by quantity that stay in effect, below 1.

    Raises:
        ValueError: if there is no site or no sample, a completeness is not from 0 to 1, or the scale is not above 0.

    Example:
        >>> weights = confirmed_weights({"a": 10, "b": 10}, {"b": 0.5}, 0.5)
        >>> round(weights["a"] / weights["b"], 3)
        2.718
    """
    if not scale > 0 or not all(0 <= value <= 1 for value in completeness.values()):
        raise ValueError(f"Expected shares from 0 to 1 and a scale above 0, but got {dict(completeness)}, {scale=}.")
    quantity = quantity_weights(num_samples)
    shares = np.array(list(quantity.values()))
    exponents = np.array([completeness.get(site, 1.0) for site in quantity]) / scale
    least = least_share / (shares**2).sum()
    weights = _weights(shares, exponents)
    if 1 / (weights**2).sum() < least:
        weights = _weights(shares, exponents / _factor(shares, exponents, least))
    return dict(zip(quantity, weights.tolist(), strict=True))


def _weights(shares: Floats, exponents: Floats) -> Floats:
    weights = shares * np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def _factor(shares: Floats, exponents: Floats, least: float) -> float:
    """The smallest factor of the scale that leaves enough sites in effect, by bisection."""
    low, high = 1.0, _LARGEST_FACTOR
    for _ in range(_STEPS):
        middle = float(np.sqrt(low * high))
        enough = 1 / (_weights(shares, exponents / middle) ** 2).sum() >= least
        low, high = (low, middle) if enough else (middle, high)
    return high
