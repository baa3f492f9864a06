"""What a site makes small in ELR: the settings' loss, and a pull towards what the model predicted earlier."""

import torch
from torch import nn

from ....transforms.ignored_label import IGNORED_LABEL
from ...training.batch import Batch
from ...training.objectives import Objective, Step
from ..fednoro.prior import AdjustedNetwork
from .prediction_memory import PredictionMemory

# Probabilities count as at least this, and as at most one minus it: ⟨t, p⟩ = 1 would be an infinite pull.
_SMALLEST = 1e-4


class EarlyLearningObjective:
    """L + λ mean log(1 − ⟨t, p⟩), with the settings' loss L, whatever it is; making it small moves p towards t.

    p are the softmax probabilities, of deep supervision those of the main output, clamped to [10⁻⁴, 1 − 10⁻⁴]. t has no
    gradient. Every call is a visit of what the batch shows.

    Args:
        supervised: L, with all that the settings add to it.
        memory: gives t; of the samples that batches name.
        weight: λ.

    Attributes:
        memory: as above.
    """

    def __init__(self, supervised: Objective, memory: PredictionMemory, weight: float) -> None:
        self._supervised, self.memory, self._weight = supervised, memory, weight

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        # Without a prior the logits are the network's own; it remembers them.
        observed = AdjustedNetwork(network)
        supervised = self._supervised(observed, batch, step)
        predicted = observed.logits.float().softmax(dim=1).clamp(_SMALLEST, 1 - _SMALLEST)
        counted = _counted(batch.labels)
        targets = updated_targets(self.memory, predicted.detach(), counted, batch)
        return supervised + self._weight * early_learning_term(targets, predicted, counted)


def early_learning_term(targets: torch.Tensor, predicted: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return the mean of log(1 − ⟨t, p⟩) over samples, or over the pixels that count; 0 where none does.

    Args:
        targets: t, ``(B, C)`` or ``(B, C, H, W[, D])``; 0 where nothing is remembered, which adds 0.
        predicted: p, as above.
        counted: what counts, ``(B,)`` or ``(B, H, W[, D])`` booleans.
    """
    logarithms = torch.log1p(-(targets * predicted).sum(dim=1))
    counts = counted.to(logarithms)
    return (logarithms * counts).sum() / counts.sum().clamp(min=1)


def updated_targets(
    memory: PredictionMemory, predicted: torch.Tensor, counted: torch.Tensor, batch: Batch
) -> torch.Tensor:
    """Visit what a batch shows, image by image in its order; return t of every pixel after the visit, like `predicted`.

    Pixels that do not count, those from beyond the border and those whose prediction is not finite are not visited.

    Args:
        memory: is written to.
        predicted: p, ``(B, C)`` or ``(B, C, H, W[, D])`` without a gradient.
        counted: as of :func:`early_learning_term`.
        batch: with places, in segmentation.
    """
    normalised = (predicted / predicted.sum(dim=1, keepdim=True)).cpu()
    visited = counted.cpu() & normalised.isfinite().all(dim=1)
    of_batch = _of_images if batch.labels.ndim == 1 else _of_pixels
    return of_batch(memory, normalised, visited, batch).to(predicted)


def _of_images(memory: PredictionMemory, predicted: torch.Tensor, visited: torch.Tensor, batch: Batch) -> torch.Tensor:
    targets = torch.zeros_like(predicted)
    after = memory.visit_images(batch.samples[visited].numpy(), predicted[visited].numpy().T)
    targets[visited] = torch.from_numpy(after.T)
    return targets


def _of_pixels(memory: PredictionMemory, predicted: torch.Tensor, visited: torch.Tensor, batch: Batch) -> torch.Tensor:
    assert batch.places is not None
    places = batch.places.cpu()
    visited = visited & (places >= 0).all(dim=1)
    targets = torch.zeros_like(predicted)
    for number, sample in enumerate(batch.samples.tolist()):
        if bool((chosen := visited[number]).any()):
            after = memory.visit(sample, places[number][:, chosen].numpy(), predicted[number][:, chosen].numpy())
            targets[number][:, chosen] = torch.from_numpy(after)
    return targets


def _counted(labels: torch.Tensor) -> torch.Tensor:
    if labels.ndim == 1:
        return torch.ones_like(labels, dtype=torch.bool)
    return labels.squeeze(1) != IGNORED_LABEL
