"""Bounds on a site's influence: hand-worked, and against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.aggregation.influence import (
    InfluenceBounds,
    bounded_weights,
    deployed_aggregation,
    deployed_influence,
    group_factors,
    inner_ranges,
    share_limits,
    update_factors,
)
from fedannot.custom.aggregation.settings import InfluenceSettings
from fedannot.custom.aggregation.weighting import LayerWeights


def weights(*columns):
    values = np.array(columns, dtype=np.float64).T
    sites = tuple(f"site-{index}" for index in range(len(values)))
    return LayerWeights(sites, tuple(f"block-{index}" for index in range(len(columns))), values)


def equal(num_sites):
    return {f"site-{index}": 1 / num_sites for index in range(num_sites)}


@pytest.mark.parametrize(
    ("shares", "low", "high", "expected"),
    [
        # The largest is cut to 0.4, the others divide 0.6 as 2 : 1.
        ([0.7, 0.2, 0.1], 0.0, 0.4, [0.4, 0.4, 0.2]),
        # 0 is lifted to 0.1, the others divide 0.9 as before.
        ([0.0, 0.25, 0.75], 0.1, 1.0, [0.1, 0.225, 0.675]),
        # Both: 0.5 at the top, 0.1 at the bottom, 0.4 for the one between.
        ([0.9, 0.08, 0.02], 0.1, 0.5, [0.5, 0.4, 0.1]),
        ([0.5, 0.3, 0.2], 0.1, 0.6, [0.5, 0.3, 0.2]),
        # Bounds that cannot be met by any shares.
        ([0.7, 0.2, 0.1], 0.0, 0.2, [1 / 3, 1 / 3, 1 / 3]),
        ([0.7, 0.2, 0.1], 0.5, 0.9, [1 / 3, 1 / 3, 1 / 3]),
        # Nobody else has any weight: the others divide by quantity what the one may not have.
        ([1.0, 0.0, 0.0], 0.0, 0.4, [0.4, 0.3, 0.3]),
        ([1.0], 0.0, 0.4, [1.0]),
    ],
)
def test_shares_by_hand(shares, low, high, expected):
    result = bounded_weights(weights(shares), equal(len(shares)), smallest=low, largest=high)
    np.testing.assert_allclose(result.values[:, 0], expected, atol=1e-11)


@given(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=8),
    st.floats(0, 0.2),
    st.floats(0.2, 1),
)
def test_shares_against_bisection(raw, low, high):
    shares = np.array(raw) / sum(raw)
    result = bounded_weights(weights(shares), equal(len(raw)), smallest=low, largest=high).values[:, 0]
    low, high = min(low, 1 / len(raw)), max(high, 1 / len(raw))
    least, most = 0.0, 1e6
    for _ in range(200):
        middle = (least + most) / 2
        least, most = (middle, most) if np.clip(middle * shares, low, high).sum() < 1 else (least, middle)
    np.testing.assert_allclose(result, np.clip(most * shares, low, high), atol=1e-9)
    assert result.sum() == pytest.approx(1.0)


def test_every_block_has_its_own_shares():
    bounded = bounded_weights(weights([0.7, 0.2, 0.1], [0.3, 0.3, 0.4]), equal(3), largest=0.4)
    np.testing.assert_allclose(bounded.values, [[0.4, 0.3], [0.4, 0.3], [0.2, 0.4]], atol=1e-11)


@pytest.mark.parametrize(
    ("quality", "samples", "largest", "expected"),
    [
        # Of four equal sites one has everything: it keeps three quarters, the others a third of their quarters.
        ([1.0, 0.0, 0.0, 0.0], [5, 5, 5, 5], 1.0, [3 / 4, 1 / 12, 1 / 12, 1 / 12]),
        # No more than 0.4 in any case; the others divide the rest by quantity, here equally.
        ([1.0, 0.0, 0.0, 0.0], [5, 5, 5, 5], 0.4, [0.4, 0.2, 0.2, 0.2]),
        # Within the bounds: as it was.
        ([0.4, 0.3, 0.2, 0.1], [5, 5, 5, 5], 1.0, [0.4, 0.3, 0.2, 0.1]),
        # The last site has half of the samples and no quality: a third of its half is 1/6. The others fill the rest,
        # 5/6, as 2 : 1 : 1 up to three times their sixths, 1/2.
        ([0.5, 0.25, 0.25, 0.0], [1, 1, 1, 3], 1.0, [5 / 12, 5 / 24, 5 / 24, 1 / 6]),
        # A claim of nearly everything counts as 0.4 before the ratio is taken of it.
        ([0.25, 0.25, 0.25, 0.25], [1, 1, 1, 10**7], 0.4, [0.25] * 4),
    ],
)
def test_quality_moves_a_share_within_its_ratio_to_that_by_quantity(quality, samples, largest, expected):
    quantity = {f"site-{index}": count / sum(samples) for index, count in enumerate(samples)}
    result = bounded_weights(weights(quality), quantity, largest=largest, quality_ratio=3.0)
    np.testing.assert_allclose(result.values[:, 0], expected, atol=1e-9)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 1000)), min_size=2, max_size=8),
    st.floats(1, 5),
    st.floats(0.05, 1),
)
def test_every_share_is_within_its_limits_and_all_sum_to_one(sites, ratio, largest):
    quality = np.array([value for value, _ in sites]) + 1e-3
    samples = np.array([count for _, count in sites])
    quantity = samples / samples.sum()
    low, high = share_limits(quantity, largest=largest, quality_ratio=ratio)
    named = {f"site-{index}": share for index, share in enumerate(quantity)}
    result = bounded_weights(weights(quality / quality.sum()), named, largest=largest, quality_ratio=ratio).values[:, 0]
    assert result.sum() == pytest.approx(1.0)
    assert (result >= low * (1 - 1e-9)).all()
    assert (result <= high * (1 + 1e-9)).all()
    assert (result <= max(largest, 1 / len(sites)) * (1 + 1e-9)).all()


def bounds(**settings):
    said = []
    return InfluenceBounds(InfluenceSettings(**settings), said.append), said


def test_weights_within_their_bounds_stay_the_same_object_so_that_no_bit_changes():
    given_weights = weights([0.4, 0.3, 0.3], [0.2, 0.4, 0.4])
    result, said = bounds(max_share=0.5, max_quality_ratio=3.0)
    assert result.weights(given_weights, {"site-0": 5, "site-1": 5, "site-2": 5}) is given_weights
    assert (result.touched, said) == ({}, [])


def test_only_those_who_would_have_had_more_are_named():
    result, said = bounds(max_quality_ratio=2.0)
    result.weights(weights([1.0, 0.0, 0.0], [0.4, 0.3, 0.3]), {"site-0": 5, "site-1": 5, "site-2": 5})
    assert result.touched == {"site-0": {"share": pytest.approx([2 / 3, 0.4])}}
    assert said == ["Bounded site-0: its shares were up to 1 and are up to 0.667."]


def test_a_mean_over_sites_has_bounded_shares_or_samples():
    samples = {"a": 10, "b": 10, "c": 80}
    assert bounds()[0].mean_weights(samples) == {"a": 10.0, "b": 10.0, "c": 80.0}
    assert bounds(max_share=0.5)[0].mean_weights(samples) == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.5})


def test_an_update_that_is_too_long_is_named_with_the_group_where_it_is_longest():
    result, said = bounds(max_update_ratio=2.0)
    norms = {
        "a": {"head/weights": 1.0, "head/biases": 1.0},
        "b": {"head/weights": 1.0, "head/biases": 1.0},
        "c": {"head/weights": 4.0, "head/biases": 8.0},
    }
    free = {"head/weights": 1.0, "head/biases": 1.0}
    assert result.update_factors(norms) == {"a": free, "b": free, "c": {"head/weights": 0.5, "head/biases": 0.25}}
    assert result.touched == {"c": {"update_factor": 0.25, "update_group": "head/biases"}}
    assert said == ["Clipped c: its update counts 0.25 times in head/biases, at 2 times the median."]
    assert bounds()[0].update_factors(norms) == dict.fromkeys("abc", free)


def test_the_length_of_a_whole_update_cannot_go_into_a_few_biases():
    """All sites move the same way in all, √(3² + 0.1²); one of them moves nothing but the biases."""
    honest = {"head/weights": 3.0, "head/biases": 0.1}
    lying = {"head/weights": 0.0, "head/biases": (3.0**2 + 0.1**2) ** 0.5}
    factors = group_factors({"a": honest, "b": honest, "c": honest, "liar": lying}, 1.0)
    assert factors["liar"]["head/biases"] * lying["head/biases"] == pytest.approx(0.1)
    assert factors["a"] == {"head/weights": 1.0, "head/biases": 1.0}


def test_nobody_moves_what_most_of_the_others_leave_as_it_is():
    frozen, moves = {"stem/weights": 0.0}, {"stem/weights": 2.0}
    factors = group_factors({"a": frozen, "b": frozen, "c": moves}, 1.0)
    assert factors == {"a": {"stem/weights": 1.0}, "b": {"stem/weights": 1.0}, "c": {"stem/weights": 0.0}}
    assert group_factors({}, 1.0) == {}


def test_ranges_are_from_the_second_smallest_to_the_second_largest_value():
    values = [{"x": torch.tensor([float(number), -float(number)])} for number in (5, 1, 4000, 2)]
    low, high = inner_ranges(values)["x"]
    assert (low.tolist(), high.tolist()) == ([2.0, -5.0], [5.0, -2.0])
    low, high = inner_ranges(values[:3])["x"]
    assert low.tolist() == high.tolist() == [5.0, -5.0]
    assert inner_ranges(values[:2]) == {}


def test_an_update_is_measured_by_the_others():
    """The medians of the others are 2, 3, 2 and 2: a site does not move its own bound."""
    factors = update_factors({"a": 3.0, "b": 2.0, "c": 1.0, "d": 100.0}, 2.0)
    # Others of a: 2, 1, 100 -> 2; of b: 3, 1, 100 -> 3; of c: 3, 2, 100 -> 3; of d: 3, 2, 1 -> 2.
    assert factors == {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.04}


def test_two_sites_cannot_tell_who_is_odd():
    assert update_factors({"a": 1.0, "b": 1000.0}, 2.0) == {"a": 1.0, "b": 1.0}


def test_an_update_of_nothing_beside_others_of_nothing():
    assert update_factors({"a": 0.0, "b": 0.0, "c": 0.0}, 2.0) == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert update_factors({"a": 0.0, "b": 0.0, "c": 5.0}, 2.0)["c"] == 0.0


def test_weights_of_the_sites_that_answered():
    kept = weights([0.5, 0.3, 0.2], [1.0, 0.0, 0.0]).only({"site-1", "site-2"})
    assert kept.sites == ("site-1", "site-2")
    np.testing.assert_allclose(kept.values, [[0.6, 0.5], [0.4, 0.5]])


@pytest.mark.parametrize(
    ("num_sites", "share"), [(3, 0.4), (4, 0.375), (5, 0.3), (6, 0.25), (8, 0.1875), (50, 0.03), (None, 0.25)]
)
def test_the_bounds_of_deployed_jobs_outvote_one_site(num_sites, share):
    """With the share s, at least 1/K, and an update ρ times as long as the others', it has ρ s against 1 − s."""
    result = deployed_influence(num_sites)
    assert (result["max_quality_ratio"], result["max_share"]) == (3.0, pytest.approx(share))
    InfluenceSettings(**result)
    most = max(share, 1 / (num_sites or 100))
    if num_sites is not None and num_sites >= 5:
        # No value beyond the others', so that its length says nothing.
        assert deployed_aggregation(num_sites) == {"rule": "trimmed_mean", "trim": 1}
        assert "max_update_ratio" not in result
        assert most < 1 - most
    else:
        assert deployed_aggregation(num_sites) == {}
        assert result["max_update_ratio"] * most < 1 - most


@pytest.mark.parametrize("num_sites", [1, 2])
def test_of_two_sites_none_can_be_shown_to_lie(num_sites):
    assert "max_share" not in deployed_influence(num_sites)
