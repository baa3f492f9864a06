"""The optimizer of a round of local training, as the settings name it."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..components.building import build_component
from ..components.component import Component
from ..components.roles import Role
from ..networks.second_network import first_network, has_second_network, second_network
from ..settings import ClassifierTrainingSettings, TrainingSettings

# The methods of PyTorch's optimizers that load its compiler at their first call, whether anything is compiled or not.
_WRAPPED = ("add_param_group", "zero_grad", "step", "state_dict", "load_state_dict")


def _bare_methods(kind: type[torch.optim.Optimizer]) -> dict[str, Callable[..., Any]]:
    """The methods of an optimizer without what loads the compiler; steps stay without gradients."""
    bare = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    return bare | {"step": torch.no_grad()(bare["step"])}


# PyTorch's Adam and SGD, bit for bit, in classes of their own: PyTorch's stay as they are. To load the compiler takes
# one to two seconds in every process that trains. Their names are those that kept states of optimizers have.
_ADAM: type[torch.optim.Adam] = type("Adam", (torch.optim.Adam,), _bare_methods(torch.optim.Adam))
_SGD: type[torch.optim.SGD] = type("SGD", (torch.optim.SGD,), _bare_methods(torch.optim.SGD))

# Those whose step can be recorded on a GPU.
RECORDED_OPTIMIZERS = ("adam", "sgd")


def build_optimizer(
    network: nn.Module, training: TrainingSettings | ClassifierTrainingSettings, learning_rate: float
) -> torch.optim.Optimizer:
    """Return a new optimizer of those parameters that are to be trained; a second network's are a group of their own.

    Args:
        network: what is trained.
        training: which optimizer and its options.
        learning_rate: with which it begins.

    Raises:
        ComponentError: if a class cannot be used.
    """
    if isinstance(training.optimizer, Component):
        built: torch.optim.Optimizer = build_component(
            training.optimizer, Role.OPTIMIZER, {"params": _parameters(network), "lr": learning_rate}
        )
        return built
    return _adam_or_sgd(network, training, learning_rate)


def _adam_or_sgd(
    network: nn.Module,
    training: TrainingSettings | ClassifierTrainingSettings,
    learning_rate: float | torch.Tensor,
    *,
    recorded: bool = False,
) -> torch.optim.Optimizer:
    """SGD, or else Adam, with a new state; in the form whose step can be recorded on a GPU if so asked."""
    trained = _parameters(network)
    common: dict[str, Any] = {"lr": learning_rate, "weight_decay": training.weight_decay}
    if training.optimizer == "sgd":
        # Without 'fused' PyTorch chooses the form of the step itself.
        form = {"fused": True} if recorded else {}
        return _SGD(trained, momentum=training.momentum, nesterov=training.nesterov, **common, **form)
    return _ADAM(trained, betas=training.betas, fused=True, capturable=recorded, **common)


def _parameters(network: nn.Module) -> list[nn.Parameter] | list[dict[str, list[nn.Parameter]]]:
    """What is trained of a network, or the groups of a first and a second one, whose gradients are clipped apart."""
    if not has_second_network(network):
        return [parameter for parameter in network.parameters() if parameter.requires_grad]
    parts = first_network(network), second_network(network)
    return [{"params": [value for value in part.parameters() if value.requires_grad]} for part in parts]


def build_recorded_optimizer(
    network: nn.Module, training: TrainingSettings | ClassifierTrainingSettings
) -> torch.optim.Optimizer:
    """Return the optimizer of :func:`build_optimizer` in the form whose step computes on a GPU alone.

    Its learning rate is a tensor; :func:`set_learning_rate` sets it.

    Args:
        network: what is trained, on a GPU.
        training: which optimizer and its options.

    Raises:
        ValueError: if it is none of :data:`RECORDED_OPTIMIZERS`.
    """
    if training.optimizer not in RECORDED_OPTIMIZERS:
        raise ValueError(f"Expected an optimizer among {', '.join(RECORDED_OPTIMIZERS)}, but got {training.optimizer}.")
    rate = torch.zeros((), device=next(network.parameters()).device)
    return _adam_or_sgd(network, training, rate, recorded=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate
