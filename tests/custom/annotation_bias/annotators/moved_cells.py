"""Cells whose contours annotators have moved by known numbers of pixels."""

import numpy as np
from scipy import ndimage

from fedannot.custom.annotation_bias.annotators.case_annotations import CaseAnnotations


def disc(radius, centre=(24, 24), size=48):
    rows, columns = np.mgrid[:size, :size]
    return (np.hypot(rows - centre[0], columns - centre[1]) <= radius).astype(np.uint8)[None]


def moved(mask, pixels):
    """A mask with its contour moved outward, by SciPy's distances and nothing of the product."""
    inside = mask > 0
    distance = ndimage.distance_transform_edt(~inside) - ndimage.distance_transform_edt(inside)
    return (distance + np.where(inside, 0.5, -0.5) <= pixels - 1e-9).astype(np.uint8)


def annotated_discs(biases, count=6):
    """Cases with a disc each, annotated by everybody with their own bias."""
    radii = np.random.default_rng(1).uniform(8, 13, count)
    return [
        CaseAnnotations(f"p{n}", tuple(biases), tuple(disc(radius + bias) for bias in biases.values()))
        for n, radius in enumerate(radii)
    ]
