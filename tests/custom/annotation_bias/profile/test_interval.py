"""How certain a site's boundary bias is: its patients drawn again."""

import numpy as np
import pytest
from scipy import stats

from fedannot.custom.annotation_bias.profile.alignment import Template, align
from fedannot.custom.annotation_bias.profile.curves import LEVELS
from fedannot.custom.annotation_bias.profile.interval import half_width, standard_error


def bump(position: float) -> np.ndarray:
    curve = 0.6 + 2.0 * np.exp(-0.5 * ((LEVELS - position) / 1.2) ** 2)
    return curve / curve.mean()


TEMPLATE = Template(bump(0.0)[28:69] - bump(0.0)[28:69].mean(), np.ones(41, dtype=bool))


def test_equal_patients_leave_the_error_that_draws_do_not_show():
    error = standard_error([bump(1.0)] * 6, list("abcdef"), TEMPLATE, seed=0)

    assert error == 0.0
    assert half_width(error, 6, is_alone=False) == pytest.approx(stats.t.ppf(0.95, 5) * 0.2)
    assert half_width(error, 6, is_alone=True) == pytest.approx(stats.t.ppf(0.95, 5) * 0.6)


def test_it_is_the_spread_of_means_over_patients():
    generator = np.random.default_rng(1)
    positions = generator.normal(scale=0.8, size=12)

    error = standard_error([bump(p) for p in positions], [f"p{n}" for n in range(12)], TEMPLATE, seed=0)

    # A mean of bumps lies about where the mean of their places is.
    assert error == pytest.approx(positions.std(ddof=1) / np.sqrt(12), rel=0.35)


def test_cases_of_a_patient_are_drawn_together():
    curves = [bump(p) for p in (-1.0, 1.0) for _ in range(5)]

    apart = standard_error(curves, [f"p{n}" for n in range(10)], TEMPLATE, seed=0)
    together = standard_error(curves, ["a"] * 5 + ["b"] * 5, TEMPLATE, seed=0)

    assert together > 2 * apart


def test_one_patient_has_no_interval():
    error = standard_error([bump(0.0)], ["a"], TEMPLATE, seed=0)
    assert np.isinf(error)
    assert np.isinf(half_width(error, 1, is_alone=False))


def test_a_seed_gives_the_same_bits():
    curves = [bump(p) for p in (-1.0, 0.0, 2.0)]
    template = align(np.stack(curves)).templates[0]

    assert standard_error(curves, list("abc"), template, seed=3) == standard_error(
        curves, list("abc"), template, seed=3
    )


def test_patients_of_another_number_are_refused():
    with pytest.raises(ValueError, match="patient of each"):
        standard_error([bump(0.0)], ["a", "b"], TEMPLATE, seed=0)
