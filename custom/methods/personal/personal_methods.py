"""Methods in which every site has a part of the model for itself: what it is, how it is trained, how it predicts.

The personal part is a module of its own. It lies in the site's files and is in no result; see
:mod:`fedannot.custom.flare.personal_executor`.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import nn

from ...method_settings import (
    DecoupledSettings,
    DittoSettings,
    FedAvgSettings,
    FedRepSettings,
    PersonalSettings,
    SingleSiteSettings,
)
from ...networks.building import layer_blocks
from ...seeding import derive_seed
from ...training.batch import Batch, Batches
from ...training.loop import TrainingOutcome, train
from ...training.losses import build_loss
from ...training.objectives import Objective, ProximalPenalty, Step, Sum, SupervisedObjective, training_objective
from ..decoupled.loss import DecoupledLoss
from ..decoupled.network import AdaptationNetwork, DecoupledNetwork, LocalModel


@dataclass(frozen=True)
class RoundOfTraining:
    """What a round of training needs beside the networks.

    Attributes:
        number: the round, from 1.
        batches: the site's data.
        seed: seed of everything random in the round.
        should_stop: asked before each batch; when it says yes the round is given up.
    """

    number: int
    batches: Batches
    seed: int
    should_stop: Callable[[], bool] | None = None


class PersonalMethod(Protocol):
    """A method with personal parts, at one site."""

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the personal part with which a site begins, given the first received network."""

    def train(self, shared: nn.Module, personal: nn.Module, this_round: RoundOfTraining) -> TrainingOutcome:
        """Train both in place. What is personal of the shared network's entries is left as it was received."""

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the site's own model, which maps images to logits."""


def personal_method(settings: FedAvgSettings) -> PersonalMethod:
    """Return the method of a job's settings.

    Raises:
        TypeError: if it has no personal part.
    """
    for kind, method in _METHODS.items():
        if isinstance(settings, kind):
            return method(settings)
    raise TypeError(f"Expected the settings of a method with personal parts, but got {type(settings).__name__}.")


class Decoupled:
    """Decoupled predictions (Gao et al., MICCAI 2022): the adaptation network is personal, all else shared."""

    def __init__(self, settings: DecoupledSettings) -> None:
        self._settings = settings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return an adaptation network that knows nothing; the warm-up brings it near the identity."""
        del shared
        network = self._settings.network
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AdaptationNetwork(
                self._settings.adaptation,
                num_outputs=network.num_classes + 1,
                latent=network.latent,
                features=network.features[-1],
                in_channels=network.in_channels,
                spatial_dims=network.spatial_dims,
            )

    def train(self, shared: nn.Module, personal: nn.Module, this_round: RoundOfTraining) -> TrainingOutcome:
        """Train both networks together, by Eq. 7 in the warm-up and by Eq. 8 after it."""
        assert isinstance(shared, DecoupledNetwork)
        assert isinstance(personal, AdaptationNetwork)
        settings = self._settings
        loss = DecoupledLoss(
            is_warmup=this_round.number <= settings.warmup_rounds,
            trace_weight=settings.trace_weight,
            divergence_weight=settings.divergence_weight,
            exponent=settings.noise_exponent,
        )
        generator = torch.Generator().manual_seed(derive_seed(this_round.seed, "latent codes"))

        def objective(network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
            del network, step
            return loss(shared, personal, batch.images, batch.labels, generator)

        return _train(nn.ModuleList([shared, personal]), objective, settings, this_round)

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return W ⊙ p."""
        assert isinstance(shared, DecoupledNetwork)
        assert isinstance(personal, AdaptationNetwork)
        return LocalModel(shared, personal)


class FedRep:
    """FedRep (Collins et al., *Exploiting Shared Representations for Personalized Federated Learning*, ICML 2021).

    The last block of the network, the head, is personal. In every round the head is trained first, with the received
    representation fixed, then the representation with that head fixed. The shared network's own head stays as it was
    received, so that nothing of the personal one is in a result.
    """

    def __init__(self, settings: FedRepSettings) -> None:
        self._settings = settings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the head of the received network."""
        del seed
        return copy.deepcopy(shared.get_submodule(layer_blocks(shared)[-1]))

    def train(self, shared: nn.Module, personal: nn.Module, this_round: RoundOfTraining) -> TrainingOutcome:
        """Train the head, then the representation."""
        together = self.local_model(shared, personal)
        name = layer_blocks(shared)[-1]
        head = {id(parameter) for parameter in together.get_submodule(name).parameters()}
        settings, outcome = self._settings, None
        for part, epochs in (("head", settings.head_epochs), ("representation", settings.training.local_epochs)):
            for parameter in together.parameters():
                parameter.requires_grad_((id(parameter) in head) == (part == "head"))
            training = settings.training.model_copy(update={"local_epochs": epochs})
            outcome = _train(
                together,
                training_objective(training, together),
                settings.model_copy(update={"training": training}),
                replace(this_round, seed=derive_seed(this_round.seed, part)),
            )
        for parameter in together.parameters():
            parameter.requires_grad_(True)
        assert outcome is not None
        return outcome

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the shared network with the personal head; the two share their other parameters."""
        together = copy.copy(shared)
        together._modules = dict(shared._modules) | {layer_blocks(shared)[-1]: personal}
        return together


class Ditto:
    """Ditto (Li et al., *Fair and Robust Federated Learning Through Personalization*, ICML 2021).

    The shared network is trained as in federated averaging. Beside it every site has a whole network of its own,
    trained on the same data with λ/2 ‖v − w‖², which keeps it near the received one.
    """

    def __init__(self, settings: DittoSettings) -> None:
        self._settings = settings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the received network."""
        del seed
        return copy.deepcopy(shared)

    def train(self, shared: nn.Module, personal: nn.Module, this_round: RoundOfTraining) -> TrainingOutcome:
        """Train the personal network, then the shared one."""
        training = self._settings.training
        near_received = ProximalPenalty(self._settings.personal_proximal_weight, shared)
        own = Sum(SupervisedObjective(build_loss(training)), near_received)
        own_round = replace(this_round, seed=derive_seed(this_round.seed, "personal"))
        _train(personal, own, self._settings, own_round)
        return _train(shared, training_objective(training, shared), self._settings, this_round)

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the personal network."""
        del shared
        return personal


class SingleSite:
    """Every site by itself: its own network is trained on its own data, and nothing of it is shared."""

    def __init__(self, settings: SingleSiteSettings) -> None:
        self._settings = settings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the received network, the same at all sites."""
        del seed
        return copy.deepcopy(shared)

    def train(self, shared: nn.Module, personal: nn.Module, this_round: RoundOfTraining) -> TrainingOutcome:
        """Train the personal network; the shared one goes back as it was received."""
        del shared
        objective = training_objective(self._settings.training, personal)
        return _train(personal, objective, self._settings, this_round)

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the personal network."""
        del shared
        return personal


def _train(
    network: nn.Module, objective: Objective, settings: PersonalSettings, this_round: RoundOfTraining
) -> TrainingOutcome:
    """Train as the settings say, with the round's learning rate, data and seed."""
    return train(
        network,
        this_round.batches,
        objective,
        settings.training,
        learning_rate=settings.training.learning_rate_at(this_round.number, settings.rounds),
        seed=this_round.seed,
        should_stop=this_round.should_stop,
    )


_METHODS: dict[type[FedAvgSettings], Callable[..., PersonalMethod]] = {
    DecoupledSettings: Decoupled,
    FedRepSettings: FedRep,
    DittoSettings: Ditto,
    SingleSiteSettings: SingleSite,
}
