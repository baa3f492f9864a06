"""Weights of sites and layer blocks: shares by hand, effective sites, what is refused."""

import numpy as np
import pytest

from fedannot.custom.aggregation.weighting import LayerWeights, completed_weights, quantity_weights


def test_weights_by_quantity_are_fractions_of_all_samples_in_sorted_order():
    weights = quantity_weights({"e": 10, "b": 40, "a": 50})
    assert list(weights.items()) == [("a", 0.5), ("b", 0.4), ("e", 0.1)]


def test_the_block_with_the_fewest_effective_sites_counts():
    values = np.array([[0.5, 0.25], [0.5, 0.75]])
    weights = LayerWeights(("a", "b"), ("first", "last"), values)
    assert weights.fewest_effective_sites == pytest.approx(1 / (1 / 16 + 9 / 16))
    assert weights.strongest == ("b", 0.75)
    assert weights.most_concentrated == {"a": 0.25, "b": 0.75}


def test_sites_without_a_weight_keep_that_by_quantity_and_the_others_divide_the_rest():
    completed = completed_weights({"a": 0.75, "c": 0.25}, {"a": 0.2, "b": 0.4, "c": 0.4})
    assert completed == pytest.approx({"a": 0.45, "b": 0.4, "c": 0.15})
    assert sum(completed.values()) == pytest.approx(1)


def test_where_every_site_has_a_weight_no_bit_changes():
    weights = {"a": 1 / 3, "b": 1 - 1 / 3}
    assert completed_weights(weights, {"a": 0.1, "b": 0.9}) == weights


def test_weights_of_some_sites_sum_to_one_in_each_block():
    values = np.array([[0.5, 0.0], [0.25, 0.0], [0.25, 1.0]])
    weights = LayerWeights(("a", "b", "c"), ("first", "last"), values)
    assert weights.only(["a", "b", "c"]) is weights
    some = weights.only(["b", "a"])
    assert some.sites == ("a", "b")
    np.testing.assert_allclose(some.values, [[2 / 3, 0.5], [1 / 3, 0.5]])


def test_one_weight_in_all_blocks_cannot_be_changed():
    weights = LayerWeights.same_in_all_blocks({"b": 0.25, "a": 0.75}, ("first", "last"))
    assert weights.of("a") == {"first": 0.75, "last": 0.75}
    with pytest.raises(ValueError, match="read-only"):
        weights.values[0, 0] = 2.0


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"a": -1, "b": 2}, r"numbers of samples >= 0, but found \{'a': -1\}"),
        ({"a": 0}, "at least one sample"),
        ({}, "at least one sample"),
    ],
)
def test_numbers_that_give_no_weights_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        quantity_weights(samples)
