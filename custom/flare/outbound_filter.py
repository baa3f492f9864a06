"""The filter at a site's exit: a result leaves only if every field of it is registered."""

from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.filter import Filter, FilterContextKey, FilterSource
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.app_common.app_constant import AppConstants

from ..outbound.registry import OutboundError, OutboundRegistry
from ..refusals import REPORTED
from .at_hand import registry_at_hand, task_at_hand, with_quantised_update
from .messages import ERROR_HEADER, REFUSAL_HEADER
from .public_errors import is_simulated

_FRAMEWORK_FIELDS = frozenset({"params_type"})
_PARAMS_TYPES = (None, "FULL", "DIFF")
# Where NVFlare keeps a result in a message.
_CONTENT = "DXO"
# What NVFlare (a cookie goes back to the server that gave it) and our executors write on a result before the filters.
_HEADERS = frozenset(
    {
        ReservedHeaderKey.RC,
        ReservedHeaderKey.CONTENT_TYPE,
        ReservedHeaderKey.COOKIE_JAR,
        AppConstants.CURRENT_ROUND,
        REFUSAL_HEADER,
    }
)


class OutboundFilter(Filter):  # type: ignore[misc]
    """Rejects a task's result unless it consists of what every method, or the job's own, may send.

    A rejected result is replaced by NVFlare with the return code ``TASK_RESULT_FILTER_ERROR``: the server learns that
    the site's result was held back, the site's log says why. Replies without a result (errors, and a swarm's word that
    a site is ready) pass if they hold nothing but that.

    Where the job asks for updates in fewer bits (`update_precision`), the job's own filter of this class makes them. It
    is the last of all, so that clipping and noise for privacy come first, and rounding is of what they let go.
    """

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Return the result unchanged, but for an update in fewer bits.

        Raises:
            OutboundError: if it may not leave the site.
            ValueError: if a model is of another network than the received one.
        """
        task, registry = task_at_hand(fl_ctx), registry_at_hand(fl_ctx)
        check_reply(shareable, task, registry, takes_errors=is_simulated(fl_ctx))
        is_of_site = self.get_prop(FilterContextKey.SOURCE) == FilterSource.SITE
        return shareable if is_of_site else with_quantised_update(shareable, fl_ctx)


def check_reply(reply: Shareable, task: str, registry: OutboundRegistry, *, takes_errors: bool = False) -> None:
    """Check the result of a task.

    Args:
        reply: the result.
        task: the task by its own name.
        registry: what may leave the site.
        takes_errors: whether the error of a failed task may go along, as in a simulation.

    Raises:
        OutboundError: if it may not leave the site.
    """
    headers = reply.get(ReservedHeaderKey.HEADERS) or {}
    if unknown := sorted(set(headers) - _HEADERS - ({ERROR_HEADER} if takes_errors else set())):
        raise OutboundError(f"Task {task!r} may not send the headers {unknown}.")
    if headers.get(REFUSAL_HEADER) not in {None, *REPORTED}:
        raise OutboundError(f"Task {task!r} may not send a reason of its own for a refusal.")
    if reply.get_return_code() != ReturnCode.OK or task not in registry.tasks:
        if content := sorted(set(reply) - {ReservedHeaderKey.HEADERS}):
            raise OutboundError(f"Task {task!r} may not send {content} without a result.")
        return
    if extra := sorted(set(reply) - {ReservedHeaderKey.HEADERS, _CONTENT}):
        raise OutboundError(f"Task {task!r} may not send {extra} besides its result.")
    round_number = headers.get(AppConstants.CURRENT_ROUND)
    if round_number is not None and type(round_number) is not int:
        raise OutboundError(f"Task {task!r} may not send a round of the type {type(round_number).__name__}.")
    dxo = from_shareable(reply)
    if dxo.meta.get("params_type") not in _PARAMS_TYPES:
        raise OutboundError(f"Task {task!r} may not send a type of parameters of its own.")
    fields = {name: value for name, value in dxo.meta.items() if name not in _FRAMEWORK_FIELDS}
    if dxo.data_kind == DataKind.WEIGHTS:
        fields["params"] = dxo.data
    elif dxo.data_kind == DataKind.METRICS:
        fields |= dxo.data
    else:
        raise OutboundError(f"Task {task!r} may not send data of kind {dxo.data_kind!r}.")
    registry.check(task, fields)
