"""Medians in which every site counts once: the groups of its annotators share its vote."""

from collections.abc import Sequence

import numpy as np

# Rounding of sums of votes.
ROUNDING = 1e-9


def middle(values: Sequence[float], votes: Sequence[float]) -> float:
    """Return the median of values, each of which counts by its votes; the mean of the two middle ones of an even sum.

    Args:
        values: finite ones, at least one.
        votes: of each of them, positive.

    Example:
        >>> middle([0.0, 4.0, 4.0, 4.0, 0.2], [1.0, 1 / 3, 1 / 3, 1 / 3, 1.0])
        0.2
    """
    if len(set(votes)) <= 1:
        return float(np.median(values))
    return sum(middles(values, votes)) / 2


def middles(values: Sequence[float], votes: Sequence[float]) -> tuple[float, float]:
    """Return the two values between which half of the votes lies; where that is one value, it twice.

    Args:
        values: as above.
        votes: likewise.
    """
    order = np.argsort(values, kind="stable")
    ordered = np.asarray(values, dtype=float)[order]
    reached = np.cumsum(np.asarray(votes, dtype=float)[order])
    half = reached[-1] / 2
    lower = int(np.searchsorted(reached, half * (1 - ROUNDING)))
    upper = int(np.searchsorted(reached, half * (1 + ROUNDING), side="right"))
    return float(ordered[lower]), float(ordered[min(upper, len(ordered) - 1)])
