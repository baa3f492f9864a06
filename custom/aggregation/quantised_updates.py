"""Updates in fewer bits: the change of a trained model, rounded, and what rounding leaves for the next round.

Error feedback: Seide et al., *1-Bit Stochastic Gradient Descent*, Interspeech 2014; Karimireddy et al., *Error Feedback
Fixes SignSGD and other Gradient Compression Schemes*, ICML 2019.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch

from ..refusals import RefusalCode, RefusalReason
from .sent_entries import names_refusal, shape_refusal
from .settings import UpdatePrecision

Tensors = Mapping[str, torch.Tensor]

# In a message of int8 numbers the scales of all entries, in the order of the names. PyTorch takes no module or
# parameter without a name, so that no entry of a network begins with a dot.
SCALES = ".scales"
# Steps on either side of zero: -128 is not used.
_STEPS = 127
# A smaller scale would not be a normal number, and not precise.
_SMALLEST_SCALE = torch.finfo(torch.float32).tiny

_TYPES: Mapping[UpdatePrecision, torch.dtype] = {"bf16": torch.bfloat16, "int8": torch.int8}


def quantised_names(reference: Tensors, trained: Collection[str]) -> tuple[str, ...]:
    """Return the entries of a state dict whose change is sent in fewer bits, sorted: trained kernels and matrices.

    Vectors, running statistics, counters and what else is not trained are few numbers, or may not be rounded (a
    variance stays positive, a count whole); they are sent as they are.

    Args:
        reference: the received state dict.
        trained: names of the network's parameters.
    """
    return tuple(
        name
        for name in sorted(set(trained) & set(reference))
        if reference[name].is_floating_point() and reference[name].ndim > 1
    )


@dataclass(frozen=True)
class Quantised:
    """A site's message, and what it keeps.

    Attributes:
        sent: the state dict as it leaves the site.
        residual: by entry what was to be sent and was not, float32; it stays at the site. Empty where the update is not
            finite, which no server counts.
    """

    sent: dict[str, torch.Tensor]
    residual: dict[str, torch.Tensor]


def quantised(
    params: Tensors,
    reference: Tensors,
    precision: UpdatePrecision,
    trained: Collection[str],
    residual: Tensors | None = None,
) -> Quantised:
    """Return a trained model as the rounded change of its kernels, and the other entries as they are.

    With u = θ_k − θ + r the message has Q(u), and the next residual is r' = u − Q(u). With ``int8`` Q(u) = s q, q whole
    from −127 to 127, and s = max |u| / 127 of each output channel (the first axis): |r'| ≤ s/2. With ``bf16`` the 8
    bits of a significand are left: |r'| ≤ 2⁻⁸ |u|. Over rounds the sum of what is sent is that of the changes, but for
    the last residual. An update that is not finite is sent as such, so that the server refuses it.

    Args:
        params: the state dict that would leave the site.
        reference: the received one, θ.
        precision: ``bf16`` or ``int8``.
        trained: names of the network's parameters.
        residual: r by entry; None for zeros.

    Raises:
        ValueError: if the two are of different networks.
    """
    received = {name: torch.as_tensor(value).detach().cpu() for name, value in reference.items()}
    if {name: value.shape for name, value in params.items()} != {name: of.shape for name, of in received.items()}:
        raise ValueError("Expected entries of the same names and shapes in the trained and the received model.")
    sent = {name: value.detach().cpu() for name, value in params.items()}
    scales: list[torch.Tensor] = []
    left: dict[str, torch.Tensor] = {}
    for name in quantised_names(received, trained):
        update = sent[name].double() - received[name].double()
        if residual is not None:
            update += residual[name].double()
        if precision == "int8":
            sent[name], scale = _whole_steps(update)
            scales.append(scale)
            update -= sent[name].double() * _along_channels(scale.double(), update)
        else:
            sent[name] = update.to(_TYPES[precision]).contiguous()
            update -= sent[name].double()
        left[name] = update.float()
    if precision == "int8":
        sent[SCALES] = torch.cat(scales) if scales else torch.zeros(0)
    is_finite = all(bool(torch.isfinite(value).all()) for value in left.values())
    return Quantised(sent, left if is_finite else {})


def _whole_steps(update: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q, int8 in the update's shape, and s, float32 for every channel; NaN where a channel is not finite."""
    channels = update.flatten(1)
    largest = channels.abs().amax(1) if channels.numel() else torch.zeros(len(channels), dtype=update.dtype)
    scale = (largest / _STEPS).float()
    scale = torch.where(scale < _SMALLEST_SCALE, 0.0, scale)
    scale = torch.where(torch.isfinite(scale), scale, torch.nan)
    # Channels without a step have zeros, as do those whose numbers cannot be sent.
    divisor = torch.where(scale > 0, scale, torch.inf).double().unsqueeze(1)
    steps = (channels / divisor).nan_to_num(0.0, 0.0, 0.0).round().clamp(-_STEPS, _STEPS)
    return steps.to(torch.int8).reshape(update.shape).contiguous(), scale


