"""What a site does about wrong labels: it changes those that are surely wrong, and corrects its loss for the rest."""

from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, Floats, Labels
from ...annotation_bias.confusion import Confusion, doubt_of_labels, typical_confidence
from .settings import Treatment
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class Relabelling:
    """What a site changes of its labels.

    Attributes:
        labels: of each sample, given or changed, ``(N,)``.
        changed: which are changed, ``(N,)``.
        transition: T of the noise that is left in these labels, ``(C, C)``; None for a loss without correction.
        mixed_up: given and seeming classes whose samples are left alone, ``(C, C)``; see :func:`mixed_up`.
    """

    labels: Labels
    changed: Booleans
    transition: Floats | None
    mixed_up: Booleans


def relabel(
    probabilities: Floats, labels: Labels, confusion: Confusion, *, treatment: Treatment, margin: float
) -> Relabelling:
    """Return what becomes of a site's labels.

    A label is changed where another class is more probable by more than the margin, as a fraction of how probable that
    class is on average for the samples that seem to be of it: a model that has learnt from wrong labels is less sure of
    everything. Never more labels are changed than are wrong by the estimate: the most confident ones. Labels of classes
    that the model may mix up count as right.

    Args:
        probabilities: of the reference model, ``(N, C)``.
        labels: given, ``(N,)``.
        confusion: the site's.
        treatment: see :class:`fedannot.custom.methods.auto_classification.settings.AutoClassificationSettings`.
        margin: as above.
    """
    changed = np.zeros(len(labels), dtype=np.bool_)
    seems, mixed = probabilities.argmax(axis=1), mixed_up(probabilities, labels)
    confusion = _with_right(confusion, mixed)
    if treatment in ("relabel", "both"):
        doubt = doubt_of_labels(probabilities, labels) / typical_confidence(probabilities)
        doubt[mixed[labels, seems]] = -np.inf
        most = np.argsort(-doubt, kind="stable")[: round(confusion.noise_level * len(labels))]
        changed[most] = doubt[most] > margin
    relabelled = np.where(changed, seems, labels)
    corrects = treatment in ("forward", "both")
    transition = residual_transition(confusion, labels, relabelled) if corrects else None
    return Relabelling(relabelled, changed, transition, mixed)


def mixed_up(probabilities: Floats, labels: Labels) -> Booleans:
    """Return which given classes a model may take for which seeming ones, ``(C, C)``.

    A model that has hardly learnt a class takes its samples for another one. Relabelled so, they teach it what it
    errs in, and it never learns the class. But such a class is given to many of the samples that seem to be of the
    other, while labels that are wrong at random are of all classes. Wrong labels of one class for one other cannot be
    distinguished from that where they are more than a third. It is counted and not tested: among few samples labels
    that are wrong at random are left alone, too, and a class much rarer than the other is not found.

    Args:
        probabilities: of the model, ``(N, C)``.
        labels: given, ``(N,)``.

    Example:
        >>> seems = np.eye(2)[[0, 0, 0, 0, 0, 0, 1]]
        >>> mixed_up(seems, np.array([0, 0, 0, 1, 1, 1, 1])).tolist()
        [[False, False], [True, False]]
        >>> mixed_up(seems, np.array([0, 0, 0, 0, 0, 1, 1])).any()
        np.False_
    """
    counts = np.zeros((probabilities.shape[1],) * 2, dtype=np.int64)
    np.add.at(counts, (labels, probabilities.argmax(axis=1)), 1)
    mixed = (counts >= THRESHOLDS.mixed_up_ratio * np.diag(counts)) & (counts >= THRESHOLDS.min_mixed_up)
    np.fill_diagonal(mixed, False)
    return np.asarray(mixed)


def _with_right(confusion: Confusion, mixed: Booleans) -> Confusion:
    """The confusion in which labels of classes that are mixed up are right ones."""
    joint = np.where(mixed, 0.0, confusion.joint)
    joint[np.diag_indices_from(joint)] += np.where(mixed, confusion.joint, 0.0).sum(axis=1)
    return Confusion(joint, confusion.counts)


def residual_transition(confusion: Confusion, labels: Labels, relabelled: Labels) -> Floats:
    """Return T of the noise that is left when some labels are changed, ``(C, C)``.

    Of the number of samples that are given as a class and truly of another, those that were changed from the one to the
    other are no longer; they are given as what they are.

    Args:
        confusion: by the given labels.
        labels: given, ``(N,)``.
        relabelled: what they were changed to, ``(N,)``.
    """
    numbers = confusion.joint * len(labels)
    moved = np.zeros_like(numbers)
    np.add.at(moved, (labels, relabelled), 1.0)
    np.fill_diagonal(moved, 0.0)
    left = np.maximum(numbers - moved, 0.0)
    # One sample more of each class that has its label: what was not seen among so few is not impossible.
    left[np.diag_indices_from(left)] += moved.sum(axis=0) + 1.0
    return Confusion(left / left.sum(), confusion.counts).transition
