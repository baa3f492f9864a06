"""Federated averaging at a site with what its settings add: SCAFFOLD's control variate, the number of local steps."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...data.tensor_files import save_tensors_of_round
from ...interface.views import SiteView, Trained
from ...training.batches import training_batches
from ...training.loop import steps_of_round
from ...training.losses import DiceRecord
from ...training.objectives import Objective, Sum
from .averaging_settings import AveragingSettings
from .control_variates import (
    COUNTED_ROUND,
    IS_CONTROLLED,
    DriftPenalty,
    next_variate,
    sorted_parameters,
    variates_of,
)
from .local_progress import NUM_STEPS, summed_rates
from .site import FedAvgSite

_FOLDER = "control_variates"


class AveragingSite(FedAvgSite):
    """Trains the received network; with SCAFFOLD its steps are corrected by the site's control variate.

    That variate is kept in the run's folder and never leaves it.
    """

    settings: AveragingSettings

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Return the number of local steps where drift is corrected; it follows from the site's data alone."""
        training = self.settings.training
        if self.settings.drift_correction == "none":
            return {}
        if training.local_steps is not None:
            return {NUM_STEPS: training.local_steps}
        targets = self.targets(site)
        batches = training_batches(
            site.load(TRAINING), training, torch.device("cpu"), labels=targets.labels, used=targets.used
        )
        return {NUM_STEPS: steps_of_round(training, batches)}

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the settings' objective, with SCAFFOLD's correction from the second round on."""
        objective = super().objective(network, site, dice, targets)
        if not self._is_controlled or not site.message[IS_CONTROLLED]:
            return objective
        return Sum(objective, DriftPenalty(network, self._own(network, site)))

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train, and keep the site's next control variate."""
        if not self._is_controlled:
            return super().train(network, site)
        received = [parameter.detach().clone() for parameter in sorted_parameters(network)]
        trained = super().train(network, site)
        rates = summed_rates(self.learning_rate(site), trained.outcome.steps)
        everybodys, reached = variates_of(network).values(), sorted_parameters(network)
        own = next_variate(self._own(network, site), everybodys, received, reached, rates)
        counted = site.message.get(COUNTED_ROUND)
        save_tensors_of_round(
            site.run_folder / _FOLDER,
            site.round_number,
            {str(index): value.cpu() for index, value in enumerate(own)},
            keep=self.settings.keep_rounds if counted is None else {*self.settings.keep_rounds, counted},
        )
        return trained

    @property
    def _is_controlled(self) -> bool:
        return self.settings.drift_correction == "scaffold"

    def _own(self, network: nn.Module, site: SiteView) -> list[torch.Tensor]:
        """The variate with which the site counted last; zeros before that, or where it is lost."""
        counted = site.message.get(COUNTED_ROUND)
        zeros = [torch.zeros_like(variate) for variate in variates_of(network).values()]
        if counted is None:
            return zeros
        result = site.kept_tensors(_FOLDER, int(counted))
        if result is None or result[0] != counted:
            site.warning(f"This site's own control variate after round {counted} is not in {_FOLDER}; zeros count.")
            return zeros
        return [result[1][str(index)].to(zero.device) for index, zero in enumerate(zeros)]
