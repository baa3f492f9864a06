"""Training at one site of a swarm, and the guard of what goes from site to site."""

from collections.abc import Mapping
from typing import Any, ClassVar

from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.utils.task_utils import apply_filters
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.private.privacy_manager import Scope
from torch import nn

from ..interface.views import SiteView
from ..networks.devices import params_in_main_memory
from ..outbound.registry import OutboundError
from ..refusals import RefusalCode
from ..run.site_tasks import Note, TaskResult
from ..run.state import STATE_FILE, RunState
from ..run.transport import CONTINUED_JOB, CONTINUED_ROUND
from ..task_names import TRAIN
from .at_hand import registry_at_hand
from .executor import FederatedExecutor
from .messages import REFUSAL_HEADER
from .outbound_filter import check_reply
from .swarm_state import FIRST_ROUND, continued_job, model_round


class SwarmExecutor(FederatedExecutor):
    """Trains at one site of a swarm; the other sites get what the server would.

    NVFlare applies no filters to what goes from site to site, so that the site's own (noise for privacy among them) are
    applied here, and the registered fields are checked. A training that fails, or whose result is held back, is
    answered with its reason, which the aggregating site reads: NVFlare would end the whole run. When the run ends the
    site keeps the last model with its own layers. In every round it keeps the received model, as the state with which a
    run that was killed can go on; no server has one.
    """

    # What it answers goes to other sites.
    tells_errors: ClassVar[bool] = False

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Do one task."""
        reply = super().execute(task_name, shareable, fl_ctx, abort_signal)
        try:
            # A failed training is filtered, too: with private updates something is sent in its place.
            reply = self._filtered(task_name, reply, fl_ctx, abort_signal)
        except OutboundError as error:
            self.log_error(fl_ctx, f"The result of {task_name!r} was held back: {error}", fire_event=False)
            return _refused(RefusalCode.HELD_BACK.value)
        if reply.get_return_code() == ReturnCode.OK:
            return reply
        code = reply.get_header(REFUSAL_HEADER)
        return reply if code is None else _refused(code)

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

    def do_task(self, task: str, network: nn.Module, site: SiteView, note: Note | None = None) -> TaskResult:
        """Keep what was received, then train."""
        if task == TRAIN and site.round_number > FIRST_ROUND:
            settings = self.settings.model_dump(mode="json")
            params = params_in_main_memory(network)
            RunState(self.settings.method, settings, site.round_number - 1, params).save(site.run_folder / STATE_FILE)
        return super().do_task(task, network, site, note)

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
            model, after_round = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL), model_round(fl_ctx)
            if after_round >= FIRST_ROUND and model and model.get(ModelLearnableKey.WEIGHTS):
                try:
                    network = self.received_network(model[ModelLearnableKey.WEIGHTS])
                    self.method.after_run(network, self.view(after_round, {}, fl_ctx))
                except Exception:
                    # NVFlare would write the text, and names of files with it, to its own log.
                    self.log_exception(fl_ctx, "The last model was not kept.")


def _refused(code: str) -> Shareable:
    """A site's word to the aggregating one that it has no result."""
    reply = DXO(DataKind.METRICS, data={"refused": True}).to_shareable()
    reply.set_header(REFUSAL_HEADER, code)
    return reply
