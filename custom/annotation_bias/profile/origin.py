"""Where zero is on the mean curve of aligned sites: at the strongest change, or where a textured object ends."""

import numpy as np

from ....transforms.array_types import Floats
from .curves import STEP

# Lengths of chords, in pixels, and how far beyond the boundary its surroundings are.
_CHORDS = (1.5, 1.75, 2.0, 2.25, 2.5)
_SURROUNDINGS = np.arange(2.5, 4.5 + STEP / 2, STEP)
_NEAREST = 0.5
_OUTWARD = np.arange(0.0, 3.0, 0.05)
# Distances to contours of pixels lie at half pixels more often than between: a mean over one pixel removes that.
_ONE_PIXEL = np.array([0.5, 1, 1, 1, 0.5]) * STEP


def origin_of(values: Floats, positions: Floats) -> float:
    """Return where zero is on a template that is centred at its image boundary, in pixels, positive outside.

    It is where the mean of several chords is largest: one chord alone lies up to a quarter of a pixel off, since
    distances to contours of pixels are not spread evenly. Texture moves it outward. Where an object is as textured as
    its boundary and what surrounds it is smooth, the curve is a step; experts draw around all of the texture, where the
    step has half its height. With T_in and T_out the mean of the curve from 2.5 to 4.5 pixels inside and outside, and
    T_0 at the boundary, it is moved by the fraction (T_in − T_out) / (T_0 − T_out) of the way to there.

    That experts do so is measured on cells of five sources. Objects drawn by a formula, with texture that ends at a
    line, would have zero up to 1.4 pixels outside that line.

    Args:
        values: the template, NaN where it has no value.
        positions: of its values, in pixels.

    Returns:
        0 for a template with fewer than two values, or none near its boundary.
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < 2:
        return 0.0
    near = np.flatnonzero(np.abs(positions) <= _NEAREST)
    chords = np.mean([chords_of(values, length) for length in _CHORDS], axis=0)
    if not np.isfinite(chords[near]).any():
        return 0.0
    best = near[int(np.argmax(np.where(np.isfinite(chords[near]), chords[near], -np.inf)))]
    around = chords[best - 1 : best + 2]
    boundary = float(positions[best]) + (STEP * vertex_of(around) if np.isfinite(around).all() else 0.0)
    return boundary + _end_of_texture(values, positions, boundary)


def _end_of_texture(values: Floats, positions: Floats, boundary: float) -> float:
    """How far beyond the boundary a textured object ends, in pixels; 0 for one that is as smooth as what is around."""
    known = np.isfinite(values)
    filled = np.interp(positions, positions[known], values[known])
    smooth = np.convolve(np.pad(filled, 2, "edge"), _ONE_PIXEL, "valid")

    def at(places: Floats | float) -> Floats:
        return np.asarray(np.interp(places, positions, smooth))

    top, inside, outside = float(at(boundary)), at(boundary - _SURROUNDINGS).mean(), at(boundary + _SURROUNDINGS).mean()
    if top <= outside or inside <= outside:
        return 0.0
    fraction = min((inside - outside) / (top - outside), 1.0)
    below = np.flatnonzero(at(boundary + _OUTWARD) <= (top + outside) / 2)
    return float(fraction * _OUTWARD[below[0]]) if len(below) else 0.0


def chords_of(values: Floats, length: float) -> Floats:
    """C(x) = T(x) − ½ (T(x − length) + T(x + length)), absent values filled in; NaN where T has none."""
    steps = round(length / STEP)
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < 2:
        return np.full(len(values), np.nan)
    filled = np.interp(np.arange(-steps, len(values) + steps), known, values[known])
    chords = filled[steps:-steps] - 0.5 * (filled[: -2 * steps] + filled[2 * steps :])
    return np.where(np.isfinite(values), chords, np.nan)


def vertex_of(values: Floats) -> float:
    """Where the parabola through three values has its maximum, in steps from the middle one."""
    before, middle, after = values.tolist()
    bend = before - 2 * middle + after
    return float(np.clip(0.5 * (before - after) / bend, -0.5, 0.5)) if bend < 0 else 0.0
