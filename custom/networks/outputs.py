"""What networks return: logits, and in training perhaps further logits for deep supervision, or something else.

Networks of MONAI return a tensor, a tensor in which deep supervision has an axis of its own (``DynUNet``), a list from
the finest to the coarsest (``SegResNetDS``), one of equal extents whose last entry is the result
(``BasicUNetPlusPlus``), or a tuple that begins with the logits (``ViT``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import interpolate

from ..components.component import ComponentError


@dataclass(frozen=True)
class Outputs:
    """What a network says of a batch.

    Attributes:
        main: the logits ``(B, C, H, W[, D])``, or of a classifier ``(B, C)``.
        further: logits of deep supervision, from the finest to the coarsest.
    """

    main: torch.Tensor
    further: tuple[torch.Tensor, ...] = ()


class _MainOutput:
    """A forward hook that leaves the main logits of what a network returns, and keeps the further ones if asked."""

    def __init__(self) -> None:
        self.keeps = False
        self.further: tuple[torch.Tensor, ...] = ()

    def __call__(self, network: nn.Module, arguments: tuple[Any, ...], output: Any) -> torch.Tensor:
        outputs = split_output(output, arguments[0], type(network).__name__)
        self.further = outputs.further if self.keeps else ()
        _empty_kept_tensors(network)
        return outputs.main


def _empty_kept_tensors(network: nn.Module) -> None:
    """Empty the lists in which a network keeps tensors of its last batch, as `DynUNet` does: it could not be copied."""
    for value in vars(network).values():
        if isinstance(value, list) and any(isinstance(entry, torch.Tensor) for entry in value):
            value[:] = [entry.detach().new_empty(0) if isinstance(entry, torch.Tensor) else entry for entry in value]


def give_main_output(network: nn.Module) -> nn.Module:
    """Let a network return its main logits alone; it is changed in place and returned."""
    hook = _MainOutput()
    network.register_forward_hook(hook)
    network.main_output = hook  # type: ignore[assignment]
    return network


class GivenOutputs(nn.Module):
    """Stands for a network in training whose outputs of a batch are known, whatever it is given.

    Args:
        network: the network, whose parameters are this one's.
        outputs: what it returned.
    """

    def __init__(self, network: nn.Module, outputs: Outputs) -> None:
        super().__init__()
        self.network = network
        self.outputs = outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the main logits."""
        del images
        return self.outputs.main


def all_outputs(network: nn.Module, images: torch.Tensor) -> Outputs:
    """Run a network and return all its logits; of one that was not prepared by :func:`give_main_output` its output.

    Args:
        network: in training mode where the logits of deep supervision are wanted.
        images: ``(B, channels, H, W[, D])``.
    """
    if isinstance(network, GivenOutputs):
        return network.outputs
    hook = getattr(network, "main_output", None)
    if not isinstance(hook, _MainOutput):
        return Outputs(network(images))
    hook.keeps = True
    try:
        main = network(images)
        # A precision of the network ends at its main output.
        return Outputs(main, tuple(logits.float() for logits in hook.further))
    finally:
        # Nothing of a batch stays behind.
        hook.keeps, hook.further = False, ()


def split_output(output: Any, images: torch.Tensor, name: str = "the network") -> Outputs:
    """Return the logits in what a network returned.

    Args:
        output: a tensor, or a list or tuple of them, in whatever order.
        images: what it was given.
        name: the network's, for an error.

    Raises:
        ComponentError: if there is no tensor in it.

    Example:
        >>> images = torch.zeros(1, 1, 8, 8)
        >>> [len(entry.shape) for entry in (split_output(torch.zeros(1, 3, 2, 8, 8), images).main,)]
        [4]
    """
    if isinstance(output, torch.Tensor):
        if output.ndim == images.ndim + 1:
            main, *further = output.unbind(dim=1)
            return Outputs(main, tuple(further))
        return Outputs(output)
    if isinstance(output, dict):
        output = list(output.values())
    tensors = [entry for entry in output if isinstance(entry, torch.Tensor)] if isinstance(output, Sequence) else []
    if not tensors:
        raise ComponentError(f"{name} returned {type(output).__name__}; expected logits, or a list that holds them.")
    if isinstance(output, tuple):
        # The rest is of another kind, such as a transformer's hidden states or a loss.
        return Outputs(tensors[0])
    full = [index for index, entry in enumerate(tensors) if entry.shape[2:] == images.shape[2:]]
    main = tensors.pop(full[-1] if full else 0)
    further = [entry for entry in tensors if entry.shape[:2] == main.shape[:2] and entry.ndim == main.ndim]
    return Outputs(main, tuple(sorted(further, key=lambda entry: -entry.shape[2:].numel())))


def supervision_weights(count: int) -> list[float]:
    """Return the weights of outputs from the finest to the coarsest: 1, 1/2, 1/4, … divided by their sum (nnU-Net).

    >>> supervision_weights(2)
    [0.6666666666666666, 0.3333333333333333]
    """
    weights = [0.5**index for index in range(count)]
    return [weight / sum(weights) for weight in weights]


def labels_at(labels: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Return labels ``(B, 1, H, W[, D])`` or fractions on the grid of coarser logits, each voxel the nearest one."""
    extents = logits.shape[2:]
    if labels.shape[2:] == extents:
        return labels
    return interpolate(labels.float(), size=extents, mode="nearest-exact").to(labels.dtype)
