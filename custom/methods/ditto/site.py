"""Ditto at a site."""

import copy

from torch import nn

from ...interface.views import SiteView
from ...seeding import derive_seed
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ...training.losses import build_loss
from ...training.objectives import ProximalPenalty, Sum, SupervisedObjective, training_objective
from ..personal.site import PersonalSite
from .settings import DittoSettings


class DittoSite(PersonalSite):
    """Ditto (Li et al., *Fair and Robust Federated Learning Through Personalization*, ICML 2021).

    The shared network is trained as in federated averaging. Besides it every site has a whole network of its own,
    trained on the same data with λ/2 ‖v − w‖², which keeps it near the received one.
    """

    settings: DittoSettings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the received network."""
        del seed
        return copy.deepcopy(shared)

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train the personal network, then the shared one."""
        near_received = ProximalPenalty(self.settings.personal_proximal_weight, shared)
        own = Sum(SupervisedObjective(build_loss(self.settings.training)), near_received)
        seed = derive_seed(site.training_seed, "personal")
        self.train_part(personal, own, batches, site, seed=seed, part="personal", is_proximal=False)
        objective = training_objective(self.settings.training)
        return self.train_part(shared, objective, batches, site, seed=site.training_seed)

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the personal network."""
        del shared
        return personal
