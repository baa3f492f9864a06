"""The network of a job with weights that came from elsewhere."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import torch

from ..settings import ClassifierSettings, NetworkSettings
from .copying import network_copy
from .described import described_network
from .devices import ready_to_compute

if TYPE_CHECKING:
    from torch import nn


# Of networks up to this size the last one is kept: to copy it takes a tenth of the time of building it, which counts
# where a process trains for thousands of sites.
_MOST_BYTES_KEPT = 2**24
_kept: "dict[tuple[type[object], str], nn.Module]" = {}
_starts: "WeakKeyDictionary[nn.Module, ref[nn.Module]]" = WeakKeyDictionary()


class ModelDoesNotFitError(ValueError):
    """The received model is not of the network that the job's settings describe."""


def received_network(settings: NetworkSettings | ClassifierSettings, params: Mapping[str, Any]) -> "nn.Module":
    """Return the network of a job's settings with a received state dict, where and in the layout in which it computes.

    Args:
        settings: the job's network.
        params: arrays or tensors by name.

    Raises:
        ModelDoesNotFitError: if it is of another network.
    """
    network = _start_network(settings)
    received = {name: torch.as_tensor(value) for name, value in params.items()}
    try:
        network.load_state_dict(received)
    except RuntimeError as error:
        raise ModelDoesNotFitError(f"The received model does not fit the network settings: {error}") from error
    # PyTorch takes one number in place of a scalar. What is sent back would then fit what was received no more.
    for name, value in network.state_dict().items():
        if received[name].shape != value.shape:
            raise ModelDoesNotFitError(
                f"The received model does not fit the network settings: {name!r} has the shape "
                f"{tuple(received[name].shape)}, expected {tuple(value.shape)}."
            )
    return network


def _start_network(settings: NetworkSettings | ClassifierSettings) -> "nn.Module":
    """The network with its start weights, nobody else's."""
    if settings.component is not None:
        # What a researcher's own function builds may be another network by now.
        return ready_to_compute(described_network(settings))
    key = type(settings), settings.model_dump_json()
    network = _kept.get(key)
    if network is None:
        network = ready_to_compute(described_network(settings))
        if sum(tensor.nbytes for tensor in network.state_dict().values()) > _MOST_BYTES_KEPT:
            return network
        _kept.clear()
        _kept[key] = network
    twin = network_copy(network)
    _starts[twin] = ref(network)
    return twin


def start_network_of(network: "nn.Module") -> "nn.Module | None":
    """Return the network of whose structure a received one is, the same for all of the same settings at a time.

    Returns:
        None for one that is kept nowhere, such as a large one or a researcher's own.
    """
    start = _starts.get(network)
    return None if start is None else start()
