"""Who is noisy, and how models weigh by their distances."""

import math
from collections.abc import Mapping, Sequence

import pytest
import torch

from fedannot.custom.methods.fednoro.distance_weights import distance_weights, distances_to_clean, model_distance
from fedannot.custom.methods.fednoro.noisy_sites import noisy_sites, possible_losses

NAN = math.nan


def test_classes_count_alike_whatever_their_scale() -> None:
    """By plain sums the second class would decide alone, and name b and d."""
    losses = {"a": [0.1, 90.0], "b": [0.1, 93.0], "c": [0.9, 91.0], "d": [0.8, 92.0]}
    assert noisy_sites(losses) == ("c", "d")


def test_a_class_that_a_site_does_not_have_does_not_make_it_noisy() -> None:
    losses = {"a": [0.1, 0.2], "b": [0.1, NAN], "c": [0.9, None], "d": [0.8, 0.9]}
    assert "b" not in noisy_sites(losses)
    assert "d" in noisy_sites(losses)


@pytest.mark.parametrize(
    "losses",
    [
        {},
        {"a": [0.1], "b": [5.0]},
        {"a": [0.1], "b": [5.0], "c": [NAN]},
        {"a": [0.3, 0.4], "b": [0.3, 0.4], "c": [0.3, 0.4]},
        {"a": [NAN, NAN], "b": [NAN, NAN], "c": [NAN, NAN]},
    ],
)
def test_where_nothing_can_be_said_nobody_is_noisy(losses: Mapping[str, Sequence[float]]) -> None:
    assert noisy_sites(losses) == ()


def test_a_site_without_any_loss_is_not_noisy() -> None:
    losses = {"a": [0.1], "b": [0.12], "c": [0.9], "d": [NAN]}
    assert noisy_sites(losses) == ("c",)


def test_a_lie_does_not_overflow() -> None:
    assert noisy_sites({"a": [0.1, 0.1], "b": [0.2, 0.1], "c": [1e300, 0.1], "d": [math.inf, 0.1]}) == ("c", "d")


@pytest.mark.parametrize("lie", [-5.0, -1000.0, -math.inf, 0.0])
def test_a_loss_below_zero_makes_nobody_else_noisy(lie: float) -> None:
    """Two of the others are noisy, and stay so."""
    honest = {f"site-{number}": [0.3 + 0.01 * number, 0.4] for number in range(5)}
    honest |= {"y": [1.6, 1.9], "z": [1.6, 1.9]}
    assert noisy_sites(possible_losses(honest | {"liar": [lie, lie]})) == ("y", "z")
    none = pytest.approx(math.nan, nan_ok=True)
    assert possible_losses({"a": [lie, None, math.nan, math.inf]}) == {"a": [0.0, none, none, 17.0]}


def test_sites_that_disagree_on_the_classes_are_named() -> None:
    with pytest.raises(ValueError, match="'c': 1"):
        noisy_sites({"a": [0.1, 0.1], "b": [0.2, 0.1], "c": [0.1]})


class Models:
    """Models that wait; sites are sorted."""

    def __init__(self, models: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        self.models, self.sites = models, tuple(sorted(models))

    def params(self, site: str) -> dict[str, torch.Tensor]:
        return dict(self.models[site])


def model(first: Sequence[float], variance: float, batches: int = 0) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor(first), "running_var": torch.tensor([variance]), "num": torch.tensor(batches)}


def test_distances_add_the_norms_of_all_tensors_or_are_one_norm() -> None:
    """5 for the weights, 12 for the statistics: 17 in all, as one norm 13; numbers of batches do not count."""
    one, other = model([3.0, 4.0], 12.0), model([0.0, 0.0], 0.0, batches=7)
    assert model_distance(one, other, "per_tensor") == pytest.approx(17)
    assert model_distance(one, other, "whole") == pytest.approx(13)


def test_the_nearest_clean_model_counts() -> None:
    models = Models({"a": model([0.0], 0.0), "b": model([4.0], 0.0), "c": model([5.0], 0.0), "d": model([9.0], 1.0)})
    assert distances_to_clean(models, ("c", "d"), "per_tensor") == {"a": 0.0, "b": 0.0, "c": 1.0, "d": 6.0}
    assert distances_to_clean(models, ("a", "b", "c", "d"), "per_tensor") == dict.fromkeys("abcd", 0.0)


def test_far_models_weigh_less() -> None:
    """1, 1 and 1/e over their sum."""
    weights = distance_weights({"a": 5, "b": 5, "c": 5}, {"a": 0.0, "b": 0.0, "c": 3.0})
    assert weights == pytest.approx({"a": 0.422319, "b": 0.422319, "c": 0.155362}, abs=1e-6)
    assert distance_weights({"a": 1, "b": 3}, {"a": 0.0, "b": 0.0}) == {"a": 0.25, "b": 0.75}
