"""Weights of models by how far those of noisy sites lie from the nearest clean one (FedNoRo, DaAgg)."""

import math
from collections.abc import Collection, Mapping
from typing import Literal

import torch

from ...interface.views import WaitingModels


def model_distance(
    one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor], kind: Literal["per_tensor", "whole"]
) -> float:
    """Return the distance of two state dicts in double precision; whole numbers, such as of batches, do not count.

    Args:
        one: a state dict.
        other: another one with the same entries.
        kind: ``per_tensor`` is Σ ‖w_i − w_j‖₂ over all tensors, ``whole`` one norm of all of them.
    """
    norms = [
        float(torch.linalg.vector_norm(tensor.double() - other[name].double()))
        for name, tensor in sorted(one.items())
        if tensor.is_floating_point()
    ]
    return sum(norms) if kind == "per_tensor" else math.hypot(*norms)


def distances_to_clean(
    models: WaitingModels, noisy: Collection[str], kind: Literal["per_tensor", "whole"]
) -> dict[str, float]:
    """Return the distance of every noisy site's model to the nearest clean one's, 0 of the clean ones.

    Two models are in memory at a time. Where none is clean all distances are 0.
    """
    clean = [site for site in models.sites if site not in noisy]
    distances = dict.fromkeys(models.sites, 0.0)
    for site in models.sites:
        if site in noisy and clean:
            own = models.params(site)
            distances[site] = min(model_distance(own, models.params(other), kind) for other in clean)
    return distances


def distance_weights(num_samples: Mapping[str, int], distances: Mapping[str, float]) -> dict[str, float]:
    """Return n_i exp(−D_i / max D) of the sites, scaled to a sum of one; by quantity where all distances are 0.

    Example:
        >>> weights = distance_weights({"a": 9, "b": 9, "c": 9}, {"a": 0.0, "b": 0.0, "c": 2.5})
        >>> [round(weight, 6) for weight in weights.values()]
        [0.422319, 0.422319, 0.155362]
    """
    largest = max(distances.values()) or 1.0
    raw = {site: num_samples[site] * math.exp(-distances[site] / largest) for site in sorted(distances)}
    total = sum(raw.values())
    return {site: value / total for site, value in raw.items()}
