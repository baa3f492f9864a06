"""Time that finding the centres of patches takes in each round, for a volume whose objects take 5 % of it."""

import numpy as np
import pytest
import torch
from measuring import Measurement, time_in_turns

from fedannot.custom.training.patches import PatchCentres

pytestmark = pytest.mark.benchmark


def spheres(extent: int) -> torch.Tensor:
    """Twelve objects of two classes."""
    rng = np.random.default_rng(0)
    axes = np.ogrid[:extent, :extent, :extent]
    label = np.zeros((extent,) * 3, np.uint8)
    for number in range(12):
        middle, radius = rng.integers(extent // 6, extent * 5 // 6, 3), rng.integers(extent // 20, extent // 6)
        distance = sum((axis - place) ** 2 for axis, place in zip(axes, middle, strict=True))
        label[distance < radius**2] = 1 + number % 2
    return torch.from_numpy(label)


def search(annotation: torch.Tensor) -> list[torch.Tensor]:
    """The positions of each class, found voxel by voxel."""
    flat = annotation.flatten()
    return [(flat == label).nonzero().flatten() for label in range(1, int(flat.max()) + 1)]


@pytest.mark.parametrize("extent", [96, 256])
def test_the_first_centre_of_a_round(speed_table, extent):
    """Later ones take microseconds."""
    annotation = spheres(extent)
    times = time_in_turns(
        {
            "a search": lambda: search(annotation),
            "runs": lambda: PatchCentres([annotation]).draw_on_object(0, torch.Generator().manual_seed(0)),
        }
    )
    speed_table.add(
        Measurement(
            f"the first centre in a volume of {extent}³",
            times["runs"],
            "a search",
            times["a search"],
            times["runs"] / times["a search"],
            "≤ 0.3",
        )
    )
