import numpy as np
import pytest

from fedannot.custom.annotation_bias.profile.object_size import mean_radius, object_radius
from fedannot.custom.annotation_bias.profile.scales import ProfileCase


def ball(radius, spacing):
    """Where the middle of a pixel lies within the radius."""
    shape = [2 * round(radius / step) + 9 for step in spacing]
    axes = np.indices(shape) - np.array([length // 2 for length in shape]).reshape(-1, *[1] * len(shape))
    return sum((step * axis) ** 2 for step, axis in zip(spacing, axes, strict=True)) <= radius**2


@pytest.mark.parametrize(
    ("radius", "spacing"), [(9, (1, 1)), (20, (1, 1)), (6, (0.5, 0.5)), (9, (1, 1, 1)), (12, (1, 1, 3))]
)
def test_the_radius_of_discs_and_balls_is_theirs(radius, spacing):
    assert object_radius(ball(radius, spacing), spacing) == pytest.approx(radius, rel=0.08)


def test_objects_at_the_border_and_several_of_them_count_alike():
    one = ball(9, (1, 1))
    assert object_radius(np.hstack([one, one]), None) == pytest.approx(object_radius(one, None))
    assert object_radius(np.ones((12, 12), dtype=bool), None) == pytest.approx(6, rel=0.1)


def test_the_mean_is_over_cases_that_have_the_class():
    masks = [ball(4, (1, 1)), ball(8, (1, 1)), np.zeros((9, 9), dtype=bool)]
    cases = [ProfileCase("p", np.zeros((1, *mask.shape)), mask.astype(np.uint8), None) for mask in masks]
    assert mean_radius(cases, 1) == pytest.approx(6, rel=0.08)
    assert np.isnan(mean_radius(cases, 2))
