"""A network of a researcher's own code, in the process that runs it: nothing that a job could bring to a site.

A job names it by :data:`OWN_TARGET` and the name under which this process knows it. Another process, such as a site of
a federation, knows no such name and refuses the job.
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from ..components.component import Component, ComponentError

Build = nn.Module | Callable[..., nn.Module]

# The settings `network` of a run with it.
OWN_TARGET = f"{__name__}.OwnNetwork"

_KNOWN: dict[str, Build] = {}
_REGISTRATIONS: dict[str, int] = {}


def register_own_network(name: str, network: Build) -> None:
    """Let this process build a network by a name.

    Args:
        name: of letters, digits, dots and a colon.
        network: a network, whose weights are those that a run starts with; or a function or class that builds one. It
            is given those of `in_channels`, `out_channels` and `spatial_dims` that it takes; `out_channels` counts the
            background of a segmentation.

    Raises:
        ComponentError: if it is neither.
    """
    if not isinstance(network, nn.Module) and not callable(network):
        raise ComponentError(f"Expected a torch.nn.Module, or a function that builds one, but got {network!r:.100}.")
    _KNOWN[name] = network
    _REGISTRATIONS[name] = _REGISTRATIONS.get(name, 0) + 1


def registrations(component: Component | None) -> int:
    """Return how often this process was told what a component's name means; 0 unless it stands for an own network."""
    if component is None or component.target != OWN_TARGET:
        return 0
    return _REGISTRATIONS.get(str(component.arguments.get("name")), 0)


class OwnNetwork(nn.Module):
    """Stands for a network that this process knows by a name; building it gives that network.

    Args:
        name: see :func:`register_own_network`.
        in_channels: channels of an image.
        num_classes: number of outputs; of a segmentation the background counts.
        spatial_dims: 2 or 3.

    Raises:
        ComponentError: if this process knows no such network, or what it knows builds none.
    """

    def __new__(cls, name: str, in_channels: int, num_classes: int, spatial_dims: int) -> Any:
        """Build the network."""
        known = _KNOWN.get(name)
        if known is None:
            raise ComponentError(
                f"The network {name!r} is code of the process that began the run, which no job brings with it. Run it "
                "there by `fedannot simulate --network`, or have the operator install its package and name it in "
                "FEDANNOT_COMPONENTS."
            )
        if isinstance(known, nn.Module):
            return copy.deepcopy(known)
        built = known(**_taken(known, in_channels, num_classes, spatial_dims))
        if not isinstance(built, nn.Module):
            raise ComponentError(f"{name} returned {type(built).__name__}; expected a torch.nn.Module.")
        return built

    def __init__(self, name: str, in_channels: int, num_classes: int, spatial_dims: int) -> None:
        raise NotImplementedError


def _taken(build: Callable[..., nn.Module], in_channels: int, outputs: int, spatial_dims: int) -> dict[str, int]:
    """Of what data and task decide, what a function takes."""
    offered = {"in_channels": in_channels, "out_channels": outputs, "spatial_dims": spatial_dims}
    parameters = inspect.signature(build).parameters
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    return {key: value for key, value in offered.items() if takes_all or key in parameters}
