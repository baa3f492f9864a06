"""Whether annotation noise that a site was to have has changed anything, and what is to be done if it has not."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....transforms.errors import DataError
from ....transforms.noise.site_protocol import SiteProtocol, mask_scale
from ....transforms.printable import printable_logger

_LOGGER = printable_logger(__name__)

# A disc below one pixel, and a contour that moves by less than half of one, change no mask.
_LEAST_RADIUS, _LEAST_SHIFT = 1.0, 0.5
# Of a normal distribution nearly all lies within so many standard deviations.
_DEVIATIONS = 3


@dataclass(frozen=True)
class NoEffect:
    """Why noise can have changed nothing at a site.

    Attributes:
        reason: what was found, and what to do.
        by_chance: whether another seed may change something; if not, what was asked for cannot be had.
    """

    reason: str
    by_chance: bool


def report_no_effect(site: str, noise: str, num_annotations: int, why: NoEffect) -> None:
    """Warn of a site whose annotations are all as they were by chance.

    Args:
        site: the site's name.
        noise: what was asked for.
        num_annotations: how many annotations are as they were.
        why: how that came.

    Raises:
        DataError: if it was not by chance: the data would be called noisy and be clean.
    """
    text = f"Site {site}: the noise {noise} changed none of {num_annotations} annotations: {why.reason}"
    if not why.by_chance:
        raise DataError(text)
    _LOGGER.warning("%s", text)


def protocol_without_effect(protocol: SiteProtocol, shapes: Sequence[Sequence[int]], *, is_empty: bool) -> NoEffect:
    """Say why a protocol changed no mask.

    Args:
        protocol: the site's protocol.
        shapes: of each mask the shape ``(H, W[, D])``.
        is_empty: whether no mask has any foreground.
    """
    if is_empty:
        return NoEffect("none has any foreground. Write 0 for this site.", by_chance=False)
    discs = [protocol.discs(shape) for shape in shapes]
    largest = (max(disc.systematic for disc in discs), max(disc.random for disc in discs))
    if max(largest) < _LEAST_RADIUS:
        least = _LEAST_RADIUS / min(mask_scale(shape) for shape in shapes)
        return NoEffect(
            f"its discs have radii of at most {largest[0]:.2g} and {largest[1]:.2g} pixels in masks of this size, and "
            f"below one pixel nothing changes. Ask for lengths of at least {least:.3g}, or for {protocol.kind} without "
            "lengths, which is as small as the masks allow.",
            by_chance=False,
        )
    if not protocol.num_squares or largest[1] < _LEAST_RADIUS:
        part = "part is thinner" if protocol.kind == "C" else "gap is narrower"
        return NoEffect(f"no {part} than its disc. Ask for a larger one.", by_chance=False)
    return NoEffect("its squares fell where nothing can change. Try another seed, or more squares.", by_chance=True)


def completeness_without_effect(completeness: float, lesions: Sequence[int]) -> NoEffect:
    """Say why no lesion was left out.

    Args:
        completeness: the fraction of each mask's lesions that was to stay.
        lesions: number of lesions of each mask.
    """
    result = (
        f"they have at most {max(lesions)} lesions each, of which a fraction of {completeness:g} is all after "
        "rounding. Ask for a smaller share"
        if any(lesions)
        else "none has a lesion. Leave the site its annotations"
    )
    return NoEffect(f"{result}, or for 1 at this site.", by_chance=False)


def contour_noise_without_effect(limit: tuple[float, float], scales: Sequence[float], *, is_empty: bool) -> NoEffect:
    """Say why contour noise moved no contour.

    Args:
        limit: the largest mean and the largest spread that a site of the federation can draw, in pixels at 256×256.
        scales: of each mask the pixels that one pixel at 256×256 is.
        is_empty: whether no mask has any foreground.
    """
    if is_empty:
        return NoEffect("none has any foreground.", by_chance=True)
    farthest = (limit[0] + _DEVIATIONS * limit[1]) * max(scales)
    if farthest < _LEAST_SHIFT:
        return NoEffect(
            f"it moves contours by {farthest:.2g} pixels at most in masks of this size. Ask for lengths "
            f"{_LEAST_SHIFT / farthest:.3g} times as large, or more.",
            by_chance=False,
        )
    return NoEffect("this site drew too little to move a contour by a pixel.", by_chance=True)


def mislabelling_without_effect(*, can_change: bool) -> NoEffect:
    """Say why no label is wrong.

    Args:
        can_change: whether any of the site's classes can become another one.
    """
    if can_change:
        return NoEffect("each label is drawn by itself, and none became wrong. Try another seed.", by_chance=True)
    return NoEffect("none of its classes is confused with another. Write 0 for this site.", by_chance=False)
