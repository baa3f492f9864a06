"""Time of contour evolution for a 256×256 mask; see `make bench-speed`."""

import statistics
import time

import numpy as np
import pytest
from measuring import Measurement

from fedannot.transforms.noise.contour_evolution import ContourEvolution

REPEATS = 40


def lesion(radius):
    """A star-shaped lesion of about the given radius in pixels."""
    rows, columns = np.mgrid[:256, :256] - 128.0
    wobble = 1 + 0.15 * np.cos(5 * np.arctan2(rows, columns))
    return (np.hypot(rows, columns) <= radius * wobble).astype(np.uint8)


@pytest.mark.benchmark
@pytest.mark.parametrize("radius", [20, 60])
@pytest.mark.parametrize("mean", [-20, 0, 20])
def test_milliseconds_per_mask(speed_table, radius, mean):
    mask = lesion(radius)
    evolution = ContourEvolution(mean, 10).set_random_state(0)
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        noisy = evolution(mask)
        times.append(time.perf_counter() - begin)
    assert noisy.shape == mask.shape
    speed_table.add(
        Measurement(
            f"contour noise of a 256 × 256 mask, radius {radius} px, mean {mean:+d} px",
            statistics.median(times),
            note=f"90th percentile {1000 * np.percentile(times, 90):.1f} ms",
        )
    )
