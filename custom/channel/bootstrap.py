"""Intervals of a site's statistics by drawing its patients again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]

LEVEL = 0.9
NUM_DRAWS = 999


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


def bootstrap_interval(
    units: Sequence[str],
    statistic: Callable[[Indices], float],
    *,
    seed: int,
    level: float = LEVEL,
    num_draws: int = NUM_DRAWS,
) -> Interval:
    """Return a statistic of cases and its percentile interval when whole patients are drawn with replacement.

    Draws for which the statistic is not defined do not count. The order of the cases decides nothing.

    Args:
        units: patient or volume of each case, ``N``.
        statistic: of cases given by their indices, with repetitions; NaN where it is not defined.
        seed: decides the draws.
        level: share of draws inside the interval.
        num_draws: how many there are.

    Raises:
        ValueError: when there is no case, or the level is out of range.
    """
    if not units or not 0 < level < 1:
        raise ValueError(f"Expected at least one case and a level between 0 and 1, but got {len(units)} and {level=}.")
    names = sorted(set(units))
    of_unit = [np.flatnonzero(np.array(units) == name) for name in names]
    generator = np.random.default_rng(seed)
    draws = generator.integers(len(names), size=(num_draws, len(names)))
    values = np.array([statistic(np.concatenate([of_unit[unit] for unit in draw])) for draw in draws])
    known = values[np.isfinite(values)]
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else (np.nan, np.nan)
    return Interval(float(statistic(np.arange(len(units)))), float(low), float(high))


def median_interval(
    values: Sequence[float] | NDArray[np.float64], units: Sequence[str], *, seed: int, level: float = LEVEL
) -> Interval:
    """Return the median over cases and its interval over patients; see :func:`bootstrap_interval`."""
    numbers = np.asarray(values, dtype=np.float64)
    return bootstrap_interval(units, lambda chosen: float(np.median(numbers[chosen])), seed=seed, level=level)


def ratio_interval(
    parts: Sequence[float] | NDArray[np.float64],
    wholes: Sequence[float] | NDArray[np.float64],
    units: Sequence[str],
    *,
    seed: int,
    level: float = LEVEL,
) -> Interval:
    """Return Σ parts / Σ wholes over cases and its interval over patients; NaN where the whole is 0."""
    part, whole = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)

    def ratio(chosen: Indices) -> float:
        total = float(whole[chosen].sum())
        return float(part[chosen].sum()) / total if total > 0 else float("nan")

    return bootstrap_interval(units, ratio, seed=seed, level=level)
