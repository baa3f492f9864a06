"""Class centroids in the place of a classifier's last layer, and the loss of training with them (FedGP)."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ...components.component import ComponentError
from ...evaluation.inference import evaluating
from ...settings import ClassifierSettings
from ...training.batch import Batch
from ...training.objectives import Objective, Step
from ..fedhac.prototypes import HeadInputs
from .centroids import OwnCentroids

# Extents of an empty sample.
_SMALL = 32
# A probability of 1 has a finite logarithm of its complement.
_SMALLEST = 1e-7


def find_head(network: nn.Module, settings: ClassifierSettings) -> str:
    """Return the name of a network's last layer: the linear layer whose output is what the network returns.

    It is found by a pass of an empty sample in evaluation mode.

    Args:
        network: a classifier; it is left as it is.
        settings: of it.

    Raises:
        ComponentError: if it has none with an output of each class.
    """
    outputs: dict[str, torch.Tensor] = {}

    def note(name: str) -> Callable[[nn.Module, Any, torch.Tensor], None]:
        def hook(module: nn.Module, arguments: Any, output: torch.Tensor) -> None:
            del module, arguments
            outputs[name] = output

        return hook

    handles = [
        module.register_forward_hook(note(name))
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == settings.num_classes
    ]
    device = next(network.parameters()).device
    extents = next(iter(vars(network).get("pass_extents") or ((_SMALL,) * settings.spatial_dims,)))
    try:
        with evaluating(network), torch.no_grad():
            result = network(torch.zeros(1, settings.in_channels, *extents, device=device))
    finally:
        for handle in handles:
            handle.remove()
    names = [name for name, output in outputs.items() if torch.equal(output, result)]
    if not names or f"{names[-1]}.weight" not in network.state_dict():
        raise ComponentError(
            f"{type(network).__name__} has no linear layer with {settings.num_classes} outputs whose output is what "
            "the network returns; expected one, whose weights 'fedgp' makes class centroids. Take another network."
        )
    return names[-1]


@contextmanager
def fixed(head: nn.Module) -> Iterator[None]:
    """Keep a layer out of what is trained."""
    parameters = [parameter for parameter in head.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad = True


class _GivenLogits(nn.Module):
    """Returns logits that are known, for losses that run a network."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self._logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        del images
        return self._logits


class CentroidObjective:
    """(L(F Pᵀ) + L(F Sᵀ)) / 2 + γ mean ‖f‖, with the site's centroids P, the server's S, and the settings' loss L.

    Both are normalised as rows of a last layer, see :func:`.centroids.as_head`. P follows the batch before it counts.
    Where the server has no centroid of a class S has the site's; where neither has, both have the received layer's. A
    sample without a trusted label has negative learning in the place of L.

    Args:
        supervised: L, which runs a network.
        head: the network's last layer with S as it was received, which is not trained.
        own: P, on the network's device.
        known: the classes of which the server has a centroid.
        norm_weight: γ.
        trusted: whose label counts of the site's samples, ``(N,)``; None for all.
        unlikely: classes that the others are hardly of, ``(N, C)``.
        negative_weight: of negative learning.
    """

    def __init__(
        self,
        supervised: Objective,
        head: nn.Linear,
        own: OwnCentroids,
        known: Collection[int],
        *,
        norm_weight: float,
        trusted: torch.Tensor | None = None,
        unlikely: torch.Tensor | None = None,
        negative_weight: float = 0.0,
    ) -> None:
        self._supervised, self._head, self._own = supervised, head, own
        self._received = head.weight.detach().clone()
        is_known = [label in known for label in range(len(self._received))]
        self._is_known = torch.tensor(is_known, device=self._received.device)[:, None]
        self._norm_weight, self._negative_weight = norm_weight, negative_weight
        self._trusted, self._unlikely = trusted, unlikely

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        with HeadInputs([self._head]) as inputs:
            network(batch.images)
        features = inputs.features.float()
        trusted = None if self._trusted is None else self._trusted[batch.samples]
        if trusted is not None and bool(trusted.all()):
            trusted = None
        labelled = batch if trusted is None else _part(batch, trusted)
        of_labelled = features if trusted is None else features[trusted.to(features.device)]
        self._own.add(of_labelled.detach(), labelled.labels, labelled.samples)
        rows = self._own.or_else(self._received)
        losses = []
        for centroids in (rows, torch.where(self._is_known, self._received, rows)):
            if len(labelled.samples):
                loss = self._supervised(_GivenLogits(of_labelled @ centroids.T), labelled, step)
                losses.append(loss if trusted is None else loss * (len(labelled.samples) / len(batch.samples)))
            if trusted is not None:
                losses.append(self._negative_weight * self._negative(features @ centroids.T, batch.samples, trusted))
        total = torch.stack(losses).sum() / 2
        if not self._norm_weight:
            return total
        norms: torch.Tensor = torch.linalg.vector_norm(features, dim=1)
        return total + self._norm_weight * norms.mean()

    def _negative(self, logits: torch.Tensor, samples: torch.Tensor, trusted: torch.Tensor) -> torch.Tensor:
        """Negative learning of the samples without a trusted label, over all samples of the batch."""
        assert self._unlikely is not None
        doubtful = ~trusted
        unlikely = self._unlikely[samples[doubtful]].to(logits.device)
        return negative_losses(logits[doubtful.to(logits.device)], unlikely).sum() / len(samples)


def negative_losses(logits: torch.Tensor, unlikely: torch.Tensor) -> torch.Tensor:
    """Return −1/|U| Σ_{c ∈ U} ln(1 − p_c) of every sample, ``(B,)``; 0 where nothing is unlikely.

    Args:
        logits: ``(B, C)``.
        unlikely: which classes are in U, ``(B, C)``.

    Example:
        >>> losses = negative_losses(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([[False, True, False]]))
        >>> round(float(losses), 4)
        0.4055
    """
    complements = (1 - logits.softmax(dim=1)).clamp(min=_SMALLEST).log()
    return -torch.where(unlikely, complements, 0.0).sum(dim=1) / unlikely.sum(dim=1).clamp(min=1)


def _part(batch: Batch, chosen: torch.Tensor) -> Batch:
    """The chosen samples of a batch."""
    there = chosen.to(batch.images.device)
    fractions = None if batch.fractions is None else batch.fractions[there]
    return replace(
        batch,
        images=batch.images[there],
        labels=batch.labels[there],
        samples=batch.samples[chosen],
        fractions=fractions,
    )
