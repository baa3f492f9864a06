"""Whether a run has converged, in words."""

from ...custom.run.convergence import ScoreTrend
from ...custom.run.thresholds import THRESHOLDS


def not_converged_in_words(trend: ScoreTrend | None, label: str) -> str | None:
    """Return that a run's score still rises at its end; None if it does not, or nothing is known of it.

    Args:
        trend: of the run's summary.
        label: how the score is called, ``Dice``.
    """
    if trend is None or not trend.is_rising:
        return None
    level = 100 * THRESHOLDS.interval_level
    return (
        f"Not converged: {100 * trend.slope:+z.1f} {label} points a round over rounds {trend.first_round} to "
        f"{trend.last_round} ({level:z.0f} % interval from {100 * trend.lower:+z.1f}). "
        "Train for more rounds: --set rounds=..."
    )
