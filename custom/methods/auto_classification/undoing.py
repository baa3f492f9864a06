"""What a site does about wrong labels: it changes those that are surely wrong, and corrects its loss for the rest."""

from dataclasses import dataclass

import numpy as np

from ...channel.confusion import Confusion, Floats, Labels, doubt_of_labels
from .settings import Treatment
from .sure_samples import Flags


@dataclass(frozen=True)
class Undoing:
    """What a site undoes.

    Attributes:
        labels: of each sample, given or changed, ``(N,)``.
        changed: which are changed, ``(N,)``.
        transition: T of the noise that is left in these labels, ``(C, C)``; None for a loss without correction.
    """

    labels: Labels
    changed: Flags
    transition: Floats | None


def undo(
    probabilities: Floats, labels: Labels, confusion: Confusion, *, treatment: Treatment, margin: float
) -> Undoing:
    """Return what becomes of a site's labels.

    A label is changed where another class is more probable by more than the margin, as a share of how probable that
    class is on average for the samples that seem to be of it: a model that has learnt from wrong labels is less sure of
    everything. Never more labels are changed than are wrong by the estimate: the surest ones.

    Args:
        probabilities: of the model that judged, ``(N, C)``.
        labels: given, ``(N,)``.
        confusion: the site's.
        treatment: see :class:`fedannot.custom.methods.auto_classification.settings.AutoClassificationSettings`.
        margin: likewise.
    """
    changed = np.zeros(len(labels), dtype=np.bool_)
    if treatment in ("relabel", "both"):
        doubt = doubt_of_labels(probabilities, labels) / _usual_confidence(probabilities)
        most = np.argsort(-doubt, kind="stable")[: round(confusion.noise_level * len(labels))]
        changed[most] = doubt[most] > margin
    undone = np.where(changed, probabilities.argmax(axis=1), labels)
    corrects = treatment in ("forward", "both")
    return Undoing(undone, changed, residual_transition(confusion, labels, undone) if corrects else None)


def _usual_confidence(probabilities: Floats) -> Floats:
    """The mean probability of the class that a sample seems to be of, over all samples that do, ``(N,)``."""
    seems, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    sums = np.bincount(seems, weights=confidence)
    return np.asarray((sums / np.maximum(np.bincount(seems), 1))[seems])


def residual_transition(confusion: Confusion, labels: Labels, undone: Labels) -> Floats:
    """Return T of the noise that is left when some labels are changed, ``(C, C)``.

    Of the number of samples that are given as a class and truly of another, those that were changed from the one to the
    other are no longer; they are given as what they are.

    Args:
        confusion: by the given labels.
        labels: given, ``(N,)``.
        undone: what they were changed to, ``(N,)``.
    """
    numbers = confusion.joint * len(labels)
    moved = np.zeros_like(numbers)
    np.add.at(moved, (labels, undone), 1.0)
    np.fill_diagonal(moved, 0.0)
    left = np.maximum(numbers - moved, 0.0)
    # One sample more of each class that has its label: what was not seen among so few is not impossible.
    left[np.diag_indices_from(left)] += moved.sum(axis=0) + 1.0
    return Confusion(left / left.sum(), confusion.counts).transition
