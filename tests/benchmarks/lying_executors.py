"""Executors of one site that lies, for `lying_sites.py`; the others do their tasks as they are."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from nvflare.apis.dxo import DXO, from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fedannot.custom.flare.at_hand import task_at_hand
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.task_names import ESTIMATE_COMPLETENESS, ESTIMATE_QUALITY, TRAIN

LIAR = "site-1"
# How many times an update is sent with its sign turned.
TIMES = 10
SAMPLES = 1_000_000
# The last layer of the segmentation network and of the classifier.
OUTPUT_LAYERS = ("final_conv", "fc")
# Liars whose direction never changes, and the entries of that layer in which their whole update is.
CONSTANT = {"bias": ("bias",), "last": ("weight", "bias")}


def turned(
    received: Mapping[str, torch.Tensor], trained: Mapping[str, torch.Tensor], times: float
) -> dict[str, torch.Tensor]:
    """Return the model that goes so many times as far as the trained one, the other way; statistics are left."""
    return {
        name: received[name] - times * (tensor - received[name])
        if tensor.is_floating_point() and "running" not in name
        else tensor
        for name, tensor in trained.items()
    }


def inflated(trained: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the model with running variances as large as the server accepts."""
    return {
        name: torch.full_like(tensor, 4000.0) if name.endswith("running_var") else tensor
        for name, tensor in trained.items()
    }


def _way(received: Mapping[str, torch.Tensor], trained: Mapping[str, torch.Tensor]) -> float:
    """Return how far ten honest updates go: the norm over all floating entries without running statistics."""
    moved = (trained[name] - received[name] for name in received if _is_parameter(name, received))
    return TIMES * float(torch.sqrt(torch.stack([item.double().square().sum() for item in moved]).sum()))


def _is_parameter(name: str, params: Mapping[str, torch.Tensor]) -> bool:
    return params[name].is_floating_point() and "running" not in name


def _against_the_foreground(tensor: torch.Tensor) -> torch.Tensor:
    """Return a direction that never changes: the output of the background grows, the others fall."""
    direction = -torch.ones_like(tensor)
    direction[0] = 1.0
    return direction


def constant(
    received: Mapping[str, torch.Tensor], trained: Mapping[str, torch.Tensor], entries: tuple[str, ...]
) -> dict[str, torch.Tensor]:
    """Return the received model with the whole way of ten updates in the named entries of the output layer."""
    names = [f"{layer}.{entry}" for layer in OUTPUT_LAYERS for entry in entries if f"{layer}.{entry}" in received]
    directions = {name: _against_the_foreground(received[name]) for name in names}
    length = math.sqrt(sum(float(direction.double().square().sum()) for direction in directions.values()))
    way = _way(received, trained) / length
    return {
        name: tensor + way * directions[name] if name in directions else tensor.clone()
        for name, tensor in received.items()
    }


def zeros(trained: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a model of nothing but zeros."""
    return {name: torch.zeros_like(tensor) for name, tensor in trained.items()}


def false_model(
    attack: str, received: Mapping[str, torch.Tensor], trained: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the model that a liar sends in place of the trained one."""
    if attack == "statistics":
        return inflated(trained)
    if attack == "zeros":
        return zeros(trained)
    if attack in CONSTANT:
        return constant(received, trained, CONSTANT[attack])
    return turned(received, trained, 1 if attack == "hidden" else TIMES)


def false_quality(task: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a result with the statistics that give a site the most weight, whichever of them it has."""
    if task == ESTIMATE_QUALITY:
        # Unlike all others, hence alone in its group, of which it has everything.
        return values | {"inner_difficulty": [16.0], "outer_difficulty": [0.0]}
    if task == ESTIMATE_COMPLETENESS:
        # All that is predicted is annotated.
        predicted = max(values["num_predicted_lesions"], 1)
        return values | dict.fromkeys((name for name in values if name.endswith("_lesions")), predicted)
    if "dice_loss" in values:
        return values | {"dice_loss": 0.0}
    if "selector_means" in values:
        # Every loss above nothing is that of a wrong label.
        return values | {
            "selector_means": [0.0, 1e-3],
            "selector_variances": [1e-8, 190.0],
            "selector_priors": [1e-3, 1 - 1e-3],
        }
    return values


def lie(attack: str, task: str, dxo: DXO, received: Mapping[str, torch.Tensor]) -> None:
    """Change what a site sends, in place."""
    if task == TRAIN:
        dxo.data = false_model(attack, received, dxo.data)
        if attack in ("samples", "hidden"):
            dxo.meta["num_samples"] = SAMPLES
        if attack == "quality":
            dxo.meta = false_quality(task, dict(dxo.meta))
    elif attack == "quality" and task in (ESTIMATE_QUALITY, ESTIMATE_COMPLETENESS):
        dxo.data = false_quality(task, dict(dxo.data))


class LyingExecutor(FederatedExecutor):
    """Lies at one site, about whatever it is asked."""

    def __init__(self, settings: Mapping[str, Any], attack: str) -> None:
        super().__init__(settings)
        self._attack = attack

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        reply = super().execute(task_name, shareable, fl_ctx, abort_signal)
        if fl_ctx.get_identity_name() != LIAR:
            return reply
        dxo = from_shareable(reply)
        lie(self._attack, task_at_hand(fl_ctx), dxo, from_shareable(shareable).data)
        return dxo.update_shareable(reply)
