"""Executors that do not train; the jobs of the benchmarks of rounds and tasks name them."""

from collections.abc import Mapping
from typing import Any

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils import fobs

from fedannot.custom.task_names import VALIDATE


def untrained_executor(settings: Mapping[str, Any]) -> Executor:
    """Make a site's executor that does all that a task asks for but the training: data, network, filters, answer."""
    from fedannot.custom.flare.executor import FederatedExecutor
    from fedannot.custom.methods.fedavg import site
    from fedannot.custom.training.loop import TrainingOutcome

    site.train = lambda *args, **kwargs: TrainingOutcome(mean_loss=0.0, steps=0)
    return FederatedExecutor(settings)


class IdleExecutor(Executor):
    """Takes part in every round and trains nothing."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        del fl_ctx
        if event_type == EventType.START_RUN:
            fobs.register(TensorDecomposer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        del fl_ctx, abort_signal
        if task_name == VALIDATE:
            reply = DXO(DataKind.METRICS, data={"num_samples": 0}).to_shareable()
        else:
            meta = {"num_samples": 10, "num_excluded": 0, "embedded_data": False}
            reply = DXO(DataKind.WEIGHTS, data=dict(from_shareable(shareable).data), meta=meta).to_shareable()
        reply.set_header(AppConstants.CURRENT_ROUND, shareable.get_header(AppConstants.CURRENT_ROUND))
        return reply
