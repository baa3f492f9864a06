"""Server and sites of a job that runs in one process, as NVFlare's components see them."""

import json
import logging
import shutil
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.utils.task_utils import get_filters
from nvflare.apis.workspace import Workspace
from nvflare.private.event import fire_event
from nvflare.private.fed.client.client_json_config import ClientJsonConfigurator
from nvflare.private.fed.server.server_json_config import ServerJsonConfigurator

from ...custom.data.whole_files import make_private, private_folder, write_text
from ...custom.flare.messages import GLOBAL_RNG_USED
from ...custom.flare.public_errors import SIMULATED_JOB
from .job import Job

# As NVFlare's simulator calls it, so that both leave the same folders.
JOB_ID = SIMULATED_JOB


# Names of a site's or the server's filter tables, as NVFlare's privacy scopes call them.
_DATA_FILTERS, _RESULT_FILTERS = "task_data_filters", "task_result_filters"

_LOGGER = logging.getLogger(__name__)


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

    # Whether the last task took global random numbers of PyTorch; None where it is not known.
    global_rng_used: bool | None = None

    def do_task(self, task: Task, server_context: FLContext, data: Shareable) -> Shareable:
        """Do a task as NVFlare's client does: filters, executor, filters; an exception becomes a return code.

        Args:
            task: as the controller sends it.
            server_context: of the controller.
            data: the site's own copy of what is sent.
        """
        self.global_rng_used = None
        context = self.new_context()
        context.set_peer_context(server_context)
        context.set_prop(FLContextKey.TASK_NAME, task.name, private=True, sticky=False)
        executor = self.config.task_router.route(task.name)
        if executor is None:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            data = self._filtered(_DATA_FILTERS, data, context, task.name, FilterKey.IN)
        except Exception:
            _LOGGER.exception("%s: the filters of task %r failed", self.name, task.name)
            return make_reply(ReturnCode.TASK_DATA_FILTER_ERROR)
        try:
            reply = executor.execute(task.name, data, context, self.abort_signal)
        except Exception:
            _LOGGER.exception("%s: task %r failed", self.name, task.name)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        self.global_rng_used = context.get_prop(GLOBAL_RNG_USED)
        if not isinstance(reply, Shareable):
            return make_reply(ReturnCode.EXECUTION_RESULT_ERROR)
        reply.set_cookie_jar(task.data.get_cookie_jar())
        try:
            return self._filtered(_RESULT_FILTERS, reply, context, task.name, FilterKey.OUT)
        except Exception:
            _LOGGER.exception("%s: the result of task %r was held back", self.name, task.name)
            return make_reply(ReturnCode.TASK_RESULT_FILTER_ERROR)

    def _filtered(self, table: str, data: Shareable, context: FLContext, task_name: str, direction: str) -> Shareable:
        """What the filters of a direction let go. No message of a process has tensors that are still to be fetched."""
        context.set_prop(FLContextKey.FILTER_DIRECTION, direction, private=True, sticky=False)
        for item in get_filters(table, context, getattr(self.config, table), task_name, direction):
            data = item.process(data, context)
        return data
