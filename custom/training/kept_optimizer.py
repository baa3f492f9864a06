"""The state of a site's optimizer from one round to the next, such as momentum; it never leaves the site."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..data.tensor_files import UNREADABLE, save_tensors_of_round

# In a site's run folder: a folder for each part of a model that has an optimizer of its own.
OPTIMIZER_FOLDER = "optimizer"


@dataclass(frozen=True)
class KeptOptimizer:
    """Gives an optimizer the state that the site's last one had, and keeps it after the round.

    The options of the new optimizer count, such as its learning rate; of the kept one it has the state alone. A state
    that is of another optimizer or of other parameters is left out, with a warning, and so is one that is not finite.

    Args:
        folder: where states lie, a file for each of the last rounds.
        round_number: the round that is trained.
        load: returns the latest state of an earlier round, with its number; None if there is none.
        keep: rounds whose files stay.
        warn: writes a warning to the site's log.
    """

    folder: Path
    round_number: int
    load: Callable[[], tuple[int, Mapping[str, Any]] | None]
    keep: Collection[int]
    warn: Callable[[str], None]

    def restore(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None) -> None:
        """Give a new optimizer the kept state, if there is one that fits it, and a scaler of losses its last scale."""
        try:
            kept = self.load()
        except UNREADABLE as error:
            self._leave_out(f"cannot be read ({type(error).__name__})")
            return
        if kept is None:
            return
        _, content = kept
        if (reason := _misfit(content, optimizer)) is not None:
            self._leave_out(reason)
            return
        options = [_options(group) for group in optimizer.param_groups]
        optimizer.load_state_dict(content["state"])
        for group, own in zip(optimizer.param_groups, options, strict=True):
            group.update(own)
        if scaler is not None and scaler.is_enabled() and (scale := content.get("scaler")):
            scaler.load_state_dict(scale)

    def _leave_out(self, reason: str) -> None:
        self.warn(
            f"Round {self.round_number}: the optimizer's last state in {self.folder} {reason}; the round begins with a "
            "new optimizer."
        )

    def store(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None) -> None:
        """Keep the state after the round's training, with that of a scaler of losses which is in use."""
        state = optimizer.state_dict()
        if not _is_finite(state):
            self.warn(
                f"Round {self.round_number}: the optimizer's state is not finite, and is not kept; was the learning "
                "rate too large?"
            )
            return
        content = {"optimizer": type(optimizer).__name__, "shapes": _shapes(optimizer), "state": state}
        if scaler is not None and scaler.is_enabled():
            content["scaler"] = scaler.state_dict()
        save_tensors_of_round(self.folder, self.round_number, content, keep=self.keep)


def _misfit(content: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> str | None:
    """Why a kept state is none of an optimizer; None if it is."""
    if content.get("optimizer") != type(optimizer).__name__:
        return f"is of {content.get('optimizer')}, expected {type(optimizer).__name__}"
    if content.get("shapes") != _shapes(optimizer):
        return "is of parameters of other shapes"
    return None


def _shapes(optimizer: torch.optim.Optimizer) -> list[list[list[int]]]:
    return [[list(parameter.shape) for parameter in group["params"]] for group in optimizer.param_groups]


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _is_finite(state: Mapping[str, Any]) -> bool:
    values = (value for of_one in state["state"].values() for value in of_one.values())
    return all(bool(value.isfinite().all()) for value in values if isinstance(value, torch.Tensor))
