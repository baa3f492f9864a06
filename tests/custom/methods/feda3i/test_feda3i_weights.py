"""Weights by quality and their combination: worked by hand, and properties of any federation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.aggregation.weighting import quantity_weights
from fedannot.custom.methods.feda3i.weights import layer_coefficients, layer_weights, noise_strength, quality_weights

# Two classes; the sums over classes are a: 9 and 2, b: 6 and 3, c: 2 and 6, d: 1 and 9, e: 3 and 4 (inner and outer).
DIFFICULTY = {
    "a": [4.0, 5.0, 1.0, 1.0],
    "b": [2.0, 4.0, 2.0, 1.0],
    "c": [1.0, 1.0, 2.0, 4.0],
    "d": [0.5, 0.5, 4.0, 5.0],
    "e": [1.0, 2.0, 2.0, 2.0],
}
LARGER, SMALLER = ("a", "b"), ("c", "d", "e")
SAMPLES = {"e": 10, "d": 20, "c": 30, "b": 40, "a": 50, "u": 50}


@st.composite
def federations(draw):
    """Noise strengths, the groups, and numbers of samples of sites, some of them without an estimate."""
    known = draw(st.integers(1, 8))
    unknown = draw(st.integers(0, 3))
    strengths = draw(st.lists(st.floats(-5, 5, width=32), min_size=known, max_size=known))
    membership = draw(st.lists(st.booleans(), min_size=known, max_size=known))
    samples = draw(st.lists(st.integers(1, 1000), min_size=known + unknown, max_size=known + unknown))
    names = [f"site-{index}" for index in range(known + unknown)]
    larger = [name for name, member in zip(names, membership, strict=False) if member]
    smaller = [name for name in names[:known] if name not in larger]
    return dict(zip(names, strengths, strict=False)), larger, smaller, dict(zip(names, samples, strict=True))


def test_hand_worked_example_of_equations_5_to_7():
    strength = noise_strength(DIFFICULTY, LARGER, SMALLER)
    assert strength == {"a": 7.0, "b": 3.0, "c": 4.0, "d": 8.0, "e": 1.0}

    quantity = quantity_weights(SAMPLES)
    assert quantity == {
        "a": 0.25, "b": 0.2, "c": 0.15, "d": 0.1, "e": 0.05, "u": 0.25
    }  # fmt: skip

    # margins max s - s_i: a 0, b 4 (sum 4); c 4, d 0, e 7 (sum 11); the site without an estimate keeps 1/4
    rest, balance = Fraction(3, 4), Fraction(2, 5)
    expected = {
        "a": Fraction(0),
        "b": rest * balance,
        "c": rest * (1 - balance) * Fraction(4, 11),
        "d": Fraction(0),
        "e": rest * (1 - balance) * Fraction(7, 11),
        "u": Fraction(1, 4),
    }
    quality = quality_weights(strength, LARGER, SMALLER, quantity, balance=0.4)
    assert quality == pytest.approx({site: float(weight) for site, weight in expected.items()}, abs=1e-15)

    coefficients = layer_coefficients(3)
    np.testing.assert_array_equal(coefficients, [0.0, 0.5, 1.0])
    weights = layer_weights(quality, quantity, ("stem", "middle", "head"), coefficients)
    assert weights.sites == ("a", "b", "c", "d", "e", "u")
    assert weights.blocks == ("stem", "middle", "head")
    share = {site: Fraction(count, 200) for site, count in SAMPLES.items()}
    table = [[float((1 - j) * share[i] + j * expected[i]) for j in (0, Fraction(1, 2), 1)] for i in weights.sites]
    np.testing.assert_allclose(weights.values, table, atol=1e-15)
    effective = 1 / sum(Fraction(weight) ** 2 for weight in share.values())
    assert weights.effective_sites[0] == pytest.approx(float(effective))
    assert weights.of("u") == pytest.approx({"stem": 0.25, "middle": 0.25, "head": 0.25})


def test_intra_only_normalises_over_both_groups():
    strength = noise_strength(DIFFICULTY, LARGER, SMALLER)
    quantity = quantity_weights(dict.fromkeys(DIFFICULTY, 1))
    weights = quality_weights(strength, LARGER, SMALLER, quantity, intra_only=True)
    assert weights == pytest.approx({"a": 0, "b": 4 / 15, "c": 4 / 15, "d": 0, "e": 7 / 15})


@pytest.mark.parametrize(
    ("strength", "larger", "smaller", "expected"),
    [
        ({"a": 3.0}, ["a"], [], {"a": 1.0}),  # one site
        ({"a": 3.0, "b": 1.0}, ["a"], ["b"], {"a": 0.5, "b": 0.5}),  # two groups of one
        ({"a": 3.0, "b": 1.0}, ["a", "b"], [], {"a": 0.0, "b": 1.0}),  # all in one group
        ({"a": 2.0, "b": 2.0, "c": 2.0}, [], ["a", "b", "c"], {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}),  # identical
        ({"a": 5.0, "b": 2.0, "c": 1.0}, ["a"], ["b", "c"], {"a": 0.5, "b": 0.0, "c": 0.5}),  # group of one
    ],
)
def test_groups_without_a_denominator(strength, larger, smaller, expected):
    quantity = quantity_weights(dict.fromkeys(strength, 7))
    assert quality_weights(strength, larger, smaller, quantity) == pytest.approx(expected)


def test_intra_only_is_uniform_where_no_group_has_a_margin():
    weights = quality_weights({"a": 1.0, "b": 4.0}, ["a"], ["b"], {"a": 0.3, "b": 0.5, "u": 0.2}, intra_only=True)
    assert weights == pytest.approx({"a": 0.4, "b": 0.4, "u": 0.2})


def test_no_site_with_an_estimate_leaves_the_quantity_weights():
    assert quality_weights({}, [], [], {"u": 0.25, "v": 0.75}) == {"u": 0.25, "v": 0.75}


@given(federations(), st.floats(0, 1), st.booleans(), st.integers(1, 12))
def test_every_block_sums_to_one(federation, balance, intra_only, num_blocks):
    strength, larger, smaller, samples = federation
    quantity = quantity_weights(samples)
    quality = quality_weights(strength, larger, smaller, quantity, balance=balance, intra_only=intra_only)
    blocks = [f"block-{index}" for index in range(num_blocks)]
    weights = layer_weights(quality, quantity, blocks, layer_coefficients(num_blocks))
    assert weights.values.min() >= 0
    np.testing.assert_allclose(weights.values.sum(axis=0), 1.0, atol=1e-12)
    assert (weights.effective_sites <= len(samples) * (1 + 1e-12)).all()
    assert (weights.effective_sites >= 1 - 1e-12).all()
    for site in set(samples) - set(strength):
        assert quality[site] == quantity[site]


@given(federations(), st.randoms(use_true_random=False))
def test_order_of_the_sites_changes_no_bit(federation, random):
    strength, larger, smaller, samples = federation
    expected = quality_weights(strength, larger, smaller, quantity_weights(samples))
    order = list(samples)
    random.shuffle(order)
    shuffled = quality_weights(
        {site: strength[site] for site in order if site in strength},
        [site for site in order if site in larger],
        [site for site in order if site in smaller],
        quantity_weights({site: samples[site] for site in order}),
    )
    assert shuffled == expected


@given(st.integers(0, 2**32 - 1), st.sampled_from([2.0**-20, 0.5, 1024.0]))
def test_units_of_the_difficulty_do_not_matter(seed, unit):
    rows = np.random.default_rng(seed).random((5, 4))
    sites = list(DIFFICULTY)
    quantity = quantity_weights(dict.fromkeys(sites, 1))

    def weights(table):
        difficulty = dict(zip(sites, table, strict=True))
        return quality_weights(noise_strength(difficulty, LARGER, SMALLER), LARGER, SMALLER, quantity)

    assert weights(rows * unit) == weights(rows)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"num_blocks": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"num_blocks": 1}, [1]),
        ({"num_blocks": 1, "weight": 0.0}, [0]),
        ({"num_blocks": 3, "weight": 0.0, "bias": 1.0}, [1, 1, 1]),
        ({"num_blocks": 3, "power": 2.0}, [0, 0.25, 1]),
        ({"num_blocks": 3, "power": 0.0, "weight": 0.5}, [0.5, 0.5, 0.5]),
        ({"num_blocks": 3, "weight": 2.0, "bias": -0.5}, [0, 0.5, 1]),
    ],
)
def test_layer_coefficients(arguments, expected):
    np.testing.assert_allclose(layer_coefficients(**arguments), expected)


def test_weights_cannot_be_changed():
    weights = layer_weights({"a": 1.0}, {"a": 1.0}, ["only"], layer_coefficients(1))
    with pytest.raises(ValueError, match="read-only"):
        weights.values[0, 0] = 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise_strength({"a": [1.0, 2.0]}, ["a"], ["a"]), "exactly one group"),
        (lambda: quality_weights({"a": 1.0, "b": 1.0}, ["a"], [], {"a": 1.0}), "exactly one group"),
        (lambda: quality_weights({"a": 1.0}, ["a"], [], {"b": 1.0}), r"\['a'\] have none"),
        (lambda: quality_weights({"a": 1.0}, ["a"], [], {"a": 1.0}, balance=1.5), "balance=1.5"),
        (lambda: layer_coefficients(0), "num_blocks=0"),
        (lambda: layer_coefficients(3, power=-1.0), "power=-1.0"),
        (
            lambda: layer_weights({"a": 1.0}, {"b": 1.0}, ["x"], layer_coefficients(1)),
            r"same sites, but found \['a'\] and \['b'\]",
        ),
        (lambda: layer_weights({"a": 1.0}, {"a": 1.0}, ["x"], layer_coefficients(2)), "found 2 for 1 blocks"),
    ],
)
def test_errors_say_what_was_found(call, message):
    with pytest.raises(ValueError, match=message):
        call()
