"""When the fit to given masks slows down: a curve through the IoU of a class over the rounds (ADELE)."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from ....transforms.array_types import Floats

# Before the first rise from round to round by as much there is nothing to fit.
FIRST_RISE = 0.1
# As many points as the curve has parameters.
_FEWEST_POINTS = 3
# Standard deviation of the first point and of the last: late ones count more.
_DEVIATIONS = (1.0, 0.1)


@dataclass(frozen=True)
class IouCurve:
    """f(x) = a (1 − exp(−x^b / c)), with a and b from 0 to 1, and c from 0.

    Example:
        >>> IouCurve(0.9, 1.0, 5.0).slows_down_at(0.9, last=20), IouCurve(0.9, 1.0, 5.0).slows_down_at(0.9, last=12)
        (13, None)
    """

    a: float
    b: float
    c: float

    @classmethod
    def fit(cls, values: Sequence[float]) -> "IouCurve | None":
        """Fit a curve to the IoU at x = 0, 1, 2, …; NaN where none is known. None without three, or if no fit is found.

        Residuals are divided by standard deviations that fall geometrically from 1 to 0.1.
        """
        every = np.asarray(values, dtype=np.float64)
        known = np.isfinite(every)
        if known.sum() < _FEWEST_POINTS:
            return None
        x, y = np.arange(len(every), dtype=np.float64)[known], every[known]
        deviations = np.geomspace(*_DEVIATIONS, len(x))

        def residuals(parameters: Floats) -> Floats:
            return (_curve(x, *parameters) - y) / deviations

        result = least_squares(residuals, np.ones(3), bounds=([0, 0, 0], [1, 1, np.inf]), max_nfev=1000)
        return cls(*map(float, result.x)) if result.success and np.isfinite(result.x).all() else None

    def slows_down_at(self, change: float, last: int) -> int | None:
        """Return the first whole t up to `last` with |f'(1) − f'(t)| / |f'(1)| > r; None without one.

        f' falls, so that this is ln f'(t) − ln f'(1) = (b − 1) ln t − (t^b − 1) / c < ln(1 − r).

        Args:
            change: r.
            last: the last t that is looked at.
        """
        if min(self.a, self.b, self.c) <= 0:
            # f is constant.
            return None
        bound = math.log1p(-change)
        return next((t for t in range(2, last + 1) if self._log_slope(t) < bound), None)

    def _log_slope(self, t: int) -> float:
        return (self.b - 1) * math.log(t) - (math.pow(t, self.b) - 1) / self.c


def from_first_rise(values: Sequence[float]) -> Sequence[float]:
    """Return the IoU from the round before the first rise of at least 0.1 on; nothing before there is one.

    >>> from_first_rise([0.0, 0.05, 0.3, 0.4])
    [0.05, 0.3, 0.4]

    Args:
        values: round by round; NaN where none is known, between which nothing rises.
    """
    pairs = enumerate(itertools.pairwise(values))
    # Differences such as 0.4 − 0.3 are rounded.
    start = next((index for index, (one, other) in pairs if other - one >= FIRST_RISE - 1e-12), None)
    return [] if start is None else values[start:]


def is_to_be_corrected(values: Sequence[float], change: float) -> bool:
    """Return whether the IoU of a class has slowed down by now.

    Args:
        values: round by round, from the start model on.
        change: r.
    """
    rising = from_first_rise(values)
    curve = IouCurve.fit(rising)
    return curve is not None and curve.slows_down_at(change, len(rising) - 1) is not None


def _curve(x: Floats, a: float, b: float, c: float) -> Floats:
    # The limit c = 0 may be taken: 0 / 0 at x = 0 is no value of the curve, and what is infinite is a.
    with np.errstate(over="ignore"):
        result: Floats = -a * np.expm1(-(x**b) / max(c, np.finfo(np.float64).tiny))
    return result
