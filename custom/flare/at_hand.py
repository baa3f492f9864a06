"""What a site's executor leaves in the context of a task, and the filters of its result read there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from nvflare.apis.dxo import DXO, from_shareable
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from ..methods.lookup import find_method
from ..outbound.private_statistics import SampleValues
from ..outbound.registry import OutboundRegistry
from ..settings import RunSettings
from ..task_names import TRAIN, current_task
from .messages import (
    FIELDS_WITHOUT_MODEL,
    METHOD_AT_HAND,
    METHOD_TASK,
    NOISY_FIELDS,
    RECEIVED_MODEL,
    SAMPLE_VALUES,
    TASK,
    TASK_AT_HAND,
    UPDATE_TO_SEND,
    WITHHELD_FIELDS,
)

# From the state dict that would leave the site, and the received one, to its message.
Quantise = Callable[[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]], dict[str, torch.Tensor]]


@dataclass
class UpdateToSend:
    """How a trained model becomes a message in fewer bits, once.

    Attributes:
        quantise: makes the message.
        is_quantised: whether it has been made.
    """

    quantise: Quantise
    is_quantised: bool = False


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


def note_update(quantise: Quantise | None, fl_ctx: FLContext) -> None:
    """Leave for the filter at the exit how a trained model is quantised; None where it is sent as it is."""
    noted = None if quantise is None else UpdateToSend(quantise)
    fl_ctx.set_prop(UPDATE_TO_SEND, noted, private=True, sticky=False)


def is_quantised(fl_ctx: FLContext) -> bool:
    """Return whether the result at hand is a quantised update already."""
    noted = fl_ctx.get_prop(UPDATE_TO_SEND)
    return noted is not None and bool(noted.is_quantised)


def with_quantised_update(result: Shareable, fl_ctx: FLContext) -> Shareable:
    """Return a result with its trained model as a quantised update, where the job asks for that; others as they are.

    Raises:
        ValueError: if the model is of another network than the received one.
    """
    noted = fl_ctx.get_prop(UPDATE_TO_SEND)
    has_model = result.get_return_code() == ReturnCode.OK and task_at_hand(fl_ctx) == TRAIN
    if noted is None or noted.is_quantised or not has_model:
        return result
    dxo = from_shareable(result)
    dxo.data = noted.quantise(dxo.data, fl_ctx.get_prop(RECEIVED_MODEL))
    noted.is_quantised = True
    return dxo.update_shareable(result)
