"""How an annotation could lie on what is predicted: the best shift or flip, found on a coarser grid where images are
large."""

from dataclasses import dataclass, replace

import numpy as np

from ...transforms.array_types import AnyFloats, Floats, SingleFloats
from ..annotation_bias.cases import PredictedCase
from ..annotation_bias.shift import case_shift
from .case_errors import Movement

# Pixels along an axis that are enough to find a shift of a tenth of the image.
_MOST_PIXELS = {2: 128, 3: 40}
# An annotation lies off by at most this fraction of the image.
LARGEST_SHARE = 0.4
# Of thumbnails of images and of volumes.
THUMBNAIL_SIDES = {2: 32, 3: 16}


@dataclass(frozen=True)
class Alignment:
    """How well annotation and prediction agree as they are, and when the annotation is moved.

    Attributes:
        dice: soft Dice as it is, of anything annotated and anything predicted.
        gain: by how much it rises with the movement, at least 0.
        movement: that mends the annotation, in its pixels.
        confidence: mean probability of the predicted foreground in it, from 0.5 to 1.
    """

    dice: float
    gain: float
    movement: Movement
    confidence: float


def alignment(case: PredictedCase) -> Alignment | None:
    """Return how well a case's annotation lies, and how it would lie better.

    Args:
        case: the whole case, all its classes count as foreground.

    Returns:
        None where nothing is annotated or the model sees nothing.
    """
    factors = tuple(-(-length // _MOST_PIXELS[case.annotation.ndim]) for length in case.annotation.shape)
    coarse = case if max(factors) == 1 else _coarse(case, factors)
    largest = LARGEST_SHARE * max(coarse.annotation.shape)
    shift = case_shift(coarse, largest=largest)
    if shift is None:
        return None
    annotated = (coarse.annotation != 0) & (coarse.annotation != 255)
    foreground = 1 - np.asarray(coarse.probabilities[0], dtype=np.float64)
    dice = 2 * float(foreground[annotated].sum()) / float(annotated.sum() + foreground.sum())
    # What lies off by so much is moved back; whole pixels of the coarse grid.
    steps = tuple(-round(length) * factor for length, factor in zip(shift.translation, factors, strict=True))
    confident = foreground[foreground >= 0.5]
    return Alignment(dice, max(shift.gain, 0.0), Movement(shift.flipped, steps), float(confident.mean()))


def _coarse(case: PredictedCase, factors: tuple[int, ...]) -> PredictedCase:
    """The case with means over blocks of pixels, in pixels of that size."""
    foreground = _block_means(1 - np.asarray(case.probabilities[0], dtype=np.float64), factors)
    annotated = _block_means(((case.annotation != 0) & (case.annotation != 255)).astype(np.float64), factors)
    return replace(
        case,
        annotation=(annotated >= 0.5).astype(np.uint8),
        probabilities=np.stack([1 - foreground, foreground]),
        spacing=None,
        image=None,
    )


def _block_means(values: Floats, factors: tuple[int, ...]) -> Floats:
    """Means over blocks; the last ones are filled with zeros."""
    padding = [(0, -length % factor) for length, factor in zip(values.shape, factors, strict=True)]
    padded = np.pad(values, padding)
    shape = [
        number for length, factor in zip(padded.shape, factors, strict=True) for number in (length // factor, factor)
    ]
    return np.asarray(padded.reshape(shape).mean(axis=tuple(range(1, 2 * values.ndim, 2))))


def thumbnail(values: AnyFloats, side: int) -> SingleFloats:
    """Return an image or volume as means over as many equal parts along each axis, flat: ``(side ** d,)``."""
    # PyTorch is there whenever a model has predicted.
    import torch  # noqa: PLC0415

    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[None, None]
    pool = torch.nn.functional.adaptive_avg_pool2d if values.ndim == 2 else torch.nn.functional.adaptive_avg_pool3d
    return np.asarray(pool(tensor, side).numpy().ravel())


def thumbnail_dice(one: SingleFloats, other: SingleFloats) -> float:
    """Return the Dice of two thumbnails; 1 of two empty ones."""
    total = float(one.sum() + other.sum())
    return 2 * float(np.minimum(one, other).sum()) / total if total > 0 else 1.0


def thumbnail_containment(one: SingleFloats, other: SingleFloats) -> float:
    """Return which fraction of the smaller of two thumbnails the other one has; 0 where one is empty."""
    smaller = min(float(one.sum()), float(other.sum()))
    return min(float(np.minimum(one, other).sum()) / smaller, 1.0) if smaller > 0 else 0.0
