"""The executor of all jobs: messages, errors, the received network, the site's data; the method does the rest."""

import copy
import gc
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

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
from ..compatibility import DataMismatchError, check_site
from ..data.datalist import TRAINING
from ..data.location import DataLocation, locate_site_data
from ..data.site_data import SiteData, load_site_data
from ..data.store_location import participant_store
from ..interface.update_floor import TooFewSamplesError
from ..interface.views import SiteView
from ..methods.lookup import method_of, read_job_settings
from ..networks.described import described_network
from ..networks.received import ModelDoesNotFitError, entries_of, received_model, received_network
from ..refusals import RefusalCode, error_fields
from ..run.freed_memory import keep_freed_memory
from ..run.own_floor import own_floor
from ..run.sent_updates import update_of_round
from ..run.site_tasks import Note, TaskResult, UnknownTaskError, do_task
from ..run.task_rng import seeded_rng
from ..run.threads import set_threads
from ..run.transport import CONTINUED_JOB, CONTINUED_ROUND
from ..seeding import derive_seed
from ..settings import SettingsError
from ..training.loop import TrainingStopped
from .at_hand import Quantise, note_fields, note_samples, note_task, note_update, own_name
from .console import show_progress_alone
from .kept_files import config_folder, earlier_run_folders, own_folder
from .messages import ERROR_HEADER, GLOBAL_RNG_USED, RECEIVED_MODEL, REFUSAL_HEADER
from .private_log import keep_console_private
from .public_errors import is_simulated, is_submitted
from .site_start import import_monai_without_extras, is_site_process
from .task_process import SiteContext, TaskProcess, TaskProcessError, TaskStopped


