"""What is said of a site whose annotations are all as they were, though it was to have annotation noise.

Where another seed may change something, a warning in the log says so. Else the noise that was asked for cannot be had:
the data would be called noisy and be clean, so that they are refused.
"""

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
class UnchangedSite:
    """A site whose annotations are all as they were.

    Attributes:
        site: the site's name.
        noise: what was asked for.
        num_annotations: how many annotations are as they were.
    """

    site: str
    noise: str
    num_annotations: int

    def refusal(self, reason: str) -> DataError:
        """Return the error for noise that no seed makes change anything."""
        return DataError(
            f"Site {self.site}: the noise {self.noise} changed none of {self.num_annotations} annotations: {reason}"
        )

    def warning(self, reason: str) -> None:
        """Write to the log that nothing has changed by chance."""
        _LOGGER.warning(
            "Site %s: the noise %s changed none of %d annotations: %s",
            self.site,
            self.noise,
            self.num_annotations,
            reason,
        )


def report_unchanged_protocol(
    unchanged: UnchangedSite, protocol: SiteProtocol, shapes: Sequence[Sequence[float]], *, is_empty: bool
) -> None:
    """Say why a protocol changed no mask.

    Args:
        unchanged: the site.
        protocol: the site's protocol.
        shapes: of each mask the extents ``(H, W[, D])`` that its lengths are scaled with.
        is_empty: whether no mask has any foreground.

    Raises:
        DataError: if it was not by chance.
    """
    if is_empty:
        raise unchanged.refusal("none has any foreground. Write 0 for this site.")
    discs = [protocol.discs(shape) for shape in shapes]
    largest = (max(disc.systematic for disc in discs), max(disc.random for disc in discs))
    if max(largest) < _LEAST_RADIUS:
        least = _LEAST_RADIUS / min(mask_scale(shape) for shape in shapes)
        raise unchanged.refusal(
            f"its discs have radii of at most {largest[0]:.2g} and {largest[1]:.2g} pixels in masks of this size, and "
            f"below one pixel nothing changes. Ask for lengths of at least {least:.3g}, or for {protocol.kind} without "
            "lengths, which is as small as the masks allow."
        )
    if not protocol.num_squares or largest[1] < _LEAST_RADIUS:
        part = "part is thinner" if protocol.kind == "C" else "gap is narrower"
        raise unchanged.refusal(f"no {part} than its disc. Ask for a larger one.")
    unchanged.warning("its squares fell where nothing can change. Try another seed, or more squares.")


def refuse_unchanged_completeness(unchanged: UnchangedSite, completeness: float, lesions: Sequence[int]) -> None:
    """Say why no lesion was left out.

    Args:
        unchanged: the site.
        completeness: the fraction of each mask's lesions that was to stay.
        lesions: number of lesions of each mask.

    Raises:
        DataError: always, as the same lesions would stay with any seed.
    """
    if not any(lesions):
        raise unchanged.refusal("none has a lesion. Leave the site its annotations, or ask for 1 at this site.")
    raise unchanged.refusal(
        f"they have at most {max(lesions)} lesions each, of which a fraction of {completeness:g} is all after "
        "rounding. Ask for a smaller share, or for 1 at this site."
    )


def report_unchanged_contours(
    unchanged: UnchangedSite, limit: tuple[float, float], scales: Sequence[float], *, is_empty: bool
) -> None:
    """Say why contour noise moved no contour.

    Args:
        unchanged: the site.
        limit: the largest mean and the largest spread that a site of the federation can draw, in pixels at 256×256.
        scales: of each mask the pixels that one pixel at 256×256 is.
        is_empty: whether no mask has any foreground.

    Raises:
        DataError: if it was not by chance.
    """
    if is_empty:
        unchanged.warning("none has any foreground.")
        return
    farthest = (limit[0] + _DEVIATIONS * limit[1]) * max(scales)
    if farthest < _LEAST_SHIFT:
        raise unchanged.refusal(
            f"it moves contours by {farthest:.2g} pixels at most in masks of this size. Ask for lengths "
            f"{_LEAST_SHIFT / farthest:.3g} times as large, or more."
        )
    unchanged.warning("this site drew too little to move a contour by a pixel.")


def report_unchanged_labels(unchanged: UnchangedSite, *, can_change: bool) -> None:
    """Say why no label is wrong.

    Args:
        unchanged: the site.
        can_change: whether any of the site's classes can become another one.

    Raises:
        DataError: if none can.
    """
    if not can_change:
        raise unchanged.refusal("none of its classes is confused with another. Write 0 for this site.")
    unchanged.warning("each label is drawn by itself, and none became wrong. Try another seed.")
