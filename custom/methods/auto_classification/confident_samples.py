"""A site's noise level and confusion of classes, by the samples of which a model is most confident."""

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.spatial import cKDTree

from ....transforms.array_types import Booleans, Floats, Indices, Labels
from ....transforms.noise.class_noise import ClassNoise
from ...annotation_bias.bootstrap import ratio_interval
from ...annotation_bias.confusion import Confusion, doubt_of_labels
from ...annotation_bias.error_injection import UNTRIED, Calibration
from ...annotation_bias.estimate import Estimate
from .thresholds import THRESHOLDS

_SMALLEST_PROBABILITY = 1e-12


def most_confident_samples(probabilities: Floats, share: float) -> Booleans:
    """Return the most confident samples of those that seem to be of each class, at least one of each, ``(N,)``.

    Which they are the labels do not decide. An early model is often wrong where it is not sure, and its errors would be
    counted as wrong labels; of each class as large a share is taken, so that difficult classes count.

    Args:
        probabilities: ``(N, C)``.
        share: of the samples that seem to be of a class.
    """
    seems, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    chosen = np.zeros(len(probabilities), dtype=np.bool_)
    for label in np.unique(seems):
        of_class = np.flatnonzero(seems == label)
        count = max(1, round(share * len(of_class)))
        chosen[of_class[np.argsort(-confidence[of_class], kind="stable")[:count]]] = True
    return chosen


def confident_confusion(probabilities: Floats, labels: Labels, share: float) -> Confusion:
    """Return how given labels relate to the classes that the most confident samples seem to be of.

    Args:
        probabilities: of a model that has hardly learnt the labels' errors, ``(N, C)``.
        labels: given, ``(N,)``.
        share: see :func:`most_confident_samples`.

    Raises:
        ValueError: if there is no sample.
    """
    if len(labels) == 0 or len(labels) != len(probabilities):
        raise ValueError(f"Expected a label for each of {len(probabilities)} samples, at least one; got {len(labels)}.")
    confident, num_classes = most_confident_samples(probabilities, share), probabilities.shape[1]
    counts = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(counts, (labels[confident], probabilities[confident].argmax(axis=1)), 1)
    return Confusion(counts / counts.sum(), counts)


def estimate_noise_level(
    probabilities: Floats, labels: Labels, units: Sequence[str], share: float, *, seed: int
) -> Estimate:
    """Return the fraction of wrong labels among the most confident samples, with its interval over patients and
    calibration.

    Args:
        probabilities: see :func:`confident_confusion`.
        labels: given, ``(N,)``.
        units: patient of each sample.
        share: see :func:`most_confident_samples`.
        seed: decides interval and calibration.
    """
    confident = most_confident_samples(probabilities, share)
    wrong = probabilities[confident].argmax(axis=1) != labels[confident]
    of_confident = [unit for unit, is_confident in zip(units, confident, strict=True) if is_confident]
    interval = ratio_interval(wrong.astype(np.float64), np.ones(len(wrong)), of_confident, seed=seed)
    estimate = Estimate.of_interval(len(set(of_confident)), interval)
    return calibrate_noise_level(probabilities[confident], labels[confident], seed=seed).of(estimate)


def estimate_support(
    probabilities: Floats, labels: Labels, units: Sequence[str], share: float, *, seed: int
) -> Estimate:
    """Return in which fraction of the doubted labels other patients' samples that look alike side with the model.

    A model that does not know a site's images, as of another scanner, is often sure of a wrong class; but then samples
    that look alike to it have the same given label, and side with that. Wrong labels are given at random or for single
    samples, and those that look alike have the label that the model expects. Doubted are the most confident samples
    whose label is another class than they seem to be of; where both sides have as many neighbours, that is half.

    Args:
        probabilities: as for :func:`estimate_noise_level`.
        labels: given, ``(N,)``.
        units: patient of each sample.
        share: see :func:`most_confident_samples`.
        seed: decides the interval.
    """
    seems = probabilities.argmax(axis=1)
    doubted = np.flatnonzero(most_confident_samples(probabilities, share) & (seems != labels))
    if len(doubted) == 0:
        return Estimate.unknown()
    sides = []
    for sample, others in zip(doubted, look_alikes(probabilities, units, doubted, THRESHOLDS.neighbours), strict=True):
        given = labels[others]
        sides.append((1 + np.sign(np.sum(given == seems[sample]) - np.sum(given == labels[sample]))) / 2)
    of_doubted = [units[int(index)] for index in doubted]
    interval = ratio_interval(np.array(sides), np.ones(len(sides)), of_doubted, seed=seed)
    return Estimate.of_interval(len(set(of_doubted)), interval)


def look_alikes(probabilities: Floats, units: Sequence[str], samples: Indices, count: int) -> list[Indices]:
    """Return for each of some samples the other patients' samples that look most alike to the model, by their indices.

    Args:
        probabilities: of classes, ``(N, C)``; the spread of each class's logarithm is one unit of distance.
        units: patient of each sample.
        samples: which are asked for, ``(M,)``.
        count: so many at most for each.
    """
    of_patient = np.unique(np.asarray(units, dtype=str), return_inverse=True)[1]
    scaled = _scaled(np.log(np.maximum(probabilities, _SMALLEST_PROBABILITY)))
    asked = min(len(scaled), count + int(np.bincount(of_patient).max()))
    near = cKDTree(scaled).query(scaled[samples], k=asked)[1].reshape(len(samples), asked)
    return [
        others[of_patient[others] != of_patient[sample]][:count] for sample, others in zip(samples, near, strict=True)
    ]


def _scaled(features: Floats) -> Floats:
    spread = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def calibrate_noise_level(probabilities: Floats, labels: Labels, *, seed: int) -> Calibration:
    """Mislabel a fifth of the most confident samples, any class as any other, and see what becomes of it.

    The slope is by how much the noise level rises, over by how much it would if every label that was taken for right
    were right. Samples that were mislabelled are distinguished from the others by how much more probable another class
    is than their label. If that is hardly possible, so many labels look wrong already that the model may be what is
    wrong.

    Args:
        probabilities: of the most confident samples, ``(M, C)``.
        labels: given, ``(M,)``.
        seed: decides samples and labels.
    """
    # MONAI takes 2 s, and only a site that estimates needs it.
    from ....transforms.noise.mislabel import Mislabel  # noqa: PLC0415

    given = Mislabel(ClassNoise("symmetric", THRESHOLDS.injected_noise), probabilities.shape[1]).set_random_state(
        seed=seed
    )(labels)
    known = given != labels
    seems = probabilities.argmax(axis=1)
    before, after = (float(np.mean(seems != item)) for item in (labels, given))
    if not known.any() or known.all() or before == 1:
        return UNTRIED
    doubt = doubt_of_labels(probabilities, given)
    auroc = stats.mannwhitneyu(doubt[known], doubt[~known]).statistic / (known.sum() * (~known).sum())
    return Calibration((after - before) / (float(known.mean()) * (1 - before)), float(auroc))
