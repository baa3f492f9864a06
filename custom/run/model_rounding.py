"""The global model of a run whose server sends it in fewer bits: rounded after each round, with what was left over."""

from collections.abc import Mapping
from typing import TypeGuard

import torch

from ..aggregation.rounded_models import is_kernel, is_rounding, message_of_model, rounded_model
from ..networks.layout import STATISTICS, NetworkLayout
from ..settings import RunSettings
from .state import ResumeError
from .transport import Params


def message_params(params: Params, settings: RunSettings) -> Params:
    """Return a model as a job sends it to the sites, the global one or another.

    Args:
        params: the state dict, of which nothing is lost.
        settings: the job's settings.
    """
    return params if settings.model_precision == "fp32" else message_of_model(params)


class ModelRounding:
    """Makes the models of a run such that they can be sent in fewer bits; see :mod:`.rounded_models`.

    With ``model_precision`` ``fp32`` it changes nothing. The residual stays at the server.

    Args:
        settings: the job's settings.
        layout: which entries the network has.
    """

    def __init__(self, settings: RunSettings, layout: NetworkLayout) -> None:
        self._rounds = settings.model_precision != "fp32"
        # Under all names that a parameter has: entries of one tensor stay equal.
        kinds = {name: group.rpartition("/")[2] for name, group in layout.group_of.items()}
        self._trained = [name for name, kind in kinds.items() if kind != STATISTICS]
        self._residual: dict[str, torch.Tensor] | None = None

    def first(self, params: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return what the sites get of the model that they begin with, or begin with anew; no earlier residual counts.

        Args:
            params: the state dict.
        """
        self._residual = None
        return self.next(params)

    def next(self, params: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return what they get of a round's model, and keep what was rounded off.

        Args:
            params: the state dict that the method made.
        """
        if not self._rounds:
            return params
        rounded = rounded_model(params, self._trained, self._residual)
        self._residual = rounded.residual
        return rounded.params

    def state(self) -> dict[str, torch.Tensor]:
        """Return the residual by entry; empty where nothing is rounded."""
        return dict(self._residual or {})

    def restore(self, state: Mapping[str, torch.Tensor], params: Params) -> None:
        """Take back what :meth:`state` returned.

        Args:
            state: as above.
            params: the global model of the same state.

        Raises:
            ResumeError: if it is not of that model.
        """
        if not self._rounds:
            return
        expected = {name: params[name].shape for name in self._trained if is_kernel(params[name])}
        for name in sorted(expected.keys() | state.keys(), key=str):
            entry = state.get(name)
            if (
                name not in expected
                or not _is_dense_tensor(entry)
                or entry.shape != expected[name]
                or not is_kernel(entry)
            ):
                wanted = f"float32 of shape {tuple(expected[name])}" if name in expected else "none"
                raise ResumeError(f"Found {_described(entry)} as what was rounded off {name!r}, expected {wanted}.")
            if not bool(entry.isfinite().all()):
                raise ResumeError(f"What was rounded off {name!r} is not finite.")
            if not is_rounding(params[name], entry):
                raise ResumeError(f"Found a residual of {name!r} that was not rounded off the state's model.")
        self._residual = dict(state)


def _is_dense_tensor(entry: object) -> TypeGuard[torch.Tensor]:
    return isinstance(entry, torch.Tensor) and entry.layout == torch.strided


def _described(entry: object) -> str:
    if entry is None:
        return "none"
    if not isinstance(entry, torch.Tensor):
        return type(entry).__name__
    kind = entry.dtype if entry.layout == torch.strided else entry.layout
    return f"{kind} of shape {tuple(entry.shape)}"
