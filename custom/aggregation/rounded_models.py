"""The global model in fewer bits on its way to the sites: the server rounds it, and what is sent then has no error.

Let x_t be the server's model, θ_t = Q(x_t) what the sites receive, and F(θ_t) the round's model that the method makes
of what they trained from θ_t, such as Σ w_k θ_k. Then

    x_{t+1} = F(θ_t) + e_t,   θ_{t+1} = Q(x_{t+1}),   e_{t+1} = x_{t+1} − θ_{t+1},

so that x_{t+1} = x_t + (F(θ_t) − θ_t): the server's model moves by what the sites have learnt from the model that they
received, and no rounding adds up over the rounds. Q rounds to bfloat16, to nearest even, with |e| ≤ 2⁻⁸ |x|. Error
feedback: Seide et al., Interspeech 2014; of both directions: Tang et al., *DoubleSqueeze*, ICML 2019.

The global model of a run is θ_t, as float32: sites train from it and score it, the server averages and scores with it,
and it is the result. Its kernels have 16 zero bits each, which need not be sent. So the message is exact: an entry goes
as bfloat16 if that gives the same numbers back, else as it is. Other models that are sent, such as a mean over rounds,
arrive unchanged, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch

from ..refusals import RefusalCode, RefusalReason
from .sent_entries import names_refusal, shape_refusal

Tensors = Mapping[str, torch.Tensor]

_SENT = torch.bfloat16
_LARGEST = torch.finfo(_SENT).max


def is_kernel(entry: torch.Tensor) -> bool:
    """Return whether an entry of a state dict may be sent as bfloat16: float32 kernels and matrices.

    Vectors, running statistics and counters are few numbers, or may not be rounded; float64 is asked for by those who
    need it.
    """
    return entry.dtype == torch.float32 and entry.ndim > 1


@dataclass(frozen=True)
class RoundedModel:
    """A model whose kernels are numbers of bfloat16, and what was rounded off.

    Attributes:
        params: θ, the state dict, of the types that it had.
        residual: e of each rounded entry, float32.
    """

    params: dict[str, torch.Tensor]
    residual: dict[str, torch.Tensor]


def rounded_model(params: Tensors, trained: Collection[str], residual: Tensors | None = None) -> RoundedModel:
    """Return what sites receive in place of a model, see the module; entries that are not rounded are the given ones.

    Args:
        params: F, the state dict; finite.
        trained: names of the network's parameters, under all names that one has.
        residual: e of the round before, by entry; None for zeros.
    """
    sent = dict(params)
    left: dict[str, torch.Tensor] = {}
    for name in sorted(set(trained) & set(params)):
        if not is_kernel(params[name]):
            continue
        model = params[name] if residual is None else params[name] + residual[name]
        # Beyond it rounding would be to infinity.
        model = model.clamp(-_LARGEST, _LARGEST)
        sent[name] = model.to(_SENT).float()
        left[name] = model - sent[name]
    return RoundedModel(sent, left)


def message_of_model(params: Tensors) -> dict[str, torch.Tensor]:
    """Return a model as it is sent: kernels as bfloat16 where this loses nothing, everything else as it is.

    Args:
        params: a state dict in main memory.

    Example:
        >>> exact, other = torch.tensor([[1.5]]), torch.tensor([[1.001]])
        >>> [value.dtype for value in message_of_model({"exact": exact, "other": other}).values()]
        [torch.bfloat16, torch.float32]
    """
    return {name: _shortened(entry) if is_kernel(entry) else entry for name, entry in params.items()}


def _shortened(entry: torch.Tensor) -> torch.Tensor:
    short = entry.to(_SENT)
    return short if torch.equal(short.float(), entry) else entry


def is_rounding(entry: torch.Tensor, residual: torch.Tensor) -> bool:
    """Return whether a kernel is the rounded sum of itself and of what was rounded off.

    Args:
        entry: θ of :func:`rounded_model`.
        residual: e, of the same shape and type.
    """
    return torch.equal((entry + residual).to(_SENT).float(), entry)


def model_refusal(sent: Mapping[str, object], expected: Tensors) -> RefusalReason | None:
    """Return why a message is no model of a network, or None if it is; nothing is made of it before.

    Names, shapes and types follow from the network, so that no message can ask for more memory than two models.

    Args:
        sent: the message.
        expected: a state dict of the network, whose values do not count.
    """
    if (reason := names_refusal(sent, expected)) is not None:
        return reason
    for name, entry in expected.items():
        value = sent[name]
        if (reason := shape_refusal(name, value, entry.shape)) is not None:
            return reason
        assert isinstance(value, torch.Tensor)
        allowed = {entry.dtype, _SENT} if is_kernel(entry) else {entry.dtype}
        if value.dtype not in allowed or value.layout != torch.strided:
            found = str(value.dtype if value.layout == torch.strided else value.layout)
            wanted = " or ".join(sorted(str(kind) for kind in allowed))
            return RefusalReason.of(RefusalCode.OTHER_TYPE, entry=name, type=found, expected=wanted)
    return None


def model_of_message(sent: Tensors, expected: Tensors) -> dict[str, torch.Tensor]:
    """Return the model that a message holds, bit for bit the one that :func:`message_of_model` was given.

    Args:
        sent: the message, in which :func:`model_refusal` finds nothing wrong.
        expected: a state dict of the network, whose types the model has; one may have bfloat16 of its own.
    """
    return {name: entry.to(expected[name].dtype) for name, entry in sent.items()}
