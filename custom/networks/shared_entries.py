"""Parameters that a network has under several names are in its state dict once.

`DynUNet` registers its layers a second time for its own recursion. Averaged layer by layer, two entries of one
parameter could come to differ; and they would be sent twice.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def shared_entries(network: nn.Module) -> dict[str, str]:
    """Return every further name of an entry of a network's state dict, and the first name."""
    first: dict[int, str] = {}
    further: dict[str, str] = {}
    named = [*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False)]
    for name, tensor in named:
        if id(tensor) in first:
            further[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
    return further


class _LeaveOut:
    """Takes further names out of a state dict."""

    def __init__(self, further: Mapping[str, str]) -> None:
        self._further = further

    def __call__(self, network: nn.Module, state: dict[str, torch.Tensor], prefix: str, metadata: Any) -> None:
        del network, metadata
        for name in self._further:
            state.pop(f"{prefix}{name}", None)


class _PutBack:
    """Gives a state dict that is loaded the further names."""

    def __init__(self, further: Mapping[str, str]) -> None:
        self._further = further

    def __call__(self, network: nn.Module, state: dict[str, torch.Tensor], prefix: str, *rest: Any) -> None:
        del network, rest
        for name, first in self._further.items():
            if f"{prefix}{first}" in state:
                state.setdefault(f"{prefix}{name}", state[f"{prefix}{first}"])


def leave_out_shared_entries(network: nn.Module) -> nn.Module:
    """Let a network's state dict name every parameter once; it is changed in place and returned."""
    if further := shared_entries(network):
        network.register_state_dict_post_hook(_LeaveOut(further))  # type: ignore[no-untyped-call]
        network.register_load_state_dict_pre_hook(_PutBack(further))  # type: ignore[no-untyped-call]
    return network
