"""How far the sites' models have moved from the global one."""

from collections.abc import Mapping, Sequence

import torch

from .streaming_average import PIECE


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
    longest = max((reference[name].numel() for name in names), default=0)
    squares = torch.empty(longest, dtype=torch.float64)
    return {name: _squared_distance(params[name], reference[name], squares) for name in names}


def _squared_distance(tensor: torch.Tensor, reference: torch.Tensor, squares: torch.Tensor) -> float:
    """Make the squares in pieces that stay in the processor's cache; their sum has the bits of one over all at once."""
    if not all(of.is_cpu and of.is_contiguous() for of in (tensor, reference)):
        return float((tensor.double() - reference.double()).square().sum())
    values, of_reference = tensor.detach().view(-1), reference.detach().view(-1)
    squares = squares[: len(values)]
    for start in range(0, len(values), PIECE):
        piece = slice(start, start + PIECE)
        difference = values[piece].double() - of_reference[piece]
        torch.mul(difference, difference, out=squares[piece])
    return float(squares.sum())


def stability(squared_distances: Mapping[str, float]) -> float:
    """Return the mean squared distance of the sites' models to the global one, mean_k ‖θ_k − θ‖² (FedGSCA, Eq. 18).

    Args:
        squared_distances: ‖θ_k − θ‖² of at least one site; added in sorted order of the sites.
    """
    return sum(squared_distances[site] for site in sorted(squared_distances)) / len(squared_distances)
