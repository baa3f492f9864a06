"""The slope of a score at a run's end, against scipy's regression, and curves made by hand."""

import numpy as np
import pytest
from plain_records import summary
from scipy import stats

from fedannot.apps.reports.summary_text import conclusions
from fedannot.apps.wording.convergence import not_converged_in_words
from fedannot.custom.run.convergence import score_trend
from fedannot.custom.run.thresholds import THRESHOLDS

NOISE = np.random.default_rng(0).normal(0, 0.01, 100)


def test_slope_and_standard_error_are_those_of_the_regression() -> None:
    scores = list(0.5 + 0.01 * np.arange(20) + NOISE[:20])
    trend = score_trend(scores)
    expected = stats.linregress(np.arange(16, 21), scores[15:])
    assert (trend.first_round, trend.last_round, trend.num_scores) == (16, 20, 5)
    assert trend.slope == pytest.approx(expected.slope)
    assert trend.standard_error == pytest.approx(expected.stderr)
    assert trend.lower == pytest.approx(expected.slope - stats.t.ppf(0.95, 3) * expected.stderr)


@pytest.mark.parametrize(
    ("scores", "rising"),
    [
        (0.8 + NOISE, False),
        # A tenth of a point a round is no more than the threshold, however certain.
        (0.5 + 0.001 * np.arange(100), False),
        (0.5 + 0.004 * np.arange(100) + NOISE, True),
        # It rises as long as it is not looked at.
        (np.minimum(0.01 * np.arange(100), 0.7) + NOISE, False),
        (0.9 - 0.01 * np.arange(40), False),
        # Four scores with noise as large as the rise.
        (np.array([0.1, 0.2, 0.3, 0.4, 0.50, 0.44, 0.55, 0.49]), False),
        (np.array([0.1, 0.2, 0.3, 0.4, 0.45, 0.50, 0.56, 0.61]), True),
    ],
)
def test_only_a_curve_that_certainly_rises_has_not_converged(scores: np.ndarray, rising: bool) -> None:
    assert score_trend(list(scores)).is_rising == rising


def test_flat_noise_is_rarely_called_rising() -> None:
    """By the interval alone in one of twenty at most; the threshold makes it fewer."""
    noise = np.random.default_rng(1).normal(0.8, 0.01, (400, 40))
    assert np.mean([score_trend(list(curve)).is_rising for curve in noise]) < 0.03


def test_rounds_without_a_score_count_as_rounds() -> None:
    """Scored after every fifth of 100 rounds: 80, 85, 90, 95 and 100 lie within the last quarter but for the first."""
    scores = [0.01 * number if number % 5 == 0 else None for number in range(1, 101)]
    trend = score_trend(scores)
    assert (trend.first_round, trend.num_scores, trend.slope) == (80, 5, pytest.approx(0.01))


@pytest.mark.parametrize(
    "scores",
    [
        [],
        [0.1, 0.2, 0.3],
        [None] * 20,
        # The fourth score from the end is of the first half.
        [None, 0.1, 0.2, 0.3, 0.4, None, 0.5, None, 0.6, 0.7],
    ],
)
def test_too_few_scores_say_nothing(scores: list[float | None]) -> None:
    assert score_trend(scores) is None


def test_it_is_said_with_its_figures_and_only_then() -> None:
    trend = score_trend([0.1, 0.2, 0.3, 0.4, 0.45, 0.50, 0.56, 0.61])
    # Slope (−1.5·0.45 − 0.5·0.50 + 0.5·0.56 + 1.5·0.61) / 5.
    assert not_converged_in_words(trend, "Dice").startswith(
        "Not converged: +5.4 Dice points a round over rounds 5 to 8 (90 % interval from +5.0)."
    )
    assert not_converged_in_words(score_trend([0.5] * 8), "Dice") is None
    assert not_converged_in_words(None, "Dice") is None


def test_console_and_report_say_it() -> None:
    trend = score_trend([0.1, 0.2, 0.3, 0.4, 0.45, 0.50, 0.56, 0.61]).plain()
    assert any(line.startswith("Not converged: +5.4 Dice points") for line in conclusions(summary(score_trend=trend)))
    assert not any("onverged" in line for line in conclusions(summary()))


def test_thresholds_are_as_documented() -> None:
    assert THRESHOLDS.min_slope == 0.0025
    assert (THRESHOLDS.last_fraction, THRESHOLDS.min_scored_rounds, THRESHOLDS.interval_level) == (0.25, 4, 0.9)
