"""Random displacement along a closed contour: the bias sequence of the contour evolution model (FedA³I, Sec. 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import legendre

from ..array_types import Floats

CONTROL_POINTS = 30
DEGREE = 10
MAX_REDRAWS = 50
# As many harmonics as give the periodic fit the polynomial's number of coefficients, and so its spread.
HARMONICS = DEGREE // 2


@dataclass(frozen=True)
class DisplacementCurve:
    """A displacement for every position along a closed contour.

    Attributes:
        start: where on the contour the curve begins, a fraction of its length in [0, 1).
        periodic: whether the coefficients are those of harmonics or of a polynomial.
        coefficients: ``(11,)``, pixels; Legendre series of degree 10, or mean and five cosine–sine pairs.
    """

    start: float
    periodic: bool
    coefficients: Floats

    def evaluate(self, length: int) -> Floats:
        """Displacement of every point of a contour of ``length`` points, ``(length,)``, not yet clipped."""
        index = (np.arange(length) - int(self.start * length)) % length
        if self.periodic:
            return _harmonics(index / length) @ self.coefficients
        return np.asarray(legendre.legval(2.0 * index / max(length - 1, 1) - 1.0, self.coefficients))


def draw_curve(
    generator: np.random.RandomState, mean: float, spread: float, closing_tolerance: float
) -> DisplacementCurve:
    """Draw the displacement along one contour from C(μ, σ).

    N(μ, σ²) is drawn at 30 control points at equal intervals over the whole contour, from its first to its last point,
    and a polynomial of degree 10 is fitted by least squares. If its two ends differ by ``closing_tolerance`` or more it
    is drawn again, at most 50 times; after that the last values are fitted with five harmonics, which always close.

    Args:
        generator: source of randomness; every call takes the same number of values from it.
        mean: μ in pixels.
        spread: σ in pixels.
        closing_tolerance: largest difference between first and last displacement, in pixels.
    """
    start = float(generator.uniform())
    # All draws at once: cheaper than a loop over the few that are needed, and bounded.
    values = generator.normal(mean, spread, (MAX_REDRAWS + 1, CONTROL_POINTS))
    coefficients = values @ _polynomial_fit().T
    signs = np.where(np.arange(DEGREE + 1) % 2, -1.0, 1.0)
    closed = np.abs(coefficients.sum(axis=1) - coefficients @ signs) < closing_tolerance
    if closed.any():
        return DisplacementCurve(start, False, coefficients[int(closed.argmax())])
    return DisplacementCurve(start, True, _periodic_fit() @ values[-1])


@cache
def _polynomial_fit() -> Floats:
    """Matrix from the values at the control points to the Legendre coefficients, ``(11, 30)``."""
    return np.asarray(np.linalg.pinv(legendre.legvander(np.linspace(-1.0, 1.0, CONTROL_POINTS), DEGREE)), np.float64)


@cache
def _periodic_fit() -> Floats:
    """Matrix from the values at the control points to the coefficients of the harmonics, ``(11, 30)``."""
    return np.asarray(np.linalg.pinv(_harmonics(np.arange(CONTROL_POINTS) / CONTROL_POINTS)), np.float64)


def _harmonics(position: Floats) -> Floats:
    """Constant, cosines and sines at positions given as fractions of the contour, ``(n, 11)``."""
    angles = 2.0 * np.pi * position[:, None] * np.arange(1, HARMONICS + 1)
    return np.concatenate([np.ones((len(position), 1)), np.cos(angles), np.sin(angles)], axis=1)
