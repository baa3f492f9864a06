"""Executors that fail in the ways in which sites do; tests name them in a job's configuration."""

import math
import os
import signal
from collections.abc import Mapping
from typing import Any

import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants

from fedannot.custom.flare.at_hand import task_at_hand
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.run.site_tasks import Note
from fedannot.custom.task_names import ESTIMATE_QUALITY, TRAIN


class FaultyExecutor(FederatedExecutor):
    """Does its task properly and then spoils the answer, at the sites and in the way that `faults` says."""

    def __init__(self, settings: Mapping[str, Any], faults: Mapping[str, str]) -> None:
        super().__init__(settings)
        self._faults = dict(faults)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        fault = self._faults.get(fl_ctx.get_identity_name())
        dropped_out = fault == "raises after round 1" and int(shareable.get_header(AppConstants.CURRENT_ROUND)) > 1
        if fault == "raises" or dropped_out:
            raise RuntimeError("no such luck: /secret/patient_0815.png")
        reply = super().execute(task_name, shareable, fl_ctx, abort_signal)
        task = task_at_hand(fl_ctx)
        if fault == "incomplete estimate" and task == ESTIMATE_QUALITY:
            dxo = from_shareable(reply)
            del dxo.data["inner_difficulty"]
            return dxo.update_shareable(reply)
        if fault == "false estimate" and task == ESTIMATE_QUALITY:
            dxo = from_shareable(reply)
            dxo.data |= {"inner_difficulty": [1e300], "outer_difficulty": [-1e300]}
            return dxo.update_shareable(reply)
        if fault in (None, "incomplete estimate", "false estimate", "raises after round 1") or task != TRAIN:
            return reply
        dxo = from_shareable(reply)
        if fault == "duplicate":
            send_at_once(reply, shareable, fl_ctx)
            return reply
        if fault in CLAIMS:
            return claim(dxo, CLAIMS[fault], int(reply.get_header(AppConstants.CURRENT_ROUND)), reply)
        if fault in LIES_OF_PROTOTYPES:
            dxo.meta = dict(dxo.meta) | lie_of_prototypes(fault, dxo.meta)
            return dxo.update_shareable(reply)
        if fault == "exaggerates":
            return exaggerate(dxo, from_shareable(shareable).data, reply)
        return spoil(dxo, fault, int(reply.get_header(AppConstants.CURRENT_ROUND)))


# What a site sends in place of its prototypes, entry by entry, and of its losses.
LIES_OF_PROTOTYPES = {
    "huge prototypes": (1e9, {}),
    "largest prototypes": (1e3, {"dice_loss": 0.0, "num_dice_patients": 8}),
    "no prototypes": (math.nan, {"dice_loss": math.nan, "train_loss": math.nan}),
    "huge losses": (0.0, {"dice_loss": 1e300, "train_loss": 1e300}),
    "wide prototypes": (0.5, {}),
}


def lie_of_prototypes(fault: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    value, losses = LIES_OF_PROTOTYPES[fault]
    times = 2 if fault == "wide prototypes" else 1
    patients = meta["num_prototype_patients"]
    return {"prototypes": [value] * times * len(meta["prototypes"]), "num_prototype_patients": patients, **losses}


# What a site claims in the first and in later rounds, None for what it has.
CLAIMS = {"claims everything": (2**24, 2**24), "claims more later": (None, 100_000)}


def claim(dxo: DXO, samples: tuple[int | None, int], round_number: int, reply: Shareable) -> Shareable:
    """Send the model with another number of samples."""
    claimed = samples[0] if round_number == 1 else samples[1]
    if claimed is not None:
        dxo.meta = dict(dxo.meta) | {"num_samples": claimed}
    return dxo.update_shareable(reply)


def send_at_once(reply: Shareable, task: Shareable, fl_ctx: FLContext) -> None:
    """Send the result in NVFlare's own way, which will send it once more."""
    twin = from_shareable(reply).to_shareable()
    for name in (ReservedHeaderKey.TASK_NAME, ReservedHeaderKey.TASK_ID):
        twin.set_header(name, fl_ctx.get_prop(name))
    twin.set_header(ReservedHeaderKey.MSG_ROOT_ID, "twin")
    twin.set_header(AppConstants.CURRENT_ROUND, task.get_header(AppConstants.CURRENT_ROUND))
    twin.set_cookie_jar(task.get_cookie_jar())
    if not fl_ctx.get_engine().send_task_result(twin, fl_ctx, timeout=30.0):
        raise RuntimeError("The result could not be sent.")


def exaggerate(dxo: DXO, received: Mapping[str, torch.Tensor], reply: Shareable) -> Shareable:
    """Send the update times 50, in the other direction."""
    for name, tensor in dxo.data.items():
        if tensor.is_floating_point() and "running" not in name:
            dxo.data[name] = received[name] - 50 * (tensor - received[name])
    return dxo.update_shareable(reply)


def spoil(dxo: DXO, fault: str, round_number: int) -> Shareable:
    params, meta = dict(dxo.data), dict(dxo.meta)
    name = "conv_0.conv_0.conv.weight"
    if fault == "nan":
        params[name] = torch.full_like(params[name], torch.nan)
    elif fault == "wrong shape":
        params[name] = params[name][..., :2].contiguous()
    elif fault == "not fetchable":
        # NVFlare cannot write such a tensor when the server asks for it.
        params[name] = params[name].transpose(0, -1)
    elif fault == "missing keys":
        del params[name]
    elif fault == "stale round":
        round_number -= 1
    elif fault == "too many samples":
        meta["num_samples"] = 10**12
    elif fault == "case names":
        meta["case_names"] = ["patient_0815"]
    elif fault == "a field of another method":
        # Which FedIA's sites may send with training.
        meta["has_corrected"] = True
    else:
        raise AssertionError(fault)
    reply = DXO(DataKind.WEIGHTS, data=params, meta=meta).to_shareable()
    reply.set_header(AppConstants.CURRENT_ROUND, round_number)
    return reply


class DyingExecutor(FederatedExecutor):
    """Is killed in the first round at site-2, as for want of memory."""

    def answer(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,
        note: Note | None = None,
    ) -> Shareable:
        is_first = int(shareable.get_header(AppConstants.CURRENT_ROUND)) == 1
        if fl_ctx.get_identity_name() == "site-2" and is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answer(task_name, shareable, fl_ctx, abort_signal, note)
