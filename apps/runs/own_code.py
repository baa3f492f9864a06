"""A network of a researcher's own code: for runs in this process, with any method."""

import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...custom.components.component import TARGET
from ...custom.components.merging import KEPT
from ...custom.settings import SettingValues
from .job import JobError

if TYPE_CHECKING:
    from torch import nn

    OwnNetworkCode = str | nn.Module | Callable[..., nn.Module]
else:
    OwnNetworkCode = Any


def own_network_changes(network: OwnNetworkCode) -> SettingValues:
    """Let this process build a network by a name, and return the changes of settings that name it.

    Args:
        network: a ``torch.nn.Module``, whose weights the run starts with; a function or class that builds one from any
            of `in_channels`, `out_channels` and `spatial_dims`; or the place of one, ``package.module:function``.

    Raises:
        JobError: if there is nothing at the place, or it builds no network.
    """
    # PyTorch takes seconds, and most runs have no code of their own.
    from ...custom.components.component import ComponentError  # noqa: PLC0415
    from ...custom.networks.own_network import OWN_TARGET, register_own_network  # noqa: PLC0415

    code: Any = _at(network) if isinstance(network, str) else network
    if isinstance(network, str):
        name = network
    else:
        kind: Any = code if hasattr(code, "__qualname__") else type(code)
        name = f"{kind.__module__}:{kind.__qualname__}".replace("<", "").replace(">", "")
    try:
        register_own_network(name, code)
    except ComponentError as error:
        raise JobError(str(error)) from error
    return {f"network.{TARGET}": OWN_TARGET, "network.name": name}


def check_no_other_network(changes: Mapping[str, Any]) -> None:
    """Check that changes of settings name no network where a researcher's own code builds it.

    Raises:
        JobError: naming the setting.
    """
    for key in changes:
        block, _, name = key.partition(".")
        if block == "network" and name not in KEPT:
            raise JobError(f"--network is given, and {key!r} says another network, too; expected one of them.")


def _at(place: str) -> Any:
    """What is at a place ``package.module:function``; its module is imported."""
    module, separator, name = place.partition(":")
    if not separator or not module or not name:
        raise JobError(f"--network {place!r}: expected the place of a function as package.module:function.")
    try:
        return pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise JobError(
            f"--network {place!r}: found no such function: {error}. Its package is looked for in the folder that the "
            "command is given in, and among what is installed."
        ) from error
