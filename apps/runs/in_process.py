"""Runs a job in one process: the job's own components, without processes, sockets or polling in between.

The configuration is read by NVFlare's own configurators, so that a job folder means the same here and there. Only
broadcasts from the server are served; workflows in which sites talk to each other run under NVFlare.
"""

import json
import logging
import shutil
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.dxo import from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.utils.task_utils import apply_filters
from nvflare.apis.wf_comm_spec import WFCommSpec
from nvflare.apis.workspace import Workspace
from nvflare.app_common.app_constant import AppConstants
from nvflare.private.event import fire_event
from nvflare.private.fed.client.client_json_config import ClientJsonConfigurator
from nvflare.private.fed.server.server_json_config import ServerJsonConfigurator

from ...custom.data.whole_files import make_private, private_folder, write_text
from ...custom.flare.at_hand import own_name
from ...custom.flare.public_errors import SIMULATED_JOB
from .interruption import check_interruption
from .job import Job, parse_hocon

# As NVFlare's simulator calls it, so that both leave the same folders.
JOB_ID = SIMULATED_JOB

# Names of a site's or the server's filter tables, as NVFlare's privacy scopes call them.
_DATA_FILTERS, _RESULT_FILTERS = "task_data_filters", "task_result_filters"

logger = logging.getLogger(__name__)


class RunError(RuntimeError):
    """A run ended with an error; the text is what the component that stopped it said."""


@dataclass(frozen=True)
class Step:
    """A task at one site, at which a run is.

    Attributes:
        round_number: the round; None for a task that belongs to none.
        rounds: of the run, None where the job does not say.
        task: the task's own name.
        site: whose turn it is.
        position: which of the sites that are asked it is, from 1.
        count: how many are asked.
    """

    round_number: int | None
    rounds: int | None
    task: str
    site: str
    position: int
    count: int

    @property
    def done(self) -> int | None:
        """How many sites' turns of the whole run are over, as many in every round; None where that is not known."""
        return None if self.round_number is None else (self.round_number - 1) * self.count + self.position - 1

    @property
    def total(self) -> int | None:
        """How many turns the run has."""
        return None if self.rounds is None else self.rounds * self.count

    def __str__(self) -> str:
        known = self.round_number is not None and self.rounds is not None
        where = f"Round {self.round_number}/{self.rounds}: " if known else ""
        return f"{where}{self.site}, {self.position} of {self.count} ({self.task.replace('_', ' ')})"


Watch = Callable[[Step], None]


