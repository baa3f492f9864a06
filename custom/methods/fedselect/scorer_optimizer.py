"""Adam on the parameters of V, at the server (FedSelect)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .scorer import selection_weights

_MOMENTS = ("exp_avg", "exp_avg_sq")


class ScorerOptimizer:
    """V and what Adam remembers of its gradients, in double precision.

    Args:
        parameters: of V before the first step.
        learning_rate: of Adam.
        weight_decay: is added to the gradient, times the parameters.

    Attributes:
        parameters: of V as they are now.
        steps: how many were made.
    """

    def __init__(self, parameters: Sequence[float], learning_rate: float, weight_decay: float) -> None:
        self._learning_rate, self._weight_decay = learning_rate, weight_decay
        self.parameters = list(parameters)
        self.steps = 0
        self._moments = {name: [0.0] * len(self.parameters) for name in _MOMENTS}

    def step(self, gradient: Sequence[float]) -> None:
        """Change V by one step."""
        variable = torch.tensor(self.parameters, dtype=torch.float64)
        variable.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer = torch.optim.Adam([variable], lr=self._learning_rate, weight_decay=self._weight_decay)
        moments = {name: torch.tensor(values, dtype=torch.float64) for name, values in self._moments.items()}
        optimizer.state[variable] = {"step": torch.tensor(float(self.steps)), **moments}
        optimizer.step()
        self.steps += 1
        self.parameters = variable.tolist()
        self._moments = {name: optimizer.state[variable][name].tolist() for name in _MOMENTS}

    def weights(self, losses: Sequence[float]) -> list[float]:
        """Return V of some losses."""
        scorer = torch.tensor(self.parameters, dtype=torch.float64)
        weights: list[float] = selection_weights(scorer, torch.tensor(losses, dtype=torch.float64)).tolist()
        return weights

    def state(self) -> dict[str, Any]:
        """Return V and what Adam remembers, as plain values."""
        return {"parameters": self.parameters, "steps": self.steps, **self._moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self.parameters, self.steps = list(state["parameters"]), int(state["steps"])
        self._moments = {name: list(state[name]) for name in _MOMENTS}
