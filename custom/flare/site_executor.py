"""What the sites' executors share, whatever is learnt: messages, errors, the received network, the site's data."""

import gc
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from nvflare.apis.dxo import DXO, from_shareable
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
from ..approval.names import is_job_id, is_plain_name
from ..data.location import DataLocation, locate_site_data
from ..data.round_tensors import load_latest_tensors
from ..data.site_data import SiteData, load_site_data
from ..data_fit import DataFitError, check_data_fit
from ..method_settings import read_job_settings
from ..methods.described_network import described_network
from ..networks.devices import ready_to_compute
from ..outbound.private_statistics import SampleValues
from ..run.threads import set_threads
from ..settings import RunSettings, SettingsError
from ..training.loop import TrainingStopped
from .console import show_progress_alone
from .kept_files import submitter
from .messages import (
    CONTINUED_JOB,
    CONTINUED_ROUND,
    DATA_DO_NOT_FIT,
    MODEL_DOES_NOT_FIT,
    NO_USABLE_DATA,
    PROCESS_DIED,
    RECEIVED_MODEL,
    REFUSAL_HEADER,
    SAMPLE_VALUES,
    TASK_NOT_KNOWN,
    TRAINING_FAILED,
)
from .site_start import import_light_monai, is_site_process, train_without_compiler
from .task_process import Place, TaskProcess, TaskProcessError, TaskStopped


class ModelDoesNotFitError(ValueError):
    """The received model is not of the network that the job's settings describe."""


