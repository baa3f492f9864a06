"""FedNoRo at a site: the mean losses of its classes, and training that trusts its labels less where it is noisy."""

from typing import Any

import torch
from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...interface.views import Answer, SiteView
from ...training.losses import DiceRecord
from ...training.objectives import Objective
from ..feda3i.quality_report import quality_report
from ..fedavg.site import FedAvgSite
from .class_losses import class_loss_report
from .distillation import DistillationObjective
from .prior import log_frequencies
from .server import DISTILLATION
from .settings import NoisySitesSettings


class FedNoRoSite(FedAvgSite):
    """Trains with adjusted logits where the settings say so; as a noisy site it learns from the received model, too."""

    settings: NoisySitesSettings

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_class_losses``, in segmentation ``estimate_quality``."""
        del task
        report = quality_report if self.settings.task == "segmentation" else class_loss_report
        return report(network, site.load(TRAINING), self.settings)

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss of the round; without adjustment and noise that of federated averaging."""
        supervised = super().objective(network, site, dice, targets)
        weight = _checked_weight(site.message.get(DISTILLATION, 0.0))
        if not (weight or self.settings.logit_adjustment):
            return supervised
        return DistillationObjective(
            supervised,
            network,
            log_prior=self._log_prior(site, targets) if self.settings.logit_adjustment else None,
            weight=weight,
            temperature=self.settings.distillation_temperature,
        )

    def _log_prior(self, site: SiteView, targets: Targets) -> torch.Tensor:
        data = site.load(TRAINING)
        labels = [case.label for case in data.cases] if targets.labels is None else list(targets.labels)
        is_segmentation = self.settings.task == "segmentation"
        return log_frequencies(labels, self.settings.network.num_classes + is_segmentation)


def _checked_weight(weight: Any) -> float:
    """The weight of the received model that the server names.

    Raises:
        ValueError: if it is none.
    """
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0.0 <= weight <= 1.0:
        raise ValueError(f"Expected a weight of distillation from 0 to 1 from the server, but got {weight!r:.80}.")
    return float(weight)
