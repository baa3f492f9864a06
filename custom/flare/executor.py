"""A site's side: it trains, estimates and validates on its own data, and sends what is registered to leave it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils import fobs
from torch import nn

from ...transforms.errors import DataError
from ..batches import training_batches
from ..data.corrections import CORRECTIONS_FOLDER, labels_in_use, read_corrections
from ..data.datalist import TRAINING, VALIDATION
from ..data.location import DataLocation, locate_site_data
from ..data.site_data import SiteData, count_cases, load_site_data
from ..data_fit import check_data_fit
from ..devices import ready_to_compute
from ..inference import Inference
from ..local_training import TrainingStopped, train_locally
from ..networks import build_network
from ..outbound import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS, ESTIMATE_QUALITY, TRAIN, VALIDATE
from ..seeding import derive_seed
from ..settings import FedIASettings, read_job_settings
from ..site_reports import completeness_report, quality_report, training_report, validation_report
from .messages import (
    CONTINUED_JOB,
    CONTINUED_ROUND,
    MODEL_DOES_NOT_FIT,
    NO_USABLE_DATA,
    REFUSAL_HEADER,
    TRAINING_FAILED,
)

# Tasks that judge the site's annotations, and what they answer.
_ESTIMATES = {ESTIMATE_QUALITY: quality_report, ESTIMATE_COMPLETENESS: completeness_report}


class ModelDoesNotFitError(ValueError):
    """The received model is not of the network that the job's settings describe."""


