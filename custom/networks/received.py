"""The network of a job with weights that came from elsewhere."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import torch

from ..aggregation.rounded_models import model_of_message, model_refusal
from ..settings import ClassifierSettings, NetworkSettings
from .copying import NetworkTemplate
from .described import described_network
from .devices import ready_to_compute

if TYPE_CHECKING:
    from torch import nn


# Of networks up to this size the last one is kept: to copy it takes a fiftieth of the time of building it, which counts
# where a process trains for thousands of sites.
_MOST_BYTES_KEPT = 2**24
_kept: dict[tuple[type[object], str], NetworkTemplate] = {}
_starts: "WeakKeyDictionary[nn.Module, ref[nn.Module]]" = WeakKeyDictionary()


class ModelDoesNotFitError(ValueError):
    """The received model is not of the network that the job's settings describe."""


def entries_of(settings: NetworkSettings | ClassifierSettings) -> dict[str, torch.Tensor]:
    """Return a state dict of a job's network without memory for values.

    Args:
        settings: the job's network.
    """
    described = described_network(settings).state_dict()
    return {name: torch.empty_like(value, device="meta") for name, value in described.items()}


def received_model(message: Mapping[str, Any], expected: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the model of a message in fewer bits, bit for bit the server's.

    Args:
        message: what came.
        expected: a state dict of the job's network, whose values do not count; see :func:`entries_of`.

    Raises:
        ModelDoesNotFitError: if an entry is missing or unknown, or of another shape or type.
    """
    if (reason := model_refusal(message, expected)) is not None:
        raise ModelDoesNotFitError(f"The received model does not fit the network settings: {reason}.")
    return model_of_message(message, expected)


def received_network(settings: NetworkSettings | ClassifierSettings, params: Mapping[str, Any]) -> "nn.Module":
    """Return the network of a job's settings with a received state dict, where and in the layout in which it computes.

    Args:
        settings: the job's network.
        params: arrays or tensors by name.

    Raises:
        ModelDoesNotFitError: if it is of another network.
    """
    received = {name: torch.as_tensor(value) for name, value in params.items()}
    template = _template(settings)
    if isinstance(template, NetworkTemplate):
        copied = template.with_weights(received)
        network = template.copy() if copied is None else copied
        _starts[network] = ref(template.network)
        if copied is not None:
            return copied
    else:
        network = template
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


def _template(settings: NetworkSettings | ClassifierSettings) -> "NetworkTemplate | nn.Module":
    """What copies of the network are made from, or a new network with its start weights where none is kept."""
    if settings.component is not None:
        # What a researcher's own function builds may be another network by now.
        return ready_to_compute(described_network(settings))
    key = type(settings), settings.model_dump_json()
    template = _kept.get(key)
    if template is None:
        network = ready_to_compute(described_network(settings))
        if sum(tensor.nbytes for tensor in network.state_dict().values()) > _MOST_BYTES_KEPT:
            return network
        template = NetworkTemplate(network)
        _kept.clear()
        _kept[key] = template
    return template


def start_network_of(network: "nn.Module") -> "nn.Module | None":
    """Return the network of whose structure a received one is, the same for all of the same settings at a time.

    Returns:
        None for one that is kept nowhere, such as a large one or a researcher's own.
    """
    start = _starts.get(network)
    return None if start is None else start()
