"""The graph of a site's samples, near ones of which share their labels (FedGP); nothing of it leaves the site."""

import math
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from ....transforms.array_types import Floats

# Rows of the table of all similarities that are in memory at once.
_ROWS = 1024
_TOLERANCE = 1e-12


class NeighbourGraph:
    """Every sample and its nearest others, by the cosine of their features.

    An edge has the cosine as its weight, 0 where that is negative. Of two samples it is enough that one is among the
    nearest of the other.

    Args:
        features: ``(N, D)``; a sample whose features are all 0 has no neighbours.
        num_neighbours: how many nearest ones a sample has, all others where there are fewer.

    Attributes:
        nearest: the nearest others of each sample, ``(N, K)``, the nearest first; of equal ones the first.
        weights: the symmetric weights, ``(N, N)``, with an empty diagonal.
    """

    def __init__(self, features: Floats, num_neighbours: int) -> None:
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        directions = np.divide(features, lengths, out=np.zeros_like(features), where=lengths > 0)
        count = len(features)
        width = min(num_neighbours, count - 1)
        self.nearest = np.empty((count, width), dtype=np.int64)
        cosines = np.empty((count, width))
        for first in range(0, count, _ROWS):
            rows = np.arange(first, min(first + _ROWS, count))
            similar = directions[rows] @ directions.T
            similar[rows - first, rows] = -math.inf
            self.nearest[rows] = np.argsort(-similar, axis=1, kind="stable")[:, :width]
            cosines[rows] = np.take_along_axis(similar, self.nearest[rows], axis=1)
        places = (np.repeat(np.arange(count), width), self.nearest.ravel())
        one_way = coo_array((cosines.clip(min=0.0).ravel(), places), shape=(count, count)).tocsr()
        self.weights = one_way.maximum(one_way.T)

    def propagated(self, scores: Floats, alpha: float) -> Floats:
        """Return F = (1 − α) (I − α S)⁻¹ Y with S = D^{−1/2} W D^{−1/2} (Zhou et al., NeurIPS 2003), ``(N, C)``.

        Args:
            scores: Y, 1 for the class of a sample whose label counts, else 0.
            alpha: how much a sample takes of its neighbours.
        """
        degrees = np.asarray(self.weights.sum(axis=1), dtype=np.float64)
        inverse = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
        edges: Any = self.weights.tocoo()
        scaled = edges.data * inverse[edges.row] * inverse[edges.col]
        smoothing: Any = coo_array((scaled, (edges.row, edges.col)), shape=edges.shape).tocsr()
        result = np.asarray(scores, dtype=np.float64)
        # Every pass brings it nearer by the factor α at least.
        for _ in range(math.ceil(math.log(_TOLERANCE) / math.log(alpha))):
            result = alpha * (smoothing @ result) + (1 - alpha) * scores
        return np.asarray(result, dtype=np.float64)

    def mean_nearby(self, values: Floats) -> Floats:
        """Return the mean of each sample's nearest others, ``(N, C)``; 0 where there is no other.

        Args:
            values: of the samples, ``(N, C)``.
        """
        return np.asarray(values[self.nearest].sum(axis=1) / max(self.nearest.shape[1], 1), dtype=np.float64)
