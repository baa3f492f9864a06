"""Which annotated pixels a site trains on, by its own model and two peers, and the loss of these (FedDM)."""

import torch
from torch import nn

from ....transforms.ignored_label import IGNORED_LABEL
from ...training.batch import Batch
from ...training.objectives import Step

# With no more foreground pixels below the threshold all are kept.
_FEW_PIXELS = 5
_SMALLEST = 1e-10
# α of foreground and background, and γ.
_FOREGROUND_WEIGHT, _BACKGROUND_WEIGHT, _FOCUS = 0.25, 0.75, 2


def kept_share(dropped_share: float, rounds_done: int, rounds: int) -> float:
    """Return p = 1 − r min(t / T, 1).

    Args:
        dropped_share: r.
        rounds_done: t, rounds before this one.
        rounds: T.

    Example:
        >>> [round(kept_share(0.6, done, 50), 3) for done in (0, 25, 50, 90)]
        [1.0, 0.7, 0.4, 0.4]
    """
    return 1 - dropped_share * min(rounds_done / rounds, 1.0)


def pixel_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return −ln(p_y + 1e-10) of every pixel, ``(B, H, W[, D])``; that of ignored pixels means nothing.

    Args:
        logits: ``(B, C', H, W[, D])``.
        labels: ``(B, H, W[, D])``.
    """
    known = labels.masked_fill(labels == IGNORED_LABEL, 0)
    of_label = logits.float().softmax(dim=1).gather(1, known[:, None]).squeeze(1)
    return -(of_label + _SMALLEST).log()


def selected_pixels(
    labels: torch.Tensor, own: torch.Tensor, nearest: torch.Tensor, farthest: torch.Tensor, share: float
) -> torch.Tensor:
    """Return the labels to train on: foreground pixels stay, become background, or are ignored.

    A pixel is small for a model if its loss is among the share of a sample's foreground with the least losses. Small
    for either the own or the nearest model, but not for both: it becomes background. Else small for both the own and
    the farthest: it stays. All others are ignored. Where the share is of five pixels or fewer, all of the sample stay;
    so they do where a model's losses are not finite, as those of a peer that a site has made to harm others.

    Args:
        labels: ``(B, H, W[, D])``, 0 for background.
        own: losses of the model that is trained, as above.
        nearest: losses of the nearest peer.
        farthest: losses of the farthest peer.
        share: p.
    """
    result = labels.clone()
    for index, label in enumerate(labels):
        foreground = (label != 0) & (label != IGNORED_LABEL)
        number = int(round(share * int(foreground.sum()), 9))
        of_models = (own[index], nearest[index], farthest[index])
        if number <= _FEW_PIXELS or not all(bool(losses[foreground].isfinite().all()) for losses in of_models):
            continue
        is_small = []
        for losses in of_models:
            is_small.append(losses <= losses[foreground].kthvalue(number).values)
        of_own, of_nearest, of_farthest = is_small
        becomes_background = foreground & (of_own ^ of_nearest)
        stays = foreground & of_own & of_farthest & ~becomes_background
        result[index][foreground & ~stays] = IGNORED_LABEL
        result[index][becomes_background] = 0
    return result


def focal_loss(logits: torch.Tensor, labels: torch.Tensor, *, is_focal: bool) -> torch.Tensor:
    """Return the mean of −α (1 − p_y)^γ ln p_y over the pixels that are not ignored; 0 where all are.

    Args:
        logits: ``(B, C', H, W[, D])``.
        labels: ``(B, H, W[, D])``.
        is_focal: α is 0.25 for foreground and 0.75 for background, γ is 2; else both factors are 1.
    """
    losses = pixel_losses(logits, labels)
    if is_focal:
        weights = torch.where(labels == 0, _BACKGROUND_WEIGHT, _FOREGROUND_WEIGHT)
        losses = weights * (1 - (-losses).exp()).clamp(min=0.0) ** _FOCUS * losses
    counts = labels != IGNORED_LABEL
    return torch.where(counts, losses, 0.0).sum() / counts.sum().clamp(min=1)


class SelectedPixels:
    """The loss of the pixels that the own model and two peers choose; of the network's last output alone.

    Args:
        nearest: a peer, in evaluation mode on the network's device.
        farthest: as above.
        share: p.
        is_focal: see :func:`focal_loss`.
    """

    def __init__(self, nearest: nn.Module, farthest: nn.Module, *, share: float, is_focal: bool) -> None:
        self._peers = (nearest, farthest)
        self._share, self._is_focal = share, is_focal

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        del step
        logits, labels = network(batch.images), batch.labels.squeeze(1).long()
        with torch.no_grad():
            nearest, farthest = (pixel_losses(peer(batch.images), labels) for peer in self._peers)
            chosen = selected_pixels(labels, pixel_losses(logits, labels), nearest, farthest, self._share)
        return focal_loss(logits, chosen, is_focal=self._is_focal)