class SegmentationExecutor(Executor):  # type: ignore[misc]
    """Trains, estimates annotation quality, corrects annotations and validates at one site.

    Contract with the controller: every task carries the global model and the round. ``train`` answers with the trained
    state dict; the other tasks answer with metrics. Only fields of
    :data:`fedannot.custom.outbound.OUTBOUND_FIELDS` are sent. Whatever goes wrong is logged at the site in full and
    answered with a short reason. The site keeps nothing in memory that a later task needs, since NVFlare may make a new
    executor for every task: corrected annotations lie in the run's folder. Where a run is continued the controller
    says so (:data:`fedannot.custom.flare.messages.CONTINUED_JOB`), and the site takes them over from the earlier run.

    Args:
        settings: the job's settings, the same as the controller's.

    Raises:
        SettingsError: if the settings have an unknown key or a value that is not allowed.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = read_job_settings(settings)
        self._location: DataLocation | None = None
        self._data: dict[str, tuple[Mapping[Path, Path], SiteData]] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Make the process ready for tensors before the first message."""
        del fl_ctx
        if event_type == EventType.START_RUN:
            fobs.register(TensorDecomposer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task; see the class for what it answers."""
        try:
            reply = self._execute(task_name, shareable, fl_ctx, abort_signal)
            reply.set_header(AppConstants.CURRENT_ROUND, shareable.get_header(AppConstants.CURRENT_ROUND))
            return reply
        except TrainingStopped:
            return make_reply(ReturnCode.TASK_ABORTED)
        except DataError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return _refusal(NO_USABLE_DATA)
        except ModelDoesNotFitError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return _refusal(MODEL_DOES_NOT_FIT)
        except Exception:
            self.log_exception(fl_ctx, f"Task {task_name!r} failed.")
            return _refusal(TRAINING_FAILED)

    def _execute(self, task: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        torch.set_num_threads(self.settings.threads)
        round_number = int(shareable.get_header(AppConstants.CURRENT_ROUND))
        received = from_shareable(shareable)
        network = self._received_network(received.data)
        self._take_over_corrections(received.meta, fl_ctx)
        if task == TRAIN:
            result = self._train(network, round_number, fl_ctx, abort_signal)
        elif task in _ESTIMATES:
            data = self._site_data(TRAINING, fl_ctx)
            result = DXO(DataKind.METRICS, data=_ESTIMATES[task](network, data, self.settings))
        elif task == CORRECT_ANNOTATIONS:
            self._correct(network, round_number, fl_ctx)
            result = DXO(DataKind.METRICS, data={"has_corrected": True})
        elif task == VALIDATE:
            has_cases = count_cases(self._locate(fl_ctx).folder, VALIDATION) > 0
            cases = self._site_data(VALIDATION, fl_ctx) if has_cases else None
            result = DXO(DataKind.METRICS, data=validation_report(network, cases, self.settings))
        else:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        return result.to_shareable()

    def _train(self, network: nn.Module, round_number: int, fl_ctx: FLContext, abort_signal: Signal) -> DXO:
        data = self._site_data(TRAINING, fl_ctx)
        outcome = train_locally(
            network,
            training_batches(data, self.settings.training, next(network.parameters()).device),
            self.settings.training,
            seed=derive_seed(self.settings.seed, data.site, round_number, "training"),
            should_stop=lambda: bool(abort_signal.triggered),
            record_dice=self.settings.reports_dice_loss,
        )
        self.log_info(fl_ctx, f"Round {round_number}: loss {outcome.mean_loss:.4f} after {outcome.steps} steps.")
        params = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        meta = training_report(data, outcome, self.settings, embedded=self._locate(fl_ctx).embedded)
        if self._corrects:
            meta["has_corrected"] = read_corrections(_corrections_folder(fl_ctx)) is not None
        return DXO(DataKind.WEIGHTS, data=params, meta=meta)

    @property
    def _corrects(self) -> bool:
        return isinstance(self.settings, FedIASettings) and self.settings.correction

    def _correct(self, network: nn.Module, round_number: int, fl_ctx: FLContext) -> None:
        """Correct the annotations, once; a second call finds the work done."""
        folder = _corrections_folder(fl_ctx)
        if read_corrections(folder) is not None:
            return
        assert isinstance(self.settings, FedIASettings)
        from ..annotation_correction import correct_annotations

        corrections = correct_annotations(
            network,
            self._site_data(TRAINING, fl_ctx),
            folder,
            data_folder=self._locate(fl_ctx).folder,
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
        if not self._corrects or CONTINUED_JOB not in meta:
            return
        from ..annotation_correction import adopt_corrections

        for earlier in self._earlier_run_folders(str(meta[CONTINUED_JOB]), fl_ctx):
            taken = adopt_corrections(
                earlier / CORRECTIONS_FOLDER,
                _corrections_folder(fl_ctx),
                data_folder=self._locate(fl_ctx).folder,
                last_round=int(meta[CONTINUED_ROUND]) + 1,
            )
            if taken:
                self.log_info(fl_ctx, f"The corrected annotations of {earlier} are used.")

    def _earlier_run_folders(self, job_id: str, fl_ctx: FLContext) -> list[Path]:
        """Where the site's part of an earlier run may lie: in its own workspace, or in one beside the server's."""
        workspace, site = fl_ctx.get_engine().get_workspace(), fl_ctx.get_identity_name()
        folders = [] if job_id == fl_ctx.get_job_id() else [Path(workspace.get_run_dir(job_id))]
        if self.settings.resume_from:
            # WORKSPACE/server/JOB/fedannot_state.pt, as simulators lay it out.
            job_folder = Path(self.settings.resume_from).parent
            folders.append(job_folder.parent.parent / site / job_folder.name)
        return folders

    def _received_network(self, params: Mapping[str, Any]) -> nn.Module:
        network = build_network(**self.settings.network.model_dump())
        try:
            network.load_state_dict({name: torch.as_tensor(value) for name, value in params.items()})
        except RuntimeError as error:
            raise ModelDoesNotFitError(f"The received model does not fit the network settings: {error}") from error
        return ready_to_compute(network)

    def _locate(self, fl_ctx: FLContext) -> DataLocation:
        if self._location is None:
            workspace = fl_ctx.get_engine().get_workspace()
            self._location = locate_site_data(
                fl_ctx.get_identity_name(), self.settings, Path(workspace.get_site_config_dir()), _run_folder(fl_ctx)
            )
        return self._location

    def _site_data(self, section: str, fl_ctx: FLContext) -> SiteData:
        """The cases of a section, loaded again if the annotations in use have changed: the data manager may revert."""
        folder, site = self._locate(fl_ctx).folder, fl_ctx.get_identity_name()
        replaced = labels_in_use(_corrections_folder(fl_ctx), folder) if section == TRAINING else {}
        if section not in self._data or self._data[section][0] != replaced:
            check_data_fit(folder, self.settings, site=site)
            data = load_site_data(
                folder, _run_folder(fl_ctx) / "prepared", section=section, site=site, replaced_labels=replaced
            )
            self._data[section] = replaced, data
        return self._data[section][1]


def _run_folder(fl_ctx: FLContext) -> Path:
    return Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id()))


def _corrections_folder(fl_ctx: FLContext) -> Path:
    return _run_folder(fl_ctx) / CORRECTIONS_FOLDER


def _refusal(reason: str) -> Shareable:
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    reply.set_header(REFUSAL_HEADER, reason)
    return reply
