"""A loss of MONAI or PyTorch in training: what it is given, and what becomes of pixels that are ignored."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import nn

from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ..components.building import build_component, component_class, parameters_of
from ..components.component import Component, ComponentError
from ..components.roles import Role

# Given where a class has the argument and a job does not say: labels are numbers of classes, outputs are logits.
_GIVEN = {"to_onehot_y": True, "softmax": True, "use_softmax": True}
# What takes the place of softmax; then it is not given.
_OTHER_ACTIVATIONS = ("sigmoid", "other_act")
# Lists of numbers that classes want as tensors.
_TENSORS = ("weight", "dist_matrix")
# Classes that take labels without an axis for the channel.
_TAKE_NUMBERS = ("NACLLoss",)

# Logits of a pixel that is background beyond doubt; the softmax is exactly 0 and 1.
_CERTAIN = -1e4
_EXTENT = 8
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


class Ignoring(Enum):
    """How a loss leaves out pixels that are ignored.

    Attributes:
        ITSELF: it has an argument ``ignore_index``.
        FILLED: of a pixel that is background beyond doubt, and annotated so, it takes no notice.
        RESCALED: such a pixel adds nothing to its sum, but counts in its mean.
        NOT: nothing of this holds.
    """

    ITSELF = "itself"
    FILLED = "filled"
    RESCALED = "rescaled"
    NOT = "not"


@dataclass(frozen=True)
class _Tried:
    """What trying a loss on an example has shown."""

    follows_from_probabilities: bool
    ignoring: Ignoring


class ComponentLoss(nn.Module):
    """A class of MONAI's or PyTorch's losses, on the logits and labels of this package.

    Before the first batch it is tried on an example. It must be a differentiable number. Whether it is the same for
    logits and for their log probabilities says whether it may be given the log probabilities of what a site annotates.
    How it leaves out ignored pixels is whatever gives the value that it has of the other pixels alone; where nothing
    does, a batch with ignored pixels is refused.

    Args:
        component: the class and its arguments; ``to_onehot_y`` and ``softmax`` are true where it does not say.

    Raises:
        ComponentError: if it cannot be built, or takes logits for probabilities.

    Example:
        >>> from fedannot.custom.components.component import read_component
        >>> loss = ComponentLoss(read_component("DiceLoss", Role.LOSS))
        >>> sure = torch.tensor([[[[-20.0, 20.0]], [[20.0, -20.0]]]])
        >>> round(float(loss(sure, torch.tensor([[[[1, 0]]]]))), 4)
        0.0
    """

    def __init__(self, component: Component) -> None:
        super().__init__()
        self._component = component
        is_torch = component_class(component, Role.LOSS).__module__.startswith("torch.")
        self._takes_numbers = is_torch or component.name in _TAKE_NUMBERS
        self._plain = _built(component, {})
        self._losses = nn.ModuleDict()
        self._tried: dict[tuple[int, int], _Tried] = {}

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss.

        Args:
            logits: ``(B, C)``, or ``(B, C, H, W[, D])`` with the background first.
            labels: classes ``(B,)``, or ``(B, 1, H, W[, D])``, 255 where they are ignored.

        Raises:
            ComponentError: if it cannot be computed of such logits and labels.
            DataError: if pixels are ignored, and the loss cannot leave them out.
        """
        return self._value(logits.float(), labels, self.ignoring(logits.shape[1], logits.ndim - 2))

    def follows_from_probabilities(self, num_outputs: int, spatial_dims: int) -> bool:
        """Return whether the loss is the same for logits and for their log probabilities.

        Args:
            num_outputs: as for :meth:`ignoring`.
            spatial_dims: as above.

        Raises:
            ComponentError: as there.
        """
        return self._try(num_outputs, spatial_dims).follows_from_probabilities

    def check_takes_log_probabilities(self, num_outputs: int, spatial_dims: int) -> None:
        """Check that the loss is the same for logits and for their log probabilities.

        Args:
            num_outputs: as for :meth:`ignoring`.
            spatial_dims: as above.

        Raises:
            DataError: if it is not.
        """
        if not self.follows_from_probabilities(num_outputs, spatial_dims):
            raise DataError(
                f"The annotations here are incomplete or corrected, but the loss {self._component.target} does not "
                "follow from the probabilities of classes that exclude each other, as it must then. Choose another "
                "loss, such as 'ce_dice', or softmax in place of sigmoid."
            )

    def ignoring(self, num_outputs: int, spatial_dims: int) -> Ignoring:
        """Return how ignored pixels are left out; tries the loss, if that has not been done.

        Args:
            num_outputs: number of logits, with the background in segmentation.
            spatial_dims: 2 or 3; 0 in classification.

        Raises:
            ComponentError: if it cannot be computed of such logits and labels.
        """
        return self._try(num_outputs, spatial_dims).ignoring

    def _try(self, num_outputs: int, spatial_dims: int) -> "_Tried":
        form = (num_outputs, spatial_dims)
        if form not in self._tried:
            with torch.autocast("cpu", enabled=False), torch.enable_grad():
                logits, labels = _example(*form)
                self._tried[form] = _Tried(
                    follows_from_probabilities=self._is_of_probabilities(logits, labels),
                    ignoring=Ignoring.NOT if spatial_dims == 0 else self._found(logits.detach(), labels),
                )
        return self._tried[form]

    def _is_of_probabilities(self, logits: torch.Tensor, labels: torch.Tensor) -> bool:
        """Whether the loss is the same for log probabilities. Raises ComponentError if it is no loss to train with."""
        name = self._component.target
        logits = logits.requires_grad_()
        try:
            value = self._of(self._plain, logits, labels)
            (gradient,) = torch.autograd.grad(value, logits)
            of_probabilities = float(self._of(self._plain, logits.detach().log_softmax(dim=1), labels))
        except Exception as error:
            # Whatever a class makes of what it is given.
            raise ComponentError(
                f"{name} cannot be computed of logits {tuple(logits.shape)} and labels {tuple(labels.shape)} with "
                f"numbers of classes: {type(error).__name__}: {error}"
            ) from error
        if not (value.isfinite() and gradient.isfinite().all()):
            raise ComponentError(f"{name} is {float(value.detach())} with a gradient that is not finite.")
        return _is_near(float(value.detach()), of_probabilities)

    def _found(self, logits: torch.Tensor, labels: torch.Tensor) -> Ignoring:
        """The first way of leaving out pixels that gives the value of the others alone.

        A loss that looks at where pixels lie has no such way: with others in their place the same pixels count
        differently.
        """
        value, shuffled = (
            float(self._of(self._plain, *pair)) for pair in ((logits, labels), _shuffled(logits, labels))
        )
        if not _is_near(value, shuffled):
            return Ignoring.NOT
        with_index = {"ignore_index": IGNORED_LABEL}
        if "ignore_index" in parameters_of(component_class(self._component, Role.LOSS)):
            self._losses["with_index"] = _built(self._component, with_index)
        half = logits.shape[2] // 2
        ignored = labels.clone()
        ignored[:, :, half:] = IGNORED_LABEL
        others = float(self._of(self._plain, logits[:, :, :half], labels[:, :, :half]))
        for way in (Ignoring.ITSELF, Ignoring.FILLED, Ignoring.RESCALED):
            if way is Ignoring.ITSELF and "with_index" not in self._losses:
                continue
            if self._is_right(way, logits, ignored, others):
                return way
        return Ignoring.NOT

    def _is_right(self, way: Ignoring, logits: torch.Tensor, labels: torch.Tensor, expected: float) -> bool:
        """Whether a way gives the expected value, no gradient for ignored pixels, and 0 where all are ignored."""
        given = logits.detach().clone().requires_grad_()
        try:
            value = self._value(given, labels, way)
            (gradient,) = torch.autograd.grad(value, given)
            nothing = self._value(given, torch.full_like(labels, IGNORED_LABEL), way)
            (of_nothing,) = torch.autograd.grad(nothing, given)
        except Exception:
            # Whatever a class makes of a label that it does not know.
            return False
        ignored = (labels == IGNORED_LABEL).expand_as(gradient)
        return (
            _is_near(float(value.detach()), expected)
            and not gradient[ignored].any()
            and _is_near(float(nothing.detach()), 0.0)
            and not of_nothing.any()
        )

    def _value(self, logits: torch.Tensor, labels: torch.Tensor, ignoring: Ignoring) -> torch.Tensor:
        if logits.ndim == 2:
            return self._of(self._plain, logits, labels)
        ignored = labels == IGNORED_LABEL
        if ignoring is Ignoring.ITSELF:
            return torch.where(ignored.all(), 0.0, self._of(self._losses["with_index"], logits, labels))
        if ignoring is Ignoring.NOT:
            if ignored.any():
                raise DataError(
                    f"Some pixels are ignored, but the loss {self._component.target} has no way to leave them out; "
                    "expected annotations without ignored pixels. Choose another loss, such as 'ce_dice'."
                )
            return self._of(self._plain, logits, labels)
        background = torch.full((1, logits.shape[1], *[1] * (logits.ndim - 2)), _CERTAIN).to(logits)
        background[:, 0] = 0.0
        value = self._of(self._plain, torch.where(ignored, background, logits), labels.masked_fill(ignored, 0))
        if ignoring is Ignoring.RESCALED:
            value = value * (ignored.numel() / (~ignored).sum().clamp(min=1))
        return value

    def _of(self, loss: nn.Module, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What a loss says of labels in the form that it takes."""
        numbers = labels.long()
        if self._takes_numbers:
            numbers = numbers if logits.ndim == 2 else numbers.squeeze(1)
        elif logits.ndim == 2:
            numbers = numbers.unsqueeze(1)
        return torch.as_tensor(loss.to(logits.device)(logits, numbers))


def _built(component: Component, given: Mapping[str, Any]) -> nn.Module:
    """The loss with what its class wants in a certain form."""
    known = parameters_of(component_class(component, Role.LOSS))
    own = component.arguments
    if component.name == "NLLLoss":
        raise ComponentError(f"{component.target} would take logits for log probabilities; use CrossEntropyLoss.")
    defaults = {key: value for key, value in _GIVEN.items() if key in known and key not in own}
    if any(own.get(key) for key in _OTHER_ACTIVATIONS):
        defaults.pop("softmax", None)
    elif own.get("softmax") is False:
        raise ComponentError(
            f"{component.target} with softmax = false would take logits for probabilities; set softmax or sigmoid = "
            "true."
        )
    tensors = {key: torch.tensor(own[key]) for key in _TENSORS if key in known and isinstance(own.get(key), list)}
    rest = {key: value for key, value in own.items() if key not in tensors}
    loss: nn.Module = build_component(
        Component.model_construct(target=component.target, arguments=rest),
        Role.LOSS,
        {**defaults, **tensors, **given},
    )
    return loss


def _example(num_outputs: int, spatial_dims: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels to try a loss on, the same whenever it is tried; objects are balls of several pixels."""
    generator = torch.Generator().manual_seed(0)
    extents = [_EXTENT] * spatial_dims
    samples = 2 if spatial_dims else _EXTENT
    logits = 2 * torch.randn(samples, num_outputs, *extents, generator=generator)
    if not spatial_dims:
        return logits, torch.randint(num_outputs, (samples,), generator=generator)
    axes = torch.meshgrid(*[torch.arange(_EXTENT) - 0.4 * _EXTENT] * spatial_dims, indexing="ij")
    shells = (torch.stack(axes).square().sum(dim=0).sqrt() / _EXTENT * 2 * num_outputs).long() % num_outputs
    return logits, torch.stack([shells, shells.flip(0)]).unsqueeze(1)


def _shuffled(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same pixels in other places."""
    order = torch.randperm(logits[0, 0].numel(), generator=torch.Generator().manual_seed(1))
    first, second = (tensor.flatten(2)[:, :, order].view(tensor.shape) for tensor in (logits, labels))
    return first, second


def _is_near(first: float, second: float) -> bool:
    return abs(first - second) <= _ABSOLUTE + _RELATIVE * abs(second)
