"""Whether the score of a run still rises at its end: the slope over the last rounds, with its standard error."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from ..records.round_records import Record
from .thresholds import THRESHOLDS


class ScoreTrend(Record):
    """The straight line through a run's last scores, by least squares.

    Attributes:
        first_round: the first of the scored rounds that it is of.
        last_round: the last of them.
        num_scores: how many there are.
        slope: of the score, a fraction, per round.
        standard_error: of the slope.
        lower: lower end of the slope's interval.
        is_rising: whether the score still rises, so that the run has not converged.
    """

    first_round: int
    last_round: int
    num_scores: int
    slope: float
    standard_error: float
    lower: float
    is_rising: bool


def score_trend(scores: Sequence[float | None]) -> ScoreTrend | None:
    """Return how the score of a run changes at its end; None with too few scores.

    The slope is b = Σ (r − r̄)(s_r − s̄) / Σ (r − r̄)² over the scored rounds r, its standard error
    √(Σ e_r² / (n − 2) / Σ (r − r̄)²) with the residuals e_r. The score still rises if b − t·SE is above the threshold,
    where t is Student's quantile with n − 2 degrees of freedom.

    Args:
        scores: the score after each round, in their order; None for a round without one.

    Example:
        >>> score_trend([0.1, 0.3, 0.5, 0.52, 0.54, 0.56, 0.58, 0.60]).is_rising
        True
        >>> score_trend([0.1, 0.3, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6]).is_rising
        False
    """
    chosen = _last_scores(scores)
    if len(chosen) < THRESHOLDS.min_scored_rounds:
        return None
    rounds, values = (np.array(column, dtype=np.float64) for column in zip(*chosen, strict=True))
    centred, count = rounds - rounds.mean(), len(chosen)
    squares = float(centred @ centred)
    slope = float(centred @ values) / squares
    residuals = values - values.mean() - slope * centred
    error = math.sqrt(float(residuals @ residuals) / (count - 2) / squares)
    lower = slope - float(stdtrit(count - 2, (1 + THRESHOLDS.interval_level) / 2)) * error
    return ScoreTrend(
        first_round=int(rounds[0]),
        last_round=int(rounds[-1]),
        num_scores=count,
        slope=slope,
        standard_error=error,
        lower=lower,
        is_rising=lower > THRESHOLDS.min_slope,
    )


def _last_scores(scores: Sequence[float | None]) -> list[tuple[int, float]]:
    """Round and score of the last rounds; with few scores of more rounds, as many as are needed."""
    scored = [(number, score) for number, score in enumerate(scores, start=1) if score is not None]
    first = len(scores) * (1 - THRESHOLDS.last_fraction)
    of_last = [pair for pair in scored if pair[0] > first]
    if len(of_last) >= THRESHOLDS.min_scored_rounds:
        return of_last
    earliest = len(scores) * (1 - THRESHOLDS.largest_fraction)
    return [pair for pair in scored if pair[0] > earliest][-THRESHOLDS.min_scored_rounds :]
