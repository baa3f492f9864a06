"""Losses of fractions of annotators, on logits and fractions ``(B, C, …)``; of fractions 0 and 1 those of labels."""

from collections.abc import Sequence

import torch
from torch import nn

from ..settings import ClassifierTrainingSettings, TrainingSettings

_DICE_LOSSES = ("dice", "ce_dice")
_BATCH_DICE_LOSSES = ("batch_dice", "ce_batch_dice")


class SoftLoss(nn.Module):
    """Cross entropy, Dice loss or their sum, of fractions.

    Cross entropy is −Σ_c w_c t_c log p_c / Σ_c w_c t_c over pixels or samples. The Dice loss is MONAI's for soft
    labels (Wang et al., *Dice Semimetric Losses*, MICCAI 2023), which is least where probabilities are the fractions.
    Where all fractions are 0, a pixel is ignored. A batch without any other has loss and gradient 0.

    Args:
        loss: one of :data:`fedannot.custom.settings.SOFT_LOSSES`.
        class_weights: w of the cross entropy; empty where all count the same.
    """

    def __init__(self, loss: str, class_weights: Sequence[float] = ()) -> None:
        super().__init__()
        self._has_cross_entropy = loss.startswith("ce")
        self._has_dice = loss in _DICE_LOSSES
        self._has_batch_dice = loss in _BATCH_DICE_LOSSES
        self._weights = torch.tensor(class_weights) if class_weights else None

    @classmethod
    def of(cls, training: TrainingSettings | ClassifierTrainingSettings) -> "SoftLoss":
        """Return the loss of a job's settings, which have checked that there is one."""
        assert isinstance(training.loss, str)
        return cls(training.loss, training.class_weights)

    def forward(self, logits: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of logits and fractions ``(B, C, …)``, in segmentation with the background."""
        logits = logits.float()
        total = logits.new_zeros(())
        if self._has_dice or self._has_batch_dice:
            total = total + self._dice(logits, fractions)
        if self._has_cross_entropy:
            total = total + self._cross_entropy(logits, fractions)
        return total

    def _cross_entropy(self, logits: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
        weighted = fractions
        if self._weights is not None:
            weights = self._weights.to(fractions)
            weighted = fractions * weights.view(1, -1, *[1] * (logits.ndim - 2))
        total = weighted.sum()
        # A GPU is not waited for.
        summed = -(weighted * logits.log_softmax(dim=1)).sum()
        return torch.where(total > 0, summed / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)

    def _dice(self, logits: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
        # MONAI takes 2 s, and a site process starts without it.
        from monai.losses import MaskedDiceLoss  # noqa: PLC0415

        loss = MaskedDiceLoss(include_background=False, softmax=True, soft_label=True, batch=self._has_batch_dice)
        counts = (fractions.sum(dim=1, keepdim=True) > 0).to(logits.dtype)
        return torch.as_tensor(loss(logits, fractions, counts))
