"""RMD at a site: two networks are trained at once, and both leave it."""

from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...interface.views import SiteView
from ...networks.second_network import first_network, second_network
from ...seeding import derive_seed
from ...training.losses import DiceRecord
from ...training.objectives import Objective
from ..fedavg.site import FedAvgSite
from .mutual_objective import MutualObjective
from .settings import RmdSettings


class RmdSite(FedAvgSite):
    """Trains the received networks on pixels that they choose for each other.

    Without a dropped fraction and a weight of the teaching, both networks are trained as in federated averaging, each
    by itself.
    """

    settings: RmdSettings

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss of both; the Dice loss is recorded of the first network."""
        objectives = (
            super().objective(first_network(network), site, dice, targets),
            super().objective(second_network(network), site, None, targets),
        )
        seed = derive_seed(site.training_seed, "mutual distillation")
        return MutualObjective(objectives, self.settings, round_number=site.round_number, seed=seed)
