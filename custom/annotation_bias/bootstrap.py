"""Intervals of a site's statistics by drawing its patients again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Floats, Indices, Labels
from .thresholds import THRESHOLDS

# What is counted at once, of all draws together: bounded memory.
MOST_COUNTS = 10**6


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
    level: float = THRESHOLDS.interval_level,
    num_draws: int = THRESHOLDS.bootstrap_draws,
) -> Interval:
    """Return a statistic of cases and its percentile interval when whole patients are drawn with replacement.

    Draws for which the statistic is not defined do not count. The order of the cases decides nothing.

    Args:
        units: patient or volume of each case, ``N``.
        statistic: of cases given by their indices, with repetitions; NaN where it is not defined.
        seed: decides the draws.
        level: fraction of draws inside the interval.
        num_draws: how many there are.

    Raises:
        ValueError: when there is no case, or the level is out of range.
    """

    def of_one(chosen: Indices) -> Floats:
        return np.array([statistic(chosen)])

    return bootstrap_intervals(units, of_one, seed=seed, level=level, num_draws=num_draws)[0]


def bootstrap_intervals(
    units: Sequence[str],
    statistics: Callable[[Indices], Floats],
    *,
    seed: int,
    level: float = THRESHOLDS.interval_level,
    num_draws: int = THRESHOLDS.bootstrap_draws,
) -> list[Interval]:
    """Return what :func:`bootstrap_interval` does of several statistics of the same draws.

    Args:
        units: patient or volume of each case, ``N``.
        statistics: of cases given by their indices ``(K,)``, as above.
        seed: decides the draws.
        level: fraction of draws inside each interval.
        num_draws: how many there are.

    Raises:
        ValueError: as above.
    """
    of_unit, draws = _drawn(units, seed, level, num_draws)
    values = np.array([statistics(np.concatenate([of_unit[unit] for unit in draw])) for draw in draws])
    of_all = statistics(np.arange(len(units)))
    return [_interval(float(value), drawn, level) for value, drawn in zip(of_all, values.T, strict=True)]


def counted_interval(
    units: Sequence[str], statistic: Callable[[Indices], Floats], *, seed: int, level: float = THRESHOLDS.interval_level
) -> Interval:
    """Return what :func:`bootstrap_interval` does of a statistic that can be had of many draws at once.

    Args:
        units: patient or volume of each case, ``N``.
        statistic: of draws ``(draws, N)``, which say how often each case is drawn; one value for each, ``(draws,)``.
        seed: decides the draws.
        level: fraction of draws inside the interval.

    Raises:
        ValueError: as above.
    """
    of_unit, draws = _drawn(units, seed, level, THRESHOLDS.bootstrap_draws)
    of_case = np.empty(len(units), dtype=np.intp)
    for number, cases in enumerate(of_unit):
        of_case[cases] = number
    at_once = max(1, MOST_COUNTS // len(units))
    values = [
        statistic(_counts(draws[start : start + at_once], len(of_unit))[:, of_case])
        for start in range(0, len(draws), at_once)
    ]
    (value,) = statistic(np.ones((1, len(units)), dtype=np.intp))
    return _interval(float(value), np.concatenate(values), level)


def median_interval(
    values: Sequence[float] | Floats, units: Sequence[str], *, seed: int, level: float = THRESHOLDS.interval_level
) -> Interval:
    """Return the median over cases and its interval over patients; see :func:`bootstrap_interval`."""
    numbers = np.asarray(values, dtype=np.float64)
    if len(set(units)) < len(units):
        return bootstrap_interval(units, lambda chosen: float(np.median(numbers[chosen])), seed=seed, level=level)
    # A case for every patient: all draws at once.
    of_unit, draws = _drawn(units, seed, level, THRESHOLDS.bootstrap_draws)
    return _interval(float(np.median(numbers)), np.median(numbers[np.concatenate(of_unit)][draws], axis=1), level)


def ratio_interval(
    parts: Sequence[float] | Floats,
    wholes: Sequence[float] | Floats,
    units: Sequence[str],
    *,
    seed: int,
    level: float = THRESHOLDS.interval_level,
) -> Interval:
    """Return Σ parts / Σ wholes over cases and its interval over patients; NaN where the whole is 0."""
    table = np.stack([np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)])
    of_unit, draws = _drawn(units, seed, level, THRESHOLDS.bootstrap_draws)
    by_unit = np.stack([table[:, cases].sum(axis=1) for cases in of_unit], axis=1)
    part, whole = by_unit[:, draws].sum(axis=2)
    ratios = np.divide(part, whole, out=np.full(len(draws), np.nan), where=whole > 0)
    total = table.sum(axis=1)
    return _interval(float(total[0] / total[1]) if total[1] > 0 else float("nan"), ratios, level)


def _drawn(units: Sequence[str], seed: int, level: float, num_draws: int) -> tuple[list[Indices], Labels]:
    """The cases of each unit in the order of their names, and which units each draw has ``(draws, units)``."""
    if not units or not 0 < level < 1:
        raise ValueError(f"Expected at least one case and a level between 0 and 1, but got {len(units)} and {level=}.")
    names = sorted(set(units))
    of_unit = [np.flatnonzero(np.array(units) == name) for name in names]
    return of_unit, np.random.default_rng(seed).integers(len(names), size=(num_draws, len(names)))


def _counts(draws: Labels, num_units: int) -> Indices:
    """How often each draw has each unit ``(draws, units)``."""
    places = np.arange(len(draws))[:, None] * num_units + draws
    return np.bincount(places.ravel(), minlength=len(draws) * num_units).reshape(len(draws), num_units)


def _interval(value: float, drawn: Floats, level: float) -> Interval:
    known = drawn[np.isfinite(drawn)]
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else (np.nan, np.nan)
    return Interval(value, float(low), float(high))
