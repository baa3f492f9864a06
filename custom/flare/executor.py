"""A site's side of segmentation: it trains, estimates, corrects and validates on its own data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from torch import nn

from ..data.corrections import CORRECTIONS_FOLDER, labels_in_use, read_corrections
from ..data.datalist import TRAINING, VALIDATION
from ..data.site_data import SiteData, count_cases
from ..evaluation.inference import Inference
from ..method_settings import FedAvgSettings, FedIASettings
from ..outbound.registry import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS, ESTIMATE_QUALITY, TRAIN, VALIDATE
from ..outbound.reports import completeness_report, quality_report, training_report, validation_report
from ..seeding import derive_seed
from ..settings import RunSettings
from ..training.batch import Batches
from ..training.batches import training_batches
from ..training.loop import TrainingOutcome, train
from ..training.losses import DiceRecord
from ..training.objectives import training_objective
from .messages import CONTINUED_ROUND
from .site_executor import SiteExecutor, note_samples, run_folder, trained_params

# Tasks that judge the site's annotations, and what they answer.
_ESTIMATES = {ESTIMATE_QUALITY: quality_report, ESTIMATE_COMPLETENESS: completeness_report}


class SegmentationExecutor(SiteExecutor):
    """Trains, estimates annotation quality, corrects annotations and validates at one site.

    Contract with the controller, beside that of :class:`SiteExecutor`: ``train`` answers with the trained state dict;
    the other tasks answer with metrics. Corrected annotations lie in the run's folder. Where a run is continued the
    controller says so (:data:`fedannot.custom.flare.messages.CONTINUED_JOB`), and the site takes them over from the
    earlier run.
    """

    settings_type: ClassVar[type[RunSettings]] = FedAvgSettings
    settings: FedAvgSettings

    def do_task(
        self, task: str, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext, stop: Signal
    ) -> DXO | None:
        """Train, estimate, correct or validate."""
        self._take_over_corrections(meta, fl_ctx)
        if task == TRAIN:
            return self._train(network, round_number, meta, fl_ctx, stop)
        if task in _ESTIMATES:
            data = self.site_data(TRAINING, fl_ctx)
            report = _ESTIMATES[task](network, data, self.settings)
            note_samples(report.samples, fl_ctx)
            return DXO(DataKind.METRICS, data=report.fields)
        if task == CORRECT_ANNOTATIONS:
            self._correct(network, round_number, fl_ctx)
            return DXO(DataKind.METRICS, data={"has_corrected": True})
        if task == VALIDATE:
            model = self.model_in_use(network, round_number, meta, fl_ctx)
            return DXO(DataKind.METRICS, data=validation_report(model, self.validation_data(fl_ctx), self.settings))
        return None

    # --- what a method's executor overrides

    def train_network(
        self,
        network: nn.Module,
        batches: Batches,
        round_number: int,
        meta: Mapping[str, Any],
        fl_ctx: FLContext,
        stop: Signal,
    ) -> TrainingOutcome:
        """Train the received network in place on the site's data."""
        del meta
        training, dice = self.settings.training, self.dice_record(network)
        outcome = train(
            network,
            batches,
            training_objective(training, network, dice),
            training,
            learning_rate=training.learning_rate_at(round_number, self.settings.rounds),
            seed=self.training_seed(round_number, fl_ctx),
            should_stop=lambda: bool(stop.triggered),
        )
        return outcome.with_dice(dice)

    def model_in_use(
        self, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> nn.Module:
        """Return the model that the site would use, given the received network after a round; by default that."""
        del round_number, meta, fl_ctx
        return network

    # --- what they need

    def training_seed(self, round_number: int, fl_ctx: FLContext) -> int:
        """Return the seed of a round's training at this site."""
        return derive_seed(self.settings.seed, fl_ctx.get_identity_name(), round_number, "training")

    def dice_record(self, network: nn.Module) -> DiceRecord | None:
        """Return what records the Dice loss of a round's training, where the site reports it."""
        if not self.settings.reports_dice_loss:
            return None
        annotated_only = self.settings.training.dice_loss_over == "annotated"
        return DiceRecord(annotated_only=annotated_only, device=next(network.parameters()).device)

    def validation_data(self, fl_ctx: FLContext) -> SiteData | None:
        """Return the site's validation cases, None if it has none."""
        has_cases = count_cases(self.locate(fl_ctx).folder, VALIDATION) > 0
        return self.site_data(VALIDATION, fl_ctx) if has_cases else None

    def labels_in_use(self, section: str, fl_ctx: FLContext) -> Mapping[Path, Path]:
        """Return the corrected annotations of the training cases; the data manager may revert some at any time."""
        if section != TRAINING:
            return {}
        return labels_in_use(_corrections_folder(fl_ctx), self.locate(fl_ctx).folder)

    def _train(
        self, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext, stop: Signal
    ) -> DXO:
        data = self.site_data(TRAINING, fl_ctx)
        batches = training_batches(data, self.settings.training, next(network.parameters()).device)
        outcome = self.train_network(network, batches, round_number, meta, fl_ctx, stop)
        self.log_info(fl_ctx, f"Round {round_number}: loss {outcome.mean_loss:.4f} after {outcome.steps} steps.")
        meta = training_report(data, outcome, embedded=self.locate(fl_ctx).embedded)
        if self._corrects:
            meta["has_corrected"] = read_corrections(_corrections_folder(fl_ctx)) is not None
        return DXO(DataKind.WEIGHTS, data=trained_params(network), meta=meta)

    @property
    def _corrects(self) -> bool:
        return isinstance(self.settings, FedIASettings) and self.settings.correction

    def _correct(self, network: nn.Module, round_number: int, fl_ctx: FLContext) -> None:
        """Correct the annotations, once; a second call finds the work done."""
        folder = _corrections_folder(fl_ctx)
        if read_corrections(folder) is not None:
            return
        assert isinstance(self.settings, FedIASettings)
        from ..methods.fedia.annotation_correction import correct_annotations

        corrections = correct_annotations(
            network,
            self.site_data(TRAINING, fl_ctx),
            folder,
            data_folder=self.locate(fl_ctx).folder,
            method=self.settings.method,
            round_number=round_number,
            threshold=self.settings.correction_threshold,
            inference=Inference.of(self.settings),
        )
        voxels, lesions = (
            sum(getattr(label, of) for label in corrections.used) for of in ("added_voxels", "new_lesions")
        )
        self.log_info(
            fl_ctx,
            f"Before round {round_number}: {len(corrections.used)} of {len(corrections.labels)} annotations corrected, "
            f"{voxels} voxels and {lesions} lesions added. To look at them or to undo it: fedannot corrections show "
            f"{folder}",
        )
        for label, reason in corrections.failed:
            self.log_warning(fl_ctx, f"The annotation {label} could not be corrected: {reason}", fire_event=False)

    def _take_over_corrections(self, meta: Mapping[str, Any], fl_ctx: FLContext) -> None:
        """Look for the corrections of the run that this one continues, if it does."""
        if not self._corrects:
            return
        for earlier in self.earlier_run_folders(meta, fl_ctx):
            from ..methods.fedia.annotation_correction import adopt_corrections

            taken = adopt_corrections(
                earlier / CORRECTIONS_FOLDER,
                _corrections_folder(fl_ctx),
                data_folder=self.locate(fl_ctx).folder,
                last_round=int(meta[CONTINUED_ROUND]) + 1,
            )
            if taken:
                self.log_info(fl_ctx, f"The corrected annotations of {earlier} are used.")


def _corrections_folder(fl_ctx: FLContext) -> Path:
    return run_folder(fl_ctx) / CORRECTIONS_FOLDER
