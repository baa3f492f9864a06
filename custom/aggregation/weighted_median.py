"""Coordinate-wise weighted medians of models that wait."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from ...transforms.array_types import AnyFloats, Floats
from .counted_models import CountedModels
from .streaming_average import PIECE, as_array, stays_unchanged

# Rounding of sums of weights, as a fraction of their sum.
_SLACK = 1e-9


def weighted_median(values: AnyFloats, weights: Sequence[float]) -> Floats:
    """Return the weighted median of every coordinate (Yin et al., ICML 2018, for equal weights).

    It is the value at which half of the weight is reached; where exactly half lies below, the mean of the two values
    next to that. Less than half of the weight cannot move it beyond the others' values.

    Args:
        values: of K sites, ``(K, n)``.
        weights: theirs, ``(K,)``, at least one above 0.

    Returns:
        the medians, ``(n,)``.

    Example:
        >>> weighted_median(np.array([[1.0], [2.0], [3.0], [4.0]]), [1, 1, 1, 1]).tolist()
        [2.5]
        >>> weighted_median(np.array([[0.0], [1.0], [10.0]]), [0.2, 0.2, 0.6]).tolist()
        [10.0]
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0).astype(np.float64)
    reached = np.cumsum(np.asarray(weights, dtype=np.float64)[order], axis=0)
    half, slack = reached[-1] / 2, _SLACK * reached[-1]
    lower = np.argmax(reached >= half - slack, axis=0)
    upper = np.argmax(reached > half + slack, axis=0)
    both = np.take_along_axis(ordered, np.stack([lower, upper]), axis=0)
    return np.asarray(both.sum(axis=0) / 2, dtype=np.float64)


def median_model(
    models: CountedModels,
    reference: Mapping[str, torch.Tensor],
    block_of: Mapping[str, str],
    weights: Mapping[str, Mapping[str, float]],
) -> dict[str, torch.Tensor]:
    """Return the model of which every coordinate is the weighted median of the sites'.

    The models are read piece by piece, so that memory holds one piece of each. Integer buffers are of the site with
    most samples, then the first by name, unless at least half of the sites return them as they were. A block without
    any weight keeps the global model's values.

    Args:
        models: of the sites.
        reference: the global model.
        block_of: layer block of every entry.
        weights: by site its weight in every layer block.
    """
    sites = models.sites
    largest = min(range(len(sites)), key=lambda index: (-models.num_samples(sites[index]), index))
    medians = {}
    for name, tensor in reference.items():
        of_sites = models.entry(name)
        of_block = [weights[site][block_of[name]] for site in sites]
        if not tensor.is_floating_point():
            num_unchanged = sum(torch.equal(of_site.cpu(), tensor.cpu()) for of_site in of_sites)
            stays = stays_unchanged(num_unchanged, len(of_sites))
            medians[name] = (tensor if stays else of_sites[largest]).clone()
        elif not any(of_block):
            medians[name] = tensor.clone()
        else:
            medians[name] = _median_entry([as_array(of_site) for of_site in of_sites], of_block, tensor)
    return medians


def _median_entry(of_sites: Sequence[AnyFloats], weights: Sequence[float], reference: torch.Tensor) -> torch.Tensor:
    result = torch.empty(reference.shape, dtype=reference.dtype)
    values = result.view(-1)
    for start in range(0, len(values), PIECE):
        piece = slice(start, start + PIECE)
        values[piece] = torch.from_numpy(weighted_median(np.stack([array[piece] for array in of_sites]), weights))
    return result
