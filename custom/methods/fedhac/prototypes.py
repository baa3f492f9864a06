"""Features that are drawn to a prototype of their class (FedHAC)."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from ....transforms.ignored_label import IGNORED_LABEL
from ...components.component import ComponentError
from ...networks.described import described_network
from ...networks.outputs import labels_at
from ...seeding import derive_seed
from ...settings import NetworkSettings
from ...training.batch import Batch
from ...training.objectives import Objective, Step
from .class_means import ClassMeans

# Extents of an empty sample, which networks of typical depths halve five times.
_SMALL = 32


def fixed_prototypes(seed: int, num_classes: int, num_features: int) -> torch.Tensor:
    """Return the prototypes of a run, ``(num_classes, num_features)``: Xavier's uniform start, the same at every site.

    The program means to train them, but gives them to no optimizer, so that they stay as they start. Nothing of them
    has to be sent: every site draws them by the job's seed.

    Args:
        seed: the job's.
        num_classes: C', with the background.
        num_features: D.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "prototypes"))
    return nn.init.xavier_uniform_(torch.empty(num_classes, num_features), generator=generator)


def prototypes_of_round(
    received: Sequence[Sequence[float] | None] | None, seed: int, num_classes: int, num_features: int
) -> torch.Tensor:
    """Return the prototypes of a round, ``(num_classes, num_features)``: received ones, and fixed ones for None.

    Args:
        received: a row of each class, None of a class that no site could send; None if there are none at all.
        seed: the job's.
        num_classes: C', with the background.
        num_features: D.

    Raises:
        ComponentError: if there are rows of another number or length.
    """
    result = fixed_prototypes(seed, num_classes, num_features)
    if received is None:
        return result
    shapes = {len(row) for row in received if row is not None}
    if len(received) != num_classes or shapes - {num_features}:
        raise ComponentError(
            f"found {len(received)} received prototypes of {sorted(shapes)} features; expected {num_classes} of "
            f"{num_features}, as this network has."
        )
    for label, row in enumerate(received):
        if row is not None:
            result[label] = torch.tensor(row, dtype=torch.float64)
    return result


def prototype_loss(features: torch.Tensor, labels: torch.Tensor, prototypes: torch.Tensor) -> torch.Tensor:
    """Return the mean of (⟨f_i, P_c⟩ 1[c = y_i] − 1)² over pixels and classes, plus :func:`separation_loss`.

    Classes that a pixel is not of add the constant (C' − 1) / C', which has no gradient. Pixels that are ignored do not
    count; where all are, the loss is 0.

    Args:
        features: f, ``(B, D, H, W[, D])``.
        labels: y, ``(B, 1, H, W[, D])``, in this or another resolution: pixels take the nearest.
        prototypes: P, ``(C', D)``.

    Example:
        >>> features = torch.tensor([[2.0, 0.5], [0.0, 0.5]])[None, :, None]
        >>> round(float(prototype_loss(features, torch.tensor([[[[0, 1]]]]), torch.eye(2))), 4)
        0.8125
    """
    num_classes = len(prototypes)
    labels = labels_at(labels, features).squeeze(1).long()
    counts = labels != IGNORED_LABEL
    products = torch.einsum("bd...,cd->bc...", features.float(), prototypes)
    own = products.gather(1, labels.masked_fill(~counts, 0)[:, None]).squeeze(1)
    total = counts.sum()
    mean = torch.where(counts, (own - 1).square(), 0.0).sum() / total.clamp(min=1)
    return torch.where(total > 0, (mean + num_classes - 1) / num_classes + separation_loss(prototypes), 0.0)


def separation_loss(prototypes: torch.Tensor) -> torch.Tensor:
    """Return Σ_{c≠d} max(0, 1 − ‖P_c − P_d‖₂) over both orders of prototypes ``(C', D)``."""
    # Both orders of a pair are equal.
    return 2 * (1 - nn.functional.pdist(prototypes)).clamp(min=0).sum()


