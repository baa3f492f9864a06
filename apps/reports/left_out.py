"""Lesions that a site left out: those of the clean annotation of which the given one has nothing."""

from dataclasses import dataclass

import numpy as np
import torch

from ...custom.data.masks import without_ignored
from ...custom.data.site_data import LoadedCase
from ...transforms.array_types import Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.ignored_label import IGNORED_LABEL


@dataclass(frozen=True)
class LeftOut:
    """What a site left out of one case; shows a patient's lesions and stays on this machine.

    Attributes:
        mask: the classes of the lesions that were left out, uint8 ``(S, H, W[, D])``, 0 elsewhere.
        num_lesions: connected lesions of the clean annotation, over all classes.
        num_left_out: how many of them the given annotation has no voxel of.
    """

    mask: torch.Tensor
    num_lesions: int
    num_left_out: int


def left_out_lesions(case: LoadedCase) -> LeftOut | None:
    """Find the lesions of a case that its annotation has no voxel of, in a volume with its slices put together.

    Args:
        case: a case with masks ``(S, H, W[, D])``.

    Returns:
        What was left out, None where the clean annotation is not known. A voxel that is annotated as another class
        counts as annotated.
    """
    if case.clean_label is None:
        return None
    given, clean = _whole(case.label), without_ignored(_whole(case.clean_label))
    mask = np.zeros_like(clean)
    num_lesions = num_left_out = 0
    for label in range(1, int(clean.max(initial=0)) + 1):
        lesions, count = label_lesions(clean == label)
        is_left_out = np.ones(count + 1, dtype=bool)
        is_left_out[np.unique(lesions[given != 0])] = False
        # Number 0 is what is outside.
        is_left_out[0] = False
        mask[is_left_out[lesions]] = label
        num_lesions, num_left_out = num_lesions + count, num_left_out + int(is_left_out.sum())
    return LeftOut(torch.from_numpy(mask).reshape(case.label.shape), num_lesions, num_left_out)


def lacks_lesions(case: LoadedCase) -> bool:
    """Return whether the annotation of a case has nothing of some lesion of the clean one."""
    # Most complete cases are recognised by their pixels alone, without a search for lesions.
    if case.clean_label is None or not bool(((case.label == 0) & is_annotated(case.clean_label)).any()):
        return False
    result = left_out_lesions(case)
    return result is not None and result.num_left_out > 0


def is_annotated(samples: torch.Tensor) -> torch.Tensor:
    """Return where a class is annotated; ignored pixels are not."""
    return (samples != 0) & (samples != IGNORED_LABEL)


def _whole(samples: torch.Tensor) -> Classes:
    """The samples of a case as one array: a picture, or the volume that they are or make up."""
    array: Classes = samples.numpy()
    return array[0] if len(array) == 1 else array
