"""A site by itself."""

import copy

from torch import nn

from ...interface.views import SiteView
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ...training.objectives import training_objective
from ..personal.site import PersonalSite


class LoneSite(PersonalSite):
    """A site's own network is trained on its own data, and nothing of it is shared."""

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the received network, the same at all sites."""
        del seed
        return copy.deepcopy(shared)

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train the personal network; the shared one goes back as it was received."""
        del shared
        objective = training_objective(self.settings.training)
        return self.train_part(personal, objective, batches, site, seed=site.training_seed)

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the personal network."""
        del shared
        return personal