class PrototypeObjective:
    """An objective plus γ times :func:`prototype_loss` of the features that the network makes its logits of.

    Args:
        supervised: the objective, which runs the network.
        network: what is trained.
        weight: γ.
        num_outputs: C', with the background.
        seed: the job's, of the fixed prototypes.
        received: what the server made of the sites' means, see :func:`prototypes_of_round`.
        means: gets the features of every batch.

    Raises:
        ComponentError: if the network has no convolution with so many outputs.
    """

    def __init__(
        self,
        supervised: Objective,
        network: nn.Module,
        *,
        weight: float,
        num_outputs: int,
        seed: int,
        received: Sequence[Sequence[float] | None] | None = None,
        means: ClassMeans | None = None,
    ) -> None:
        self._supervised, self._weight = supervised, weight
        self._num_outputs, self._seed = num_outputs, seed
        self._received, self._means = received, means
        self._heads = heads_of(network, num_outputs)
        self._prototypes = torch.empty(0, 0)

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        with HeadInputs(self._heads) as inputs:
            supervised = self._supervised(network, batch, step)
        features = inputs.features
        if self._prototypes.shape[1] != features.shape[1]:
            made = prototypes_of_round(self._received, self._seed, self._num_outputs, features.shape[1])
            self._prototypes = made.to(features.device)
        if self._means is not None:
            self._means.add(features, batch.labels, batch.samples, self._prototypes)
        return supervised + self._weight * prototype_loss(features, batch.labels, self._prototypes)


def heads_of(network: nn.Module, num_outputs: int) -> list[nn.Module]:
    """Return the convolutions of a network that may make its logits.

    Args:
        network: any.
        num_outputs: of logits, with the background.

    Raises:
        ComponentError: if there is none.
    """
    heads = [module for module in network.modules() if isinstance(module, _ConvNd)]
    heads = [head for head in heads if head.out_channels == num_outputs]
    if not heads:
        raise ComponentError(
            f"{type(network).__name__} has no convolution with {num_outputs} outputs; expected one that makes its "
            "logits, whose input FedHAC draws to prototypes. Take another network, or set prototype_weight = 0."
        )
    return list(heads)


class HeadInputs:
    """What convolutions get while a network runs; a context, after which nothing is hooked to the network.

    Args:
        heads: the convolutions that may make its logits.
    """

    def __init__(self, heads: list[nn.Module]) -> None:
        self._heads = heads
        self._handles: list[Any] = []
        self._inputs: list[tuple[int, torch.Tensor]] = []

    def __enter__(self) -> "HeadInputs":
        """Begin to listen."""
        self._handles = [head.register_forward_hook(self._note) for head in self._heads]
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop listening."""
        for handle in self._handles:
            handle.remove()

    def _note(self, head: nn.Module, arguments: tuple[Any, ...], output: torch.Tensor) -> None:
        del head
        self._inputs.append((output.shape[2:].numel(), arguments[0]))

    @property
    def features(self) -> torch.Tensor:
        """The input of the last convolution among those with the largest output, ``(B, D, H, W[, D])``.

        Deep supervision has further ones, which are coarser, or come before.

        Raises:
            ComponentError: if none of them has run.
        """
        if not self._inputs:
            raise ComponentError("found no convolution that has run; expected one that makes the network's logits.")
        largest = max(extents for extents, _ in self._inputs)
        return next(features for extents, features in reversed(self._inputs) if extents == largest)


def num_features_of(settings: NetworkSettings) -> int:
    """Return D, the number of features that a job's network makes its logits of, by a pass of an empty sample.

    Args:
        settings: of the network.

    Raises:
        ComponentError: if it has no convolution that makes its logits, or takes none of the extents that are tried.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        network = described_network(settings).eval()
        heads = heads_of(network, settings.num_classes + 1)
        attempts = vars(network).get("pass_extents") or ((_SMALL,) * settings.spatial_dims,)
        for extents in attempts:
            with HeadInputs(heads) as inputs, suppress(RuntimeError, ValueError):
                network(torch.zeros(1, settings.in_channels, *extents))
                return int(inputs.features.shape[1])
    raise ComponentError(f"{type(network).__name__} takes no sample of the extents {attempts}.")