class FederatedExecutor(Executor):  # type: ignore[misc]
    """Receives the global model with a task and the round, and answers with what is registered to leave the site.

    What it answers is what the method of the job's settings does. Whatever goes wrong is logged at the site in full and
    answered with a short reason. The site keeps nothing in memory that a later task needs, since NVFlare may make a new
    executor for every task: what is to stay lies in the site's own folder of the run.

    Args:
        settings: the job's settings, the same as the controller's.

    Raises:
        SettingsError: if the settings have an unknown key, a value that is not allowed.

    Attributes:
        tells_errors: whether the server of a simulation learns the errors themselves.
    """

    tells_errors: ClassVar[bool] = True

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        show_progress_alone()
        self.settings = read_job_settings(settings)
        self._declared = method_of(self.settings)
        self.method = self._declared.site_part(self.settings)
        self._process: TaskProcess | None = None
        self._location: DataLocation | None = None
        self._data: dict[str, tuple[Mapping[Path, Path], SiteData]] = {}

    # --- messages

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Make the process ready for tensors before the first message, and end the tasks' process with the run."""
        if event_type == EventType.START_RUN:
            fobs.register(TensorDecomposer)
            if is_site_process() and is_submitted(fl_ctx):
                keep_console_private(own_folder(fl_ctx))
            if is_site_process() and not self.settings.task_process:
                keep_freed_memory()
                import_monai_without_extras()
        if event_type == EventType.END_RUN and self._process is not None:
            self._process.end()
            self._process = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task, in a process of its own where the settings say so; see the class for what it answers."""
        note_task(own_name(task_name, from_shareable(shareable)), self.settings, fl_ctx)
        note_samples({}, fl_ctx)
        note_fields(None, fl_ctx)
        try:
            task = self._with_model(shareable)
        except ModelDoesNotFitError as error:
            fl_ctx.set_prop(RECEIVED_MODEL, None, private=True, sticky=False)
            note_update(None, fl_ctx)
            self.log_error(fl_ctx, str(error), fire_event=False)
            reply = self._refusal(RefusalCode.MODEL_DOES_NOT_FIT, error, fl_ctx)
        else:
            received = from_shareable(task)
            fl_ctx.set_prop(RECEIVED_MODEL, received.data, private=True, sticky=False)
            note_update(self._quantise_for(task, received, fl_ctx), fl_ctx)
            do = self._answer_of_process if self.settings.task_process else self.answer
            reply = do(task_name, task, fl_ctx, abort_signal)
        reply.set_header(AppConstants.CURRENT_ROUND, shareable.get_header(AppConstants.CURRENT_ROUND))
        return reply

    def _with_model(self, task: Shareable) -> Shareable:
        """The task with the model that the server has, where it came in fewer bits; whoever else has the task keeps it.

        Raises:
            ModelDoesNotFitError: if what came is no such model.
        """
        if self.settings.model_precision == "fp32":
            return task
        dxo = from_shareable(task)
        dxo.data = received_model(dxo.data, self._entries)
        with_model = copy.copy(task)
        return dxo.update_shareable(with_model)

    def answer(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,
        note: Note | None = None,
    ) -> Shareable:
        """Do one task in this process.

        Args:
            task_name: NVFlare's name of it.
            shareable: the task.
            fl_ctx: NVFlare's context.
            abort_signal: is triggered when the run is being stopped.
            note: takes what the answer holds whatever the model does to the task, as soon as that is known; without it
                the context does.
        """
        note_samples({}, fl_ctx)
        try:
            return self._execute(
                task_name, shareable, fl_ctx, abort_signal, note or (lambda fields: note_fields(fields, fl_ctx))
            )
        except TrainingStopped:
            return make_reply(ReturnCode.TASK_ABORTED)
        except DataError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return self._refusal(_reason_of(error), error, fl_ctx)
        except ModelDoesNotFitError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return self._refusal(RefusalCode.MODEL_DOES_NOT_FIT, error, fl_ctx)
        except SettingsError as error:
            self.log_error(fl_ctx, str(error), fire_event=False)
            return self._refusal(RefusalCode.TASK_FAILED, error, fl_ctx)
        except UnknownTaskError as error:
            # Not NVFlare's code for it, with which one site would end the job for all.
            self.log_error(fl_ctx, str(error), fire_event=False)
            return self._refusal(RefusalCode.TASK_NOT_KNOWN, error, fl_ctx)
        except Exception as error:
            self.log_exception(fl_ctx, f"Task {own_name(task_name, from_shareable(shareable))!r} failed.")
            return self._refusal(RefusalCode.TASK_FAILED, error, fl_ctx)

    def _refusal(self, code: RefusalCode, error: Exception, fl_ctx: FLContext) -> Shareable:
        """The answer to a task that failed: a code alone, and in a simulation the error itself."""
        reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply.set_header(REFUSAL_HEADER, code.value)
        if self.tells_errors and is_simulated(fl_ctx):
            reply.set_header(ERROR_HEADER, error_fields(error))
        return reply

    def _answer_of_process(self, task: str, shareable: Shareable, fl_ctx: FLContext, stop: Signal) -> Shareable:
        # NVFlare's messages of earlier tasks refer to each other in circles, with the models in them.
        gc.collect()
        if self._process is None:
            settings = self.settings.model_dump(mode="json") | {"task_process": False}
            self._process = TaskProcess(type(self), settings, SiteContext.of(fl_ctx))
            self.log_info(fl_ctx, f"Tasks are done in process {self._process.pid}.")
        timeout = self.settings.task_timeout
        try:
            reply, samples = self._process.do(
                task, shareable, timeout, lambda: bool(stop.triggered), lambda fields: note_fields(fields, fl_ctx)
            )
            note_samples(samples, fl_ctx)
            return reply
        except TaskStopped:
            self._process = None
            return make_reply(ReturnCode.TASK_ABORTED)
        except TaskProcessError as error:
            self._process = None
            failed = f"Task {own_name(task, from_shareable(shareable))!r} failed"
            self.log_error(fl_ctx, f"{failed}: {error} The next task gets a new one.", fire_event=False)
            return self._refusal(RefusalCode.PROCESS_DIED, error, fl_ctx)

    def _execute(
        self,
        task: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,
        note: Note,
    ) -> Shareable:
        set_threads(self.settings.threads, config_folder(fl_ctx))
        round_number = int(shareable.get_header(AppConstants.CURRENT_ROUND))
        received = from_shareable(shareable)
        own_task = own_name(task, received)
        seed = derive_seed(self.settings.seed, fl_ctx.get_identity_name(), round_number, own_task, "global")
        with seeded_rng(seed) as rng:
            network = self.received_network(received.data)
            view = self.view(round_number, received.meta, fl_ctx, abort_signal)
            result = self.do_task(own_task, network, view, note)
        fl_ctx.set_prop(GLOBAL_RNG_USED, rng.was_used, private=True, sticky=False)
        note_samples(result.samples, fl_ctx)
        if result.params is None:
            return DXO(DataKind.METRICS, data=dict(result.fields)).to_shareable()
        return DXO(DataKind.WEIGHTS, data=result.params, meta=dict(result.fields)).to_shareable()

    def do_task(self, task: str, network: nn.Module, site: SiteView, note: Note | None = None) -> TaskResult:
        """Do a task with the received network; see :func:`fedannot.custom.run.site_tasks.do_task`."""
        return do_task(self._declared, self.method, task, network, site, note)

    # --- what tasks need

    def _quantise_for(self, task: Shareable, received: DXO, fl_ctx: FLContext) -> Quantise | None:
        """How the model of a task becomes a message in fewer bits; None where the job asks for none."""
        if self.settings.update_precision == "fp32":
            return None

        def quantise(
            params: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor]
        ) -> dict[str, torch.Tensor]:
            site = self.view(int(task.get_header(AppConstants.CURRENT_ROUND)), received.meta, fl_ctx)
            return update_of_round(params, reference, self.settings, self._trained, site)

        return quantise

    @cached_property
    def _entries(self) -> dict[str, torch.Tensor]:
        """What a model of the job's network has."""
        return entries_of(self.settings.network)

    @cached_property
    def _trained(self) -> frozenset[str]:
        """The names of the network's parameters; made here, since tasks may be done in another process."""
        return frozenset(name for name, _ in described_network(self.settings.network).named_parameters())

    def received_network(self, params: Mapping[str, Any]) -> nn.Module:
        """Return the job's network with a received state dict, where it computes.

        Raises:
            ModelDoesNotFitError: if it is of another network.
        """
        return received_network(self.settings.network, params)

    def locate(self, fl_ctx: FLContext) -> DataLocation:
        """Return where the site's data lie; looked for once.

        Raises:
            DataError: if they cannot be found.
        """
        if self._location is None:
            workspace = fl_ctx.get_engine().get_workspace()
            self._location = locate_site_data(
                fl_ctx.get_identity_name(),
                self.settings.data,
                None if self.settings.data_required else self.settings.embedded,
                Path(workspace.get_site_config_dir()),
                own_folder(fl_ctx),
                _sites_of_run(fl_ctx),
            )
        return self._location

    def view(
        self, round_number: int, message: Mapping[str, Any], fl_ctx: FLContext, stop: Signal | None = None
    ) -> SiteView:
        """Return the site as the method sees it in a task.

        Args:
            round_number: the round.
            message: what came with the model; in a run that is continued the server says which.
            fl_ctx: NVFlare's context.
            stop: is triggered when the run is being stopped.
        """
        earlier: list[Path] = []
        own_config = config_folder(fl_ctx)
        if CONTINUED_JOB in message:
            earlier = earlier_run_folders(str(message[CONTINUED_JOB]), self.settings.resume_from, fl_ctx)
        view = SiteView(
            name=fl_ctx.get_identity_name(),
            seed=self.settings.seed,
            round_number=round_number,
            message=message,
            run_folder=own_folder(fl_ctx),
            locate=lambda: self.locate(fl_ctx),
            load=lambda section: self._load(section, view, own_config),
            load_given=lambda: self._load(TRAINING, view, own_config, as_given=True),
            is_stopped=lambda: stop is not None and bool(stop.triggered),
            info=lambda text: self.log_info(fl_ctx, text),
            warning=lambda text: self.log_warning(fl_ctx, text, fire_event=False),
            earlier_folders=tuple(earlier),
            continued_round=int(message[CONTINUED_ROUND]) if CONTINUED_ROUND in message else None,
            floor=own_floor(own_config),
        )
        return view

    def _load(self, section: str, view: SiteView, own_config: Path, *, as_given: bool = False) -> SiteData:
        """The cases of a section, loaded again if the annotations in use have changed."""
        folder = view.locate().folder
        replaced = view.corrections.files_in_use(folder) if section == TRAINING and not as_given else {}
        if section not in self._data or self._data[section][0] != replaced:
            check_site(folder, self.settings, site=view.name)
            store = participant_store(own_config)
            data = load_site_data(
                folder,
                store,
                section=section,
                site=view.name,
                replaced_labels=replaced,
                consensus=self.settings.training.consensus,
            )
            self._data[section] = replaced, data
        return self._data[section][1]


def _sites_of_run(fl_ctx: FLContext) -> list[str]:
    """All sites of the run, by what NVFlare tells each; none in one process, where data are named for every site."""
    engine = fl_ctx.get_engine()
    return [client.name for client in engine.get_clients() or []] if hasattr(engine, "get_clients") else []


def _reason_of(error: DataError) -> RefusalCode:
    """What the server learns of data that cannot be trained on."""
    if isinstance(error, TooFewSamplesError):
        return RefusalCode.TOO_FEW_SAMPLES
    return RefusalCode.DATA_DO_NOT_FIT if isinstance(error, DataMismatchError) else RefusalCode.NO_USABLE_DATA
