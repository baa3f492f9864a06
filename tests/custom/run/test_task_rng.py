"""Global random numbers of a task: its own seed's, and given back."""

import pytest
import torch
from torch import nn

from fedannot.custom.run.task_rng import seeded_rng


def test_numbers_are_of_the_seed_and_the_process_has_its_own_again() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    drawn = []
    for seed in (1, 1, 2):
        with seeded_rng(seed):
            drawn.append(torch.rand(3))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("layer", "is_used"), [(nn.Dropout(0.5), True), (nn.Dropout(0.0), False), (nn.ReLU(), False)])
def test_what_takes_numbers_is_known(layer: nn.Module, is_used: bool) -> None:
    with seeded_rng(0) as rng:
        layer.train()(torch.ones(4))
    assert rng.was_used == is_used


def test_it_is_known_of_a_task_that_failed_too() -> None:
    rngs = []

    def fail() -> None:
        with seeded_rng(0) as rng:
            rngs.append(rng)
            torch.rand(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert rngs[0].was_used
