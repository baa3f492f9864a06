"""The network that settings describe, of whichever method."""

import pkgutil
from typing import TYPE_CHECKING, Any

from ..settings import ClassifierSettings, NetworkSettings

if TYPE_CHECKING:
    from torch import nn


def described_network(settings: NetworkSettings | ClassifierSettings, seed: int = 0) -> "nn.Module":
    """Build the network that settings describe, with start weights from a seed.

    A component is built by its class; else the settings' class names the function that builds the network. A
    participant that checks settings alone loads no PyTorch. A classifier's checkpoint is not read here, but by the
    server alone.

    Args:
        settings: of a network.
        seed: seed of the start weights.

    Raises:
        ComponentError: if the settings name a class that cannot be used.
    """
    if settings.component is not None:
        # Nothing of it is needed for the network of the settings.
        from .component_network import component_network  # noqa: PLC0415

        network = component_network(settings, seed)
    else:
        build: Any = pkgutil.resolve_name(settings.builder)
        network = build(**settings.model_dump(exclude={"checkpoint"}), seed=seed)
    if settings.wrapper:
        wrap: Any = pkgutil.resolve_name(settings.wrapper)
        network = wrap(network)
    return network
