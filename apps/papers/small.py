"""How small a small run is: tiny networks and few rounds on few generated images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What a published set says of the network is of the paper's images.
PAPER_NETWORK = "network."


@dataclass(frozen=True)
class Small:
    """The size of a small run.

    Attributes:
        images_per_site: training cases of each site.
        test_images: cases of the test set.
        changes: settings that a job with such a setting has.
    """

    images_per_site: int
    test_images: int
    changes: Mapping[str, Any] = field(default_factory=dict)


_ALL = {"rounds": 5, "warmup_rounds": 2, "training.local_epochs": 1}
_SEGMENTATION = _ALL | {
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.learning_rate": 0.005,
    "training.batch_size": 4,
}
_CLASSIFICATION = _ALL | {
    "network.widths": [4, 4, 8, 8],
    "training.learning_rate": 0.05,
    "training.batch_size": 8,
}

# By the generated images' task.
SMALL: Mapping[str, Small] = {
    "lesions2d": Small(4, 4, _SEGMENTATION | {"rounds": 4}),
    "lesions3d": Small(2, 2, _SEGMENTATION),
    "chambers3d": Small(1, 1, _SEGMENTATION | {"rounds": 3, "warmup_rounds": 1}),
    "cells2d": Small(24, 32, _CLASSIFICATION),
}
