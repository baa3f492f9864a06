"""What a site's executor leaves in the context of a task, and the filters of its result read there."""

from collections.abc import Mapping
from typing import Any

from nvflare.apis.dxo import DXO
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext

from ..methods.lookup import find_method
from ..outbound.private_statistics import SampleValues
from ..outbound.registry import OutboundRegistry
from ..settings import RunSettings
from ..task_names import current_task
from .messages import (
    FIELDS_WITHOUT_MODEL,
    METHOD_AT_HAND,
    METHOD_TASK,
    NOISY_FIELDS,
    SAMPLE_VALUES,
    TASK,
    TASK_AT_HAND,
    WITHHELD_FIELDS,
)


def own_name(task: str, received: DXO) -> str:
    """Return a task's own name: NVFlare's, but for one of a method's own, whose name came with the model.

    A server of an earlier version may have another name for it.

    Args:
        task: NVFlare's name of it.
        received: what came with it.
    """
    return current_task(str(received.meta.get(TASK))) if task == METHOD_TASK else task


def note_task(task: str, settings: RunSettings, fl_ctx: FLContext) -> None:
    """Leave the task by its own name, and the method of the job; forget what filters left of an earlier result."""
    fl_ctx.set_prop(TASK_AT_HAND, task, private=True, sticky=False)
    fl_ctx.set_prop(METHOD_AT_HAND, (settings.task, settings.method), private=True, sticky=False)
    for left in (NOISY_FIELDS, WITHHELD_FIELDS):
        fl_ctx.set_prop(left, {}, private=True, sticky=False)


def note_samples(samples: Mapping[str, SampleValues], fl_ctx: FLContext) -> None:
    """Leave for filters of the result what its statistics are made of, in place of an earlier result's."""
    fl_ctx.set_prop(SAMPLE_VALUES, dict(samples), private=True, sticky=False)


def note_fields(fields: Mapping[str, Any] | None, fl_ctx: FLContext) -> None:
    """Leave for them what the result holds whatever the model does to the task; None if that is not known."""
    fl_ctx.set_prop(FIELDS_WITHOUT_MODEL, None if fields is None else dict(fields), private=True, sticky=False)


def task_at_hand(fl_ctx: FLContext) -> str:
    """Return the task at hand: a method's own where NVFlare's name of it says no more than that it is one."""
    named = str(fl_ctx.get_prop(FLContextKey.TASK_NAME))
    return str(fl_ctx.get_prop(TASK_AT_HAND, named)) if named == METHOD_TASK else named


def registry_at_hand(fl_ctx: FLContext) -> OutboundRegistry:
    """Return what may leave the site in a job of the method at hand; without one, what every method sends.

    Raises:
        SettingsError: if the method is another package's that cannot be used.
    """
    result = fl_ctx.get_prop(METHOD_AT_HAND)
    return OutboundRegistry(() if result is None else find_method(*result).outbound_fields)
