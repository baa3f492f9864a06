"""A site's side of classification: it trains, selects samples and validates on its own data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from torch import nn

from ..data.datalist import TRAINING, VALIDATION
from ..data.json_record import JsonRecord, read_record, write_record
from ..data.label_suspicions import SELECTION_FILE, SUSPICIONS_FILE
from ..data.site_data import SiteData, count_cases
from ..evaluation.inference import Inference
from ..method_settings import ClassificationSettings, FedGSCASettings
from ..methods.fedgsca.credal_loss import CredalLoss, scheduled_beta
from ..methods.fedgsca.label_detection import detection_record, suspicions
from ..methods.fedgsca.label_selection import Selection, sample_losses, select_samples
from ..methods.fedgsca.sample_selector import SampleSelector
from ..outbound.registry import TRAIN, VALIDATE_CLASSES
from ..outbound.reports import class_validation_report, selection_report, training_report
from ..run.state import append_record
from ..seeding import derive_seed
from ..training.batches import training_batches
from ..training.loop import train
from ..training.losses import build_loss
from ..training.objectives import SupervisedObjective
from .messages import SELECTOR
from .site_executor import SiteExecutor, run_folder, trained_params

# Where a site keeps its own selectors, for the ablation without a global one: a file for each round, as a round may be
# done once more after a restart.
_SELECTOR_FOLDER = "sample_selectors"


class _OwnSelector(JsonRecord):
    means: tuple[float, float]
    variances: tuple[float, float]
    priors: tuple[float, float]


class ClassificationExecutor(SiteExecutor):
    """Trains a classifier and validates it at one site; for FedGSCA it selects the samples to train on.

    Contract with the controller, beside that of :class:`SiteExecutor`: ``train`` answers with the trained state dict,
    in FedGSCA with the noise level and the sample selector fitted to the losses of the trained model; the global
    selector comes with the task (:data:`fedannot.custom.flare.messages.SELECTOR`). ``validate_classes`` answers with
    counts. Which cases are suspect stays at the site, in the run's folder.
    """

    settings_type = ClassificationSettings
    settings: ClassificationSettings

    def do_task(
        self, task: str, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext, stop: Signal
    ) -> DXO | None:
        """Train or validate."""
        if task == TRAIN:
            if isinstance(self.settings, FedGSCASettings) and round_number > self.settings.warmup_rounds:
                return self._train_on_selection(self.settings, network, round_number, meta, fl_ctx, stop)
            return self._train(network, round_number, fl_ctx, stop)
        if task == VALIDATE_CLASSES:
            has_cases = count_cases(self.locate(fl_ctx).folder, VALIDATION) > 0
            cases = self.site_data(VALIDATION, fl_ctx) if has_cases else None
            return DXO(DataKind.METRICS, data=class_validation_report(network, cases, self.settings))
        return None

    def _train(
        self,
        network: nn.Module,
        round_number: int,
        fl_ctx: FLContext,
        stop: Signal,
        selection: Selection | None = None,
        loss_function: nn.Module | None = None,
    ) -> DXO:
        """Train on all samples, or on those selected."""
        data, training = self.site_data(TRAINING, fl_ctx), self.settings.training
        labels, used, trained_on = None, None, data.units
        if selection is not None:
            labels, used = torch.from_numpy(selection.labels), torch.from_numpy(selection.used)
            trained_on = tuple(np.array(data.units, dtype=str)[selection.used].tolist())
        outcome = train(
            network,
            training_batches(data, training, next(network.parameters()).device, labels=labels, used=used),
            SupervisedObjective(loss_function or build_loss(training)),
            training,
            learning_rate=training.learning_rate_at(round_number, self.settings.rounds),
            seed=derive_seed(self.settings.seed, data.site, round_number, "training"),
            should_stop=lambda: bool(stop.triggered),
        )
        self.log_info(fl_ctx, f"Round {round_number}: loss {outcome.mean_loss:.4f} after {outcome.steps} steps.")
        embedded = self.locate(fl_ctx).embedded
        meta = training_report(data, outcome, embedded=embedded, trained_on=trained_on)
        return DXO(DataKind.WEIGHTS, data=trained_params(network), meta=meta)

    def _train_on_selection(
        self,
        settings: FedGSCASettings,
        network: nn.Module,
        round_number: int,
        meta: Mapping[str, Any],
        fl_ctx: FLContext,
        stop: Signal,
    ) -> DXO:
        """One pass of the received model says which samples to train on; one of the trained model fits the selector.

        The selector may be fitted to what the received model said as well; then there is one pass.
        """
        data, inference = self.site_data(TRAINING, fl_ctx), Inference.of(settings)
        labels = data.labels.numpy().astype(np.int64)
        selector = self._selector(settings, round_number, meta, fl_ctx)
        probabilities = inference.class_probabilities(network, data.cases).numpy()
        is_adaptive = settings.pseudo_labels == "adaptive"
        selection = select_samples(
            probabilities,
            labels,
            selector,
            smallest_noise_level=settings.smallest_noise_level,
            threshold=settings.initial_threshold if is_adaptive else settings.fixed_threshold,
            adaptive=is_adaptive,
            sample_loss=settings.sample_loss,
            confident_doubts=settings.confident_doubts,
        )
        self._note_selection(data, selection, probabilities, round_number, fl_ctx)
        result = self._train(network, round_number, fl_ctx, stop, selection, _loss_of(settings, round_number))
        if settings.selector_losses == "trained":
            probabilities = inference.class_probabilities(network, data.cases).numpy()
        losses = sample_losses(probabilities, labels, settings.sample_loss)
        start = selector or (SampleSelector.start(losses) if len(losses) > 1 else None)
        fitted = None if start is None else start.fitted(losses)
        if fitted is None:
            self.log_warning(
                fl_ctx,
                f"Round {round_number}: the mixture of losses collapsed; there is no new selector.",
                fire_event=False,
            )
        elif settings.selector == "own":
            file = _selector_file(run_folder(fl_ctx), round_number)
            file.parent.mkdir(exist_ok=True)
            write_record(file, _OwnSelector(means=fitted.means, variances=fitted.variances, priors=fitted.priors))
        shared = fitted if settings.selector == "global" else None
        report = selection_report(data, selection, shared, losses)
        if shared is not None and "selector_means" not in report:
            self.log_info(fl_ctx, f"Round {round_number}: too few patients for the sample selector to leave the site.")
        result.meta |= report
        return result

    def _selector(
        self, settings: FedGSCASettings, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> SampleSelector | None:
        """The global selector that came with the task, or the site's own, of this run or the one that is continued."""
        if settings.selector == "global":
            return SampleSelector.of_lists(**meta[SELECTOR]) if SELECTOR in meta else None
        folders = (run_folder(fl_ctx), *self.earlier_run_folders(meta, fl_ctx))
        for number in range(round_number - 1, settings.warmup_rounds, -1):
            for folder in folders:
                own = read_record(_selector_file(folder, number), _OwnSelector)
                if own is not None:
                    return SampleSelector(own.means, own.variances, own.priors)
        return None

    def _note_selection(
        self,
        data: SiteData,
        selection: Selection,
        probabilities: np.ndarray[Any, np.dtype[np.float64]],
        round_number: int,
        fl_ctx: FLContext,
    ) -> None:
        """Keep for the site's data manager, and for evaluation, which labels do not look right."""
        folder: Path = run_folder(fl_ctx)
        append_record(folder / SELECTION_FILE, detection_record(data, selection, round_number))
        found = suspicions(
            data,
            selection,
            probabilities,
            data_folder=self.locate(fl_ctx).folder,
            method=self.settings.method,
            round_number=round_number,
        )
        write_record(folder / SUSPICIONS_FILE, found)
        self.log_info(
            fl_ctx,
            f"Round {round_number}: {len(found.suspects)} of {len(data.cases)} labels do not look right; which ones: "
            f"fedannot suspects {folder}",
        )


def _selector_file(run: Path, round_number: int) -> Path:
    return run / _SELECTOR_FOLDER / f"round_{round_number}.json"


def _loss_of(settings: FedGSCASettings, round_number: int) -> nn.Module | None:
    """The loss of a round, None for cross entropy."""
    if settings.loss == "ce":
        return None
    beta = scheduled_beta(
        settings.beta_schedule,
        settings.beta_start,
        settings.beta_end,
        round_number - settings.warmup_rounds,
        settings.rounds - settings.warmup_rounds,
    )
    return CredalLoss(settings.relaxation, beta, uniform=settings.loss == "ucl")
