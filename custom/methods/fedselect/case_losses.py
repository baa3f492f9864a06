"""The loss of each of a site's cases, which FedSelect turns into weights; it never leaves the site."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from ....transforms.errors import DataError
from ....transforms.ignored_label import IGNORED_LABEL
from ...corrections.targets import Targets
from ...data.site_data import SiteData
from ...evaluation.inference import Inference, evaluating
from ...settings import RunSettings, TrainingSettings
from ...training.losses import sample_dice_losses

# With one of these the Dice loss is part of a case's loss.
_WITH_DICE = ("ce_dice", "ce_batch_dice")


def cases_in_use(data: SiteData, targets: Targets) -> SiteData:
    """Return the cases that are trained on, with the labels that count: those left out are neither drawn nor scored.

    Args:
        data: the site's cases.
        targets: what counts of their labels.

    Raises:
        DataError: if every case is left out.
    """
    if targets.labels is None:
        return data
    cases, first = [], 0
    for case in data.cases:
        numbers = range(first, first := first + len(case.image))
        if targets.used is None or bool(targets.used[first - len(case.image) : first].any()):
            label = torch.stack([targets.labels[number] for number in numbers]).to(case.label.dtype)
            cases.append(replace(case, label=label))
    if not cases:
        raise DataError(f"Site {data.site}: found all of {len(data.cases)} cases left out; expected one to train on.")
    return replace(data, cases=tuple(cases))


def case_losses(network: nn.Module, data: SiteData, settings: RunSettings) -> torch.Tensor:
    """Return the mean loss of the samples of each case, in evaluation mode and without augmentation, ``(N,)`` float64.

    Args:
        network: the model.
        data: the site's cases with the labels in use.
        settings: the job's.
    """
    losses: list[float] = []
    inference, with_dice = Inference.of(settings), counts_dice(settings)
    for batch in inference.batches(data.cases):
        with evaluating(network):
            logits = inference.logits(network, batch.images)
        labels = batch.labels.to(logits.device)
        losses += sample_losses(logits, labels, with_dice=with_dice).double().tolist()
    counts = [len(case.image) for case in data.cases]
    parts = torch.split(torch.tensor(losses, dtype=torch.float64), counts)
    return torch.stack([part.mean() for part in parts])


def counts_dice(settings: RunSettings) -> bool:
    """Return whether the Dice loss is part of a case's loss, as it is of the training's."""
    return isinstance(settings.training, TrainingSettings) and settings.training.loss in _WITH_DICE


def sample_losses(logits: torch.Tensor, labels: torch.Tensor, *, with_dice: bool) -> torch.Tensor:
    """Return the cross entropy of every sample, its mean over the pixels that are not ignored, ``(B,)``.

    Args:
        logits: ``(B, C)`` or ``(B, C, H, W[, D])``.
        labels: ``(B,)`` or ``(B, H, W[, D])``.
        with_dice: add the soft Dice loss, its mean over the foreground classes.
    """
    if labels.ndim == 1:
        return functional.cross_entropy(logits, labels.long(), reduction="none")
    losses = functional.cross_entropy(logits, labels.long(), ignore_index=IGNORED_LABEL, reduction="none").flatten(1)
    counted = (labels != IGNORED_LABEL).flatten(1).sum(dim=1).clamp(min=1)
    mean = losses.sum(dim=1) / counted
    return mean + sample_dice_losses(logits, labels.unsqueeze(1)).mean(dim=1) if with_dice else mean
