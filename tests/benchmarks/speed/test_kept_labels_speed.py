"""What a corrected volume takes in the first round, and in those after it."""

import numpy as np
import pytest
from measuring import Measurement, time_in_turns

from fedannot.custom.corrections.kept_labels import KeptLabels
from fedannot.custom.corrections.kinds import BoundaryShift, Purpose, Sample
from fedannot.custom.corrections.model import Corrections, Provenance
from fedannot.custom.corrections.targets import corrected_sample

pytestmark = pytest.mark.benchmark

SIDE, RADIUS = 256, 40
MIDDLES = ((80, 80, 80), (160, 150, 120))


def test_a_volume_whose_contours_are_moved(speed_table):
    """Two spheres in 256³ voxels, moved by 3 mm: made, and found where the last round has left it."""
    places = np.indices((SIDE,) * 3, sparse=True)
    classes = np.zeros((SIDE,) * 3, np.uint8)
    for middle in MIDDLES:
        distance = sum((place - own) ** 2 for place, own in zip(places, middle, strict=True))
        classes[distance < RADIUS**2] = 1
    made = Provenance(method="auto", round_number=1, model_sha256="", made="2026-01-01T00:00:00+00:00")
    asked = Corrections(site="s", data="/d", provenance=made, corrections=(BoundaryShift(bias={1: 3.0}),), cases=())
    sample, kept = Sample(classes, (1.0, 1.0, 1.0)), KeptLabels()

    def make():
        return corrected_sample(asked, sample, Purpose.TRAINING)[0]

    expected = kept.label(asked, sample, Purpose.TRAINING, make)
    np.testing.assert_array_equal(kept.label(asked, sample, Purpose.TRAINING, make), expected)
    times = time_in_turns({"made": make, "kept": lambda: kept.label(asked, sample, Purpose.TRAINING, make)})
    speed_table.add(
        Measurement(
            "corrected volume of 256³ after the first round",
            times["kept"],
            "made again",
            times["made"],
            times["kept"] / times["made"],
        )
    )
