"""Optimizers at the server, by hand; a restart goes on with the same bits."""

import math

import pytest
import torch
from pydantic import ValidationError

from fedannot.custom.aggregation.server_optimizer import ServerOptimizer
from fedannot.custom.aggregation.settings import ServerOptimizerSettings


def models(settings: ServerOptimizerSettings, updates: list[float]) -> list[float]:
    """The global model after every round whose sites' average is so far from it."""
    optimizer, result = ServerOptimizer(settings), []
    model = {"w": torch.zeros(1, dtype=torch.float64)}
    for update in updates:
        model = optimizer.step(model, {"w": model["w"] + update}, ["w"])
        result.append(float(model["w"]))
    return result


@pytest.mark.parametrize(
    ("values", "updates", "expected"),
    [
        ({"name": "fedavgm"}, [-1.0, -1.0, -1.0], [-1.0, -2.9, -5.61]),
        ({"name": "fedavgm", "momentum": 0.0, "learning_rate": 0.5}, [1.0, 1.0], [0.5, 1.0]),
        ({"name": "fedadam"}, [1.0, 0.01], [0.099005, 0.1895445]),
        ({"name": "fedyogi"}, [1.0, 0.01], [0.099005, 0.1891040]),
        ({"name": "fedadagrad"}, [1.0, 0.5], [0.00999, 0.0225008]),
        ({"name": "fedadam"}, [0.0], [0.0]),
        ({"name": "fedadagrad"}, [0.0], [0.0]),
        # τ → ∞ without running means, √v + τ being 2 τ at first: federated averaging.
        ({"name": "fedadam", "learning_rate": 2e9, "tau": 1e9, "betas": [0.0, 0.99999999]}, [0.5, 0.25], [0.5, 0.75]),
    ],
)
def test_steps_by_hand(values: dict[str, object], updates: list[float], expected: list[float]) -> None:
    assert models(ServerOptimizerSettings.model_validate(values), updates) == pytest.approx(expected, rel=2e-6)


def test_without_momentum_at_rate_one_it_is_the_average_bit_for_bit() -> None:
    optimizer = ServerOptimizer(ServerOptimizerSettings(name="fedavgm", momentum=0.0))
    generator = torch.Generator().manual_seed(0)
    scales = 10.0 ** torch.arange(-12, 13)
    for _ in range(2):
        before, average = (torch.randn(25, generator=generator) * scales for _ in range(2))
        assert torch.equal(optimizer.step({"w": before}, {"w": average}, ["w"])["w"], average)


def test_what_is_not_trained_is_the_averages() -> None:
    """Adam's steps could make running variances negative, and counters are no numbers to step."""
    optimizer = ServerOptimizer(ServerOptimizerSettings(name="fedadam"))
    before = {"w": torch.ones(2), "var": torch.full((2,), 0.01), "count": torch.tensor(3)}
    average = {"w": torch.zeros(2), "var": torch.full((2,), 0.001), "count": torch.tensor(9)}
    result = optimizer.step(before, average, ["w"])
    assert torch.equal(result["var"], average["var"])
    assert int(result["count"]) == 9
    assert result["w"].dtype == torch.float32
    assert (result["w"] < 1).all()


@pytest.mark.parametrize("name", ["fedavgm", "fedadagrad", "fedadam", "fedyogi"])
def test_a_restart_goes_on_with_the_same_bits(name: str) -> None:
    settings = ServerOptimizerSettings.model_validate({"name": name})
    generator = torch.Generator().manual_seed(1)
    averages = [{"w": torch.randn(20, generator=generator)} for _ in range(4)]
    whole, model = ServerOptimizer(settings), {"w": torch.zeros(20)}
    for average in averages:
        model = whole.step(model, average, ["w"])
    first, again = ServerOptimizer(settings), {"w": torch.zeros(20)}
    for average in averages[:2]:
        again = first.step(again, average, ["w"])
    later = ServerOptimizer(settings)
    later.restore(first.state())
    for average in averages[2:]:
        again = later.step(again, average, ["w"])
    assert torch.equal(model["w"], again["w"])


def test_numbers_out_of_range_are_refused() -> None:
    for wrong in ({"learning_rate": 0.0}, {"momentum": 1.0}, {"tau": 0.0}, {"betas": [0.9]}, {"tau": math.inf}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            ServerOptimizerSettings.model_validate({"name": "fedadam"} | wrong)
