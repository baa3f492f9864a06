"""A case at a coarser scale, with its contours moved: biases larger than a curve's reach are found coarsely."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import AnyFloats, Array, Booleans, Classes, Floats
from ....transforms.surfaces import checked_spacing
from ...data.description import SiteDescription
from ...data.site_data import LoadedCase
from .contours import signed_distance
from .curves import case_curve

# A coarse image has at least so many pixels along its longest side.
_MIN_SIDE = 64


@dataclass(frozen=True)
class ProfileCase:
    """One image with its annotation; it stays at the site.

    Attributes:
        patient: the patient or volume.
        image: ``(C, H, W[, D])``.
        annotation: classes, 0 for background, 255 where nothing counts, ``(H, W[, D])``.
        spacing: size of a pixel along each axis in millimetres; None in pixels.
        ignores: whether the site's masks have ignored pixels; masks that are moved may have some at the border, too.
    """

    patient: str
    image: AnyFloats
    annotation: Classes
    spacing: tuple[float, ...] | None = None
    ignores: bool = False

    @property
    def unit(self) -> float:
        """Return the finest spacing, in millimetres; 1 in pixels."""
        return min(self.spacing) if self.spacing is not None else 1.0


def profile_cases(cases: Sequence[LoadedCase], description: SiteDescription | None = None) -> list[ProfileCase]:
    """Return the samples of loaded cases, each slice or volume by itself.

    Args:
        cases: of a site.
        description: the site's, which says whether its masks have ignored pixels; None for masks without any.
    """
    ignores = bool(getattr(description, "ignore", ()))
    return [
        ProfileCase(case.unit, image, annotation, case.spacing, ignores)
        for case in cases
        for image, annotation in zip(case.image.numpy(), case.label.numpy(), strict=True)
    ]


def num_halvings(cases: Sequence[ProfileCase]) -> int:
    """Return how often the pixel size of the first scale is halved until it is the images' own.

    Biases have to lie within ± 6 pixels of the first scale. So it has 64 to 127 pixels along the longest side.

    Raises:
        ValueError: when there is no case.
    """
    if not cases:
        raise ValueError("Expected at least one case, but there is none.")
    sides = [_longest_side(case) / case.unit for case in cases]
    # Of samples on one grid the spacings of files differ in their last bits.
    ratio = round(float(np.median(sides)) / _MIN_SIDE, 6)
    return max(0, math.floor(math.log2(max(ratio, 1.0))))


def curve_at_scale(case: ProfileCase, label: int, *, factor: int = 1, bias: float = 0.0) -> Floats | None:
    """Return the curve of a class in a case, coarsened, with its contours moved inward by the bias found so far.

    Args:
        case: the case.
        label: the class.
        factor: pixels of the image along a pixel of the scale, a power of two.
        bias: by how much its contours are too large, in millimetres, pixels without spacing.

    Returns:
        See :func:`.curves.case_curve`; levels are in pixels of the scale.
    """
    scaled = scaled_case(case, label, factor=factor, bias=bias)
    other = scaled.other if scaled.other.any() else None
    return case_curve(scaled.image, scaled.mask, other=other, spacing=scaled.spacing)


@dataclass(frozen=True)
class ScaledCase:
    """A class of a case at a coarser scale.

    Attributes:
        image: ``(C, H, W[, D])``.
        mask: the class.
        other: other classes and ignored pixels, as the mask.
        spacing: size of a pixel along each axis in millimetres, in pixels of the case without spacing.
    """

    image: AnyFloats
    mask: Booleans
    other: Booleans
    spacing: tuple[float, ...]


def scaled_case(case: ProfileCase, label: int, *, factor: int = 1, bias: float = 0.0) -> ScaledCase:
    """Return a class of a case, coarsened, with its contours moved inward; arguments as :func:`curve_at_scale`."""
    mask = case.annotation == label
    other = (case.annotation != label) & (case.annotation != 0)
    if bias:
        mask = moved_mask(mask, bias, case.spacing) & ~other
    steps = _steps(case, factor)
    if any(step > 1 for step in steps):
        mask, other = _mean_of_blocks(mask, steps) >= 0.5, _mean_of_blocks(other, steps) >= 0.5
        image: AnyFloats = np.stack([_mean_of_blocks(channel, steps) for channel in case.image])
        other &= ~mask
    else:
        image = case.image
    lengths = np.asarray(checked_spacing(case.annotation.shape, case.spacing)) * steps
    return ScaledCase(image, mask, other, tuple(lengths.tolist()))


def moved_mask(mask: Booleans, bias: float, spacing: Sequence[float] | None = None) -> Booleans:
    """Return M′ = {x : d_M(x) ≤ −bias}: a mask without its boundary bias; quick, objects may vanish or merge."""
    if not mask.any() or mask.all():
        return mask
    lengths = np.asarray(checked_spacing(mask.shape, spacing))
    inside: Booleans = signed_distance(mask, lengths / lengths.min()) <= -bias / lengths.min()
    return inside


def _longest_side(case: ProfileCase) -> float:
    lengths = checked_spacing(case.annotation.shape, case.spacing)
    return float(max(pixels * length for pixels, length in zip(case.annotation.shape, lengths, strict=True)))


def _steps(case: ProfileCase, factor: int) -> tuple[int, ...]:
    """How many pixels along each axis become one: about `factor` × the finest spacing, coarse axes stay."""
    lengths = checked_spacing(case.annotation.shape, case.spacing)
    return tuple(max(1, round(factor * case.unit / length)) for length in lengths)


def _mean_of_blocks(array: Array, steps: Sequence[int]) -> Floats:
    """Means of blocks of pixels; the last ones of a side are of what is left."""
    result: Floats = np.asarray(array, dtype=np.float64)
    for axis, step in enumerate(steps):
        starts = np.arange(0, result.shape[axis], step)
        counts = np.diff(np.append(starts, result.shape[axis]))
        sums = np.add.reduceat(result, starts, axis=axis)
        result = sums / counts.reshape([-1 if other == axis else 1 for other in range(result.ndim)])
    return result
