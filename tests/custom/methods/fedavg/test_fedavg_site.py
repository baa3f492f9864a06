"""Federated averaging at a site: what is trained, with which learning rate, and what is reported of it."""

from pathlib import Path

import pytest
import torch
from support.pictures import make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.corrections.targets import AS_GIVEN, Targets
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.training.batches import training_batches
from fedannot.custom.training.loop import TrainingOutcome, TrainingStopped, train
from fedannot.custom.training.objectives import training_objective

DATA = make_data([(1,)] * 6)
COMMON = {"network": {"features": (4, 4, 8, 8, 8, 4)}, "rounds": 4}
TRAINING = {"batch_size": 3, "local_epochs": 1, "learning_rate": 0.01}


def trained(tmp_path: Path, number: int = 1, **training: object) -> tuple[FedAvgSettings, nn.Module, TrainingOutcome]:
    settings = FedAvgSettings.model_validate(COMMON | {"training": TRAINING | training})
    method, network = FedAvgSite(settings), described_network(settings.network)
    result = method.train(network, HandmadeSite(tmp_path, DATA).view(method, number))
    assert (result.fields, result.trained_on) == ({}, None)
    return settings, network, result.outcome


def bits(network: nn.Module) -> torch.Tensor:
    return torch.cat([value.double().flatten() for value in network.state_dict().values()])


@pytest.mark.parametrize(("number", "rate"), [(2, 0.01), (3, 0.001)])
def test_the_settings_objective_is_trained_with_the_rounds_rate_and_seed(
    tmp_path: Path, number: int, rate: float
) -> None:
    """A proximal weight, and a learning rate that falls after half of four rounds."""
    settings, network, outcome = trained(tmp_path, number, proximal_weight=0.1, learning_rate_steps=(0.5,))
    plain, training = described_network(settings.network), settings.training
    seed = HandmadeSite(tmp_path, DATA).view(FedAvgSite(settings), number).training_seed
    expected = train(
        plain,
        training_batches(DATA, training, torch.device("cpu")),
        training_objective(training),
        training,
        learning_rate=rate,
        seed=seed,
    )
    assert torch.equal(bits(network), bits(plain))
    assert outcome == expected


def test_labels_that_are_corrected_forward_have_the_proximal_penalty_too(tmp_path: Path) -> None:
    """With the identity the corrected loss is the cross entropy."""
    losses = {}
    for weight, targets in ((5.0, Targets(transition=torch.eye(2))), (5.0, AS_GIVEN), (0.0, AS_GIVEN)):
        settings = FedAvgSettings.model_validate(COMMON | {"training": TRAINING | {"proximal_weight": weight}})
        method, network = FedAvgSite(settings), described_network(settings.network)
        site = HandmadeSite(tmp_path, DATA).view(method)
        result = method.train_on(method.batches(DATA, network), network, site, targets)
        losses[weight, targets.transition is None] = result.outcome.mean_loss
    assert losses[5.0, False] == pytest.approx(losses[5.0, True], rel=1e-5)
    assert losses[5.0, True] > losses[0.0, True] * 1.001


@pytest.mark.parametrize(("loss", "reports"), [("ce", False), ("dice", True)])
def test_the_dice_loss_is_reported_where_it_is_what_is_trained(tmp_path: Path, loss: str, reports: bool) -> None:
    *_, outcome = trained(tmp_path, loss=loss)
    assert (outcome.dice_loss is not None) is reports
    assert outcome.dice_samples == (frozenset(range(6)) if reports else frozenset())


def test_training_ends_when_the_run_is_stopped(tmp_path: Path) -> None:
    settings = FedAvgSettings.model_validate(COMMON | {"training": TRAINING})
    method, site = FedAvgSite(settings), HandmadeSite(tmp_path, DATA)
    site.stopped = True
    with pytest.raises(TrainingStopped):
        method.train(described_network(settings.network), site.view(method))


def test_a_method_without_tasks_of_its_own_answers_none(tmp_path: Path) -> None:
    method = FedAvgSite(FedAvgSettings())
    with pytest.raises(NotImplementedError, match="FedAvgSite declares no task 'measure'"):
        method.answer("measure", nn.Identity(), HandmadeSite(tmp_path, DATA).view(method))
