"""Logits adjusted by a site's class frequencies (FedNoRo, after Menon et al., ICLR 2021)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from ....transforms.ignored_label import IGNORED_LABEL

# A class that the site does not have counts as this frequent: its logarithm is finite.
_SMALLEST_FREQUENCY = 1e-7


def log_frequencies(labels: Iterable[torch.Tensor], num_classes: int) -> torch.Tensor:
    """Return ln π_c of every class among labels, ``(num_classes,)`` float32; those of ignored pixels do not count.

    A class without any label counts as 1e-7: the adjusted loss then never asks for it, and stays finite.
    """
    counts = torch.zeros(num_classes, dtype=torch.float64)
    for label in labels:
        flat = label.flatten().long()
        counts += torch.bincount(flat[flat != IGNORED_LABEL], minlength=num_classes)
    frequencies = counts / counts.sum().clamp(min=1)
    return frequencies.clamp(min=_SMALLEST_FREQUENCY).log().float()


class AdjustedNetwork(nn.Module):
    """A network with ln π added to its logits, those of deep supervision among them.

    Args:
        network: the network; it keeps its mode, and its parameters are this one's.
        log_prior: ln π, ``(C,)``; None adds nothing.

    Attributes:
        logits: the adjusted logits of the last batch.
    """

    logits: torch.Tensor

    def __init__(self, network: nn.Module, log_prior: torch.Tensor | None = None) -> None:
        super().__init__()
        self.network = network
        self.log_prior = log_prior
        # By it all logits of a network are asked for, see fedannot.custom.networks.outputs.
        self.main_output: Any = getattr(network, "main_output", None)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the adjusted logits."""
        self.logits = self._adjusted(self.network(images))
        if self.main_output is not None:
            self.main_output.further = tuple(self._adjusted(logits) for logits in self.main_output.further)
        return self.logits

    def _adjusted(self, logits: torch.Tensor) -> torch.Tensor:
        if self.log_prior is None:
            return logits
        return logits + self.log_prior.to(logits).view(1, -1, *[1] * (logits.ndim - 2))
