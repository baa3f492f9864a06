"""IOP-FL at a site."""

import copy

import torch
from torch import nn

from ...interface.views import SiteView
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ...training.objectives import training_objective
from ..personal.site import PersonalSite
from .settings import IopFlSettings


class OwnAverage(nn.Module):
    """A moving average of a site's trained models.

    Args:
        network: of the same form, whose values do not count.
    """

    has_any: torch.Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.model = copy.deepcopy(network)
        self.register_buffer("has_any", torch.tensor(False))

    @torch.no_grad()
    def add(self, network: nn.Module, momentum: float) -> None:
        """Add a trained model: u ← α u + (1 − α) w, and w the first time. Numbers of batches are the last model's.

        Args:
            network: with w.
            momentum: α.
        """
        trained = network.state_dict()
        for name, own in self.model.state_dict().items():
            if self.has_any and own.is_floating_point():
                own.mul_(momentum).add_(trained[name], alpha=1 - momentum)
            else:
                own.copy_(trained[name])
        self.has_any.fill_(True)


class IopFlSite(PersonalSite):
    """Trains the shared network as in federated averaging, and averages what it has trained over the rounds."""

    settings: IopFlSettings

    def start(self, shared: nn.Module, seed: int) -> OwnAverage:
        """Return an average without any model yet."""
        del seed
        return OwnAverage(shared)

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train the shared network, and add it to the site's average."""
        assert isinstance(personal, OwnAverage)
        objective = training_objective(self.settings.training)
        outcome = self.train_part(shared, objective, batches, site, seed=site.training_seed)
        personal.add(shared, self.settings.personal_momentum)
        return outcome

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the site's average; before its first round the shared network."""
        assert isinstance(personal, OwnAverage)
        return personal.model if personal.has_any else shared
