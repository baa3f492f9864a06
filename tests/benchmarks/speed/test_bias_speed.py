"""Seconds that the offset of a case and a moved contour take."""

import time

import numpy as np
import pytest

from fedannot.custom.annotation_bias.boundary_bias import case_offset
from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.transforms.move_contour import MoveContour


@pytest.mark.benchmark
@pytest.mark.parametrize(("shape", "radius"), [((256, 256), 60), ((96, 96, 64), 20)])
def test_offset_and_moved_contour(shape, radius, capsys):
    distance = np.sqrt(sum((axis - (size - 1) / 2) ** 2 for axis, size in zip(np.indices(shape), shape, strict=True)))
    foreground = 1 / (1 + np.exp(distance - radius))
    annotation = (distance <= radius + 4).astype(np.uint8)
    case = PredictedCase("patient", annotation, np.stack([1 - foreground, foreground]))
    times = {}
    for name, call in {
        "offset": lambda: case_offset(case, 1),
        "moved inward": lambda: MoveContour(-4.0)(annotation),
        "moved outward": lambda: MoveContour(4.0)(annotation),
    }.items():
        call()
        started = time.perf_counter()
        for _ in range(5):
            call()
        times[name] = (time.perf_counter() - started) / 5
    with capsys.disabled():
        print(f"\n{shape}: " + ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in times.items()))
