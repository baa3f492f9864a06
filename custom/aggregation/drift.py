"""How far the sites' models have moved from the global one."""

from collections.abc import Mapping, Sequence

import torch


def squared_distance(
    params: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], names: Sequence[str]
) -> float:
    """Return ‖θ_k − θ‖² over the named entries of two state dicts, summed in double precision.

    Example:
        >>> squared_distance({"weight": torch.tensor([1.0, 2.0])}, {"weight": torch.zeros(2)}, ["weight"])
        5.0
    """
    return sum(squared_distances(params, reference, names).values())


def squared_distances(
    params: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], names: Sequence[str]
) -> dict[str, float]:
    """Return the same of every named entry by itself, in the order of the names."""
    return {name: float((params[name].double() - reference[name].double()).square().sum()) for name in names}


def stability(squared_distances: Mapping[str, float]) -> float:
    """Return the mean squared distance of the sites' models to the global one, mean_k ‖θ_k − θ‖² (FedGSCA, Eq. 18).

    Args:
        squared_distances: ‖θ_k − θ‖² of at least one site; added in sorted order of the sites.
    """
    return sum(squared_distances[site] for site in sorted(squared_distances)) / len(squared_distances)
