"""Noise for privacy: normal numbers from the operating system's cryptographic generator, made safe against rounding.

Whoever can repeat the noise takes it away, so that it is never drawn from a seed: PyTorch's generator keeps 32 bits of
its own on the CPU, which can be tried one after the other. Nor may the last bits of a floating number show which noise
was added (Mironov, *On significance of the least significant bits for differential privacy*, CCS 2012; Jin et al., *Are
we there yet? Timing and floating-point attacks on differential privacy systems*, S&P 2022). Hence value and noise are
added relative to zero and rounded to a coarse grid before anything else is done with them: of the sum only the cell is
left, which is the Gaussian mechanism and rounding after it, but for what errors of arithmetic do to a cell.

How much that is, for σ ≥ 1 and cells of 2⁻⁹ to 2⁻⁸ standard deviations: the uniform numbers have 64 bits and, for the
radius, a relative precision of 2⁻⁵¹ down to 2⁻⁷⁶, which is a radius of 10. With functions that are right within four
units in the last place a normal number z is right within |z| 2⁻⁴⁷ or so, and this moves the border of its cell. The
probability of a cell within 10 standard deviations so differs from the exact one by less than the 2⁻³²th part of it,
on average by the 2⁻³⁵th. Of an update of a million numbers the probability differs by a factor of e^±0.0003 at most,
which adds 0.0006 to its ε; numbers beyond 10 standard deviations add less than 10⁻¹⁵ to δ. As many numbers are
computed for every value, in the same steps, so that the time says nothing of them.
"""

import math
import os
from collections.abc import Callable

import numpy as np

from ...transforms.array_types import Floats

# Returns so many random bytes. In use it is the operating system's generator; tests give one with a seed.
RandomBytes = Callable[[int], bytes]


_WORD = 2.0**-64
_CELLS_PER_DEVIATION = 2.0**8


def standard_normal(number: int, random_bytes: RandomBytes = os.urandom) -> Floats:
    """Return independent normal numbers of mean 0 and variance 1, ``(number,)``, by the method of Box and Muller.

    Twelve bytes are taken for each. The largest absolute value that can come is 13.3.

    Args:
        number: how many, from 0 up.
        random_bytes: where they come from.
    """
    pairs = (number + 1) // 2
    high, low, turn = np.frombuffer(random_bytes(24 * pairs), dtype="<u8").reshape(3, pairs)
    # In (0, 1]; the second word gives numbers near 0, which are the tails, as many digits as others.
    uniform = high.astype(np.float64) * _WORD + (low.astype(np.float64) + 1.0) * _WORD**2
    radius = np.sqrt(-2.0 * np.log(uniform))
    angle = turn.astype(np.float64) * (2.0 * math.pi * _WORD)
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:number]


def with_noise(values: Floats, deviation: float, random_bytes: RandomBytes = os.urandom) -> Floats:
    """Return values ``(N,)`` with normal noise, rounded to a grid: to a power of two, 2⁻⁹ to 2⁻⁸ of the deviation.

    The values are relative to something that is public. Rounding adds less than a part in 700,000 to the variance.

    Args:
        values: what is to be hidden.
        deviation: standard deviation of the noise, above 0.
        random_bytes: see :func:`standard_normal`.

    Raises:
        ValueError: if a value or the deviation is not finite, or the deviation is not above 0.
    """
    if not (0.0 < deviation < math.inf and np.isfinite(values).all()):
        raise ValueError(f"Expected finite values and a finite deviation above 0, but got the deviation {deviation}.")
    cell = 2.0 ** math.floor(math.log2(deviation / _CELLS_PER_DEVIATION))
    noisy: Floats = np.rint((values + deviation * standard_normal(len(values), random_bytes)) / cell) * cell
    return noisy
