"""Losses of segmentation, on logits ``(B, C + 1, H, W[, D])`` and labels ``(B, 1, H, W[, D])``, and that of classes.

Pixels with :data:`fedannot.transforms.ignored_label.IGNORED_LABEL` have no part in the losses of segmentation. A batch
in which all are ignored has loss and gradient 0. Where none is, loss and gradient are those without the label, bit for
bit. Where all that is not ignored is of classes of weight 0, the cross entropy and its gradient are 0.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import nn

from ...transforms.ignored_label import IGNORED_LABEL
from ..components.component import Component
from ..settings import ClassifierTrainingSettings, TrainingSettings
from .component_loss import ComponentLoss
from .noise_robust_losses import NoiseRobustDice


def build_loss(
    training: TrainingSettings | ClassifierTrainingSettings, annotated: Sequence[int] | None = None
) -> nn.Module:
    """Build the training loss that a job's settings name.

    Args:
        training: the loss, and its weights of classes.
        annotated: the foreground classes that a site annotates, of which alone the weights are; None for all.

    Raises:
        ComponentError: if a class cannot be used.
    """
    if isinstance(training.loss, Component):
        return ComponentLoss(training.loss)
    weights = training.class_weights
    if weights and annotated is not None:
        weights = tuple(weights[label] for label in (0, *annotated))
    if weights:
        return (
            _WITH_WEIGHTS[training.loss](weights)
            if isinstance(training, TrainingSettings)
            else ClassCrossEntropy(weights)
        )
    return segmentation_loss(training.loss) if isinstance(training, TrainingSettings) else ClassCrossEntropy()


def segmentation_loss(name: str) -> nn.Module:
    """Build the training loss on logits ``(B, C + 1, H, W[, D])`` and labels ``(B, 1, H, W[, D])``.

    ``"ce"`` is the mean pixel-wise cross entropy; ``"dice"`` the mean soft Dice loss of a sample over the foreground
    classes; ``"batch_dice"`` the soft Dice loss of the batch as one, in which samples without annotation count, too;
    ``"ce_dice"`` the sum of ``"ce"`` and ``"dice"``, ``"ce_batch_dice"`` that of ``"ce"`` and ``"batch_dice"``;
    ``"nr_dice"`` the noise-robust Dice loss, as above of the batch.

    Raises:
        ValueError: if the name is unknown.

    Example:
        >>> logits, labels = torch.tensor([[[[9.0]], [[-9.0]]]]), torch.zeros(1, 1, 1, 1)
        >>> round(float(segmentation_loss("ce")(logits, labels)), 6)
        0.0
    """
    if name not in _LOSSES:
        raise ValueError(f"Expected a loss among {', '.join(map(repr, _LOSSES))}, but got {name=}")
    return _LOSSES[name]()


def sample_dice_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the soft Dice loss of every sample and foreground class, ``(B, C)``, by MONAI.

    1 − 2 Σ p g / (Σ p + Σ g) over a sample's pixels that are not ignored. It is 1, with next to no gradient, where a
    class is not annotated, and 0 for a sample of which every pixel is ignored.
    """
    return _dice_loss(logits.float(), labels, reduction="none").flatten(1)


class _OfWeightedClasses(nn.Module):
    """A loss in which classes count differently.

    Args:
        weights: a number for each class; None where all count the same.
    """

    def __init__(self, weights: Sequence[float] | None = None) -> None:
        super().__init__()
        self.class_weights = None if weights is None else tuple(weights)
        self._weights = None if weights is None else torch.tensor(weights, dtype=torch.float32)
        self._has_zero = weights is not None and 0 in weights

    def _weights_and_any(self, logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor]:
        """The weights to take a mean with, and whether it is over anything; else it is NaN or of equal weights.

        Over pixels of weight 0 alone the mean has a gradient of NaN, which no choice of another value takes away.
        """
        counts = labels != IGNORED_LABEL
        if self._weights is not None:
            # Sent to a GPU once: it is waited for at each time.
            self._weights = self._weights.to(logits.device)
        # They keep their precision, whatever that of a batch's logits is.
        weights = None if self._weights is None else self._weights.to(logits.dtype)
        if weights is None or not self._has_zero:
            return weights, counts.any()
        has_any = (counts & (weights[labels.long().masked_fill(~counts, 0)] > 0)).any()
        # A GPU is not waited for.
        return torch.where(has_any, weights, 1.0), has_any


class CrossEntropy(_OfWeightedClasses):
    """Mean cross entropy of the pixels that are not ignored, Σ w_y l / Σ w_y where classes have weights."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        weights, has_any = self._weights_and_any(logits, labels)
        mean = nn.functional.cross_entropy(logits, labels.squeeze(1).long(), weights, ignore_index=IGNORED_LABEL)
        # Over no pixel the mean is NaN, its gradient 0. A GPU is not waited for.
        return torch.where(has_any, mean, 0.0)


class ClassCrossEntropy(_OfWeightedClasses):
    """Mean cross entropy of logits ``(B, C)`` and classes ``(B,)``, Σ w_y l / Σ w_y where classes have weights."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        logits = logits.float()
        if self._weights is None:
            return nn.functional.cross_entropy(logits, labels)
        weights, has_any = self._weights_and_any(logits, labels)
        return torch.where(has_any, nn.functional.cross_entropy(logits, labels, weights), 0.0)


