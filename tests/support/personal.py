"""What the tests of methods with personal parts share: tiny networks, and a round of training at a site."""

from pathlib import Path
from typing import Any

import torch
from support.pictures import make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.data.personal_files import PERSONAL_FOLDER
from fedannot.custom.methods.lookup import find_method
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.methods.personal.site import PersonalSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.training.batches import training_batches
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective

NETWORK = {"features": (4, 4, 8, 8, 8, 4)}
COMMON = {"network": NETWORK, "training": {"batch_size": 4, "local_epochs": 1, "learning_rate": 0.01}, "rounds": 4}
OF_DECOUPLED = {"network": NETWORK | {"latent": 3, "encoder_features": (4, 8)}, "warmup_rounds": 1}
DATA = make_data([(1,)] * 8)
PERSONAL = ("decoupled", "fedrep", "ditto", "fedbn", "iop_fl", "single_site")


def site_part(name: str, **changes: Any) -> PersonalSite:
    declared = find_method("segmentation", name)
    settings = declared.settings.model_validate(COMMON | (OF_DECOUPLED if name == "decoupled" else {}) | changes)
    made = declared.site_part(settings)
    assert isinstance(made, PersonalSite)
    return made


def received(method: PersonalSite) -> nn.Module:
    return ready_to_compute(described_network(method.settings.network))


def train_round(
    method: PersonalSite, network: nn.Module, folder: Path, number: int = 2
) -> tuple[dict[str, torch.Tensor], float]:
    """Train in place; return the personal part, as it is kept, and the mean loss."""
    site = HandmadeSite(folder, DATA)
    trained = method.train(network, site.view(method, number))
    kept = site.view(method, number).kept_tensors(PERSONAL_FOLDER, number)
    assert kept is not None
    assert kept[0] == number
    return kept[1], trained.outcome.mean_loss


def values(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in after.items() if not torch.equal(before[name], tensor)}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def averaged_alone(settings: PersonalSettings, network: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """What training as in federated averaging makes of a network with this seed."""
    training = settings.training
    batches = training_batches(DATA, training, torch.device("cpu"))
    objective = training_objective(training)
    train(network, batches, objective, training, learning_rate=training.learning_rate, seed=seed)
    return values(network)
