"""The network that settings describe, of whichever method."""

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from ..settings import ClassifierSettings, CurvatureNetworkSettings, DecoupledNetworkSettings, NetworkSettings

if TYPE_CHECKING:
    from torch import nn

# Networks are imported when they are built: a participant that checks a job's settings loads no PyTorch.


@singledispatch
def described_network(settings: Any, seed: int = 0) -> "nn.Module":
    """Build the network that settings describe, with start weights from a seed.

    A classifier's checkpoint is not read here, but by the server alone.

    Args:
        settings: of a network.
        seed: seed of the start weights.

    Raises:
        TypeError: if there is no such network.
    """
    del seed
    raise TypeError(f"Expected the settings of a network, but got {type(settings).__name__}.")


@described_network.register(NetworkSettings)
def _(settings: NetworkSettings, seed: int = 0) -> "nn.Module":
    from ..networks.building import build_network

    return build_network(**settings.model_dump(), seed=seed)


@described_network.register(CurvatureNetworkSettings)
def _(settings: CurvatureNetworkSettings, seed: int = 0) -> "nn.Module":
    from .fedcurv.curvature import build_network_with_curvature

    return build_network_with_curvature(**settings.model_dump(), seed=seed)


@described_network.register(DecoupledNetworkSettings)
def _(settings: DecoupledNetworkSettings, seed: int = 0) -> "nn.Module":
    from .decoupled.network import build_decoupled_network

    return build_decoupled_network(**settings.model_dump(), seed=seed)


@described_network.register(ClassifierSettings)
def _(settings: ClassifierSettings, seed: int = 0) -> "nn.Module":
    from ..networks.building import build_classifier

    return build_classifier(**settings.model_dump(exclude={"checkpoint"}), seed=seed)
