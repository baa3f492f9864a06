"""The learning rate in the course of a run, against lists worked out by hand, PyTorch and MONAI."""

import pytest
import torch
from monai.optimizers import WarmupCosineSchedule

from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.schedules import LearningRate


def of_run(training, rounds, steps):
    """The rate of every step of all rounds."""
    return [
        LearningRate(training, number, rounds).at(step, steps)
        for number in range(1, rounds + 1)
        for step in range(steps)
    ]


def of_scheduler(make, rate, total):
    """The rates that one of PyTorch's schedules gives."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    scheduler = make(optimizer)
    rates = []
    for _ in range(total):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_the_polynomial_rate_is_the_one_worked_out_by_hand():
    training = TrainingSettings(learning_rate=0.01, schedule="polynomial")
    # 0.01 · (1 − t/4)^0.9: 1, 0.75^0.9 = 0.7719, 0.5^0.9 = 0.5359, 0.25^0.9 = 0.2872
    assert of_run(training, rounds=2, steps=2) == pytest.approx([0.01, 0.007719, 0.005359, 0.002872], abs=1e-6)


@pytest.mark.parametrize(("rounds", "steps", "power"), [(1, 7, 0.9), (4, 3, 0.9), (3, 5, 2.0)])
def test_the_polynomial_rate_is_pytorchs_however_rounds_cut_it(rounds, steps, power):
    training = TrainingSettings(learning_rate=0.01, schedule="polynomial", learning_rate_power=power)
    expected = of_scheduler(
        lambda optimizer: torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=rounds * steps, power=power),
        0.01,
        rounds * steps,
    )
    assert of_run(training, rounds, steps) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("warmup", [0.0, 0.25])
def test_warmup_and_cosine_are_monais(warmup):
    training = TrainingSettings(learning_rate=0.02, schedule="cosine", learning_rate_warmup=warmup)
    expected = of_scheduler(
        lambda optimizer: WarmupCosineSchedule(optimizer, warmup_steps=int(20 * warmup), t_total=20), 0.02, 20
    )
    assert of_run(training, rounds=4, steps=5) == pytest.approx(expected)


def test_the_rate_falls_after_fractions_of_all_rounds():
    training = TrainingSettings(learning_rate=0.002, learning_rate_steps=(0.5, 0.75))
    assert of_run(training, 8, 1) == pytest.approx([0.002] * 4 + [0.0002] * 2 + [0.00002] * 2)
    of_classes = ClassifierTrainingSettings(learning_rate=0.01, learning_rate_steps=(0.7, 0.9))
    assert of_run(of_classes, 10, 1) == pytest.approx([0.01] * 7 + [0.001] * 2 + [0.0001])


@pytest.mark.parametrize("schedule", ["steps", "constant"])
def test_a_rate_without_steps_is_that_of_the_settings_to_the_last_bit(schedule):
    training = TrainingSettings(learning_rate=0.003, schedule=schedule)
    assert of_run(training, 3, 2) == [0.003] * 6
    assert not LearningRate(training, 1, 3).changes_in_round


def test_steps_are_not_read_by_another_schedule():
    training = ClassifierTrainingSettings(schedule="constant", learning_rate=0.1)
    assert of_run(training, 10, 1) == [0.1] * 10
