"""Which cases a site's loss falls most on, from one of its trainings to the next (FedSelect)."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Margins:
    """The margins of a site's cases after a training; they stay at the site.

    Attributes:
        margins: m, ``(N,)`` float64 from 0 to 1: how much the loss has fallen since the site's previous training.
        smoothed: m̂, as above: with those before.
    """

    margins: torch.Tensor
    smoothed: torch.Tensor


def smoothed_margins(
    previous: torch.Tensor, losses: torch.Tensor, memory: torch.Tensor | None, smoothing: float
) -> Margins:
    """Return m = s(ℓ_previous − ℓ) and m̂ = s(β m_memory + (1 − β) m), where s scales to 0 to 1 over the cases.

    Where all are the same the scaled ones are 0. Without a memory m̂ is m.

    Args:
        previous: losses after the site's previous training, before its first with the received model, ``(N,)``.
        losses: now, with the site's own model.
        memory: m̂ of the previous training, in the authors' program its m.
        smoothing: β.

    Example:
        >>> smoothed_margins(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 1.0, 1.0]), None, 0.5).smoothed.tolist()
        [1.0, 0.0, 0.5]
    """
    margins = _scaled((previous - losses).double())
    smoothed = margins if memory is None else _scaled(smoothing * memory.double() + (1 - smoothing) * margins)
    return Margins(margins, smoothed)


def proxy_cases(smoothed: torch.Tensor, fraction: float, smallest: int) -> list[int]:
    """Return the cases with the largest m̂, the first of equals first: this fraction of all, rounded up.

    Args:
        smoothed: m̂, ``(N,)``.
        fraction: of the cases.
        smallest: how many at least, as far as there are any.
    """
    number = min(max(math.ceil(fraction * len(smoothed)), smallest), len(smoothed))
    order: list[int] = torch.sort(smoothed, descending=True, stable=True).indices[:number].tolist()
    return order


def _scaled(values: torch.Tensor) -> torch.Tensor:
    extent = values.max() - values.min()
    return (values - values.min()) / extent if extent > 0 else torch.zeros_like(values)
