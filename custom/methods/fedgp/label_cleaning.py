"""Whose labels count at a site, and which classes doubtful samples are hardly of (FedGP)."""

import math
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, Floats, Labels
from .neighbour_graph import NeighbourGraph

# Of so many classes negative learning leaves two open.
_OPEN_CLASSES = 2


@dataclass(frozen=True)
class Cleaning:
    """A site's samples as a round's training takes them; nothing of it leaves the site.

    Attributes:
        trusted: whose label counts, ``(N,)``.
        unlikely: classes that a doubtful sample is hardly of, ``(N, C)``; all False of others.
        losses: cross entropy of the server's head for the labels, ``(N,)``.
    """

    trusted: Booleans
    unlikely: Booleans
    losses: Floats


def cleaned_labels(
    features: Floats,
    labels: Labels,
    heads: tuple[Floats, Floats],
    *,
    settled: Booleans,
    core_share: float,
    confidence: float,
    alpha: float,
    num_neighbours: int,
) -> Cleaning:
    """Divide a site's samples; no label is replaced.

    1. The core: the given share of each class with the smallest losses, and settled labels.
    2. Another label counts if both heads say it (cosine), and the server's with a probability above the confidence.
    3. The rest is doubtful. Label propagation, from the labels that count and of others from what both heads say, gives
       each a class that stays open.
    4. Unlikely are all classes but this one and the one that its neighbours have with the largest mean probability.

    Args:
        features: of the received model, ``(N, D)``.
        labels: given ones, ``(N,)``.
        heads: the server's and the site's own centroids, ``(C, D)`` each.
        settled: whose labels a review or the data manager has decided, ``(N,)``.
        core_share: in (0, 1].
        confidence: as above.
        alpha: of the propagation.
        num_neighbours: of the graph.
    """
    num_classes, rows = len(heads[0]), np.arange(len(labels))
    logarithms = _log_softmax(features @ heads[0].T)
    probabilities, losses = np.exp(logarithms), -logarithms[rows, labels]
    nearest = [_cosines(features, head).argmax(axis=1) for head in heads]
    agrees = (nearest[0] == labels) & (nearest[1] == labels) & (probabilities[rows, labels] > confidence)
    trusted = settled | _smallest_losses(losses, labels, core_share, num_classes) | agrees
    unlikely = np.zeros((len(labels), num_classes), dtype=bool)
    if not trusted.all():
        graph, classes = NeighbourGraph(features, num_neighbours), np.eye(num_classes)
        said = np.where(trusted[:, None], classes[labels], (classes[nearest[0]] + classes[nearest[1]]) / 2)
        is_open = classes[graph.propagated(said, alpha).argmax(axis=1)]
        # The open class has a score above all probabilities.
        scores = graph.mean_nearby(probabilities) + 2 * is_open
        order = np.argsort(scores, axis=1, kind="stable")[:, : max(num_classes - _OPEN_CLASSES, 0)]
        np.put_along_axis(unlikely, order, values=True, axis=1)
        unlikely[trusted] = False
    return Cleaning(trusted, unlikely, losses)


def _smallest_losses(losses: Floats, labels: Labels, share: float, num_classes: int) -> Booleans:
    """The share of each class's samples with the smallest losses, one at least; of equal ones the first."""
    result = np.zeros(len(labels), dtype=bool)
    for label in range(num_classes):
        members = np.flatnonzero(labels == label)
        # Rounded, so that a tenth of ten is one.
        number = math.ceil(round(share * len(members), 9))
        result[members[np.argsort(losses[members], kind="stable")[:number]]] = True
    return result


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), dtype=np.float64)


def _cosines(features: Floats, head: Floats) -> Floats:
    """Cosines up to a factor of each sample, which changes no order; of a centroid of 0 it is 0."""
    lengths = np.linalg.norm(head, axis=1)
    return np.asarray(features @ head.T / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)
