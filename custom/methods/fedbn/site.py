"""FedBN at a site."""

import copy

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from ....transforms.errors import DataError
from ...interface.views import SiteView
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ...training.objectives import training_objective
from ..personal.site import PersonalSite
from .settings import FedBnSettings

# Batch and instance normalisation have a common base class.
_NORMALISATIONS = (_NormBase, nn.GroupNorm, nn.LayerNorm)


class FedBnSite(PersonalSite):
    """Trains the whole network with the site's own normalisation layers, and sends them back as they were received.

    What normalises over batches, instances, groups or layers counts, its scale and shift as well as its statistics.
    """

    settings: FedBnSettings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the received normalisation layers.

        Raises:
            DataError: if the network has none with values.
        """
        del seed
        own = nn.ModuleList(copy.deepcopy(layer) for layer in _normalisations(shared))
        if not own.state_dict():
            raise DataError(
                "The method 'fedbn' keeps normalisation layers at each site, but the network has none with values; "
                "expected one with batch normalisation, or with 'affine' instance normalisation."
            )
        return own

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train all layers, with the site's own normalisation in place of the received one."""
        layers = nn.ModuleList(_normalisations(shared))
        received = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
        layers.load_state_dict(personal.state_dict())
        objective = training_objective(self.settings.training, shared)
        outcome = self.train_part(shared, objective, batches, site, seed=site.training_seed)
        personal.load_state_dict(layers.state_dict())
        layers.load_state_dict(received)
        return outcome

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the shared network with the site's own normalisation layers."""
        own = copy.deepcopy(shared)
        nn.ModuleList(_normalisations(own)).load_state_dict(personal.state_dict())
        return own


def _normalisations(network: nn.Module) -> list[nn.Module]:
    """The normalisation layers of a network, each once, in its own order."""
    return [module for module in network.modules() if isinstance(module, _NORMALISATIONS)]
