"""Which labels are replaced by what the received model predicts, of cases and of pixels alike (FedCorr)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ....transforms.array_types import Floats
from ....transforms.ignored_label import IGNORED_LABEL
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference, evaluating

# Of more pixels so many are drawn.
MOST_LOSSES = 100_000


@dataclass(frozen=True)
class Relabelling:
    """Which labels are replaced.

    Attributes:
        least_loss: a label with a smaller loss stays.
        confidence: a label stays where no class has a larger probability.
        only_added: only background is replaced.
    """

    least_loss: float = -math.inf
    confidence: float = 0.5
    only_added: bool = False

    def apply(self, labels: torch.Tensor, losses: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
        """Return the labels, the most probable class in place of some.

        Args:
            labels: ``(B,)`` or ``(B, H, W[, D])``; ignored pixels stay.
            losses: of these labels, as above.
            probabilities: of the received model, with an axis of classes after the first.
        """
        largest, predicted = probabilities.max(dim=1)
        replaces = (losses >= self.least_loss) & (largest > self.confidence) & (labels != IGNORED_LABEL)
        if self.only_added:
            replaces &= labels == 0
        return torch.where(replaces, predicted.to(labels.dtype), labels)


def label_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of every case ``(B,)``, or of every pixel ``(B, H, W[, D])``; 0 of ignored ones."""
    return functional.cross_entropy(logits, labels.long(), ignore_index=IGNORED_LABEL, reduction="none")


def sampled_losses(
    network: nn.Module, data: SiteData, inference: Inference, seed: int, *, most: int = MOST_LOSSES
) -> Floats:
    """Return the losses of all labels, ``(N,)`` float64; of more than `most` those of as many drawn ones.

    Args:
        network: the model, which is run in evaluation mode.
        data: the site's cases with the labels in use.
        inference: how it is run.
        seed: of the draw.
        most: how many losses are kept; pixels are many.
    """
    total = sum(int((case.label != IGNORED_LABEL).sum()) for case in data.cases)
    drawn = np.arange(total)
    if total > most:
        drawn = np.sort(np.random.default_rng(seed).choice(total, most, replace=False, shuffle=False))
    parts: list[Floats] = []
    first = 0
    for batch in inference.batches(data.cases):
        with evaluating(network):
            logits = inference.logits(network, batch.images)
        labels = batch.labels.to(logits.device)
        losses = label_losses(logits, labels)[labels != IGNORED_LABEL].double().cpu().numpy()
        chosen = drawn[np.searchsorted(drawn, first) : np.searchsorted(drawn, first + len(losses))]
        parts.append(losses[chosen - first])
        first += len(losses)
    return np.concatenate(parts)


def relabelled_masks(
    rule: Relabelling,
    local: nn.Module | None,
    received: nn.Module,
    data: SiteData,
    inference: Inference,
    is_reviewed: Sequence[bool],
) -> Iterator[torch.Tensor]:
    """Yield the mask of one case after the other, uint8 ``(S, H, W[, D])`` in main memory.

    Args:
        rule: which pixels are replaced.
        local: the model whose losses decide; None where losses do not.
        received: the model that predicts.
        data: the site's cases with the labels in use.
        inference: how models are run.
        is_reviewed: of each case whether a review has decided it; its mask stays.
    """

    def parts() -> Iterator[torch.Tensor]:
        for batch in inference.batches(data.cases):
            with evaluating(received):
                probabilities = inference.logits(received, batch.images).softmax(dim=1)
            labels = batch.labels.to(probabilities.device)
            losses = torch.zeros(labels.shape, device=labels.device)
            if local is not None:
                with evaluating(local):
                    losses = label_losses(inference.logits(local, batch.images), labels)
            # In double precision, as thresholds are.
            yield rule.apply(labels, losses.double(), probabilities).to("cpu", torch.uint8)

    for case, mask, stays in zip(data.cases, _by_case(parts(), data.cases), is_reviewed, strict=True):
        yield case.label if stays else mask


def relabelled_classes(
    rule: Relabelling,
    local: nn.Module | None,
    probabilities: torch.Tensor,
    data: SiteData,
    inference: Inference,
    is_reviewed: Sequence[bool],
) -> torch.Tensor:
    """Return the class of every case of a classification, ``(N,)``.

    Args:
        rule: which are replaced.
        local: as of :func:`relabelled_masks`.
        probabilities: of the received model, ``(N, C)``.
        data: the site's cases with the labels in use.
        inference: how the model is run.
        is_reviewed: of each case whether a review has decided it; its class stays.
    """
    labels = data.labels.long()
    losses = torch.zeros(len(labels), dtype=torch.float64)
    if local is not None:
        losses = torch.from_numpy(sampled_losses(local, data, inference, 0, most=len(labels)))
    return torch.where(torch.tensor(is_reviewed), labels, rule.apply(labels, losses, probabilities))


def _by_case(parts: Iterable[torch.Tensor], cases: Sequence[LoadedCase]) -> Iterator[torch.Tensor]:
    """Samples that come in batches, together by their case."""
    samples: list[torch.Tensor] = []
    waiting = iter(cases)
    case = next(waiting, None)
    for part in parts:
        samples += part.unbind()
        while case is not None and len(samples) >= len(case.image):
            yield torch.stack(samples[: len(case.image)])
            del samples[: len(case.image)]
            case = next(waiting, None)