class Participant:
    """The server or a site: its components, its workspace, and the engine that they see.

    Args:
        name: ``server`` or the site's name.
        job: the job to run.
        config: its configuration file for the server or for the sites, read.
        folder: the participant's workspace, made if it is not there.
        abort_signal: set when any component calls for a stop.
    """

    def __init__(self, name: str, job: Job, config: Mapping[str, Any], folder: Path, abort_signal: Signal) -> None:
        self.name = name
        self.abort_signal = abort_signal
        self.panic_reason: str | None = None
        for needed in ("startup", "local"):
            private_folder(folder / needed)
        self.workspace = Workspace(str(folder), name)
        self.app = Path(self.workspace.get_app_dir(JOB_ID))
        private_folder(self.app.parent)
        shutil.copytree(job.app, self.app, dirs_exist_ok=True)
        make_private(self.app)
        sticky = {FLContextKey.APP_ROOT: str(self.app), FLContextKey.WORKSPACE_OBJECT: self.workspace}
        self._contexts = FLContextManager(engine=self, identity_name=name, job_id=JOB_ID, private_stickers=sticky)
        self.config = self._configure(config)
        self.handlers = self.config.handlers
        self.fire_event(EventType.START_RUN, self.new_context())

    def _configure(self, config: Mapping[str, Any]) -> Any:
        is_server = self.name == "server"
        # NVFlare prefers JSON, which it reads in no time; HOCON would take half a second for every participant.
        file = self.app / "config" / f"config_fed_{'server' if is_server else 'client'}.json"
        write_text(file, json.dumps(config))
        arguments = Namespace(
            job_id=JOB_ID,
            workspace=self.workspace.get_root_dir(),
            client_name=self.name,
            sp_scheme="in-process",
            sp_target="server",
            set=[],
        )
        kind = ServerJsonConfigurator if is_server else ClientJsonConfigurator
        configurator = kind(self.workspace, str(file), arguments, str(self.app))
        configurator.configure()
        return configurator.runner_config

    # --- what components ask of their engine

    def new_context(self) -> FLContext:
        """Return a context of this participant."""
        return self._contexts.new_context()

    def get_component(self, component_id: str) -> Any:
        """Return a component of the job by its id."""
        return self.config.components.get(component_id)

    def get_workspace(self) -> Workspace:
        """Return the participant's workspace."""
        return self.workspace

    def fire_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Tell all components; a fatal error stops the run."""
        if event_type == EventType.FATAL_SYSTEM_ERROR:
            said = fl_ctx.get_prop(FLContextKey.EVENT_DATA)
            self.panic_reason = self.panic_reason or (None if said is None else str(said))
            self.abort_signal.trigger(True)
        fire_event(event_type, self.handlers, fl_ctx)

    def end(self) -> None:
        """Tell all components that the run is over."""
        self.fire_event(EventType.END_RUN, self.new_context())


class ServerParticipant(Participant):
    """The server, whose engine knows the sites."""

    def __init__(
        self, job: Job, config: Mapping[str, Any], folder: Path, sites: Sequence[str], abort_signal: Signal
    ) -> None:
        self._clients = [Client(site, "") for site in sites]
        super().__init__("server", job, config, folder, abort_signal)

    def get_clients(self) -> list[Client]:
        """Return the sites."""
        return self._clients


class SiteParticipant(Participant):
    """A site, which does tasks."""

    def do_task(self, task: Task, server_context: FLContext) -> Shareable:
        """Do a task as NVFlare's client does: filters, executor, filters; an exception becomes a return code."""
        context = self.new_context()
        context.set_peer_context(server_context)
        context.set_prop(FLContextKey.TASK_NAME, task.name, private=True, sticky=False)
        executor = self.config.task_router.route(task.name)
        if executor is None:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        data = _own_copy(task.data)
        try:
            data = apply_filters(_DATA_FILTERS, data, context, self.config.task_data_filters, task.name, FilterKey.IN)
        except Exception:
            logger.exception("%s: the filters of task %r failed", self.name, task.name)
            return make_reply(ReturnCode.TASK_DATA_FILTER_ERROR)
        try:
            reply = executor.execute(task.name, data, context, self.abort_signal)
        except Exception:
            logger.exception("%s: task %r failed", self.name, task.name)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        if not isinstance(reply, Shareable):
            return make_reply(ReturnCode.EXECUTION_RESULT_ERROR)
        reply.set_cookie_jar(task.data.get_cookie_jar())
        try:
            table = self.config.task_result_filters
            return apply_filters(_RESULT_FILTERS, reply, context, table, task.name, FilterKey.OUT)
        except Exception:
            logger.exception("%s: the result of task %r was held back", self.name, task.name)
            return make_reply(ReturnCode.TASK_RESULT_FILTER_ERROR)


