"""The curves of sites against each other: biases of all, and what one that lies can do."""

import numpy as np
import pytest
from lying_curves import lies
from support.disc_cases import disc_sites

from fedannot.custom.annotation_bias.profile.alignment import Template, Windows, align, boundary_of
from fedannot.custom.annotation_bias.profile.curves import LEVELS
from fedannot.custom.annotation_bias.profile.estimation import measure_curves, site_curve

BIASES = {"a": 3.0, "b": -2.0, "c": 0.0, "d": 1.5, "e": -0.5, "f": 4.0}


def bump(position: float, *, width: float = 1.2) -> np.ndarray:
    """A curve with its boundary at a level, on a slope."""
    curve = 0.6 + 2.0 * np.exp(-0.5 * ((LEVELS - position) / width) ** 2) + 0.02 * LEVELS
    return curve / curve.mean()


def curves_of(sites) -> np.ndarray:
    return np.stack([site_curve(measure_curves(cases, 1).curves) for cases in sites.values()])


def test_known_shifts_come_back():
    true = np.array([2.0, -3.1, 0.4, 5.0, -1.0])

    result = align(np.stack([bump(-bias) for bias in true]))

    np.testing.assert_allclose(result.biases, true, atol=0.05)
    assert result.correlations.min() > 0.98
    assert result.prominence > 0.3


def test_biases_move_with_the_curves():
    true = np.array([1.0, -1.0, 0.5, -2.0])

    first = align(np.stack([bump(-bias) for bias in true])).biases
    second = align(np.stack([bump(-bias - 2) for bias in true])).biases

    np.testing.assert_allclose(second - first, 2.0, atol=0.05)


def test_annotations_of_discs_have_the_bias_that_they_were_made_with():
    result = align(curves_of(disc_sites(BIASES)))

    np.testing.assert_allclose(result.biases, list(BIASES.values()), atol=0.35)


def test_one_site_alone_is_measured_against_its_own_boundary():
    result = align(bump(-2.5)[None])

    assert result.biases[0] == pytest.approx(2.5, abs=0.15)
    assert result.correlations[0] == pytest.approx(1.0)


def test_the_correlation_is_that_of_numpy_where_both_have_values():
    generator = np.random.default_rng(0)
    curve, template = generator.normal(size=len(LEVELS)), generator.normal(size=41)
    curve[40:44] = np.nan
    known = generator.random(41) < 0.8

    found = Windows.of(curve[None], 5.0).correlations(Template(template, known))[0]

    for index, shift in ((28, 0), (20, -8), (35, 7)):
        window = curve[48 + shift - 20 : 48 + shift + 21]
        both = known & np.isfinite(window)
        assert found[index] == pytest.approx(np.corrcoef(window[both], template[both])[0, 1])


def test_the_boundary_is_a_step_not_the_plateau_beside_it():
    texture = np.where(LEVELS < 1.0, 1.0 - 0.1 * LEVELS, 0.2) + 0.4 * np.exp(-0.5 * ((LEVELS - 1.0) / 0.8) ** 2)

    index, fraction = boundary_of(texture, LEVELS)

    assert texture.argmax() == 0
    assert LEVELS[index] + 0.25 * fraction == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize("number", range(len(lies())))
def test_a_site_that_lies_moves_no_other_by_more_than_a_quarter_of_a_pixel(number):
    honest = curves_of(disc_sites(BIASES))
    without = align(honest)

    together = align(np.vstack([honest, lies()[number][None]]))

    np.testing.assert_allclose(together.biases[:-1], without.biases, atol=0.25)


def test_a_lie_moves_zero_of_textured_objects_by_no_more_than_a_quarter_of_a_pixel():
    """The more the inside of objects changes the farther out zero is: a fifth site claims up to four times as much."""

    def textured(bias: float, inside: float) -> np.ndarray:
        places = LEVELS + bias
        return 0.2 + inside / (1 + np.exp(4 * (places - 1.2))) + 0.6 * np.exp(-0.5 * (places / 0.9) ** 2)

    honest = np.stack([textured(bias, 1.4) for bias in (-2.0, -1.0, 1.0, 2.0)])
    without = align(honest)
    assert without.origin > 0.5
    for inside in (0.0, 0.4, 2.4, 5.6):
        together = align(np.vstack([honest, textured(0.0, inside)]))
        assert abs(together.origin - without.origin) < 0.25
        np.testing.assert_allclose(together.biases[:-1], without.biases, atol=0.25)


def test_a_site_moves_the_template_by_no_more_than_its_part_of_the_allowed_departure():
    same = np.stack([bump(0.0)] * 5)
    windows = Windows.of(np.vstack([same, bump(0.0)[None] + np.linspace(-4, 4, len(LEVELS))]), 5.0)
    unmoved, everyone = np.full(6, 28), np.arange(6)

    template = windows.mean_at(unmoved, 2, everyone, centred=True)
    honest = windows.mean_at(unmoved, 2, everyone[:5], centred=True)

    assert np.abs(template.values - honest.values).max() <= 1.0 / 6 + 1e-9


@pytest.mark.parametrize("shape", [(0, 97), (3, 96), (97,)])
def test_curves_of_other_levels_are_refused(shape):
    with pytest.raises(ValueError, match="97"):
        align(np.ones(shape))
