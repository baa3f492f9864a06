"""The network that settings describe, of whichever method."""

import pkgutil
from typing import TYPE_CHECKING, Any

from ..seeding import derive_seed
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
    network = _built(settings, seed)
    if settings.has_second:
        from .second_network import with_second_network  # noqa: PLC0415

        network = with_second_network(network, _built(settings, derive_seed(seed, "second network")))
    if settings.wrapper:
        wrap: Any = pkgutil.resolve_name(settings.wrapper)
        network = wrap(network)
    return network


def _built(settings: NetworkSettings | ClassifierSettings, seed: int) -> "nn.Module":
    """A single network, without what a method gives it."""
    if settings.component is not None:
        # Nothing of it is needed for the network of the settings.
        from .component_network import component_network  # noqa: PLC0415

        return component_network(settings, seed)
    build: Any = pkgutil.resolve_name(settings.builder)
    network: nn.Module = build(**settings.model_dump(exclude={"checkpoint"}), seed=seed)
    return network