class SampleDice(nn.Module):
    """Mean over samples and foreground classes of :func:`sample_dice_losses` (FedIA, Eq. 2)."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return sample_dice_losses(logits, labels).mean()


class BatchDice(nn.Module):
    """Mean over foreground classes of 1 − 2 Σ p g / (Σ p + Σ g), with sums over all pixels of the batch, by MONAI.

    Foreground that is predicted in a sample without annotation raises it; :class:`SampleDice` gives no gradient there.
    """

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return _dice_loss(logits.float(), labels, batch=True)


class CrossEntropyAndDice(CrossEntropy):
    """Sum of :class:`CrossEntropy` and the mean Dice loss of samples, as MONAI's ``DiceCELoss``."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return _dice_loss(logits, labels) + super().forward(logits, labels)


class CrossEntropyAndBatchDice(CrossEntropy):
    """Sum of :class:`CrossEntropy` and :class:`BatchDice`, as nnU-Net has it for images and slices."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return BatchDice().forward(logits, labels) + super().forward(logits, labels)


def _dice_loss(
    logits: torch.Tensor, labels: torch.Tensor, *, reduction: str = "mean", batch: bool = False
) -> torch.Tensor:
    """MONAI's Dice loss of the foreground classes, with probabilities and one-hot labels 0 at ignored pixels.

    MONAI's own option for ignored labels masks what is left without the background, which is laid out differently in
    memory: sums over it have other last bits.
    """
    # MONAI takes 2 s, and a site process starts without it.
    from monai.losses import MaskedDiceLoss  # noqa: PLC0415

    loss = MaskedDiceLoss(include_background=False, to_onehot_y=True, softmax=True, reduction=reduction, batch=batch)
    # Labels are masked before they become one-hot: ignored pixels are background, which does not count.
    return torch.as_tensor(loss(logits, labels, labels != IGNORED_LABEL))


_LOSSES: dict[str, Callable[[], nn.Module]] = {
    "ce": CrossEntropy,
    "dice": SampleDice,
    "batch_dice": BatchDice,
    "ce_dice": CrossEntropyAndDice,
    "ce_batch_dice": CrossEntropyAndBatchDice,
    "nr_dice": NoiseRobustDice,
}
_WITH_WEIGHTS: dict[str, Callable[[Sequence[float]], nn.Module]] = {
    "ce": CrossEntropy,
    "ce_dice": CrossEntropyAndDice,
    "ce_batch_dice": CrossEntropyAndBatchDice,
}


# Losses that keep nothing and wait for no GPU: logits and labels say all.
_OF_LOGITS_AND_LABELS = (*(kind for name, kind in _LOSSES.items() if name != "nr_dice"), ClassCrossEntropy)


def loss_form(loss: object) -> Hashable | None:
    """Return what two losses have in common that compute the same of logits and labels, on a GPU without waiting.

    Returns:
        None for a loss of which this is not known, such as one of a component.
    """
    return (type(loss), getattr(loss, "class_weights", None)) if type(loss) in _OF_LOGITS_AND_LABELS else None


class DiceRecord:
    """Mean Dice loss over the samples of a round's training (FedIA, Eq. 5).

    Args:
        annotated_only: over the samples and classes in which something is annotated; else over all samples of which not
            every pixel is ignored.
        device: where the batches are.
    """

    def __init__(self, *, annotated_only: bool, device: torch.device) -> None:
        self._annotated_only = annotated_only
        self._total = torch.zeros((), dtype=torch.float64, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        # Looked at when the round is over, as a GPU would have to be waited for.
        self._counted: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def add(self, logits: torch.Tensor, labels: torch.Tensor, samples: torch.Tensor) -> None:
        """Add a batch as the network saw it before its step.

        Args:
            logits: ``(B, C + 1, H, W[, D])``.
            labels: ``(B, 1, H, W[, D])``.
            samples: which of the site's samples each is of, ``(B,)``.
        """
        losses = sample_dice_losses(logits.detach(), labels)
        pixels = labels.flatten(1)
        if self._annotated_only:
            classes = range(1, losses.shape[1] + 1)
            counts = torch.stack([(pixels == label).any(dim=1) for label in classes], dim=1)
            # A GPU is not waited for, as a selection would. The losses are multiples of 2^-24: any order sums the same.
            losses = torch.where(counts, losses, 0.0)
        else:
            # What does not count has a loss of 0.
            counts = (pixels != IGNORED_LABEL).any(dim=1, keepdim=True).expand(losses.shape)
        self._total += losses.sum(dtype=torch.float64)
        self._count += counts.sum()
        self._counted.append((samples, counts.any(dim=1)))

    @property
    def samples(self) -> frozenset[int]:
        """Which of the site's samples the mean is over."""
        return frozenset(index for samples, counts in self._counted for index in samples[counts.cpu()].tolist())

    @property
    def mean(self) -> float:
        """The mean, NaN where there is no such sample."""
        count = int(self._count)
        return float(self._total) / count if count else float("nan")
