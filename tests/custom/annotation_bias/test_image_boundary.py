"""Edges of images seen from predicted contours, on discs whose edge is known."""

from dataclasses import replace

import numpy as np
import pytest
from predicted_cases import distance_from, round_case, sigmoid

from fedannot.custom.annotation_bias.image_boundary import estimate_edges


def with_image(case, radius, *, contrast=1.0, centre=(32, 32), spacing=(1.0, 1.0), softness=1.5):
    """A case whose image is brighter inside a radius."""
    distance = distance_from(centre, case.annotation.shape, spacing)
    return replace(case, image=contrast * sigmoid((radius - distance) / softness)[None])


def cases(offset, edge, **options):
    """Patients whose model sees a radius of 14, with an annotation and an edge that lie elsewhere."""
    return [
        with_image(round_case((32, 32), 14, offset, unit=f"patient-{index}"), 14 + edge, **options)
        for index in range(5)
    ]


@pytest.mark.parametrize("edge", [-4.0, 0.0, 2.5])
@pytest.mark.parametrize("contrast", [1.0, -300.0])
def test_the_edge_is_found_from_the_predicted_contour(edge, contrast):
    result = estimate_edges(cases(1.0, edge, contrast=contrast), 1, seed=100)
    assert result.value == pytest.approx(edge, abs=0.25)
    assert result.patients == 5


def test_the_annotation_moves_it_not():
    assert estimate_edges(cases(-3.0, 1.0), 1, seed=100) == estimate_edges(cases(4.0, 1.0), 1, seed=100)


def test_it_is_in_millimetres_where_the_spacing_is_known():
    spacing = (2.0, 2.0)
    case = round_case((64, 64), 28, 0.0, spacing=spacing)
    result = estimate_edges([with_image(case, 34, centre=(64, 64), spacing=spacing, softness=3.0)] * 3, 1, seed=100)
    assert result.value == pytest.approx(6.0, abs=0.5)


def test_the_direction_is_that_of_most_images():
    """One image has a stronger edge of the other direction elsewhere."""
    odd = with_image(round_case((32, 32), 14, 0.0, unit="odd"), 14)
    other = with_image(round_case((32, 32), 14, 0.0), 20, contrast=-1.5)
    odd = replace(odd, image=odd.image + other.image)
    result = estimate_edges([*cases(0.0, 0.0), odd, odd], 1, seed=100)
    assert result.high <= 0.25


def test_without_a_matched_object_there_is_no_estimate():
    case = with_image(round_case((32, 32), 14, 0.0), 14)
    assert not estimate_edges([replace(case, annotation=np.zeros_like(case.annotation))], 1, seed=100).is_known
    with pytest.raises(ValueError, match="none"):
        estimate_edges([replace(case, image=None)], 1, seed=100)
