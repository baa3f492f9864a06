"""Where federated averaging's contours lie, against the pixel that half of the weight annotates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedannot.custom.annotation_bias.fedavg_boundary import (
    FedAvgBoundary,
    boundary_of_claims,
    fedavg_boundary,
    tolerated_boundary,
)
from fedannot.custom.annotation_bias.statuses import ReferenceKind, ReferenceLevel, Status, TestResult

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


def test_one_claim_counts_three_times_the_middle_one_at_most():
    """Nine honest sites of 10 to 18 samples at 4 px have 126 of 168 that count, whatever the tenth at 0 px claims."""
    offsets = {str(index): 4.0 for index in range(9)} | {"liar": 0.0}
    claims = {str(index): 10 + index for index in range(9)} | {"liar": 10**9}
    assert fedavg_boundary(offsets, claims) == FedAvgBoundary(0.0, 0.0)
    assert boundary_of_claims(offsets, claims) == FedAvgBoundary(4.0, 4.0)
    # Of two sites the smaller claim is the middle one: 10 of 40 samples.
    assert boundary_of_claims({"a": 4.0, "b": 0.0}, {"a": 10, "b": 10**9}) == FedAvgBoundary(0.0, 0.0)
    assert boundary_of_claims({"a": 4.0}, {}) is None


@pytest.mark.parametrize(("claim", "high"), [(10, 0.0), (13, 0.0), (14, 3.0), (29, 3.0)])
def test_below_that_sites_count_by_their_samples(claim, high):
    """Two sites of four have 40 % or more from 14 of 34 samples on."""
    claims = {"a": 10, "b": 10, "c": claim / 2, "d": claim / 2}
    assert boundary_of_claims({"a": 0.0, "b": 0.0, "c": 3.0, "d": 3.0}, claims).high == high


def result(effect, *, is_confirmed=True):
    return TestResult(effect, 0.1, 0.01, Status.CONFIRMED if is_confirmed else Status.SMALL)


def test_biases_stay_where_contours_are_within_the_distance_in_pixels_of_each_site():
    """Pixels of 0.5 mm: 1.2 mm are 2.4 px. The third site has 0.6 mm in pixels of 0.2 mm, 3 px."""
    level = ReferenceLevel(ReferenceKind.EDGES, 0.0, 0.0)
    results = {"a": result(1.2), "b": result(0.1, is_confirmed=False), "c": result(0.6, is_confirmed=False)}
    of_sites = dict.fromkeys("abc", 8), {"a": 0.5, "b": 0.5, "c": 0.2}
    low, high = 2.4 * 0.5, 2.4 * 0.5
    assert tolerated_boundary(level, results, *of_sites, distance=2.5) == FedAvgBoundary(low, high)
    assert tolerated_boundary(level, results, *of_sites, distance=2.3) is None
    assert tolerated_boundary(None, results, *of_sites, distance=2.5) is None
    unsure = ReferenceLevel(ReferenceKind.EDGES, 0.0, 0.0, is_confident=False)
    assert tolerated_boundary(unsure, results, *of_sites, distance=2.5) is None
    nothing = {site: result(one.effect, is_confirmed=False) for site, one in results.items()}
    assert tolerated_boundary(level, nothing, *of_sites, distance=2.5) is None


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
