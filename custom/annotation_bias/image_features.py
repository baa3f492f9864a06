"""What kind of images a site has, in a few numbers that no annotation and no model decides: the site's side.

Features are of a case as the network gets it. They do not change with brightness and contrast where images are
normalised one by one, as that is nothing to the network either.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Array, Floats, SingleFloats
from ..outbound.fields import MINIMUM_CASES
from .feature_names import FEATURES

# Logarithms of what may be 0 start here, in units of the image's own contrast.
_SMALLEST = 1e-3
# Pixels that differ less from their surroundings are flat, in the same units.
_FLAT = 1e-2
_BORDER_SHARE = 8


@dataclass(frozen=True)
class ImageStatistics:
    """What leaves a site of its images.

    Attributes:
        patients: patients or volumes behind it.
        means: of each of :data:`FEATURES` over patients; NaN where withheld.
        deviations: its standard deviations between patients; as above.
    """

    patients: int
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @classmethod
    def unknown(cls) -> "ImageStatistics":
        """Return what stands for statistics that are withheld."""
        nothing = (math.nan,) * len(FEATURES)
        return cls(0, nothing, nothing)

    @property
    def is_known(self) -> bool:
        """Whether every number is there, over at least two patients."""
        numbers = (*self.means, *self.deviations)
        whole = len(self.means) == len(self.deviations) == len(FEATURES)
        return whole and self.patients > 1 and all(map(math.isfinite, numbers))

    def outbound(self) -> "ImageStatistics":
        """Return what may leave the site: numbers to the third decimal, none over fewer patients than the minimum."""
        if self.patients < MINIMUM_CASES:
            return ImageStatistics.unknown()
        # Features are of the order of 1 and may lie close together around any value.
        means, deviations = (tuple(round(number, 3) for number in numbers) for numbers in (self.means, self.deviations))
        return ImageStatistics(self.patients, means, deviations)


def image_statistics(images: Iterable[Array], units: Sequence[str]) -> ImageStatistics:
    """Return mean and standard deviation over patients of the features of a site's images.

    Args:
        images: of every case, ``(S, C, H, W[, D])``, taken one after the other.
        units: its patient or volume; a patient counts once, by the mean of the cases.

    Raises:
        ValueError: when there are not as many images as units, or an image has not two or three spatial axes.
    """
    return statistics_of_features([image_features(image) for image in images], units)


def statistics_of_features(features: Sequence[Floats], units: Sequence[str]) -> ImageStatistics:
    """Return mean and standard deviation over patients of features that are there already; see above.

    Args:
        features: of every case, as :func:`image_features` gives them.
        units: its patient or volume.

    Raises:
        ValueError: when there are not as many features as units.
    """
    if len(features) != len(units):
        raise ValueError(f"Expected as many images as units, but got {len(features)} and {len(units)}.")
    cases: dict[str, list[Floats]] = {}
    for unit, one in zip(units, features, strict=True):
        cases.setdefault(unit, []).append(one)
    if len(cases) < 2:
        return ImageStatistics.unknown()
    patients = np.array([np.mean(cases[unit], axis=0) for unit in sorted(cases)])
    return ImageStatistics(
        len(patients), tuple(patients.mean(axis=0).tolist()), tuple(patients.std(axis=0, ddof=1).tolist())
    )


def image_features(image: Array) -> Floats:
    """Return :data:`FEATURES` of one case, over all of its samples together; they stay at the site.

    Args:
        image: as the network gets it, ``(S, C, H, W[, D])``.

    Raises:
        ValueError: when there are not two or three spatial axes.
    """
    if image.ndim not in (4, 5) or image.size == 0:
        raise ValueError(f"Expected a case (S, C, H, W[, D]), but got the shape {image.shape}.")
    grey = np.asarray(image, dtype=np.float32).mean(axis=1)
    mean, deviation = float(grey.mean(dtype=np.float64)), float(grey.std(dtype=np.float64))
    # A constant case has no contrast, and its rounding errors are no detail.
    pixels = np.asarray((grey - mean) / max(deviation, _SMALLEST), dtype=np.float32)
    return np.array([mean, _log(deviation), *_intensities(pixels), *_detail(pixels), *_layout(pixels), *_colour(image)])


def _intensities(pixels: SingleFloats) -> tuple[float, float]:
    """Skewness and tails of standardised intensities."""
    return math.asinh(_moment(pixels, 3)), _log(_moment(pixels, 4))


def _detail(pixels: SingleFloats) -> list[float]:
    """What there is at each scale, and how noise and edges look; from detail below 1 px to the direction."""
    smooth = {scale: _smoothed(pixels, scale) for scale in (1, 2, 4)}
    fine = pixels - smooth[1]
    bands = [fine, smooth[1] - smooth[2], smooth[2] - smooth[4], smooth[4]]
    gradients = {scale: _gradients(smooth[scale]) for scale in (1, 2)}
    lengths = {scale: np.sqrt((gradients[scale] ** 2).sum(axis=0)) for scale in (1, 2)}
    along = np.sqrt((gradients[1] ** 2).mean(axis=tuple(range(1, gradients[1].ndim)), dtype=np.float64))
    spread = float(fine.std(dtype=np.float64))
    return [
        *(_log(float(band.std(dtype=np.float64))) for band in bands),
        _log(float(np.median(np.abs(fine)))),
        _log(_moment(fine / max(spread, _SMALLEST), 4)),
        _neighbours_correlation(fine),
        *(_log(float(lengths[scale].mean(dtype=np.float64))) for scale in (1, 2)),
        _log(float(np.quantile(lengths[1], 0.99))),
        _log(float(along[0])) - _log(float(along[1])),
    ]


def _layout(pixels: SingleFloats) -> tuple[float, float]:
    """How much brighter the border is than the centre, and the fraction of flat area."""
    inner = tuple(slice(side // _BORDER_SHARE, side - side // _BORDER_SHARE) for side in pixels.shape[1:])
    centre = pixels[:, *inner]
    outside = pixels.size - centre.size
    total, inside = float(pixels.sum(dtype=np.float64)), float(centre.sum(dtype=np.float64))
    border = (total - inside) / outside if outside else 0.0
    size = (1,) + (3,) * (pixels.ndim - 1)
    range_around = ndimage.maximum_filter(pixels, size) - ndimage.minimum_filter(pixels, size)
    return border - inside / centre.size, float((range_around < _FLAT).mean())


def _colour(image: Array) -> tuple[float, float]:
    """The first channel less the last one, and the mean spread of the channels of a pixel; 0 where there is one."""
    means = image.mean(axis=(0, *range(2, image.ndim)), dtype=np.float64)
    return float(means[0] - means[-1]), float(image.std(axis=1).mean(dtype=np.float64))


def _smoothed(pixels: SingleFloats, scale: float) -> SingleFloats:
    """Samples ``(S, H, W[, D])`` smoothed along their spatial axes."""
    return np.asarray(ndimage.gaussian_filter(pixels, (0,) + (scale,) * (pixels.ndim - 1), mode="nearest"))


def _gradients(pixels: SingleFloats) -> SingleFloats:
    """Gradient along each spatial axis, ``(2 or 3, S, H, W[, D])``; 0 along an axis of one pixel."""
    return np.stack(
        [
            np.gradient(pixels, axis=axis) if pixels.shape[axis] > 1 else np.zeros_like(pixels)
            for axis in range(1, pixels.ndim)
        ]
    )


def _neighbours_correlation(fine: SingleFloats) -> float:
    """Mean product of neighbouring pixels of the fine detail over its mean square, over the first two axes."""
    energy = float((fine**2).mean(dtype=np.float64))
    if energy < _SMALLEST**2:
        return 0.0
    products = [
        fine[:, 1:] * fine[:, :-1],
        fine[:, :, 1:] * fine[:, :, :-1],
    ]
    return float(np.mean([product.mean(dtype=np.float64) if product.size else 0.0 for product in products])) / energy


def _moment(pixels: SingleFloats, order: int) -> float:
    return float((pixels**order).mean(dtype=np.float64))


def _log(number: float) -> float:
    return math.log(number + _SMALLEST)
