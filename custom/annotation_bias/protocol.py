"""Habits that a single offset cannot describe: thin parts left out, gaps filled."""

from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Booleans, Floats
from ...transforms.surfaces import Surface
from .boundary_bias import contour_pairs
from .cases import PredictedCase

BINS = ("thin", "gap", "plain")


@dataclass(frozen=True)
class BinnedOffset:
    """The offsets of one class in one case by the place on the predicted contour; they stay at the site.

    NaN where a case has no contour of a kind.

    Attributes:
        thin: where the predicted object is thin; far below `plain` where the annotator leaves thin parts out.
        gap: where the background between two parts of it is narrow; far above `plain` where gaps are filled.
        plain: everywhere else.
    """

    thin: float
    gap: float
    plain: float


def binned_offset(case: PredictedCase, label: int, *, width: float) -> BinnedOffset | None:
    """Return the mean of −d_M over the predicted contours, by how thick the object and its gaps are there.

    Thickness is the way from the contour straight inward to the other side, a gap's width that straight outward.

    Args:
        case: the case.
        label: the class.
        width: what is narrower counts as thin or as a gap, in the unit of the spacing; twice the radius of the opening
            or closing that is looked for.

    Returns:
        None where no object matches.
    """
    values, areas, kinds = [], [], []
    for pair in contour_pairs(case, label):
        inside = pair.predicted.inside
        thin = _way(pair.predicted, inside, -1.0, width) < width
        gap = _way(pair.predicted, ~inside, 1.0, width) < width
        values.append(-pair.to_annotated)
        areas.append(pair.predicted.areas)
        kinds.append(np.where(thin, 0, np.where(gap, 1, 2)))
    if not values:
        return None
    value, area, kind = (np.concatenate(parts) for parts in (values, areas, kinds))
    known = np.isfinite(value)
    return BinnedOffset(*(_mean(value[known & (kind == index)], area[known & (kind == index)]) for index in range(3)))


def _mean(values: Floats, weights: Floats) -> float:
    return float(np.average(values, weights=weights)) if weights.sum() > 0 else float("nan")


def _way(surface: Surface, medium: Booleans, direction: float, longest: float) -> Floats:
    """How far one comes in a medium from each point of a contour along its normal; infinite for more than `longest`.

    Beyond the image's border the medium goes on.
    """
    step = 0.5 * min(surface.spacing)
    ways = np.full(len(surface.points), np.inf)
    size = np.array(medium.shape)
    # The first pixel of the medium may lie up to one pixel from the contour.
    for length in np.arange(max(surface.spacing), longest + step, step):
        places = surface.points + direction * length * surface.normals
        pixels = np.rint(places / surface.spacing).astype(np.intp)
        seen = np.all((pixels >= 0) & (pixels < size), axis=1)
        left = seen & ~medium[tuple(np.clip(pixels, 0, size - 1).T)]
        ways = np.where(left & np.isinf(ways), length, ways)
    return ways
