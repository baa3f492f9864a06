"""A site's side of classification: it trains and validates on its own data."""

from collections.abc import Mapping
from typing import Any

from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from torch import nn

from ..class_training import train_classifier
from ..data.datalist import TRAINING, VALIDATION
from ..data.site_data import count_cases
from ..outbound import TRAIN, VALIDATE_CLASSES
from ..seeding import derive_seed
from ..settings import ClassificationSettings
from ..site_reports import class_validation_report, training_report
from .site_executor import SiteExecutor, trained_params


class ClassificationExecutor(SiteExecutor):
    """Trains a classifier and validates it at one site.

    Contract with the controller, beside that of :class:`SiteExecutor`: ``train`` answers with the trained state dict,
    ``validate_classes`` with counts.
    """

    settings_type = ClassificationSettings
    settings: ClassificationSettings

    def do_task(
        self, task: str, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext, stop: Signal
    ) -> DXO | None:
        """Train or validate."""
        del meta
        if task == TRAIN:
            return self._train(network, round_number, fl_ctx, stop)
        if task == VALIDATE_CLASSES:
            has_cases = count_cases(self.locate(fl_ctx).folder, VALIDATION) > 0
            cases = self.site_data(VALIDATION, fl_ctx) if has_cases else None
            return DXO(DataKind.METRICS, data=class_validation_report(network, cases, self.settings))
        return None

    def _train(self, network: nn.Module, round_number: int, fl_ctx: FLContext, stop: Signal) -> DXO:
        data, training = self.site_data(TRAINING, fl_ctx), self.settings.training
        outcome = train_classifier(
            network,
            data.images,
            data.labels,
            training,
            learning_rate=training.learning_rate_at(round_number, self.settings.rounds),
            seed=derive_seed(self.settings.seed, data.site, round_number, "training"),
            should_stop=lambda: bool(stop.triggered),
        )
        self.log_info(fl_ctx, f"Round {round_number}: loss {outcome.mean_loss:.4f} after {outcome.steps} steps.")
        meta = training_report(data, outcome, self.settings, embedded=self.locate(fl_ctx).embedded)
        return DXO(DataKind.WEIGHTS, data=trained_params(network), meta=meta)
