"""How long a run still takes, by what its rounds have taken."""

import statistics
from collections.abc import Sequence

# The rounds that are looked at: earlier ones may have been of another stage.
_LATEST = 5


def time_left(seconds: Sequence[float], rounds: int) -> float:
    """Return the seconds that some more rounds take, the median of the latest for each.

    Args:
        seconds: what finished rounds have taken, at least one.
        rounds: how many are left.
    """
    return latest_round_seconds(seconds) * rounds


def latest_round_seconds(seconds: Sequence[float]) -> float:
    """Return the seconds that one of the latest rounds took, the median.

    Args:
        seconds: what finished rounds have taken, at least one.
    """
    return statistics.median(seconds[-_LATEST:])


def duration(seconds: float) -> str:
    """Write a time in the unit in which a person names it.

    >>> [duration(seconds) for seconds in (0.2, 40, 300, 9000, 360000)]
    ['1 s', '40 s', '5 min', '2.5 h', '4.2 days']
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / (24 * 3600):.1f} days"
