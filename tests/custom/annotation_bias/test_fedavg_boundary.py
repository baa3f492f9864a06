"""Where federated averaging's contours lie, against the pixel that half of the weight annotates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedannot.custom.annotation_bias.fedavg_boundary import FedAvgBoundary, fedavg_boundary

EQUAL = dict.fromkeys("abcde", 1)


def test_a_minority_does_not_move_it():
    assert fedavg_boundary({"a": -0.2, "b": 0.1, "c": 0.0, "d": 9.0, "e": 0.3}, EQUAL) == FedAvgBoundary(0.0, 0.1)


def test_a_majority_moves_it_as_far_as_its_own():
    result = fedavg_boundary({"a": 5.0, "b": 5.0, "c": 5.0, "d": 5.0, "e": 0.0}, EQUAL)
    assert result == FedAvgBoundary(5.0, 5.0)


def test_two_halves_leave_it_open():
    assert fedavg_boundary({"a": -5.0, "b": 5.0}, {"a": 1, "b": 1}) == FedAvgBoundary(-5.0, 5.0)


def test_sites_count_by_their_weights():
    result = fedavg_boundary({"a": 0.0, "b": 4.0}, {"a": 1, "b": 9})
    assert result == FedAvgBoundary(4.0, 4.0)


@pytest.mark.parametrize("offsets", [{}, {"a": 1.0}])
def test_without_offsets_or_weights_there_is_none(offsets):
    assert fedavg_boundary(offsets, {"b": 3}) is None


def test_within_is_all_of_the_range():
    assert FedAvgBoundary(-1.9, 1.0).is_within(2.0)
    assert not FedAvgBoundary(-2.1, 1.0).is_within(2.0)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abcdefghij"), st.tuples(st.floats(-9, 9), st.integers(1, 50)), min_size=1, max_size=10
    )
)
def test_the_pixel_that_half_of_the_weight_annotates_is_in_the_range(sites):
    """Pixels along a line from inside to outside; a site annotates those up to its offset."""
    result = fedavg_boundary({site: one for site, (one, _) in sites.items()}, {s: w for s, (_, w) in sites.items()})
    places = np.linspace(-10, 10, 2001)
    share = sum(weight * (places <= offset) for offset, weight in sites.values()) / sum(w for _, w in sites.values())
    contour = places[share >= 0.5].max()
    assert result.low - 0.011 <= contour <= result.high + 0.011
