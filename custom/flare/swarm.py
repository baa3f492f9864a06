"""Swarm learning: the sites aggregate among themselves, by NVFlare's workflow; the aggregating site changes."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.utils.task_utils import apply_filters
from nvflare.app_common.abstract.aggregator import Aggregator
from nvflare.app_common.abstract.learnable import Learnable
from nvflare.app_common.abstract.model import ModelLearnableKey, make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.ccwf import SwarmClientController, SwarmServerController
from nvflare.app_common.ccwf.common import Constant
from nvflare.app_common.ccwf.swarm_client_ctl import Gatherer
from nvflare.private.privacy_manager import Scope
from torch import nn

from ..aggregation.round_average import RoundAverage
from ..aggregation.sample_claims import SampleClaims, claim_limit
from ..approval.names import is_job_id
from ..methods.lookup import method_of, read_job_settings
from ..methods.views import SiteView
from ..networks.building import assign_blocks, layer_blocks
from ..networks.described import described_network
from ..networks.devices import params_in_main_memory
from ..outbound.fields import TRAIN
from ..outbound.registry import OutboundError, OutboundRegistry
from ..run.course import CONTINUED_JOB, CONTINUED_ROUND
from ..run.site_tasks import TaskResult
from ..run.state import STATE_FILE, ResumeError, RunState
from ..settings import RunSettings, SettingsError
from .at_hand import registry_at_hand
from .console import show_progress_alone
from .executor import FederatedExecutor, earlier_run_folders
from .messages import HELD_BACK, REFUSAL_HEADER, SWARM_SITES
from .outbound_filter import check_reply

# Our rounds count from 1, NVFlare's from 0.
_FIRST_ROUND = 1
# Seconds in which the first site loads its model and starts the swarm.
_START_TIMEOUT = 300
# Property of NVFlare's context beside the global model: the round after which it is that.
_MODEL_ROUND = "fedannot_model_round"
# Seconds for a message to arrive and be answered, beside those for the training.
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
        waiting = {"start_task_timeout": _START_TIMEOUT, "progress_timeout": float(self.settings.task_timeout)}
        # All sites have to be there at the start: NVFlare would not wait for more than those that it is told to need.
        super().__init__(num_rounds=self.settings.rounds, start_round=_FIRST_ROUND, **(waiting | options))

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
                f"{processes}. Type: nvflare simulator JOB -t {sites}"
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
                self.system_panic(str(error), fl_ctx)
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
        _set_model_round(task_data.get_header(AppConstants.CURRENT_ROUND) - 1, fl_ctx)
        super().do_learn_task(name, task_data, fl_ctx, abort_signal)

    def record_last_result(self, fl_ctx: FLContext, round_num: int, result: Learnable) -> None:
        """Take over the model that this site has averaged."""
        super().record_last_result(fl_ctx, round_num, result)
        _set_model_round(round_num, fl_ctx)

    def _process_final_result(self, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Take over the final model that another site has averaged."""
        reply = super()._process_final_result(request, fl_ctx)
        if reply.get_return_code() == ReturnCode.OK:
            _set_model_round(request.get_header(Constant.ROUND), fl_ctx)
        return reply

    def _end_gather(self, gatherer: Gatherer) -> None:
        """Aggregate when what was received has been added: NVFlare counts an answer before it hands it on."""
        with gatherer.lock:
            pass
        super()._end_gather(gatherer)


def _refused(reason: str) -> Shareable:
    """A site's word to the aggregating one that it has no result."""
    reply = DXO(DataKind.METRICS, data={"refused": True}).to_shareable()
    reply.set_header(REFUSAL_HEADER, reason)
    return reply


def _set_model_round(round_number: int, fl_ctx: FLContext) -> None:
    fl_ctx.set_prop(_MODEL_ROUND, round_number, private=True, sticky=True)


def kept_state(settings: RunSettings, fl_ctx: FLContext) -> RunState:
    """Read the state that this site kept of the run that is continued, or the named one if it kept none.

    Raises:
        ResumeError: if there is none, or it is damaged.
    """
    job, given = continued_job(settings.resume_from), Path(settings.resume_from)
    own = [folder / STATE_FILE for folder in earlier_run_folders(job, settings.resume_from, fl_ctx)]
    return RunState.load(next((file for file in own if file.is_file()), given))


def continued_job(resume_from: str) -> str:
    """Return the job that a swarm's settings continue, which they name by itself or by the path of a state."""
    return resume_from if is_job_id(resume_from) else Path(resume_from).parent.name


