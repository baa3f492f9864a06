"""Multi-Krum: which models of a round lie close to the others."""

from collections.abc import Collection, Sequence

import numpy as np

from ...transforms.array_types import Floats
from .counted_models import CountedModels
from .streaming_average import PIECE, as_array


def krum_scores(distances: Floats, byzantine: int) -> Floats:
    """Return each model's sum of squared distances to its K − f − 2 nearest others (Blanchard et al., NeurIPS 2017).

    Args:
        distances: squared ones between K models, ``(K, K)``.
        byzantine: f, how many sites may lie; at least 2f + 3 models are needed.

    Raises:
        ValueError: if there are fewer.

    Example:
        >>> values = np.array([0, 1, 3, 3.5, 20])
        >>> krum_scores((values[:, None] - values) ** 2, byzantine=1).tolist()
        [10.0, 5.0, 4.25, 6.5, 561.25]
    """
    number = len(distances)
    if number < 2 * byzantine + 3:
        raise ValueError(f"Expected at least {2 * byzantine + 3} models for f = {byzantine}, but got {number}.")
    others = np.where(np.eye(number, dtype=bool), np.inf, distances)
    return np.asarray(np.sort(others, axis=1)[:, : number - byzantine - 2].sum(axis=1), dtype=np.float64)


def chosen_models(
    models: CountedModels, trained: Collection[str], *, byzantine: int, kept: int | None
) -> tuple[str, ...]:
    """Return the sites whose models have the smallest scores, sorted by name; equal ones in the order of the names.

    Args:
        models: of K sites.
        trained: the parameters over which distances are.
        byzantine: f of :func:`krum_scores`.
        kept: how many models; None for K − f.
    """
    scores = krum_scores(squared_distances_between(models, trained), byzantine)
    number = len(scores) - byzantine if kept is None else min(kept, len(scores))
    nearest = np.argsort(scores, kind="stable")[:number]
    return tuple(models.sites[index] for index in sorted(nearest))


def squared_distances_between(models: CountedModels, trained: Collection[str]) -> Floats:
    """Return ‖θ_i − θ_k‖² of every two models over the named parameters, ``(K, K)``, read piece by piece."""
    number = len(models.sites)
    distances = np.zeros((number, number))
    for name in sorted(trained):
        arrays: Sequence[np.ndarray] = [as_array(tensor) for tensor in models.entry(name)]
        for start in range(0, len(arrays[0]), PIECE):
            values = np.stack([array[start : start + PIECE] for array in arrays]).astype(np.float64)
            for index in range(number - 1):
                distances[index, index + 1 :] += np.square(values[index + 1 :] - values[index]).sum(axis=1)
    return distances + distances.T
