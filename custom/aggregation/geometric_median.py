"""Geometric median: the model with the least sum of distances to the sites' models, as weights of these models."""

from collections.abc import Mapping

import numpy as np

from ...transforms.array_types import Floats
from .counted_models import CountedModels
from .multi_krum import squared_distances_between
from .weighting import LayerWeights

# Of the objective, by its own size.
_SMALLEST_CHANGE = 1e-6


def weiszfeld_weights(distances: Floats, shares: Floats, *, smoothing: float, passes: int) -> Floats:
    """Return the weights by which K models make their geometric median, by smoothed Weiszfeld passes.

    Robust federated aggregation (Pillutla, Kakade, Harchaoui, IEEE TSP 2022) minimises Σ_k p_k ‖v − θ_k‖. It begins
    with v = Σ_k p_k θ_k. A pass sets β_k = p_k / max(ν, ‖v − θ_k‖) and v = Σ_k β_k θ_k / Σ_k β_k. Every v is an average
    of the models with weights α, so that ‖v − θ_k‖² = Σ_i α_i d_ik − ½ Σ_ij α_i α_j d_ij follows from the squared
    distances d between models.

    Args:
        distances: d of every layer block, ``(L, K, K)``; the norm is over all blocks together.
        shares: p of every model in every layer block, ``(K, L)``; each block's sum to 1.
        smoothing: ν, above 0.
        passes: largest number of passes. They end earlier where one changes Σ_k p_k ‖v − θ_k‖ by less than a millionth.

    Returns:
        α, ``(K, L)``. These are the given `shares` where no model is farther than ν from the others' average.

    Example:
        >>> values = np.array([0.0, 1.0, 10.0])
        >>> distances = (values[:, None] - values)[None] ** 2
        >>> alpha = weiszfeld_weights(distances, np.array([[0.2], [0.2], [0.6]]), smoothing=1e-5, passes=100)
        >>> round(float(values @ alpha[:, 0]), 3)
        10.0
    """
    total, alpha, before = shares.mean(axis=1), shares, np.inf
    for _ in range(passes):
        lengths = _lengths(distances, alpha)
        objective = float((total * lengths).sum())
        if np.all(lengths <= smoothing) or abs(before - objective) < _SMALLEST_CHANGE * objective:
            break
        pulled = shares / np.maximum(smoothing, lengths)[:, None]
        alpha, before = pulled / pulled.sum(axis=0), objective
    return alpha


def _lengths(distances: Floats, alpha: Floats) -> Floats:
    """‖v − θ_k‖ of every model, ``(K,)``, where v has the weights α."""
    to_average = np.einsum("il,lik->lk", alpha, distances)
    spread = np.einsum("lk,kl->l", to_average, alpha) / 2
    # Rounding may lead below zero where v is a model.
    return np.asarray(np.sqrt(np.maximum((to_average - spread[:, None]).sum(axis=0), 0.0)), dtype=np.float64)


def geometric_median_weights(
    models: CountedModels,
    trained: Mapping[str, str],
    weights: LayerWeights,
    *,
    smoothing: float,
    passes: int,
) -> LayerWeights:
    """Return the weights by which the sites' models make their geometric median; see :func:`weiszfeld_weights`.

    Distances are over the trained parameters. Running statistics are averaged with the same weights.

    Args:
        models: of K sites.
        trained: the layer block of every parameter over which distances are.
        weights: p of the same sites; the same object is returned where these count as they are.
        smoothing: ν.
        passes: largest number of passes.
    """
    names = {block: [name for name, of in trained.items() if of == block] for block in weights.blocks}
    distances = np.stack([squared_distances_between(models, names[block]) for block in weights.blocks])
    values = weiszfeld_weights(distances, weights.values, smoothing=smoothing, passes=passes)
    if values is weights.values:
        return weights
    values.setflags(write=False)
    return LayerWeights(weights.sites, weights.blocks, values)
