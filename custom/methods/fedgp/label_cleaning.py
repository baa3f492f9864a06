"""Whose labels count at a site, which get another one, and which classes doubtful samples are not of (FedGP)."""

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
        labels: given ones, and others in the place of some, ``(N,)``.
        trusted: whose label counts, ``(N,)``.
        unlikely: classes that a doubtful sample is hardly of, ``(N, C)``; all False of others.
        losses: mean cross entropy of both heads for the given labels, ``(N,)``.
    """

    labels: Labels
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
    """Divide a site's samples.

    1. The core: the given share of each class with the smallest losses, and settled labels.
    2. Others get the class that is nearest by both heads (cosine), if its mean probability is above the confidence.
    3. Of the rest the given label counts where label propagation from 1 and 2 leads to it.
    4. What is left is doubtful. Unlikely are all classes but the two that most neighbours among 1 and 2 have; where
       these are equal, those with the larger propagated score.

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
    logarithms = [_log_softmax(features @ head.T) for head in heads]
    losses = np.asarray(-np.mean([of_head[rows, labels] for of_head in logarithms], axis=0), dtype=np.float64)
    core = settled | _smallest_losses(losses, labels, core_share, num_classes)
    nearest = [_cosines(features, head).argmax(axis=1) for head in heads]
    probability = np.mean([np.exp(of_head[rows, nearest[0]]) for of_head in logarithms], axis=0)
    agrees = ~core & (nearest[0] == nearest[1]) & (probability > confidence)
    cleaned = np.where(agrees, nearest[0], labels)
    known = core | agrees
    unlikely = np.zeros((len(labels), num_classes), dtype=bool)
    if known.all():
        return Cleaning(cleaned, known, unlikely, losses)
    graph = NeighbourGraph(features, num_neighbours)
    scores = graph.propagated(np.eye(num_classes)[cleaned] * known[:, None], alpha)
    keeps = ~known & (scores.argmax(axis=1) == labels) & (scores.max(axis=1) > 0)
    doubtful = ~known & ~keeps
    nearby = graph.labels_nearby(cleaned, known.astype(np.float64), num_classes)
    for index in np.flatnonzero(doubtful).tolist():
        order = np.lexsort((scores[index], nearby[index]))
        unlikely[index, order[: max(num_classes - _OPEN_CLASSES, 0)]] = True
    return Cleaning(cleaned, known | keeps, unlikely, losses)


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
