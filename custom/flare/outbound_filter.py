"""The filter at a site's exit: a result leaves only if every field of it is registered."""

from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from ..outbound import OutboundError, check_outbound

_FRAMEWORK_FIELDS = frozenset({"params_type"})


class OutboundFilter(Filter):  # type: ignore[misc]
    """Rejects a task's result unless it consists of fields of :data:`fedannot.custom.outbound.OUTBOUND_FIELDS`.

    A rejected result is replaced by NVFlare with the return code ``TASK_RESULT_FILTER_ERROR``: the server learns that
    the site's result was held back, the site's log says why. Replies without a result (errors) pass.
    """

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Return the result unchanged.

        Raises:
            OutboundError: if it may not leave the site.
        """
        if shareable.get_return_code() == ReturnCode.OK:
            check_reply(shareable, fl_ctx.get_prop(FLContextKey.TASK_NAME))
        return shareable


def check_reply(reply: Shareable, task: str) -> None:
    """Check the result of a task.

    Raises:
        OutboundError: if it may not leave the site.
    """
    dxo = from_shareable(reply)
    fields = {name: value for name, value in dxo.meta.items() if name not in _FRAMEWORK_FIELDS}
    if dxo.data_kind == DataKind.WEIGHTS:
        fields["params"] = dxo.data
    elif dxo.data_kind == DataKind.METRICS:
        fields |= dxo.data
    else:
        raise OutboundError(f"Task {task!r} may not send data of kind {dxo.data_kind!r}.")
    check_outbound(task, fields)
