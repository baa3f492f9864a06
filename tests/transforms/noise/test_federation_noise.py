import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedannot.transforms.noise.federation_noise import ContourNoise, FederationNoise

SKIN_ENLARGED = FederationNoise(25, -20, 10, 0.8)

finite = st.floats(min_value=0, max_value=1e6, allow_nan=False)


def test_parse_reads_the_papers_notation():
    assert FederationNoise.parse("M(25,-25,10,0.2)") == FederationNoise(25.0, -25.0, 10.0, 0.2)


@pytest.mark.parametrize("text", ["M(20, -20, 10, 0.2)", " M( 20,−20,10,.2 )", "M(2e1,-20.0,10,0.2)"])
def test_parse_accepts_spaces_and_other_spellings_of_numbers(text):
    assert FederationNoise.parse(text) == FederationNoise(20, -20, 10, 0.2)


def test_text_is_the_papers_notation():
    assert str(FederationNoise(25, -15, 5, 0.8)) == "M(25,-15,5,0.8)"
    assert str(ContourNoise(-12.5, 5)) == "C(-12.5,5)"


@given(finite, finite, finite, st.floats(min_value=0, max_value=1))
def test_text_reads_back_as_the_same_noise(largest, smallest, spread, probability):
    noise = FederationNoise(largest, -smallest, spread, probability)
    assert FederationNoise.parse(str(noise)) == noise


@pytest.mark.parametrize("text", ["", "M", "M()", "M(1,2,3)", "M(25,-25,10,0.2,1)", "N(25,-25,10,0.2)", "M(a,-2,1,0)"])
def test_parse_shows_what_it_found_and_what_it_expected(text):
    with pytest.raises(ValueError, match="expected M") as caught:
        FederationNoise.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("M(-1,-25,10,0.2)", "max_mean"),
        ("M(25,25,10,0.2)", "min_mean"),
        ("M(25,-25,-10,0.2)", "max_spread"),
        ("M(25,-25,10,1.2)", "probability_larger"),
        ("M(25,-25,nan,0.2)", "max_spread"),
        ("M(inf,-25,10,0.2)", "max_mean"),
    ],
)
def test_a_value_out_of_range_is_named(text, name):
    with pytest.raises(ValueError, match=name) as caught:
        FederationNoise.parse(text)
    assert repr(text) in str(caught.value)


def test_contour_noise_refuses_a_negative_spread():
    with pytest.raises(ValueError, match="found -1"):
        ContourNoise(0, -1)
    with pytest.raises(ValueError, match="found nan"):
        ContourNoise(float("nan"), 1)


def test_draw_follows_equation_one():
    sites = SKIN_ENLARGED.draw(20000, seed=3)
    means = np.array([site.mean for site in sites])
    spreads = np.array([site.spread for site in sites])
    larger = means > 0
    assert larger.mean() == pytest.approx(0.8, abs=0.01)
    # U(0, 25), U(-20, 0) and U(5, 10): mean and standard deviation of a uniform distribution.
    for values, low, high in ((means[larger], 0, 25), (means[~larger], -20, 0), (spreads, 5, 10)):
        assert values.min() >= low
        assert values.max() <= high
        assert values.mean() == pytest.approx((low + high) / 2, abs=0.25)
        assert values.std() == pytest.approx((high - low) / 12**0.5, abs=0.2)
    assert abs(np.corrcoef(means, spreads)[0, 1]) < 0.03


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**31))
def test_exact_draw_has_the_rounded_number_of_sites_that_draw_larger(num_sites, probability, seed):
    sites = FederationNoise(25, -25, 10, probability).draw(num_sites, seed, exact=True)
    assert sum(site.mean > 0 for site in sites) == round(probability * num_sites)


def test_exact_draw_gives_every_site_its_turn():
    noise = FederationNoise(25, -25, 10, 0.2)
    counts = sum(np.array([site.mean > 0 for site in noise.draw(10, seed, exact=True)], int) for seed in range(2000))
    assert np.abs(counts / 2000 - 0.2).max() < 0.04


def test_stratified_strengths_are_equal_steps_with_both_ends():
    sites = FederationNoise(20, -25, 10, 0.2).draw(10, seed=0, exact=True, stratified=0.5)
    means = np.array([site.mean for site in sites])
    assert np.sort(-means[means < 0]) == pytest.approx([12.5 + 12.5 * step / 7 for step in range(8)])
    assert np.sort(means[means > 0]) == pytest.approx([10, 20])
    assert all(5 <= site.spread <= 10 for site in sites)


def test_stratified_strengths_are_assigned_in_random_order():
    noise = FederationNoise(25, -25, 10, 1)
    orders = {tuple(np.argsort([site.mean for site in noise.draw(6, seed, stratified=0.5)])) for seed in range(50)}
    assert len(orders) > 40


def test_a_site_alone_in_its_direction_gets_the_middle():
    (site,) = FederationNoise(20, -20, 10, 1).draw(1, seed=0, exact=True, stratified=0.5)
    assert site.mean == pytest.approx(15)
    (site,) = FederationNoise(20, -20, 10, 0).draw(1, seed=0, exact=True, stratified=0)
    assert site.mean == pytest.approx(-10)


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"stratified": 0.5}, {"exact": True, "stratified": 0.0}])
def test_a_seed_gives_the_same_bits(options):
    assert SKIN_ENLARGED.draw(12, seed=7, **options) == SKIN_ENLARGED.draw(12, seed=7, **options)
    assert SKIN_ENLARGED.draw(12, seed=7, **options) != SKIN_ENLARGED.draw(12, seed=8, **options)


def test_no_noise_is_no_noise():
    assert all(site == ContourNoise(0, 0) for site in FederationNoise(0, 0, 0, 0.5).draw(6, seed=1))


def test_draw_refuses_an_empty_federation_and_a_fraction_out_of_range():
    with pytest.raises(ValueError, match="num_sites=0"):
        SKIN_ENLARGED.draw(0, seed=0)
    with pytest.raises(ValueError, match=r"stratified .* found 1\.0"):
        SKIN_ENLARGED.draw(3, seed=0, stratified=1.0)


@pytest.mark.parametrize("module", ["noise.federation_noise", "contour_bands"])
def test_the_module_starts_without_torch_and_monai(module):
    code = f"import sys, fedannot.transforms.{module}; sys.exit(bool({{'torch', 'monai'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
