"""Weights by confirmed completeness: the closed form, the bound on how few sites decide, and neutral cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.aggregation.weighting import quantity_weights
from fedannot.custom.methods.fedia.confirmed_weights import confirmed_weights


def effective(weights):
    return 1 / sum(value**2 for value in weights.values())


def test_weights_are_quantity_times_the_exponential_of_completeness():
    weights = confirmed_weights({"a": 30, "b": 10, "c": 10}, {"b": 0.8, "c": 0.6}, 1.0)
    raw = {"a": 30 * math.exp(1.0), "b": 10 * math.exp(0.8), "c": 10 * math.exp(0.6)}
    assert weights == pytest.approx({site: value / sum(raw.values()) for site, value in raw.items()})
    assert list(weights) == ["a", "b", "c"]


def test_where_one_site_would_have_all_the_weight_half_of_the_sites_stay_in_effect():
    shares = {"a": 0.2, "b": 0.4, "c": 0.6, "d": 0.8}
    weights = confirmed_weights(dict.fromkeys(shares, 10), shares, 0.01)
    assert effective(weights) == pytest.approx(2.0, abs=1e-6)
    assert effective(weights) >= 2.0
    # Still of the published form: logarithms on a line over completeness.
    steps = np.diff([math.log(weights[site]) for site in "abcd"])
    assert steps == pytest.approx([steps[0]] * 3)
    assert steps[0] > 0


def test_sites_of_which_nothing_is_confirmed_count_as_complete_and_alike():
    weights = confirmed_weights(dict.fromkeys("abc", 10), {"c": 0.5}, 0.5)
    assert weights["a"] == weights["b"] == pytest.approx(math.e / (2 * math.e + 1))


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.tuples(st.integers(1, 1000), st.floats(0, 1)), min_size=1, max_size=6
    ),
    st.floats(0.01, 1.0),
)
def test_weights_sum_to_one_and_never_leave_fewer_than_half_of_the_sites(sites, scale):
    samples = {site: count for site, (count, _) in sites.items()}
    shares = {site: share for site, (_, share) in sites.items()}
    weights = confirmed_weights(samples, shares, scale)
    assert sum(weights.values()) == pytest.approx(1)
    assert effective(weights) >= effective(quantity_weights(samples)) / 2 - 1e-9
    alike = confirmed_weights(samples, dict.fromkeys(sites, 0.5), scale)
    assert alike == pytest.approx(quantity_weights(samples))


@pytest.mark.parametrize(("shares", "scale"), [({"a": 1.5}, 0.2), ({"a": math.nan}, 0.2), ({"a": 0.5}, 0.0)])
def test_what_is_no_share_or_scale_is_refused(shares, scale):
    with pytest.raises(ValueError, match="Expected shares from 0 to 1 and a scale above 0"):
        confirmed_weights({"a": 3}, shares, scale)
