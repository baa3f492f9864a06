"""Optimizers at the server: what the sites' average says of the global model is a gradient, and a step follows it."""

from collections.abc import Collection, Mapping
from typing import Any

import torch

from .settings import ServerOptimizerSettings

_Tensors = dict[str, torch.Tensor]


class ServerOptimizer:
    """FedAvgM (Hsu, Qi, Brown 2019), FedAdagrad, FedAdam and FedYogi (Reddi et al., ICLR 2021), on trained parameters.

    With w the global model and Δ the sites' average less w, FedAvgM is m ← β m + Δ and w ← w + η m. The others are
    m ← β₁ m + (1 − β₁) Δ and w ← w + η m / (√v + τ). Their v begins at τ² and is v + Δ² for FedAdagrad,
    β₂ v + (1 − β₂) Δ² for FedAdam, and v − (1 − β₂) Δ² sign(v − Δ²) for FedYogi. None has a correction of the bias.
    Steps are computed in double precision; m and v have the model's types.

    Args:
        settings: which optimizer, and its numbers.

    Example:
        >>> optimizer = ServerOptimizer(ServerOptimizerSettings(name="fedavgm", momentum=0.9))
        >>> model = {"w": torch.zeros(1)}
        >>> for _ in range(3):
        ...     model = optimizer.step(model, {"w": model["w"] - 1.0}, ["w"])
        >>> round(float(model["w"]), 4)
        -5.61
    """

    def __init__(self, settings: ServerOptimizerSettings) -> None:
        self._settings = settings
        self._first: _Tensors = {}
        self._second: _Tensors = {}

    def step(
        self, params: Mapping[str, torch.Tensor], average: Mapping[str, torch.Tensor], trained: Collection[str]
    ) -> _Tensors:
        """Return the next global model; what is not trained is the average's.

        Args:
            params: the global model, w.
            average: of the sites.
            trained: names of the parameters.
        """
        result = dict(average)
        for name in sorted(trained):
            result[name] = self._stepped(name, params[name], average[name])
        return result

    def _stepped(self, name: str, before: torch.Tensor, average: torch.Tensor) -> torch.Tensor:
        settings, kind = self._settings, average.dtype
        towards = average.double() - before.double()
        first = self._first.get(name, torch.zeros_like(before)).double()
        if settings.name == "fedavgm":
            first = settings.momentum * first + towards
            # Without momentum and at rate 1 the last term is 0, and the model is the average to the last bit.
            result = average.double() + (settings.rate * first - towards)
        else:
            first = settings.betas[0] * first + (1 - settings.betas[0]) * towards
            second = self._second_moment(name, towards.square())
            result = before.double() + settings.rate * first / (second.sqrt() + settings.tau)
            self._second[name] = second.to(kind)
        self._first[name] = first.to(kind)
        return result.to(kind)

    def _second_moment(self, name: str, square: torch.Tensor) -> torch.Tensor:
        """The next v of a parameter."""
        beta, start = self._settings.betas[1], self._settings.tau**2
        before = self._second[name].double() if name in self._second else torch.full_like(square, start)
        if self._settings.name == "fedadagrad":
            return before + square
        if self._settings.name == "fedadam":
            return beta * before + (1 - beta) * square
        return before - (1 - beta) * square * torch.sign(before - square)

    def state(self) -> dict[str, _Tensors]:
        """Return m and v, which a restart needs."""
        return {"first": dict(self._first), "second": dict(self._second)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        self._first, self._second = dict(state.get("first", {})), dict(state.get("second", {}))
