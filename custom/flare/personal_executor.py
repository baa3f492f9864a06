"""A site's side of methods with personal parts: what is personal is kept in the site's files and is in no result."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from torch import nn

from ..data.json_record import write_record
from ..data.personal_files import LOCAL_MODEL_FILE, LOCAL_SCORES_FILE, PERSONAL_FOLDER
from ..data.round_tensors import save_tensors_of_round
from ..data.tensor_files import write_tensors
from ..method_settings import PersonalSettings
from ..methods.personal.personal_methods import RoundOfTraining, personal_method
from ..networks.devices import ready_to_compute
from ..outbound.registry import KEEP_MODEL
from ..seeding import derive_seed
from ..training.batch import Batches
from ..training.loop import TrainingOutcome
from .executor import SegmentationExecutor
from .site_executor import run_folder, trained_params


class PersonalExecutor(SegmentationExecutor):
    """Trains the shared network together with the site's personal part, and keeps the site's own model.

    Contract with the controller, beside that of :class:`SegmentationExecutor`: the result of ``train`` is the state
    dict of the shared network, which has no personal entry; ``validate`` scores the site's own model; ``keep_model``
    stores the final shared network with the personal part, and the scores of both predictions on the site's validation
    cases, in the run's folder.
    """

    settings_type = PersonalSettings
    settings: PersonalSettings

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._method = personal_method(self.settings)

    def do_task(
        self, task: str, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext, stop: Signal
    ) -> DXO | None:
        """Train, validate or keep the model."""
        if task == KEEP_MODEL:
            self._keep(network, round_number, meta, fl_ctx)
            return DXO(DataKind.METRICS, data={"has_model": True})
        return super().do_task(task, network, round_number, meta, fl_ctx, stop)

    def train_network(
        self,
        network: nn.Module,
        batches: Batches,
        round_number: int,
        meta: Mapping[str, Any],
        fl_ctx: FLContext,
        stop: Signal,
    ) -> TrainingOutcome:
        """Train the shared and the personal part, and keep the latter."""
        personal = self._personal_part(network, round_number - 1, meta, fl_ctx)
        this_round = RoundOfTraining(
            round_number, batches, self.training_seed(round_number, fl_ctx), lambda: bool(stop.triggered)
        )
        outcome = self._method.train(network, personal, this_round)
        save_tensors_of_round(
            _personal_folder(fl_ctx), round_number, trained_params(personal), keep=self.settings.keep_rounds
        )
        return outcome

    def model_in_use(
        self, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> nn.Module:
        """Return the site's own model."""
        return self._method.local_model(network, self._personal_part(network, round_number, meta, fl_ctx))

    def _personal_part(
        self, network: nn.Module, last_round: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> nn.Module:
        """The personal part as it was after a round, or after the last one before it that the site was there for."""
        site = fl_ctx.get_identity_name()
        personal = self._method.start(network, derive_seed(self.settings.seed, site, "personal layers"))
        if (found := self.kept_tensors(PERSONAL_FOLDER, last_round, meta, fl_ctx)) is not None:
            personal.load_state_dict(found[1])
        return ready_to_compute(personal)

    def keep_model(
        self, params: Mapping[str, Any], round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> None:
        """Store a shared model with the site's own layers, and what both predictions score.

        Args:
            params: the shared state dict.
            round_number: the round after which it is the shared one.
            meta: what came with it.
            fl_ctx: NVFlare's context.
        """
        self._keep(self.received_network(params), round_number, meta, fl_ctx)

    def _keep(self, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext) -> None:
        from ..evaluation.local_scores import local_scores

        folder = _personal_folder(fl_ctx)
        folder.mkdir(parents=True, exist_ok=True)
        personal = self._personal_part(network, round_number, meta, fl_ctx)
        content = {"shared": trained_params(network), "personal": trained_params(personal), "round": round_number}
        write_tensors(folder / LOCAL_MODEL_FILE, content)
        self.log_info(fl_ctx, f"The model with this site's own layers is {folder / LOCAL_MODEL_FILE}.")
        if (data := self.validation_data(fl_ctx)) is not None:
            models = {"local": self._method.local_model(network, personal)}
            if self.settings.has_global_model:
                models = {"global": network} | models
            scores = local_scores(models, data, self.settings)
            write_record(folder / LOCAL_SCORES_FILE, scores)
            known = {name: score.dice for name, score in scores.models.items() if score.dice is not None}
            what = ", ".join(f"{name} {100 * dice:.1f} %" for name, dice in known.items()) or "nothing is annotated"
            self.log_info(fl_ctx, f"Dice on this site's {scores.num_cases} validation cases: {what}.")


def _personal_folder(fl_ctx: FLContext) -> Path:
    return run_folder(fl_ctx) / PERSONAL_FOLDER
