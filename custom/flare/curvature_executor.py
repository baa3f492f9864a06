"""A site's side of FedCurv."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from torch import nn

from ..data.datalist import TRAINING
from ..data.round_tensors import save_tensors_of_round
from ..method_settings import FedCurvSettings
from ..methods.fedcurv.curvature import Curvature, CurvaturePenalty, OthersCurvature, fisher_diagonal
from ..seeding import derive_seed
from ..settings import RunSettings
from ..training.batch import Batches
from ..training.loop import TrainingOutcome, train
from ..training.objectives import Sum, training_objective
from .executor import SegmentationExecutor
from .messages import CURVATURE_SAMPLES, CURVATURE_SITES
from .site_executor import run_folder, trained_params

_FOLDER = "curvature"


class CurvatureExecutor(SegmentationExecutor):
    """Trains near what the other sites have learnt, and measures how sharply its own loss bends.

    Contract with the controller, beside that of :class:`SegmentationExecutor`: the state dict holds a
    :class:`fedannot.custom.methods.fedcurv.curvature.Curvature`, the received one the mean of those sites that the task
    names, the sent one this site's own. That is kept in the run's folder, to be taken out of the next mean.
    """

    settings_type: ClassVar[type[RunSettings]] = FedCurvSettings
    settings: FedCurvSettings

    def train_network(
        self,
        network: nn.Module,
        batches: Batches,
        round_number: int,
        meta: Mapping[str, Any],
        fl_ctx: FLContext,
        stop: Signal,
    ) -> TrainingOutcome:
        """Train with the penalty, then measure the curvature."""
        curvature = network.get_submodule("curvature")
        assert isinstance(curvature, Curvature)
        parameters = list(network.parameters())
        others = self._others(network, curvature, round_number - 1, meta, fl_ctx)
        seed, training, dice = (
            self.training_seed(round_number, fl_ctx),
            self.settings.training,
            self.dice_record(network),
        )
        objective = training_objective(training, network, dice)
        if others is not None:
            objective = Sum(objective, CurvaturePenalty(self.settings.curvature_weight, others))

        def should_stop() -> bool:
            return bool(stop.triggered)

        outcome = train(
            network,
            batches,
            objective,
            training,
            learning_rate=training.learning_rate_at(round_number, self.settings.rounds),
            seed=seed,
            should_stop=should_stop,
        )
        generator = torch.Generator().manual_seed(derive_seed(seed, "curvature"))
        curvature.store(fisher_diagonal(network, batches, generator, should_stop), parameters)
        save_tensors_of_round(
            run_folder(fl_ctx) / _FOLDER, round_number, trained_params(curvature), keep=self.settings.keep_rounds
        )
        return outcome.with_dice(dice)

    def _others(
        self, network: nn.Module, received: Curvature, last_round: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> OthersCurvature | None:
        """What the other sites ask; None before the first mean, or where this site is alone in it."""
        sites = meta.get(CURVATURE_SITES, [])
        own = self._own(network, last_round, meta, fl_ctx) if fl_ctx.get_identity_name() in sites else None
        if len(sites) <= (own is not None):
            return None
        share = self.site_data(TRAINING, fl_ctx).num_samples / int(meta[CURVATURE_SAMPLES])
        return OthersCurvature.of(received, own, list(network.parameters()), share=share, num_sites=len(sites))

    def _own(self, network: nn.Module, last_round: int, meta: Mapping[str, Any], fl_ctx: FLContext) -> Curvature | None:
        """What this site sent for the mean; None if it is lost, and then counted among the others'."""
        found = self.kept_tensors(_FOLDER, last_round, meta, fl_ctx)
        if found is None or found[0] != last_round:
            self.log_warning(fl_ctx, f"This site's own curvature after round {last_round} is not in {_FOLDER}.")
            return None
        own = Curvature(network)
        own.load_state_dict(found[1])
        return own.to(next(network.parameters()).device)
