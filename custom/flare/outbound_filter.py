"""The filter at a site's exit: a result leaves only if every field of it is registered."""

from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.app_common.app_constant import AppConstants

from ..outbound.registry import OUTBOUND_FIELDS, OutboundError, check_outbound
from .messages import REFUSAL_HEADER, REFUSALS

_FRAMEWORK_FIELDS = frozenset({"params_type"})
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
_TASKS = frozenset(task for field in OUTBOUND_FIELDS for task in field.tasks)


class OutboundFilter(Filter):  # type: ignore[misc]
    """Rejects a task's result unless it consists of :data:`fedannot.custom.outbound.registry.OUTBOUND_FIELDS`.

    A rejected result is replaced by NVFlare with the return code ``TASK_RESULT_FILTER_ERROR``: the server learns that
    the site's result was held back, the site's log says why. Replies without a result (errors, and a swarm's word that
    a site is ready) pass if they hold nothing but that.
    """

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Return the result unchanged.

        Raises:
            OutboundError: if it may not leave the site.
        """
        check_reply(shareable, fl_ctx.get_prop(FLContextKey.TASK_NAME))
        return shareable


def check_reply(reply: Shareable, task: str) -> None:
    """Check the result of a task.

    Raises:
        OutboundError: if it may not leave the site.
    """
    headers = reply.get(ReservedHeaderKey.HEADERS) or {}
    if unknown := sorted(set(headers) - _HEADERS):
        raise OutboundError(f"Task {task!r} may not send the headers {unknown}.")
    if headers.get(REFUSAL_HEADER) not in {None, *REFUSALS}:
        raise OutboundError(f"Task {task!r} may not send a reason of its own for a refusal.")
    if reply.get_return_code() != ReturnCode.OK or task not in _TASKS:
        if content := sorted(set(reply) - {ReservedHeaderKey.HEADERS}):
            raise OutboundError(f"Task {task!r} may not send {content} without a result.")
        return
    dxo = from_shareable(reply)
    fields = {name: value for name, value in dxo.meta.items() if name not in _FRAMEWORK_FIELDS}
    if dxo.data_kind == DataKind.WEIGHTS:
        fields["params"] = dxo.data
    elif dxo.data_kind == DataKind.METRICS:
        fields |= dxo.data
    else:
        raise OutboundError(f"Task {task!r} may not send data of kind {dxo.data_kind!r}.")
    check_outbound(task, fields)
