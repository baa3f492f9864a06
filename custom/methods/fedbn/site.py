"""FedBN at a site."""

import copy

from torch import nn

from ...interface.views import SiteView
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ...training.objectives import training_objective
from ..personal.site import PersonalSite
from .normalisation import normalisations
from .settings import FedBnSettings


class FedBnSite(PersonalSite):
    """Trains the whole network with the site's own normalisation layers, and sends them back as they were received.

    What normalises over batches, instances, groups or layers counts, its scale and shift as well as its statistics.
    """

    settings: FedBnSettings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the received normalisation layers."""
        del seed
        return nn.ModuleList(copy.deepcopy(layer) for layer in normalisations(shared))

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train all layers, with the site's own normalisation in place of the received one."""
        layers = nn.ModuleList(normalisations(shared))
        received = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
        layers.load_state_dict(personal.state_dict())
        objective = training_objective(self.settings.training)
        outcome = self.train_part(shared, objective, batches, site, seed=site.training_seed)
        personal.load_state_dict(layers.state_dict())
        layers.load_state_dict(received)
        return outcome

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the shared network with the site's own normalisation layers."""
        own = copy.deepcopy(shared)
        nn.ModuleList(normalisations(own)).load_state_dict(personal.state_dict())
        return own
