"""FedRobust at a site: the model is trained on changed images, and the change grows worse; the change stays there."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...interface.views import SiteView
from ...training.batch import Batch, Batches
from ...training.loop import TrainingOutcome
from ...training.losses import DiceRecord
from ...training.objectives import Objective, Step
from ..fedavg.site import FedAvgSite
from ..personal.kept_module import keep_module, restore_module
from .channel_change import ChannelChange
from .settings import RobustSettings

CHANGE_FOLDER = "channel_changes"


class ChangedImages:
    """The settings' objective, of changed images with the labels that they have.

    Args:
        supervised: the objective, with all that the settings add to it.
        change: on the network's device; it gets a gradient, too.

    Attributes:
        change: as above.
    """

    def __init__(self, supervised: Objective, change: ChannelChange) -> None:
        self._supervised, self.change = supervised, change

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return ℓ(w; Λ x + δ, y)."""
        return self._supervised(network, replace(batch, images=self.change(batch.images)), step)


class FedRobustSite(FedAvgSite):
    """Trains as in federated averaging, on images that an adversary changes at the same time.

    Λ and δ are kept in the run's folder after each round and never leave it. A round begins with those of the latest
    round before it that the site was there for. With a step of 0 there is no adversary, and the training is that of
    federated averaging.
    """

    settings: RobustSettings

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the settings' objective of changed images."""
        supervised = super().objective(network, site, dice, targets)
        if not self.settings.ascent_step:
            return supervised
        return ChangedImages(supervised, self._change(site).to(next(network.parameters()).device))

    def train_part(
        self, network: nn.Module, objective: Objective, batches: Batches, site: SiteView, **options: Any
    ) -> TrainingOutcome:
        """Train against the change, and keep it; that of a training that is given up is lost with it."""
        if not isinstance(objective, ChangedImages):
            return super().train_part(network, objective, batches, site, **options)
        change = objective.change
        adversary = change.adversary(self.settings.change_penalty, self.settings.ascent_step)
        outcome = super().train_part(network, objective, batches, site, adversary=adversary, **options)
        if keep_module(change, site, CHANGE_FOLDER, self.settings.keep_rounds):
            sizes = [float(parameter.detach().norm()) for parameter in (change.deviation, change.offset)]
            site.info(
                f"Round {site.round_number}: the change of the images has ‖Λ − I‖ = {sizes[0]:.3g} and "
                f"‖δ‖ = {sizes[1]:.3g}."
            )
        return outcome

    def _change(self, site: SiteView) -> ChannelChange:
        """The change as it was before the round; none at the start, or where the kept one cannot be used."""
        change = ChannelChange(self.settings.network.in_channels)
        restore_module(change, site, CHANGE_FOLDER)
        return change
