"""The controller of all jobs with a server: it carries the messages between a run's course and the sites."""

import copy
import logging
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from nvflare.apis.analytix import AnalyticsDataType
from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.utils.analytix_utils import create_analytic_dxo, send_analytic_dxo
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows.model_controller import ModelController
from nvflare.fuel.utils import fobs
from nvflare.widgets.info_collector import InfoCollector

from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from ..approval.own_limits import own_limits
from ..data.location import names_data
from ..data.participant_folder import WAITING_FOLDER
from ..methods.lookup import method_of, read_job_settings
from ..outbound.registry import OutboundRegistry
from ..refusals import RefusalCode, RefusalReason
from ..run.model_rounding import message_params
from ..run.round_loop import RoundLoop
from ..run.run_progress import Phase, RunProgress
from ..run.state import ResumeError, RunFailedError
from ..run.threads import set_threads
from ..run.transport import Reply, Request, RunContext
from ..settings import SettingsError
from .console import show_progress_alone
from .kept_files import model_file, own_folder, sites_of_job, state_file
from .live_progress import failure_of, keep_progress, tell_progress
from .messages import ERROR_HEADER, METHOD_TASK, REFUSAL_HEADER, TASK
from .private_log import COURSE_LOGGER, keep_console_private
from .public_errors import is_simulated, is_submitted, public_reason
from .task_delivery import GracePeriod, beside_others
from .unfetched import ForbearingTensorDecomposer, Unfetched

_RETURN_CODES = frozenset(value for name, value in vars(ReturnCode).items() if name.isupper())


