"""Images and masks that do not lie on each other: the translation or flip that fits an annotation best."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import signal

from ...transforms.array_types import Floats
from ...transforms.ignored_label import IGNORED_LABEL
from .cases import PredictedCase


@dataclass(frozen=True)
class CaseShift:
    """How a case's annotation lies against what is predicted; it stays at the site.

    Attributes:
        translation: by how far the annotation lies from the prediction along each axis, in millimetres (pixels without
            spacing).
        flipped: axes along which the annotation is mirrored.
        gain: soft Dice with the prediction when translation and flip are reverted less that as it is; 0 where nothing
            fits better.
    """

    translation: tuple[float, ...]
    flipped: tuple[int, ...]
    gain: float


def case_shift(case: PredictedCase, *, largest: float, smallest_flip_gain: float = 0.2) -> CaseShift | None:
    """Find the translation, with or without flips, at which annotation and predicted foreground correlate best.

    Args:
        case: the case; all its classes count as foreground.
        largest: no translation along an axis is longer, in the unit of the spacing.
        smallest_flip_gain: a flip has to raise the soft Dice by this over the best translation: most objects look much
            the same mirrored.

    Returns:
        None where nothing is annotated or the model sees nothing.
    """
    annotated = ((case.annotation != 0) & (case.annotation != IGNORED_LABEL)).astype(np.float64)
    foreground = 1.0 - np.asarray(case.probabilities[0], dtype=np.float64)
    total = float(annotated.sum() + foreground.sum())
    if not annotated.any() or foreground.max() < 0.5:
        return None
    spacing = case.spacing or (1.0,) * annotated.ndim
    reach = tuple(int(largest // step) for step in spacing)
    straight = _best(annotated, foreground, reach)
    best = straight
    axes: tuple[int, ...] = ()
    for mirrored in _axes(annotated.ndim):
        result = _best(np.flip(annotated, mirrored), foreground, reach)
        if 2 * (result[0] - straight[0]) / total > smallest_flip_gain and result[0] > best[0]:
            best, axes = result, mirrored
    now = float((annotated * foreground).sum())
    translation = tuple(-steps * step for steps, step in zip(best[1], spacing, strict=True))
    return CaseShift(translation, axes, 2 * (best[0] - now) / total)


def _axes(num_axes: int) -> list[tuple[int, ...]]:
    """Every set of axes to be flipped but none."""
    return [axes for count in range(1, num_axes + 1) for axes in itertools.combinations(range(num_axes), count)]


def _best(mask: Floats, foreground: Floats, reach: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
    """The largest product sum of a mask moved by whole pixels and the foreground, and that movement; the shortest."""
    correlation = signal.correlate(foreground, mask, mode="full", method="fft")
    centre = [length - 1 for length in mask.shape]
    window = tuple(
        slice(max(middle - steps, 0), middle + steps + 1) for middle, steps in zip(centre, reach, strict=True)
    )
    near = correlation[window]
    middle = np.array([at - side.start for at, side in zip(centre, window, strict=True)])
    steps = np.indices(near.shape) - middle.reshape(-1, *[1] * near.ndim)
    # Rounding of the transform must not prefer one of equal places.
    tied = near >= near.max() - 1e-6 * max(near.max(), 1.0)
    length = np.where(tied, (steps**2).sum(axis=0), np.inf)
    at = np.unravel_index(length.argmin(), near.shape)
    return float(near[at]), tuple(int(steps[(axis, *at)]) for axis in range(near.ndim))
