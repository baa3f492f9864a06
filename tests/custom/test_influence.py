"""Bounds on a site's influence: hand-worked, and against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.influence import bounded_weights, update_factors
from fedannot.custom.weighting import LayerWeights


def weights(*columns):
    values = np.array(columns, dtype=np.float64).T
    sites = tuple(f"site-{index}" for index in range(len(values)))
    return LayerWeights(sites, tuple(f"block-{index}" for index in range(len(columns))), values)


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
        # Nobody else has any weight: the one site stays at the bound.
        ([1.0, 0.0, 0.0], 0.0, 0.4, [0.4, 0.0, 0.0]),
        ([1.0], 0.0, 0.4, [1.0]),
    ],
)
def test_shares_by_hand(shares, low, high, expected):
    np.testing.assert_allclose(bounded_weights(weights(shares), low, high).values[:, 0], expected, atol=1e-12)


@given(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=8),
    st.floats(0, 0.2),
    st.floats(0.2, 1),
)
def test_shares_against_bisection(raw, low, high):
    shares = np.array(raw) / sum(raw)
    found = bounded_weights(weights(shares), low, high).values[:, 0]
    low, high = min(low, 1 / len(raw)), max(high, 1 / len(raw))
    least, most = 0.0, 1e6
    for _ in range(200):
        middle = (least + most) / 2
        least, most = (middle, most) if np.clip(middle * shares, low, high).sum() < 1 else (least, middle)
    np.testing.assert_allclose(found, np.clip(most * shares, low, high), atol=1e-9)
    assert found.sum() == pytest.approx(1.0)


def test_every_block_has_its_own_shares():
    bounded = bounded_weights(weights([0.7, 0.2, 0.1], [0.3, 0.3, 0.4]), 0.0, 0.4)
    np.testing.assert_allclose(bounded.values, [[0.4, 0.3], [0.4, 0.3], [0.2, 0.4]])


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
