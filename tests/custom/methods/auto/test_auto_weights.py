"""Weights by completeness, within bounds."""

import numpy as np
import pytest

from fedannot.custom.methods.auto.weights import completeness_weights


def test_by_hand():
    weights = completeness_weights({"a": 10, "b": 10, "c": 20}, {"a": 0.5}, ("first", "last"))
    # 10 · 0.5, 10, 20 of 35.
    assert weights.sites == ("a", "b", "c")
    np.testing.assert_allclose(weights.values[:, 0], [5 / 35, 10 / 35, 20 / 35])
    np.testing.assert_array_equal(weights.values[:, 0], weights.values[:, 1])


def test_nobody_falls_below_a_third_of_its_share():
    weights = completeness_weights({"a": 10, "b": 10, "c": 10}, {"a": 0.99}, ("only",))
    assert weights.values[0, 0] == pytest.approx(1 / 9)
    assert weights.values.sum() == pytest.approx(1.0)


def test_where_all_leave_everything_out_quantity_counts():
    weights = completeness_weights({"a": 1, "b": 3}, {"a": 1.0, "b": 1.0}, ("only",))
    np.testing.assert_allclose(weights.values[:, 0], [0.25, 0.75])
