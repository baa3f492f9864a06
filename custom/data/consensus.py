"""One label of several annotations of a case, and the fraction of annotators that gave a pixel each class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...transforms.array_types import Booleans, Classes
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ..consensus_rule import ConsensusKind, ConsensusRule

_LARGER_HALF = 0.5


def consensus_label(annotations: torch.Tensor, rule: ConsensusRule, num_classes: int) -> torch.Tensor:
    """Return the label that a rule makes of annotations.

    Of rules without a single label (soft, random) it is the majority's, for scores and for what is measured. A pixel
    that all annotators ignore is ignored; of STAPLE, one that any of them ignores.

    Args:
        annotations: classes ``(S, R, …)`` uint8 of R annotators, 255 for ignored pixels.
        rule: the rule.
        num_classes: number of foreground classes; more than one take MultiLabelSTAPLE.

    Returns:
        Classes ``(S, …)`` uint8.

    Example:
        >>> three = torch.tensor([[[1, 1, 0], [1, 0, 0], [0, 0, 2]]], dtype=torch.uint8)
        >>> consensus_label(three, ConsensusRule.parse("majority"), 2).tolist()
        [[1, 0, 0]]
    """
    if rule.kind is ConsensusKind.STAPLE:
        # A picture or a whole volume is a single sample, the slices of a volume are estimated together.
        masks = annotations[0] if len(annotations) == 1 else annotations.transpose(0, 1)
        return torch.from_numpy(staple(masks.numpy(), num_classes)).reshape(annotations[:, 0].shape)
    return majority(annotations)


def majority(annotations: torch.Tensor) -> torch.Tensor:
    """Return the class that most annotators gave a pixel, of equal numbers the lowest, and so background first.

    Args:
        annotations: ``(S, R, …)`` uint8. Who ignores a pixel has no vote there.

    Returns:
        Classes ``(S, …)`` uint8, 255 where nobody votes.
    """
    best = torch.zeros_like(annotations[:, 0], dtype=torch.int16)
    label = torch.full_like(annotations[:, 0], IGNORED_LABEL)
    for value in sorted(set(torch.unique(annotations).tolist()) - {IGNORED_LABEL}):
        votes = (annotations == value).sum(dim=1, dtype=torch.int16)
        label[votes > best] = value
        best = torch.maximum(best, votes)
    return label


def class_fractions(annotations: torch.Tensor, num_outputs: int) -> torch.Tensor:
    """Return which fraction of the annotators gave a pixel each class, 0 for all where everybody ignores it.

    Args:
        annotations: ``(R, …)`` uint8 of R annotators.
        num_outputs: number of classes, in segmentation with the background.

    Returns:
        ``(num_outputs, …)`` float32.
    """
    votes = torch.stack([(annotations == value).sum(dim=0) for value in range(num_outputs)]).float()
    return votes / (annotations != IGNORED_LABEL).sum(dim=0).clamp(min=1)


def staple(annotations: Classes | Sequence[Classes], num_classes: int) -> Classes:
    """Return the classes that STAPLE finds behind annotations, by SimpleITK (Warfield et al., IEEE TMI 2004).

    Of one foreground class a pixel is foreground where its probability is above one half. Several classes go through
    MultiLabelSTAPLE (Rohlfing et al., 2003), whose undecided pixels are background. Annotations that are all the same
    are the result.

    Args:
        annotations: R arrays ``(…)`` uint8 of one shape with two or three axes.
        num_classes: number of foreground classes.

    Returns:
        Classes of that shape; 255 where an annotator ignores a pixel.

    Raises:
        DataError: if the filter has no estimate.
    """
    # It takes a moment, and few sites have several annotations.
    import SimpleITK  # noqa: PLC0415

    masks = [np.where(mask == IGNORED_LABEL, 0, mask).astype(np.uint8) for mask in annotations]
    ignored: Booleans = np.any([np.asarray(mask) == IGNORED_LABEL for mask in annotations], axis=0)
    if all(np.array_equal(mask, masks[0]) for mask in masks):
        # The filter divides zero by zero where nobody, or everybody, annotates all pixels.
        label = masks[0].copy()
    elif num_classes == 1:
        probabilities = SimpleITK.GetArrayFromImage(SimpleITK.STAPLE(_images(masks), 1.0))
        if not np.isfinite(probabilities).all():
            raise DataError("STAPLE has no estimate for these annotations; expected some that agree in part.")
        label = (probabilities > _LARGER_HALF).astype(np.uint8)
    else:
        label = SimpleITK.GetArrayFromImage(SimpleITK.MultiLabelSTAPLE(_images(masks), 0)).astype(np.uint8)
    label[ignored] = IGNORED_LABEL
    return label


def _images(masks: Sequence[Classes]) -> list[Any]:
    import SimpleITK  # noqa: PLC0415

    return [SimpleITK.GetImageFromArray(mask) for mask in masks]