class SwarmAggregator(Aggregator):  # type: ignore[misc]
    """Averages the sites' models by their numbers of samples, at whichever site it is; the same bits as at a server.

    A result is checked as the server does; one that cannot be used is refused by name, and the round goes on with the
    others. A site may claim its part of what all may have, and later no more than in the first result of it that came
    to this site.

    Args:
        settings: the job's settings.

    Raises:
        SettingsError: if they bound the sites' influence, which wants all results at one place before any counts.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = read_job_settings(settings)
        if self.settings.influence.has_bounds:
            raise SettingsError("settings.conf: key 'influence' needs a server; in a swarm it cannot be set.")
        self._blocks = layer_blocks(described_network(self.settings.network), self.settings.blocks)
        self._registry = OutboundRegistry(method_of(self.settings).leaves)
        self._average: RoundAverage | None = None
        self._round: int | None = None
        self._accepted: list[str] = []
        self._claims = SampleClaims(self.logger.warning)
        self._claim_limit = 0
        # A late answer may come in while the others are averaged.
        self._lock = threading.Lock()

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Add a site's result; False if it is refused."""
        site = fl_ctx.get_peer_context().get_identity_name()
        round_number = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
        with self._lock:
            if self._round != round_number:
                self._start_round(round_number, fl_ctx)
            reason = self._refuse_or_accept(site, shareable)
            if reason is None:
                self._accepted.append(site)
        if reason is not None:
            self.log_warning(fl_ctx, f"Refused {site}: {reason}.", fire_event=False)
        return reason is None

    def aggregate(self, fl_ctx: FLContext) -> Shareable:
        """Return the average.

        Raises:
            RuntimeError: if fewer sites than are needed gave a usable result; NVFlare then ends the run.
        """
        with self._lock:
            if len(self._accepted) < self.settings.min_sites:
                raise RuntimeError(
                    f"Round {self._round}: {len(self._accepted)} usable results, at least {self.settings.min_sites} "
                    "are needed."
                )
            assert self._average is not None
            params = self._average.result()
            self.log_info(fl_ctx, f"Round {self._round}/{self.settings.rounds}: averaged {sorted(self._accepted)}.")
            self._round = None
        return DXO(DataKind.WEIGHTS, data=params).to_shareable()

    def reset(self, fl_ctx: FLContext) -> None:
        """Forget the round."""
        del fl_ctx
        self._round = None

    def _start_round(self, round_number: int, fl_ctx: FLContext) -> None:
        weights = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)[ModelLearnableKey.WEIGHTS]
        reference = {name: torch.as_tensor(value) for name, value in weights.items()}
        num_sites = fl_ctx.get_prop(SWARM_SITES)
        self._claim_limit = claim_limit(num_sites)
        block_of = assign_blocks(reference, self._blocks)
        self._average = RoundAverage(round_number, reference, block_of, weights=None, num_sites=num_sites)
        self._round, self._accepted = round_number, []

    def _refuse_or_accept(self, site: str, shareable: Shareable) -> str | None:
        if (reason := shareable.get_header(REFUSAL_HEADER)) is not None:
            return str(reason)
        result = from_shareable(shareable)
        if result.data_kind != DataKind.WEIGHTS:
            return "it has no model"
        if (reason := self._registry.refusal(TRAIN, result.meta, self.settings.network.num_classes)) is not None:
            return reason
        samples = self._claims.counted(site, result.meta["num_samples"], self._claim_limit)
        assert self._average is not None
        return self._average.refuse_or_accept(
            site, result.data, samples, shareable.get_header(AppConstants.CURRENT_ROUND)
        )


class SwarmExecutor(FederatedExecutor):
    """Trains at one site of a swarm; the other sites get what the server would.

    NVFlare applies no filters to what goes from site to site, so that the site's own (noise for privacy among them) are
    applied here, and the registered fields are checked. A training that fails, or whose result is held back, is
    answered with its reason, which the aggregating site reads: NVFlare would end the whole run. When the run ends the
    site keeps the last model with its own layers. In every round it keeps the received model, as the state with which a
    run that was killed can go on; no server has one.
    """

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task."""
        reply = super().execute(task_name, shareable, fl_ctx, abort_signal)
        if reply.get_return_code() == ReturnCode.OK:
            try:
                return self._filtered(task_name, reply, fl_ctx, abort_signal)
            except OutboundError as error:
                self.log_error(fl_ctx, f"The result of {task_name!r} was held back: {error}", fire_event=False)
                return _refused(HELD_BACK)
        reason = reply.get_header(REFUSAL_HEADER)
        return reply if reason is None else _refused(reason)

    def _filtered(self, task: str, reply: Shareable, fl_ctx: FLContext, stop: Signal) -> Shareable:
        """Return a result as the site's own policy lets it go.

        Raises:
            OutboundError: if it may not leave the site.
        """
        fl_ctx.set_prop(FLContextKey.TASK_NAME, task, private=True, sticky=False)
        filtered: Shareable = apply_filters(
            Scope.TASK_RESULT_FILTERS_NAME, reply, fl_ctx, {}, task, FilterKey.OUT, abort_signal=stop
        )
        check_reply(filtered, task, registry_at_hand(fl_ctx))
        return filtered

    def do_task(self, task: str, network: nn.Module, site: SiteView) -> TaskResult:
        """Keep what was received, then train."""
        if task == TRAIN and site.round_number > _FIRST_ROUND:
            settings = self.settings.model_dump(mode="json")
            params = params_in_main_memory(network)
            RunState(self.settings.method, settings, site.round_number - 1, params).save(site.run_folder / STATE_FILE)
        return super().do_task(task, network, site)

    def view(
        self, round_number: int, message: Mapping[str, Any], fl_ctx: FLContext, stop: Signal | None = None
    ) -> SiteView:
        """Look in the run that is continued, too; in a swarm no task says which it is."""
        if self.settings.resume_from:
            continued = {CONTINUED_JOB: continued_job(self.settings.resume_from), CONTINUED_ROUND: round_number}
            message = dict(message) | continued
        return super().view(round_number, message, fl_ctx, stop)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Keep the last model that the site knows when the run is over, if only because it failed."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.END_RUN:
            model, after_round = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL), fl_ctx.get_prop(_MODEL_ROUND, 0)
            if after_round >= _FIRST_ROUND and model and model.get(ModelLearnableKey.WEIGHTS):
                network = self.received_network(model[ModelLearnableKey.WEIGHTS])
                self.method.after_run(network, self.view(after_round, {}, fl_ctx))
