"""FedDM at a site: it keeps the models of two other sites, which choose its pixels together with its own."""

import copy

from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.tensor_files import UNREADABLE, save_tensors_of_round
from ...interface.views import Answer, SiteView
from ...networks.devices import params_in_main_memory
from ...training.losses import DiceRecord
from ...training.objectives import Objective
from ..fedavg.site import FedAvgSite
from .pixel_selection import SelectedPixels, kept_share
from .server import PEER_ROLE, ROLES
from .settings import FedDMSettings

PEER_FOLDER = "peer_models"


class FedDMSite(FedAvgSite):
    """Trains on the pixels that its model and two peers choose, as soon as it has both; before that on all of them.

    The peers are models of other sites, which it does not learn the names of. They are kept in the run's folder.
    """

    settings: FedDMSettings

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``keep_peer_model``: the received model is a peer's."""
        del task
        role = site.message.get(PEER_ROLE)
        if role not in ROLES:
            site.warning(f"Found the peer {str(role)[:40]!a}, expected one of {', '.join(ROLES)}; it is not kept.")
            return Answer({"has_peer": False})
        folder = site.run_folder / PEER_FOLDER / role
        save_tensors_of_round(folder, site.round_number, params_in_main_memory(network), keep=self.settings.keep_rounds)
        return Answer({"has_peer": True})

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss of selected pixels, in the first round and without peers that of the settings."""
        peers = [self._peer(role, network, site) for role in ROLES]
        nearest, farthest = peers
        if nearest is None or farthest is None:
            if site.round_number > 1:
                site.warning(f"Round {site.round_number}: there are no peers, and all pixels count.")
            return super().objective(network, site, dice, targets)
        settings = self.settings
        share = kept_share(settings.dropped_share, site.round_number - 1, settings.dropping_rounds)
        return SelectedPixels(nearest, farthest, share=share, is_focal=settings.pixel_loss == "focal")

    def _peer(self, role: str, network: nn.Module, site: SiteView) -> nn.Module | None:
        """A peer after the latest round before this one; None where there is none, or it cannot be used."""
        peer = copy.deepcopy(network)
        try:
            kept = site.kept_tensors(f"{PEER_FOLDER}/{role}", site.round_number - 1)
            if kept is None:
                return None
            peer.load_state_dict(kept[1])
        except (*UNREADABLE, KeyError, TypeError, AttributeError) as error:
            site.warning(f"The {role} peer in {PEER_FOLDER} cannot be used ({type(error).__name__}: {error}).")
            return None
        return peer.eval().requires_grad_(requires_grad=False)
