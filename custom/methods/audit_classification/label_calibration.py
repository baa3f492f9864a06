"""What scores of labels are worth at a site: how well known wrong labels are detected, and the probability of a wrong
one.

The given labels are a mixture of right and wrong ones, in the fraction of the noise level. So known wrong labels are
compared with labels of which some are wrong, too (Elkan and Noto, *Learning Classifiers from Only Positive and
Unlabeled Data*, KDD 2008).
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special

from ....transforms.array_types import Floats, Labels
from ...audit.calibration import Calibration, area_under_curve, logit_of
from .label_scores import score_labels
from .thresholds import THRESHOLDS

_SMALLEST_SCORE = 1e-6


def calibrate_scores(
    probabilities: Floats, labels: Labels, units: Sequence[str], share: float, *, seed: int
) -> Calibration:
    """Give every sample in turn a wrong label, and fit the probability of a wrong one to the score.

    Given labels are wrong in a share π. A label that is put in place of a wrong one is right by chance, in a share
    c = π / (C − 1). With f the density of scores of wrong labels and f₀ of right ones, given labels have
    g = π f + (1 − π) f₀, and those that are put in k = (1 − c) f + c f₀. The probability h = π f / g of a wrong label
    follows from k / g = (1 − c) h / π + c (1 − h) / (1 − π). It is fitted by which labels are put in, with h logistic
    in the score's logit. The AUROC of right and wrong labels, A, follows from that of k and g, which is
    (1 − c − π) A + (c + π) / 2.

    Args:
        probabilities: see :func:`fedannot.custom.methods.audit_classification.label_scores.score_labels`.
        labels: given, ``(N,)``.
        units: patient of each sample.
        share: of wrong labels among the given ones, as far as it is known; NaN where it is not.
        seed: decides the wrong labels.
    """
    num_classes = probabilities.shape[1]
    if len(labels) == 0 or num_classes < 2:
        return Calibration(None, 0)
    steps = np.random.default_rng(seed).integers(1, num_classes, size=len(labels))
    known = score_labels(probabilities, (labels + steps) % num_classes).scores
    given = score_labels(probabilities, labels).scores
    wrong = float(
        np.clip(share if math.isfinite(share) else THRESHOLDS.wrong_fractions[0], *THRESHOLDS.wrong_fractions)
    )
    by_chance = wrong / (num_classes - 1)
    if wrong + by_chance > THRESHOLDS.max_mixture:
        return Calibration(None, 0)
    auroc = (area_under_curve(known, given) - (wrong + by_chance) / 2) / (1 - wrong - by_chance)
    of_known, of_given = logit_of(known, _SMALLEST_SCORE), logit_of(given, _SMALLEST_SCORE)
    slope, intercept = _fitted(of_known, of_given, wrong, by_chance)
    return Calibration(float(np.clip(auroc, 0.0, 1.0)), len(set(units)), slope, intercept, _SMALLEST_SCORE)


def _fitted(known: Floats, given: Floats, wrong: float, by_chance: float) -> tuple[float, float]:
    """Slope and intercept of h, by the likelihood of which labels were put in."""

    def ratio(logits: Floats, parameters: Floats) -> Floats:
        h = special.expit(np.exp(parameters[0]) * logits + parameters[1])
        return np.asarray((1 - by_chance) * h / wrong + by_chance * (1 - h) / (1 - wrong))

    def loss(parameters: Floats) -> float:
        of_known, of_given = ratio(known, parameters), ratio(given, parameters)
        likely = np.log(np.maximum(of_known, 1e-12) / (1 + of_known)).sum() - np.log1p(of_given).sum()
        return float(THRESHOLDS.slope_firmness * parameters[0] ** 2 - likely)

    start = np.array([0.0, float(special.logit(wrong))])
    result = optimize.minimize(loss, start, method="L-BFGS-B", bounds=[(-3.0, 3.0), (-20.0, 20.0)])
    return float(np.exp(result.x[0])), float(result.x[1])
