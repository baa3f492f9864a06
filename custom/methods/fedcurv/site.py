"""FedCurv at a site."""

import torch
from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...data.tensor_files import save_tensors_of_round
from ...interface.views import SiteView, Trained
from ...networks.devices import params_in_main_memory
from ...seeding import derive_seed
from ...training.losses import DiceRecord
from ...training.objectives import Objective, Sum
from ..fedavg.site import FedAvgSite
from .curvature import Curvature, CurvaturePenalty, OthersCurvature, fisher_diagonal
from .server import CURVATURE_SAMPLES, IN_MEAN, NUM_CURVATURES
from .settings import FedCurvSettings

_FOLDER = "curvature"


class FedCurvSite(FedAvgSite):
    """Trains near what the other sites have learnt, and measures how sharply its own loss bends.

    The state dict holds a :class:`fedannot.custom.methods.fedcurv.curvature.Curvature`, the received one the mean of
    the last round's sites, the sent one this site's own. That is kept in the run's folder, to be taken out of the next
    mean.
    """

    settings: FedCurvSettings

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the settings' objective and what the other sites ask."""
        others = self._others(network, _curvature_of(network), site)
        objective = super().objective(network, site, dice, targets)
        return objective if others is None else Sum(objective, CurvaturePenalty(self.settings.curvature_weight, others))

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train with the penalty, then measure the curvature."""
        curvature, targets = _curvature_of(network), self.targets(site)
        batches = self.batches(site.load(TRAINING), network, targets)
        trained = self.train_on(batches, network, site, targets)
        generator = torch.Generator().manual_seed(derive_seed(site.training_seed, "curvature"))
        diagonal = fisher_diagonal(network, batches, generator, site.is_stopped)
        curvature.store(diagonal, list(network.parameters()))
        save_tensors_of_round(
            site.run_folder / _FOLDER,
            site.round_number,
            params_in_main_memory(curvature),
            keep=self.settings.keep_rounds,
        )
        return trained

    def _others(self, network: nn.Module, received: Curvature, site: SiteView) -> OthersCurvature | None:
        """What the other sites ask; None before the first mean, or where this site is alone in it."""
        num_sites = int(site.message.get(NUM_CURVATURES, 0))
        own = self._own(network, site) if site.message.get(IN_MEAN, False) else None
        if num_sites <= (own is not None):
            return None
        share = site.load(TRAINING).num_samples / int(site.message[CURVATURE_SAMPLES])
        return OthersCurvature.of(received, own, list(network.parameters()), share=share, num_sites=num_sites)

    def _own(self, network: nn.Module, site: SiteView) -> Curvature | None:
        """What this site sent for the mean; None if it is lost, and then counted among the others'."""
        last_round = site.round_number - 1
        result = site.kept_tensors(_FOLDER, last_round)
        if result is None or result[0] != last_round:
            site.warning(f"This site's own curvature after round {last_round} is not in {_FOLDER}.")
            return None
        own = Curvature(network)
        own.load_state_dict(result[1])
        return own.to(next(network.parameters()).device)


def _curvature_of(network: nn.Module) -> Curvature:
    curvature = network.get_submodule("curvature")
    assert isinstance(curvature, Curvature)
    return curvature
