"""How well scores of a kind tell injected errors from annotations as given, and what probability they stand for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from ...transforms.array_types import Floats
from .thresholds import THRESHOLDS

SMALLEST_SCORE = 1e-3
# Of two-sided intervals of 90 %.
Z_90: float = float(stats.norm.ppf(0.95))
_NEAR = 1e-9


@dataclass(frozen=True)
class Calibration:
    """What scores of a kind are worth at a site.

    Attributes:
        auroc: probability that a case with an injected error scores higher than one as given; None without any.
        patients: number of patients whose copies had one.
        slope: of the logit of the probability against that of the score, above 0.
        intercept: as above.
        smallest_score: smaller scores count as this one, those near 1 as above.
    """

    auroc: float | None
    patients: int
    slope: float = 1.0
    intercept: float = 0.0
    smallest_score: float = SMALLEST_SCORE

    @property
    def tells(self) -> bool:
        """Whether scores may be acted on: injected errors were detected at the site, or none could be tried."""
        return (
            self.auroc is None
            or self.patients < THRESHOLDS.min_calibrated_patients
            or self.auroc >= THRESHOLDS.min_auroc
        )

    def probability(self, score: float) -> float | None:
        """Return the probability that a reviewer would change the annotation, rising with the score.

        None where nothing tells: no injected error could be tried in five patients, or scores did not see them.
        """
        if self.auroc is None or self.patients < THRESHOLDS.min_calibrated_patients or not self.tells:
            return None
        return self.fitted(score)

    def fitted(self, score: float) -> float:
        """Return the fitted probability, also where too little is known to show it."""
        return float(special.expit(self.slope * logit_of(np.array(score), self.smallest_score) + self.intercept))


def calibrate(
    known: Floats,
    chosen: Sequence[int],
    given: Floats,
    *,
    patients: int,
    threshold: float,
    doubts: Floats | None = None,
) -> Calibration:
    """Fit the probability of an error to a score: logistic in the score's logit, rising, errors with a prior share.

    Annotations as given count as right, but for the doubts; the few that are not make the probability a little too low.

    Args:
        known: scores of the cases with injected errors, ``(n,)``.
        chosen: which cases these are, ``n`` places in those that are given.
        given: scores of all cases as they were given, ``(m,)``.
        patients: number of patients of the cases with injected errors.
        threshold: score from which on a case is a finding.
        doubts: probability that a case as given has such an error, ``(m,)``; None of none.
    """
    if not len(known):
        return Calibration(None, 0)
    right = np.ones(len(given)) if doubts is None else 1 - doubts
    auroc = _area_under_weighted_curve(known, given[list(chosen)], right[list(chosen)])
    scores = logit_of(np.concatenate([known, given, given]))
    wrong = np.concatenate([np.ones(len(known)), np.zeros(len(given)), np.ones(len(given))])
    per_given = (1 - THRESHOLDS.prior) / len(given)
    weights = np.concatenate(
        [np.full(len(known), THRESHOLDS.prior / len(known)), per_given * right, per_given * (1 - right)]
    )
    weights *= len(known) + len(given)

    start = float(special.logit(THRESHOLDS.probability_at_threshold) - logit_of(np.array(threshold)))

    def loss(parameters: Floats) -> float:
        logits = np.exp(parameters[0]) * scores + parameters[1]
        misfit = np.logaddexp(0.0, np.where(wrong == 1, -logits, logits))
        firmness = THRESHOLDS.calibration_firmness * (parameters[0] ** 2 + (parameters[1] - start) ** 2 / 4)
        return float((weights * misfit).sum() + firmness)

    result = optimize.minimize(loss, np.array([0.0, start]), method="L-BFGS-B", bounds=[(-3.0, 3.0), (-20.0, 20.0)])
    return Calibration(auroc, patients, float(np.exp(result.x[0])), float(result.x[1]))


def area_under_curve(wrong: Floats, right: Floats) -> float:
    """Return the probability that a wrong case scores higher than a right one, ties by half; 0.5 without any."""
    if not len(wrong) or not len(right):
        return 0.5
    return float(stats.mannwhitneyu(wrong, right).statistic) / (len(wrong) * len(right))


def auroc_interval(auroc: float, positives: int, negatives: int, *, z: float = Z_90) -> tuple[float, float]:
    """Return the interval of an AUROC by Newcombe's score method: all values from which it is not ``z`` errors away.

    Unlike Wald's, it has a width at an AUROC of 1. With one of each it is Wilson's interval of a proportion of one.

    References:
        Newcombe (2006), Statistics in Medicine 25, 559-573, method 5.

    Args:
        auroc: the estimate, from 0 to 1.
        positives: number of patients with an injected error, at least 1.
        negatives: number of patients without, at least 1.
        z: quantile of the normal distribution; by default of an interval of 90 %.
    """
    extra = (positives + negatives) / 2 - 1

    def distance(value: float) -> float:
        spread = 1 + extra * ((1 - value) / (2 - value) + value / (1 + value))
        return (auroc - value) ** 2 - z * z * value * (1 - value) * spread / (positives * negatives)

    # At 0 and 1 the estimate itself is a root, which is not the end that is looked for.
    low = 0.0 if auroc == 0 else optimize.brentq(distance, 0.0, min(auroc, 1 - _NEAR))
    high = 1.0 if auroc == 1 else optimize.brentq(distance, max(auroc, _NEAR), 1.0)
    return float(low), float(high)


def _area_under_weighted_curve(wrong: Floats, right: Floats, weights: Floats) -> float:
    """The same where right cases count by weights."""
    above = (wrong[:, None] > right).astype(np.float64) + 0.5 * (wrong[:, None] == right)
    total = float(weights.sum())
    return float((above.mean(axis=0) * weights).sum()) / total if total > 0 else 0.5


def logit_of(scores: Floats, smallest: float = SMALLEST_SCORE) -> Floats:
    """Return the logits of scores, of which none is taken for certain.

    Args:
        scores: from 0 to 1.
        smallest: what smaller scores count as; those near 1 as above.
    """
    return np.asarray(special.logit(np.clip(scores, smallest, 1 - smallest)))
