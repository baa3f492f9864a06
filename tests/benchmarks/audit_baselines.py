"""Scores of bad cases that others use, to be compared with those of the audit; larger is worse."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedannot.custom.audit.examined import ExaminedCase

TEMPERATURE = 0.1

Floats = NDArray[np.float64]


def baseline_scores(cases: Sequence[ExaminedCase], seed: int) -> dict[str, Floats]:
    """Return the scores of all baselines for the cases of one site."""
    typical = _typical_probabilities(cases)
    random = np.random.default_rng(seed).random(len(cases))
    return {
        "mean loss": np.array([_mean_loss(case) for case in cases]),
        "Dice": np.array([_dice_loss(case) for case in cases]),
        "softmin": np.array([_softmin(case) for case in cases]),
        "confident pixels": np.array([_confident_pixels(case, typical) for case in cases]),
        "random": random,
    }


def _given(case: ExaminedCase) -> Floats:
    """Probability of the given class of every pixel, ``(S, H, W[, D])``."""
    taken = np.take_along_axis(case.probabilities, case.annotation[:, None].astype(np.int64), axis=1)
    return np.asarray(taken[:, 0], dtype=np.float64)


def _mean_loss(case: ExaminedCase) -> float:
    return float(-np.log(np.maximum(_given(case), 1e-12)).mean())


def _dice_loss(case: ExaminedCase) -> float:
    """One less the mean Dice over the classes that are annotated or predicted."""
    result = []
    for label in range(1, case.num_classes + 1):
        one, other = case.annotation == label, case.predicted == label
        total = int(one.sum()) + int(other.sum())
        if total:
            result.append(2 * int((one & other).sum()) / total)
    return 1 - float(np.mean(result)) if result else 0.0


def _softmin(case: ExaminedCase) -> float:
    """Cleanlab's segmentation score: pixels' probabilities of their given class, weighted by softmax((1 − p) / 0.1)."""
    given = _given(case).ravel()
    weights = np.exp((1 - given - (1 - given).max()) / TEMPERATURE)
    return float(1 - (weights * given).sum() / weights.sum())


def _typical_probabilities(cases: Sequence[ExaminedCase]) -> Floats:
    """Mean probability of each class over the pixels that are given as it; confident learning's thresholds."""
    num = cases[0].num_classes + 1
    total, count = np.zeros(num), np.zeros(num)
    for case in cases:
        labels = case.annotation.ravel().astype(np.int64)
        total += np.bincount(labels, weights=_given(case).ravel(), minlength=num)[:num]
        count += np.bincount(labels, minlength=num)[:num]
    return np.where(count > 0, total / np.maximum(count, 1), 2.0)


def _confident_pixels(case: ExaminedCase, typical: Floats) -> float:
    """Fraction of the pixels that are confidently of another class than the given one."""
    shape = (1, -1, *(1,) * (case.probabilities.ndim - 2))
    confident = np.where(case.probabilities >= typical.reshape(shape), case.probabilities, -1.0)
    other = (confident.argmax(axis=1) != case.annotation) & (confident.max(axis=1) > 0)
    return float(other.mean())