class FederatedController(ModelController):  # type: ignore[misc]
    """Runs the course of rounds of a job's method, which the settings name.

    Contract with the sites: every task carries the global model, the round and what the method says to the sites.
    ``train`` is answered with the trained state dict and registered fields in its meta, ``validate`` and
    ``validate_classes`` with metrics, and so is a task of the method's own, whose name is in the meta. Sites that fail,
    or give no answer within the bounds of time, are refused by name.

    Args:
        settings: the job's settings.
        persistor_id: component that holds the network and writes the model.
        task_check_period: seconds between two looks at the tasks.

    Raises:
        SettingsError: if the settings have an unknown key or a value that is not allowed.
    """

    def __init__(
        self, settings: Mapping[str, Any], persistor_id: str = "persistor", task_check_period: float = 0.1
    ) -> None:
        # A site's error must never end the run, whatever the number of sites: the course decides what to do.
        super().__init__(persistor_id=persistor_id, ignore_result_error=True, task_check_period=task_check_period)
        # Before NVFlare's own, which ends the job when a result cannot be fetched: the first one counts.
        fobs.register(ForbearingTensorDecomposer)
        show_progress_alone()
        # What the run says is for everybody; what names files comes from other loggers.
        self.logger = logging.getLogger(COURSE_LOGGER)
        self.settings = read_job_settings(settings)
        self._method = method_of(self.settings)
        # Of the request that is open; the second, whether its model is a copy that all of its tasks share.
        self._refuse: Callable[[str, RefusalReason], None] | None = None
        self._is_copy = False
        registry = OutboundRegistry(self._method.outbound_fields)
        self.course = RoundLoop(self.settings, self._method.server_part(self.settings), registry, self)
        self.course.progress.keep = self._keep_progress

    def run(self) -> None:
        """Run the rounds; what goes wrong ends the job.

        In a simulation what a person has to mend is reported with its text, anything else with a traceback too. In a
        submitted job everybody learns a short reason, and the server's private log has all of it.
        """
        try:
            if is_submitted(self.fl_ctx):
                keep_console_private(self._private_folder())
            set_threads(self.settings.threads, self._config_folder())
            self.course.run(self._beginning())
            self.course.progress.end(Phase.STOPPED if self.is_stopped() else Phase.FINISHED)
        except Exception as error:
            self.course.progress.end(Phase.FAILED, failure_of(error))
            is_known = isinstance(error, DataError | ResumeError | RunFailedError | SettingsError)
            if not is_known and not is_submitted(self.fl_ctx):
                raise
            self.panic(public_reason(error, self.fl_ctx))
        finally:
            # Of a round in which the run was stopped.
            shutil.rmtree(self._private_folder() / WAITING_FOLDER, ignore_errors=True)

    def _beginning(self) -> RunContext:
        initial = self.load_model()
        if initial is None or not initial.params:
            raise RunFailedError("The persistor gave no start model.")
        self._say_if_sites_are_missing()
        job_id, settings = self.fl_ctx.get_job_id(), self.settings
        named = sites_of_job(Path(self.engine.get_workspace().get_job_meta_path(job_id)))
        return RunContext(
            network=self.persistor.model,
            params=dict(initial.params),
            run_folder=Path(self.get_run_dir()),
            private_folder=self._private_folder(),
            config_folder=self._config_folder(),
            job_id=str(job_id),
            absent=tuple(sorted(named - set(self.sites()), key=natural_order)),
            start_model=model_file(settings.start_model, self.fl_ctx) if settings.start_model else None,
            state=state_file(settings.resume_from, self.fl_ctx) if settings.resume_from else None,
            largest_share=own_limits(self._config_folder()).largest_share,
        )

    def _say_if_sites_are_missing(self) -> None:
        """NVFlare simulates two sites unless it is told how many; the embedded federation may have more."""
        settings, there = self.settings, len(self.sites())
        if is_submitted(self.fl_ctx) or settings.data_required or there >= settings.embedded.sites:
            return
        if not names_data(settings.data, self._config_folder()):
            self.logger.warning(
                f"{there} of the {settings.embedded.sites} sites of the embedded federation take part; for all of "
                f"them: nvflare simulator JOB -n {settings.embedded.sites}"
            )

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Say how far the run is when somebody with the right to look asks for NVFlare's statistics of the job."""
        super().handle_event(event_type, fl_ctx)
        if event_type == InfoCollector.EVENT_TYPE_GET_STATS:
            tell_progress(self.course.progress.current, fl_ctx)

    def _keep_progress(self, progress: RunProgress) -> None:
        if (problem := keep_progress(progress, self.fl_ctx)) is not None:
            self.warning(problem)

    def _private_folder(self) -> Path:
        return own_folder(self.fl_ctx)

    def _config_folder(self) -> Path:
        return Path(self.engine.get_workspace().get_site_config_dir())

    # --- the link of the course; ``info``, ``warning`` and ``error`` are NVFlare's

    def sites(self) -> list[str]:
        """Return the names of the sites that are there."""
        return [client.name for client in self.engine.get_clients()]

    def is_stopped(self) -> bool:
        """Return whether the run is being stopped."""
        return bool(self.abort_signal.triggered)

    def write_model(self, params: Mapping[str, torch.Tensor]) -> None:
        """Write the global model."""
        self.save_model(FLModel(params=dict(params), params_type=ParamsType.FULL, meta={}))

    def draw(self, tag: str, value: float, round_number: int) -> None:
        """Draw a number over the rounds, in TensorBoard."""
        dxo = create_analytic_dxo(tag=tag, value=value, data_type=AnalyticsDataType.SCALAR, global_step=round_number)
        with self.engine.new_context() as fl_ctx:
            send_analytic_dxo(self, dxo=dxo, fl_ctx=fl_ctx)

    def give(
        self, request: Request, receive: Callable[[Reply], bool], refuse: Callable[[str, RefusalReason], None]
    ) -> None:
        """Send a request, and return when each site has answered, failed or run out of time."""
        answered: set[str] = set()
        failures: list[Exception] = []
        refused: set[str] = set()
        targets = self._targets(request)
        if not targets:
            return
        is_own, self._is_copy = request.task in self._method.own_tasks, bool(request.own_messages)
        # What a task of the method's own tells one site comes once, not with every round: nobody is cut off.
        grace_period = None if is_own and request.own_messages else self.settings.grace_period
        grace = GracePeriod(min(self.settings.min_sites, len(targets)), grace_period)

        def refuse_and_note(site: str, reason: RefusalReason) -> None:
            refused.add(site)
            refuse(site, reason)

        def receive_and_note(result: FLModel) -> bool:
            answered.add(result.meta["client_name"])
            try:
                is_usable = receive(_reply(result))
            except Exception as error:
                # NVFlare would pass over it, and the site be neither counted nor refused.
                failures.append(error)
                return False
            if is_usable:
                grace.count_usable_answer()
            return is_usable

        self._refuse = refuse_and_note
        params = message_params(request.params, self.settings)
        if self._is_copy:
            params = copy.deepcopy(dict(params))
        for receivers, message in request.messages(targets):
            self.broadcast_model(
                FLModel(
                    params=dict(params),
                    params_type=ParamsType.FULL,
                    current_round=request.round_number,
                    total_rounds=self.settings.rounds,
                    meta=message | ({TASK: request.task} if is_own else {}),
                ),
                task_name=METHOD_TASK if is_own else request.task,
                targets=list(receivers),
                min_responses=len(receivers),
                timeout=self.settings.task_timeout,
                blocking=False,
                callback=receive_and_note,
            )
        no_answer, seconds = self._wait_for_answers(grace)
        if failures:
            raise failures[0]
        for site in targets:
            if site not in answered and site not in refused and not self.is_stopped():
                refuse(site, RefusalReason.of(no_answer, task=request.task, seconds=seconds))

    def _targets(self, request: Request) -> list[str]:
        """Return the sites that get a request, of those that are there, in natural order."""
        targets = sorted(self.sites(), key=natural_order)
        return targets if request.sites is None else [name for name in targets if name in request.sites]

    def get_num_standing_tasks(self) -> int:
        """Return how many tasks stand; an error is not taken for none, as NVFlare's controller does."""
        return int(self.communicator.get_num_standing_tasks())

    def _wait_for_answers(self, grace: GracePeriod) -> tuple[RefusalCode, int]:
        """Return when no task is open: why sites that have not answered do not count, and the seconds they had."""
        bound = RefusalCode.NO_ANSWER, self.settings.task_timeout
        while self.get_num_standing_tasks() and not self.is_stopped():
            if grace.is_over:
                bound = RefusalCode.NO_ANSWER_AFTER_OTHERS, round(grace.seconds or 0)
                self.cancel_all_tasks()
            time.sleep(self._task_check_period)
        return bound

    def _prepare_task(self, data: FLModel, task_name: str, timeout: int, callback: Callable[[FLModel], bool]) -> Task:
        """Make the task of a broadcast such that it may stand beside others."""
        task = super()._prepare_task(data=data, task_name=task_name, timeout=timeout, callback=callback)
        return beside_others(task, own_data=self._is_copy)

    def _accept_train_result(
        self, client_name: str, result: Shareable, fl_ctx: FLContext, is_unknown_task: bool = False
    ) -> bool:
        """Note by name the sites whose executor or filter failed; the base class then drops the result.

        What is no return code would end the task for all sites in the base class.
        """
        code = result.get_return_code()
        is_code = isinstance(code, str)
        accepted = is_code and bool(super()._accept_train_result(client_name, result, fl_ctx, is_unknown_task))
        if not accepted and not is_unknown_task and self._refuse is not None:
            error = result.get_header(ERROR_HEADER)
            if error is not None and not is_simulated(self.fl_ctx):
                error = None
            self._refuse(client_name, _reason(result.get_header(REFUSAL_HEADER), code, error))
        return accepted


def _reason(reported: Any, code: Any, error: Any = None) -> RefusalReason:
    """Why a site has no result: one of the known reasons, else NVFlare's return code; nothing of its own words.

    In a simulation its error goes along.
    """
    if (reason := RefusalReason.reported(reported, error)) is not None:
        return reason
    if isinstance(code, str) and code in _RETURN_CODES:
        return RefusalReason.of(RefusalCode.RETURN_CODE, return_code=code)
    return RefusalReason.of(RefusalCode.NO_KNOWN_REASON)


def _reply(result: FLModel) -> Reply:
    """What a site's message says; training answers with a model and its meta, everything else with metrics."""
    site, params = result.meta["client_name"], result.params
    if any(isinstance(value, Unfetched) for value in (params or {}).values()):
        return Reply(site, result.current_round, {}, problem=RefusalReason.of(RefusalCode.MODEL_NOT_FETCHED))
    return Reply(site, result.current_round, result.metrics or result.meta, params or None)
