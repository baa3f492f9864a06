"""Losses of a site that does not annotate all classes: its background may be any of the others."""

from collections.abc import Sequence

import torch

from ...transforms.ignored_label import IGNORED_LABEL


class MarginalClasses:
    """Turns logits of all classes into logits of the annotated ones, whose background stands for all others.

    Σ_{j not annotated} p_j is added to the background's probability p_0, in logits log Σ exp. Any loss of the result is
    a marginal loss. See Shi et al., *Marginal loss and exclusion loss for partially supervised multi-organ
    segmentation*, Medical Image Analysis 2021 (Eq. 4 to 6).

    Args:
        annotated: the foreground classes that are annotated, ascending, at least one.
        num_classes: number of foreground classes C.

    Raises:
        ValueError: if the classes are not among 1 to C, or not ascending.

    Example:
        >>> of_first = MarginalClasses([1], num_classes=2)
        >>> logits = of_first.logits(torch.tensor([0.2, 0.5, 0.3]).log().view(1, 3, 1, 1))
        >>> [round(value, 2) for value in logits.softmax(dim=1).flatten().tolist()]
        [0.5, 0.5]
    """

    def __init__(self, annotated: Sequence[int], num_classes: int) -> None:
        classes = range(1, num_classes + 1)
        if not annotated or list(annotated) != sorted(set(annotated) & set(classes)):
            raise ValueError(f"Expected ascending classes from 1 to {num_classes}, but got {annotated=}.")
        self.annotated = tuple(annotated)
        self._background = [0, *(label for label in classes if label not in self.annotated)]
        # Where a label is none of the annotated ones the number is beyond all, so that a loss refuses it.
        self._numbers = torch.full((IGNORED_LABEL + 1,), IGNORED_LABEL - 1, dtype=torch.uint8)
        self._numbers[[0, *self.annotated]] = torch.arange(len(self.annotated) + 1, dtype=torch.uint8)
        self._numbers[IGNORED_LABEL] = IGNORED_LABEL

    def logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the logits ``(B, A + 1, H, W[, D])`` of A annotated classes, the background first.

        Args:
            logits: of all classes, ``(B, C + 1, H, W[, D])``.
        """
        background = logits[:, self._background].float().logsumexp(dim=1, keepdim=True)
        return torch.cat([background, logits[:, list(self.annotated)].float()], dim=1)

    def labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Return labels with the annotated classes numbered from 1 to A, of the same shape; ignored ones stay.

        Args:
            labels: 0, annotated classes, and 255 for ignored pixels.
        """
        return self._numbers.to(labels.device)[labels.long()]
