"""Which samples of a site are trained on, and with which labels: clean ones and pseudo-labels (FedGSCA, CAA)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ....transforms.array_types import Booleans, Floats, Labels
from .sample_selector import SMALLEST_PROBABILITY, SampleSelector, selector_coefficient

SampleLoss = Literal["ce", "mae"]

# Normalisation over a single sample says nothing.
_FEWEST_SAMPLES = 2


@dataclass(frozen=True)
class Selection:
    """A site's samples as a round's training takes them; nothing of it leaves the site but the noise level.

    Attributes:
        coefficient: τ_k, 0 where there was no selector.
        clean_probability: of each sample, ``(N,)``.
        clean: the clean subset D^c, ``(N,)``; the others are D^n.
        labels: the label of each sample, given or pseudo, ``(N,)``.
        used: what is trained on, ``(N,)``.
        pseudo: what of it has a pseudo-label, ``(N,)``.
    """

    coefficient: float
    clean_probability: Floats
    clean: Booleans
    labels: Labels
    used: Booleans
    pseudo: Booleans

    @property
    def noise_level(self) -> float:
        """The fraction of samples whose label does not look right, δ_k (Eq. 8)."""
        return float(np.mean(~self.clean))


def select_samples(
    probabilities: Floats,
    labels: Labels,
    selector: SampleSelector | None,
    *,
    smallest_noise_level: float,
    threshold: float,
    adaptive: bool,
    sample_loss: SampleLoss = "ce",
    confident_doubts: bool = False,
) -> Selection:
    """Divide a site's samples and label the noisy ones again (FedGSCA, Eq. 5 to 13).

    Without a selector, in the first round, every sample counts as clean. Where less than the smallest noise level is
    noisy all samples are trained on with their own labels; and so are they where none is clean or a single one is left.

    Args:
        probabilities: what the received model says, ``(N, C)``.
        labels: the given ones, ``(N,)``.
        selector: the global one, or the site's own.
        smallest_noise_level: δ from which labels of noisy samples are dropped.
        threshold: ζ_0 of the adaptive thresholds, or the fixed one.
        adaptive: whether each class has a threshold of its own.
        sample_loss: the loss that the selector was fitted to, see :func:`sample_losses`.
        confident_doubts: whether only samples of :func:`looks_like_another` are doubted.
    """
    everything = np.ones(len(labels), dtype=np.bool_)
    if selector is None:
        return Selection(0.0, np.ones(len(labels)), everything, labels, everything, ~everything)
    losses = sample_losses(probabilities, labels, sample_loss)
    coefficient, clean_probability = selector_coefficient(losses), selector.clean_probability(losses)
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    clean = clean_probability >= coefficient
    if confident_doubts:
        clean |= ~looks_like_another(probabilities, labels)
    as_given = Selection(coefficient, clean_probability, clean, labels, everything, ~everything)
    if not clean.any() or as_given.noise_level < smallest_noise_level:
        return as_given
    thresholds = np.full(probabilities.shape[1], threshold)
    if adaptive:
        thresholds = class_thresholds(probabilities[clean], threshold)
    pseudo = ~clean & (confidence >= thresholds[predicted])
    if np.count_nonzero(clean | pseudo) < _FEWEST_SAMPLES:
        return as_given
    return Selection(coefficient, clean_probability, clean, np.where(pseudo, predicted, labels), clean | pseudo, pseudo)


def sample_losses(probabilities: Floats, labels: Labels, kind: SampleLoss) -> Floats:
    """Return the loss of each sample, ``(N,)``, by which right labels are distinguished from wrong ones.

    Args:
        probabilities: what a model says of the samples, ``(N, C)``.
        labels: the given ones, ``(N,)``.
        kind: ``ce``, the cross entropy ℓ (FedGSCA, Sec. 3.2), at most that of a probability of 10⁻¹²; or ``mae``, one
            minus the probability of the label, half the mean absolute error: from 0 to 1, so that labels that the model
            is certainly wrong do not widen the other component.
    """
    given = probabilities[np.arange(len(labels)), labels]
    losses: Floats = -np.log(np.maximum(given, SMALLEST_PROBABILITY)) if kind == "ce" else 1 - given
    return losses


def looks_like_another(probabilities: Floats, labels: Labels) -> Booleans:
    """Return which samples look more like another class than like their label, and as much as that class's samples do.

    Another class is that where it is more probable than the label and at least as probable as it is, on average, for
    the samples labelled as it: what the confident joint of Northcutt et al., *Confident Learning*, JAIR 70, 2021,
    counts as mislabelled. A rare class that the model never predicts with confidence is so not doubted for low
    probabilities alone.

    Args:
        probabilities: what a model says of the samples, ``(N, C)``.
        labels: the given ones, ``(N,)``.

    Returns:
        ``(N,)``.
    """
    num_classes = probabilities.shape[1]
    given = probabilities[np.arange(len(labels)), labels]
    counts = np.bincount(labels, minlength=num_classes)
    thresholds = np.full(num_classes, np.inf)
    np.divide(np.bincount(labels, weights=given, minlength=num_classes), counts, out=thresholds, where=counts > 0)
    result: Booleans = np.any((probabilities >= thresholds) & (probabilities > given[:, None]), axis=1)
    return result


def class_thresholds(clean_probabilities: Floats, initial: float) -> Floats:
    """Return the threshold of each class, ζ_c = ζ_0 Avg_c / max Avg (FedGSCA, Eq. 9 and 10), ``(C,)``.

    Avg_c is the sum of the confidences with which clean samples are predicted as the class, over the number of clean
    samples: lower for classes that are rare or that the model predicts without confidence, and 0 for one that it never
    predicts.

    Args:
        clean_probabilities: what the model says of the clean samples, ``(M, C)``.
        initial: ζ_0.
    """
    predicted, confidence = clean_probabilities.argmax(axis=1), clean_probabilities.max(axis=1)
    sums = np.bincount(predicted, weights=confidence, minlength=clean_probabilities.shape[1])
    average = sums / max(len(predicted), 1)
    if average.max() == 0:
        return np.full(len(average), initial)
    thresholds: Floats = initial * average / average.max()
    return thresholds
