"""How many lesions a site has annotated and how many a model finds there (FedIA, Eq. 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Classes
from ....transforms.connected_lesions import label_lesions
from ....transforms.ignored_label import IGNORED_LABEL
from ...data.site_data import LoadedCase
from ...evaluation.inference import Inference


@dataclass(frozen=True)
class LesionCounts:
    """Connected lesions of a case, or summed over cases; over all foreground classes.

    Their sums are all of the estimate that leaves the site; the numbers of single cases do not.

    Attributes:
        annotated: lesions in the given annotations, Σ c^n.
        predicted: lesions in the predictions, Σ c^p.
        matched: predicted lesions that share a voxel with an annotated one of their class.
    """

    annotated: int = 0
    predicted: int = 0
    matched: int = 0

    def __add__(self, other: "LesionCounts") -> "LesionCounts":
        """Add two counts."""
        return LesionCounts(
            self.annotated + other.annotated, self.predicted + other.predicted, self.matched + other.matched
        )


def count_site_lesions(
    network: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference
) -> LesionCounts:
    """Count over all cases of a site (Eq. 3): the sum of :func:`count_lesions_by_case`."""
    return sum(count_lesions_by_case(network, cases, num_classes, inference), start=LesionCounts())


def count_lesions_by_case(
    network: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference
) -> list[LesionCounts]:
    """Count in each case of a site, with predictions made in evaluation mode and slices put together to volumes.

    Args:
        network: the model to predict with.
        cases: the site's cases.
        num_classes: number of foreground classes C.
        inference: how the model is run.
    """
    return [
        count_lesions(_as_case(case.label), _as_case(predicted), num_classes)
        for case, predicted in zip(cases, inference.predictions(network, cases), strict=True)
    ]


def count_lesions(annotated: Classes, predicted: Classes, num_classes: int = 1) -> LesionCounts:
    """Count the lesions of one case.

    A predicted lesion that shares a voxel with an ignored place, but none with an annotated lesion of its class, does
    not count: the annotation says nothing of it.

    Args:
        annotated: given classes, ``(H, W)`` or of a whole volume ``(H, W, D)``; 255 for ignored pixels.
        predicted: predicted classes, as above.
        num_classes: number of foreground classes C.
    """
    ignored = annotated == IGNORED_LABEL
    total = LesionCounts()
    for label in range(1, num_classes + 1):
        given = annotated == label
        result, num_found = label_lesions(predicted == label)
        # Number 0 is the background.
        matched = set(np.unique(result[given]).tolist()) - {0}
        unknown = set(np.unique(result[ignored]).tolist()) - matched - {0}
        total += LesionCounts(label_lesions(given)[1], num_found - len(unknown), len(matched))
    return total


def _as_case(samples: torch.Tensor) -> Classes:
    """The samples of a case as one array: a picture, or the volume that they are or make up."""
    array: Classes = samples.numpy()
    return array[0] if len(array) == 1 else array