class SiteExecutor(Executor):  # type: ignore[misc]
    """Receives the global model with a task and the round, and answers with what is registered to leave the site.

    Only fields of :data:`fedannot.custom.outbound.registry.OUTBOUND_FIELDS` are sent. Whatever goes wrong is logged at
    the site in full and answered with a short reason. The site keeps nothing in memory that a later task needs, since
    NVFlare may make a new executor for every task: what is to stay lies in the run's folder.

    A task's executor overrides :meth:`do_task`, and :meth:`labels_in_use` where annotations change.

    Args:
        settings: the job's settings, the same as the controller's.

    Raises:
        SettingsError: if the settings have an unknown key, a value that is not allowed, or are for another task.
    """

    settings_type: ClassVar[type[RunSettings]] = RunSettings

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        show_progress_alone()
        self.settings = read_job_settings(settings)
        if not isinstance(self.settings, self.settings_type):
            raise SettingsError(f"settings.conf: {type(self).__name__} is not for the task {self.settings.task!r}.")
        self._process: TaskProcess | None = None
        self._location: DataLocation | None = None
        self._data: dict[str, tuple[Mapping[Path, Path], SiteData]] = {}

    # --- what a task's executor overrides

    @abstractmethod
    def do_task(
        self, task: str, network: nn.Module, round_number: int, meta: Mapping[str, Any], fl_ctx: FLContext, stop: Signal
    ) -> DXO | None:
        """Do a task with the received model; None if it is unknown.

        Args:
            task: the task's name.
            network: the network with the received weights, where it computes.
            round_number: the round.
            meta: what came with the model.
            fl_ctx: NVFlare's context.
            stop: is triggered when the run is being stopped.
        """

    def labels_in_use(self, section: str, fl_ctx: FLContext) -> Mapping[Path, Path]:
        """Return the files that count in place of given annotations of a section; by default none."""
        del section, fl_ctx
        return {}

    # --- messages

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Make the process ready for tensors before the first message, and end the tasks' process with the run."""
        del fl_ctx
        if event_type == EventType.START_RUN:
            fobs.register(TensorDecomposer)
            if is_site_process() and not self.settings.task_process:
                import_light_monai()
                train_without_compiler()
        if event_type == EventType.END_RUN and self._process is not None:
            self._process.end()
            self._process = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task, in a process of its own where the settings say so; see the class for what it answers."""
        fl_ctx.set_prop(RECEIVED_MODEL, from_shareable(shareable).data, private=True, sticky=False)
        if not self.settings.task_process:
            return self.answer(task_name, shareable, fl_ctx, abort_signal)
        note_samples({}, fl_ctx)
        reply = self._answer_of_process(task_name, shareable, fl_ctx, abort_signal)
        reply.set_header(AppConstants.CURRENT_ROUND, shareable.get_header(AppConstants.CURRENT_ROUND))
        return reply

    def answer(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task in this process."""
        note_samples({}, fl_ctx)
        try:
            reply = self._execute(task_name, shareable, fl_ctx, abort_signal)
            reply.set_header(AppConstants.CURRENT_ROUND, shareable.get_header(AppConstants.CURRENT_ROUND))
            return reply
        except TrainingStopped:
            return make_reply(ReturnCode.TASK_ABORTED)
        except DataError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return _refusal(DATA_DO_NOT_FIT if isinstance(error, DataFitError) else NO_USABLE_DATA)
        except ModelDoesNotFitError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return _refusal(MODEL_DOES_NOT_FIT)
        except SettingsError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return _refusal(TRAINING_FAILED)
        except Exception:
            self.log_exception(fl_ctx, f"Task {task_name!r} failed.")
            return _refusal(TRAINING_FAILED)

    def _answer_of_process(self, task: str, shareable: Shareable, fl_ctx: FLContext, stop: Signal) -> Shareable:
        # NVFlare's messages of earlier tasks refer to each other in circles, with the models in them.
        gc.collect()
        if self._process is None:
            settings = self.settings.model_dump(mode="json") | {"task_process": False}
            self._process = TaskProcess(type(self), settings, Place.of(fl_ctx))
            self.log_info(fl_ctx, f"Tasks are done in process {self._process.pid}.")
        try:
            reply, samples = self._process.do(task, shareable, self.settings.task_timeout, lambda: bool(stop.triggered))
            note_samples(samples, fl_ctx)
            return reply
        except TaskStopped:
            self._process = None
            return make_reply(ReturnCode.TASK_ABORTED)
        except TaskProcessError as error:
            self._process = None
            self.log_error(fl_ctx, f"Task {task!r} failed: {error} The next task gets a new one.", fire_event=False)
            return _refusal(PROCESS_DIED)

    def _execute(self, task: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        set_threads(self.settings.threads, Path(fl_ctx.get_engine().get_workspace().get_site_config_dir()))
        round_number = int(shareable.get_header(AppConstants.CURRENT_ROUND))
        received = from_shareable(shareable)
        network = self.received_network(received.data)
        result = self.do_task(task, network, round_number, received.meta, fl_ctx, abort_signal)
        if result is None:
            # Not NVFlare's code for it, with which one site would end the job for all.
            self.log_error(fl_ctx, f"Task {task!r} is not known to {type(self).__name__}.", fire_event=False)
            return _refusal(TASK_NOT_KNOWN)
        return result.to_shareable()

    # --- what tasks need

    def received_network(self, params: Mapping[str, Any]) -> nn.Module:
        """Return the job's network with a received state dict, where it computes.

        Raises:
            ModelDoesNotFitError: if it is of another network.
        """
        network = described_network(self.settings.network)
        try:
            network.load_state_dict({name: torch.as_tensor(value) for name, value in params.items()})
        except RuntimeError as error:
            raise ModelDoesNotFitError(f"The received model does not fit the network settings: {error}") from error
        return ready_to_compute(network)

    def locate(self, fl_ctx: FLContext) -> DataLocation:
        """Return where the site's data lie; looked for once.

        Raises:
            DataError: if they cannot be found.
        """
        if self._location is None:
            workspace = fl_ctx.get_engine().get_workspace()
            self._location = locate_site_data(
                fl_ctx.get_identity_name(), self.settings, Path(workspace.get_site_config_dir()), run_folder(fl_ctx)
            )
        return self._location

    def site_data(self, section: str, fl_ctx: FLContext) -> SiteData:
        """Return the cases of a section, loaded again if the annotations in use have changed.

        Raises:
            DataError: if they cannot be used.
        """
        folder, site = self.locate(fl_ctx).folder, fl_ctx.get_identity_name()
        replaced = self.labels_in_use(section, fl_ctx)
        if section not in self._data or self._data[section][0] != replaced:
            check_data_fit(folder, self.settings, site=site)
            data = load_site_data(
                folder, run_folder(fl_ctx) / "prepared", section=section, site=site, replaced_labels=replaced
            )
            self._data[section] = replaced, data
        return self._data[section][1]

    def earlier_run_folders(self, meta: Mapping[str, Any], fl_ctx: FLContext) -> list[Path]:
        """Return where the site's part of the run that is continued may lie, nothing where none is.

        It lies in the site's own workspace, or, for simulators, in one beside the server's.

        Args:
            meta: what came with a task; the controller says which run it continues.
            fl_ctx: NVFlare's context.
        """
        if CONTINUED_JOB not in meta:
            return []
        return earlier_run_folders(str(meta[CONTINUED_JOB]), self.settings.resume_from, fl_ctx)

    def kept_tensors(
        self, name: str, last_round: int, meta: Mapping[str, Any], fl_ctx: FLContext
    ) -> tuple[int, dict[str, torch.Tensor]] | None:
        """Return what the site has kept after the latest round that counts, with its number; None if nothing.

        Args:
            name: the folder in a run's folder.
            last_round: the last round that counts.
            meta: what came with a task.
            fl_ctx: NVFlare's context.
        """
        places = [(run_folder(fl_ctx) / name, last_round)]
        places += [
            (earlier / name, min(last_round, int(meta[CONTINUED_ROUND])))
            for earlier in self.earlier_run_folders(meta, fl_ctx)
        ]
        return load_latest_tensors(places)


def earlier_run_folders(job_id: str, resume_from: str, fl_ctx: FLContext) -> list[Path]:
    """Return where a site's part of an earlier job may lie: in its own workspace, or in one beside that of a state.

    Args:
        job_id: the earlier job, as the server names it; what is no plain name, or another account's, leads nowhere.
        resume_from: the state that is continued, ``WORKSPACE/PARTICIPANT/JOB/fedannot_state.pt``, or in a kit the job
            itself; empty for none.
        fl_ctx: NVFlare's context.
    """
    workspace, site = fl_ctx.get_engine().get_workspace(), fl_ctx.get_identity_name()
    folders = []
    own = fl_ctx.get_job_id()
    if is_plain_name(job_id) and job_id != own and submitter(job_id, fl_ctx) == submitter(own, fl_ctx):
        folders.append(Path(workspace.get_run_dir(job_id)))
    if resume_from and not is_job_id(resume_from):
        job_folder = Path(resume_from).parent
        folders.append(job_folder.parent.parent / site / job_folder.name)
    return folders


def run_folder(fl_ctx: FLContext) -> Path:
    """Return the folder of the run at this site."""
    return Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id()))


def note_samples(samples: Mapping[str, SampleValues], fl_ctx: FLContext) -> None:
    """Leave for filters of the result what its statistics are made of, in place of an earlier result's."""
    fl_ctx.set_prop(SAMPLE_VALUES, dict(samples), private=True, sticky=False)


def trained_params(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return a network's state dict in main memory, as it is sent."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}


def _refusal(reason: str) -> Shareable:
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    reply.set_header(REFUSAL_HEADER, reason)
    return reply