def _along_channels(scale: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
    return scale.reshape(-1, *[1] * (entry.ndim - 1))


def _channels(reference: Tensors, trained: Collection[str]) -> dict[str, slice]:
    """By quantised entry where the scales of its channels are among all."""
    channels: dict[str, slice] = {}
    start = 0
    for name in quantised_names(reference, trained):
        end = start + reference[name].shape[0]
        channels[name] = slice(start, end)
        start = end
    return channels


class QuantisedUpdate(Mapping[str, torch.Tensor]):
    """A site's model at the server, by its message: θ + Q(u), made of an entry when that is asked for.

    Memory beyond the message is that of one entry. A message is checked by :func:`message_refusal` before.

    Args:
        sent: the message.
        reference: the global model that was sent, θ.
        trained: names of the network's parameters.

    Attributes:
        sent: the message, a quarter to half of the model's bytes.
    """

    def __init__(self, sent: Tensors, reference: Tensors, trained: Collection[str]) -> None:
        self.sent = dict(sent)
        self._reference = reference
        self._channels = _channels(reference, trained)

    def of(self, sent: Tensors) -> "QuantisedUpdate":
        """Return the model of another copy of the message."""
        same = copy.copy(self)
        same.sent = dict(sent)
        return same

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return an entry of the model, of the caller's own where it was quantised."""
        received = self._reference[name]
        if name not in self._channels:
            return self.sent[name]
        kind = torch.promote_types(received.dtype, torch.float32)
        update = self.sent[name].to(kind, copy=True)
        if SCALES in self.sent:
            update *= _along_channels(self.sent[SCALES][self._channels[name]].to(kind), update)
        return update.add_(received).to(received.dtype)

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the model's entries, in the global model's order."""
        return iter(self._reference)

    def __len__(self) -> int:
        """Return how many entries the model has."""
        return len(self._reference)


def message_refusal(
    sent: Tensors, reference: Tensors, precision: UpdatePrecision, trained: Collection[str]
) -> RefusalReason | None:
    """Return why a message is no quantised update of the global model, or None if it is; nothing is made of it before.

    Names, shapes and types follow from the global model, so that no message can ask for more memory than the model's.
    Values of what is made of it are checked as those of every model (:func:`.streaming_average.refusal_reason`).

    Args:
        sent: the message.
        reference: the global model that was sent.
        precision: that the job asks for.
        trained: names of the network's parameters.
    """
    channels = _channels(reference, trained)
    number = max((places.stop for places in channels.values()), default=0)
    scales = {SCALES: torch.Size([number])} if precision == "int8" else {}
    expected = {name: value.shape for name, value in reference.items()} | scales
    types = dict.fromkeys(channels, _TYPES[precision]) | dict.fromkeys(scales, torch.float32)
    if (reason := names_refusal(sent, expected)) is not None:
        return reason
    for name, shape in expected.items():
        if (reason := shape_refusal(name, sent[name], shape)) is not None:
            return reason
        if name in types and sent[name].dtype != types[name]:
            kinds = str(sent[name].dtype), str(types[name])
            return RefusalReason.of(RefusalCode.OTHER_TYPE, entry=name, type=kinds[0], expected=kinds[1])
    return _scales_refusal(sent[SCALES], channels) if scales else None


def _scales_refusal(scales: torch.Tensor, channels: Mapping[str, slice]) -> RefusalReason | None:
    for name, places in channels.items():
        of_entry = scales[places]
        if not torch.isfinite(of_entry).all():
            return RefusalReason.of(RefusalCode.NOT_FINITE, entry=name)
        if (of_entry < 0).any():
            value = {"value": str(float(of_entry.min())), "low": "0.0", "high": "inf"}
            return RefusalReason.of(RefusalCode.FIELD_OUT_OF_RANGE, field=SCALES, **value)
    return None