class InProcessCommunicator(WFCommSpec):  # type: ignore[misc]
    """Hands a broadcast task to one site after the other and each answer to the controller at once."""

    def __init__(
        self, server: ServerParticipant, sites: Sequence[SiteParticipant], abort_signal: Signal, watch: Watch
    ) -> None:
        super().__init__()
        self._watch = watch
        self._server = server
        self._sites = {site.name: site for site in sites}
        self._abort_signal = abort_signal

    def broadcast(
        self,
        task: Task,
        fl_ctx: FLContext,
        targets: Sequence[Client | str] | None = None,
        min_responses: int = 1,
        wait_time_after_min_received: int = 0,
    ) -> None:
        """Let every target do the task; returns when all have answered."""
        del min_responses, wait_time_after_min_received
        asked = self._sites if targets is None else targets
        names = [target.name if isinstance(target, Client) else target for target in asked]
        for position, name in enumerate(names, start=1):
            if self._abort_signal.triggered:
                return
            self._watch(_step(task, name, position, len(names)))
            client_task = ClientTask(Client(name, ""), task)
            if task.before_task_sent_cb is not None:
                task.before_task_sent_cb(client_task=client_task, fl_ctx=fl_ctx)
            client_task.result = self._sites[name].do_task(task, fl_ctx)
            # A filter of NVFlare's takes any exception for its own; the answer must not count then.
            check_interruption()
            if task.result_received_cb is not None:
                task.result_received_cb(client_task=client_task, fl_ctx=self._server.new_context())

    def broadcast_and_wait(
        self,
        task: Task,
        fl_ctx: FLContext,
        targets: Sequence[Client | str] | None = None,
        min_responses: int = 1,
        wait_time_after_min_received: int = 0,
        abort_signal: Signal | None = None,
    ) -> None:
        """Do as :meth:`broadcast`, which waits anyway."""
        del abort_signal
        self.broadcast(task, fl_ctx, targets, min_responses, wait_time_after_min_received)

    def get_num_standing_tasks(self) -> int:
        """Return 0: when a broadcast returns, all sites have answered."""
        return 0

    def cancel_all_tasks(self, completion_status: Any = None, fl_ctx: FLContext | None = None) -> None:
        """Do nothing: no task stands."""


def run_in_process(job: Job, sites: Sequence[str], folder: Path, watch: Watch = lambda _: None) -> Path:
    """Run a job in this process and return the server's run folder.

    Each participant has its workspace in ``folder``, laid out as NVFlare's simulator does. Sites do their tasks one
    after the other in the given order; the result does not depend on it.

    Args:
        job: the job.
        sites: names of the sites.
        folder: where the workspaces are made.
        watch: is called before every task of a site.

    Raises:
        RunError: if the run ended with an error.
    """
    abort_signal = Signal()
    server_config, site_config = (parse_hocon(file) for file in (job.server_config, job.client_config))
    server = ServerParticipant(job, server_config, folder / "server", sites, abort_signal)
    participants = [SiteParticipant(site, job, site_config, folder / site, abort_signal) for site in sites]
    for workflow in server.config.workflows:
        communicator = InProcessCommunicator(server, participants, abort_signal, watch)
        _run_workflow(workflow.controller, server, communicator, abort_signal)
    for participant in (*participants, server):
        participant.end()
    if abort_signal.triggered:
        failed = [item for item in (server, *participants) if item.panic_reason is not None]
        raise RunError("; ".join(f"{item.name}: {item.panic_reason}" for item in failed) or "The run was stopped.")
    return Path(server.workspace.get_run_dir(JOB_ID))


def _run_workflow(
    controller: Controller, server: ServerParticipant, communicator: InProcessCommunicator, abort_signal: Signal
) -> None:
    controller.set_communicator(communicator)
    context = server.new_context()
    controller.initialize(context)
    controller.control_flow(abort_signal, context)
    controller.stop_controller(context)


def _step(task: Task, site: str, position: int, count: int) -> Step:
    headers = (AppConstants.CURRENT_ROUND, AppConstants.NUM_ROUNDS)
    round_number, rounds = (task.data.get_header(header) for header in headers)
    return Step(round_number, rounds, own_name(task.name, from_shareable(task.data)), site, position, count)


def _own_copy(data: Shareable) -> Shareable:
    """Copy a task's message but not its tensors: executors read the received model and never change it."""
    copied = Shareable()
    copied.update(data)
    copied[ReservedHeaderKey.HEADERS] = dict(data[ReservedHeaderKey.HEADERS])
    return copied
