"""How many dimensions a model's outputs seem to have around each of a site's cases (FedCorr, after Houle, 2013)."""

import numpy as np
from scipy.spatial import cKDTree

from ....transforms.array_types import Floats

NEIGHBOURS = 20
# With fewer the estimate has no variance.
FEWEST_NEIGHBOURS = 4
_EPSILON = 1e-6


def local_dimensionality(outputs: Floats, neighbours: int = NEIGHBOURS) -> Floats:
    """Return LID(x) = −k / Σ_{j ≤ k} ln(d_j / (d_k + 10⁻⁶)) of every case, ``(N,)``; NaN without neighbours enough.

    A site of no more than k cases takes all N − 1 neighbours of a case. The estimate from k of them is k m / (k − 2) on
    average where there are m dimensions, so that it is scaled to that from `neighbours`: sites of different sizes are
    compared. With fewer than four neighbours it is NaN.

    Args:
        outputs: of the model, ``(N, C)``.
        neighbours: k, of the same site, the case itself excluded.

    Example:
        >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> local_dimensionality(corners)
        array([nan, nan, nan])
    """
    number = min(neighbours, len(outputs) - 1)
    if number < FEWEST_NEIGHBOURS:
        return np.full(len(outputs), np.nan)
    # The nearest is the case itself, or one with the same output.
    distances = np.asarray(cKDTree(outputs).query(outputs, number + 1)[0])
    return of_distances(distances[:, 1:]) * _expected(neighbours) / _expected(number)


def of_distances(distances: Floats, epsilon: float = _EPSILON) -> Floats:
    """Return −k / Σ ln(d_j / (d_k + ε)), ``(N,)``; 0 where a distance is 0.

    Args:
        distances: ascending, ``(N, k)``.
        epsilon: ε.
    """
    with np.errstate(divide="ignore"):
        logarithms = np.log(distances / (distances[:, -1:] + epsilon))
    dimensions: Floats = -distances.shape[1] / logarithms.sum(axis=1)
    return dimensions


def _expected(number: int) -> float:
    """The mean of the estimate of one dimension from so many neighbours."""
    return number / (number - 2)
