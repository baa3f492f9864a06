"""Distances of models by hand, and the order in which they are added."""

import itertools

import torch

from fedannot.custom.aggregation.drift import squared_distance, stability

GLOBAL = {"layer": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.tensor([0.5]), "count": torch.tensor([7])}
SITE = {"layer": torch.tensor([[1.0, 4.0], [2.0, 4.0]]), "bias": torch.tensor([2.0]), "count": torch.tensor([9])}


def test_the_squared_distance_is_over_the_named_entries():
    assert squared_distance(SITE, GLOBAL, ["layer"]) == 5.0
    assert squared_distance(SITE, GLOBAL, ["layer", "bias"]) == 7.25


def test_squares_are_added_in_double_precision():
    moved, start = {"w": torch.tensor([1 + 2.0**-12])}, {"w": torch.zeros(1)}
    assert squared_distance(moved, start, ["w"]) == 1 + 2.0**-11 + 2.0**-24


def test_stability_is_the_mean_over_sites():
    assert stability({"site-2": 3.0, "site-1": 1.0, "site-3": 5.0}) == 3.0


def test_the_order_of_arrival_changes_no_bit_of_stability():
    distances = {"a": 1e16, "b": 1.0, "c": -1e16, "d": 1.0}
    result = {stability(dict(order)) for order in itertools.permutations(distances.items())}
    assert result == {0.25}
