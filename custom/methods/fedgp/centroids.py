"""A site's class centroids: those that it trains with, and those that leave it (FedGP)."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import layer_norm

from ...outbound.values import OutboundValues
from ..fedhac.class_means import reported_means
from .outbound import CENTROID_PATIENTS, CENTROIDS


def as_head(centroids: torch.Tensor) -> torch.Tensor:
    """Return centroids as rows of a last layer: each with mean 0 and variance 1 over its features, ``(C, D)``.

    It is the layer normalisation that the authors' graph network begins with. Without it products with the longest
    centroid are the largest of all samples, as features are positive, and most classes are never predicted.

    Example:
        >>> as_head(torch.tensor([[1.0, 3.0], [10.0, 30.0], [5.0, 5.0]])).round(decimals=3).tolist()
        [[-1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]
    """
    return layer_norm(centroids, centroids.shape[1:])


class OwnCentroids(nn.Module):
    """p_c, of which the last layer of the site is made, and the mean feature of each class over a round.

    In training p_c goes half of the way to the mean of the class in every batch that has it. So a batch counts half,
    and p_c itself stays at the site. When the round is over it becomes the mean over the whole round, which may leave.

    Args:
        num_classes: C.
        num_features: D.

    Attributes:
        rows: p, ``(C, D)``.
        known: which classes have one, ``(C,)``.
    """

    rows: torch.Tensor
    known: torch.Tensor

    def __init__(self, num_classes: int, num_features: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(num_classes, num_features))
        self.register_buffer("known", torch.zeros(num_classes, dtype=torch.bool))
        self._sums = torch.zeros(num_classes, num_features, dtype=torch.float64)
        self._counts = torch.zeros(num_classes, dtype=torch.float64)
        # Looked at when the round is over, as a GPU would have to be waited for.
        self._samples: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def add(self, features: torch.Tensor, labels: torch.Tensor, samples: torch.Tensor) -> None:
        """Add the samples of a batch whose labels count, as the network saw them before its step.

        Args:
            features: ``(B, D)``.
            labels: ``(B,)``.
            samples: which of the site's samples each is, ``(B,)``.
        """
        if not len(labels):
            return
        has = labels.long()[None] == torch.arange(len(self.rows), device=labels.device)[:, None]
        # Not by products: what is not finite in one class would be in all.
        sums = torch.where(has[:, :, None], features.double(), 0.0).sum(dim=1)
        counts = has.sum(dim=1).double()
        means = (sums / counts.clamp(min=1)[:, None]).float()
        moved = torch.where(self.known[:, None], (self.rows + means) / 2, means)
        self.rows = torch.where(counts[:, None] > 0, moved, self.rows)
        self.known = self.known | (counts > 0)
        self._sums, self._counts = self._sums.to(sums) + sums, self._counts.to(sums) + counts
        self._samples.append((samples, has))

    def or_else(self, rows: torch.Tensor) -> torch.Tensor:
        """Return p as rows of a last layer, and given rows of the classes without one, ``(C, D)``."""
        return torch.where(self.known[:, None], as_head(self.rows), rows)

    def finish_round(self) -> None:
        """Let p be the means over the round, of classes that it had."""
        means = (self._sums / self._counts.clamp(min=1)[:, None]).float()
        has = self._counts > 0
        self.rows = torch.where(has[:, None].to(self.rows.device), means.to(self.rows.device), self.rows)

    def report(self, units: Sequence[str]) -> OutboundValues:
        """Return the means over the round and the patients behind each; leaves the site.

        A class with fewer patients than the minimum count, or with a mean that is not finite or too large for the
        server, is NaN, with 0 patients. Without any class there is nothing.

        Args:
            units: the patient of each of the site's samples.
        """
        means = (self._sums / self._counts.clamp(min=1)[:, None]).float()
        values, patients = reported_means(means, self._samples, units)
        return {CENTROIDS: values, CENTROID_PATIENTS: patients} if any(patients) else {}
