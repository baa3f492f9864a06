"""Where zero is on a template: at the strongest change, at the end of a textured object."""

import numpy as np
import pytest
from scipy.special import expit

from fedannot.custom.annotation_bias.profile.origin import origin_of

POSITIONS = np.arange(-8.0, 8.01, 0.25)


def bump(centre: float, inside: float = 0.5, outside: float = 0.5) -> np.ndarray:
    """A peak two pixels from where the texture of the object begins and that of its surroundings ends."""
    texture = (inside - 0.5) * expit(-8 * (POSITIONS + 2)) + (outside - 0.5) * expit(8 * (POSITIONS - 2))
    return 2 * np.exp(-0.5 * (POSITIONS - centre) ** 2) + 0.5 + texture


@pytest.mark.parametrize("centre", [-0.4, 0.0, 0.1, 0.45])
def test_a_peak_between_equal_surroundings_is_zero(centre):
    assert origin_of(bump(centre), POSITIONS) == pytest.approx(centre, abs=0.03)


def test_uneven_levels_do_not_move_it():
    """Distances to contours of pixels are at half pixels more often: every second level is too high."""
    uneven = bump(0.0) + np.where(np.arange(len(POSITIONS)) % 4 < 2, 0.12, 0.0)
    assert origin_of(uneven, POSITIONS) == pytest.approx(0.0, abs=0.2)


def test_what_surrounds_an_object_may_be_as_textured_as_its_boundary():
    assert origin_of(bump(0.0, inside=0.2, outside=1.5), POSITIONS) == pytest.approx(0.0, abs=0.25)


def test_texture_up_to_the_boundary_ends_where_the_step_has_half_its_height():
    step = 0.2 + 2 * expit(-4 * (POSITIONS - 1.5))
    assert origin_of(step, POSITIONS) == pytest.approx(1.5, abs=0.1)


def test_weaker_texture_moves_it_part_of_the_way():
    """T_in is half as far above T_out as the peak is, whose half height is at √(2 ln 2) pixels."""
    half_way = bump(0.0, inside=1.5, outside=0.5)
    whole = np.sqrt(2 * np.log(2))
    assert origin_of(half_way, POSITIONS) == pytest.approx(0.5 * whole, abs=0.15)


def test_levels_without_a_value_do_not_count():
    partial = bump(0.2)
    partial[:8] = np.nan
    partial[-12:] = np.nan
    assert origin_of(partial, POSITIONS) == pytest.approx(0.2, abs=0.03)
    assert origin_of(np.full(len(POSITIONS), np.nan), POSITIONS) == 0.0
    far = np.where(np.abs(POSITIONS) > 3, bump(0.2), np.nan)
    assert origin_of(far, POSITIONS) == 0.0
