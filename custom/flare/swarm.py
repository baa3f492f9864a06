"""Swarm learning: the sites aggregate among themselves, by NVFlare's workflow; the aggregating site changes."""

import logging
from collections.abc import Mapping
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.learnable import Learnable
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.ccwf import SwarmClientController, SwarmServerController
from nvflare.app_common.ccwf.common import Constant
from nvflare.app_common.ccwf.swarm_client_ctl import Gatherer

from ..methods.lookup import read_job_settings
from ..run.state import ResumeError, RunState
from ..settings import SettingsError
from ..task_names import TRAIN
from .console import show_progress_alone
from .messages import SWARM_SITES
from .private_log import COURSE_LOGGER
from .public_errors import public_reason
from .swarm_state import FIRST_ROUND, kept_state, note_beginning, set_model_round

# Seconds in which the first site loads its model and starts the swarm.
_START_TIMEOUT = 300
# Seconds for a message to arrive and be answered, besides those for the training.
_MESSAGE_TIMEOUT = 120


class SwarmNotPossibleError(RuntimeError):
    """The swarm cannot run as it was started; the text says what to type instead."""


class SwarmController(SwarmServerController):  # type: ignore[misc]
    """The server's part: it starts the swarm and watches it; no model passes through its hands.

    Args:
        settings: the job's settings, the same as the sites'.
        **options: of NVFlare's ``SwarmServerController``, what the settings do not say.

    Raises:
        SettingsError: if the settings cannot be used.
    """

    def __init__(self, settings: Mapping[str, Any], **options: Any) -> None:
        show_progress_alone()
        self.settings = read_job_settings(settings)
        if self.settings.start_model:
            raise SettingsError(
                f"settings.conf: key 'start_model' is {self.settings.start_model!r}, but a swarm has no server that "
                "would read it; expected it empty, or the same job with a server."
            )
        if self.settings.final_model != "last":
            raise SettingsError(
                f"settings.conf: key 'final_model' is {self.settings.final_model!r}, but a swarm has no server that "
                "chooses a model; expected 'last'."
            )
        waiting = {"start_task_timeout": _START_TIMEOUT, "progress_timeout": float(self.settings.task_timeout)}
        # All sites have to be there at the start: NVFlare would not wait for more than those that it is asked to need.
        super().__init__(num_rounds=self.settings.rounds, start_round=FIRST_ROUND, **(waiting | options))
        # What the server says of the swarm is for everybody.
        self.logger = logging.getLogger(COURSE_LOGGER)

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Begin, unless NVFlare's simulator has fewer processes than sites: sites could not talk to each other.

        Raises:
            SwarmNotPossibleError: if it has.
        """
        engine = fl_ctx.get_engine()
        sites = len(engine.get_clients())
        processes = getattr(getattr(engine, "args", None), "threads", None)
        if isinstance(processes, int) and processes < sites:
            raise SwarmNotPossibleError(
                f"In a swarm the {sites} sites talk to each other, so that each needs a process of its own; found "
                f"{processes}. Type: nvflare simulator JOB -n {sites} -t {sites}"
            )
        super().start_controller(fl_ctx)


class SwarmSiteController(SwarmClientController):  # type: ignore[misc]
    """A site's part: it trains when asked, and aggregates in the rounds in which it is its turn.

    Where the settings continue an earlier run every site looks for the state that it kept itself; the run goes on with
    the one of the site that starts it.

    Args:
        settings: the job's settings.
        **options: of NVFlare's ``SwarmClientController``, what the settings do not say.
    """

    def __init__(self, settings: Mapping[str, Any], **options: Any) -> None:
        self.settings = read_job_settings(settings)
        super().__init__(
            learn_task_name=TRAIN,
            learn_task_timeout=self.settings.task_timeout,
            learn_task_ack_timeout=_MESSAGE_TIMEOUT,
            final_result_ack_timeout=_MESSAGE_TIMEOUT,
            min_responses_required=self.settings.min_sites,
            request_to_submit_result_max_wait=float(self.settings.task_timeout),
            **options,
        )

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task of the workflow; with the first one an earlier run is taken over."""
        reply: Shareable = super().execute(task_name, shareable, fl_ctx, abort_signal)
        if task_name == self.configure_task_name and self.trainers:
            fl_ctx.set_prop(SWARM_SITES, len(self.trainers), private=True, sticky=True)
        if task_name == self.configure_task_name and self.settings.resume_from:
            try:
                self._go_on(kept_state(self.settings, fl_ctx), fl_ctx)
            except ResumeError as error:
                self.system_panic(public_reason(error, fl_ctx), fl_ctx)
                return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        return reply

    def _go_on(self, state: RunState, fl_ctx: FLContext) -> None:
        """Begin after a state's round with its model."""
        state.check_continues(str(self.settings.method), self.settings.model_dump(mode="json"))
        if (left := self.settings.rounds - state.round_number) < 1:
            raise ResumeError(f"The state is that after round {state.round_number} of {self.settings.rounds}.")
        self.config |= {Constant.START_ROUND: state.round_number + 1, AppConstants.NUM_ROUNDS: left}
        fl_ctx.set_prop(AppConstants.GLOBAL_MODEL, make_model_learnable(state.params, {}), private=True, sticky=True)
        self.log_info(fl_ctx, f"Going on after round {state.round_number}.")

    def do_learn_task(self, name: str, task_data: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> None:
        """Train with the model of the round before, and gather the others' where it is this site's turn."""
        set_model_round(task_data.get_header(AppConstants.CURRENT_ROUND) - 1, fl_ctx)
        note_beginning(fl_ctx)
        super().do_learn_task(name, task_data, fl_ctx, abort_signal)

    def record_last_result(self, fl_ctx: FLContext, round_num: int, result: Learnable) -> None:
        """Take over the model that this site has averaged."""
        super().record_last_result(fl_ctx, round_num, result)
        set_model_round(round_num, fl_ctx)

    def _process_final_result(self, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Take over the final model that another site has averaged."""
        reply = super()._process_final_result(request, fl_ctx)
        if reply.get_return_code() == ReturnCode.OK:
            set_model_round(request.get_header(Constant.ROUND), fl_ctx)
        return reply

    def _end_gather(self, gatherer: Gatherer) -> None:
        """Aggregate when what was received has been added: NVFlare counts an answer before it hands it on."""
        with gatherer.lock:
            pass
        super()._end_gather(gatherer)
