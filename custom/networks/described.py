"""The network that settings describe, of whichever method."""

import pkgutil
from typing import TYPE_CHECKING, Any

from ..settings import ClassifierSettings, NetworkSettings

if TYPE_CHECKING:
    from torch import nn


def described_network(settings: NetworkSettings | ClassifierSettings, seed: int = 0) -> "nn.Module":
    """Build the network that settings describe, with start weights from a seed.

    Their class names the function that builds it; a participant that checks settings alone loads no PyTorch. A
    classifier's checkpoint is not read here, but by the server alone.

    Args:
        settings: of a network.
        seed: seed of the start weights.
    """
    build: Any = pkgutil.resolve_name(settings.builder)
    network: nn.Module = build(**settings.model_dump(exclude={"checkpoint"}), seed=seed)
    return network
