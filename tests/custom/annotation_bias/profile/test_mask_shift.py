"""The shift of all masks by those of the classes: by hand."""

from dataclasses import replace

import numpy as np
import pytest

from fedannot.custom.annotation_bias.profile.mask_shift import ShiftStatus, WholeShift, shift_of_all_masks
from fedannot.custom.annotation_bias.profile.site_shift import SiteShift

SHIFT = SiteShift(9, (2.0, -1.5), (0.1, 0.1), (0.3, 0.3), (1.0, 1.0), 0.5, 1.0)
UNKNOWN = replace(SHIFT, prominence=0.1)


def test_a_class_alone_says_it_as_it_is():
    alone = shift_of_all_masks([SHIFT])
    assert (alone.status, alone.patients) == (ShiftStatus.CORRECTABLE, 9)
    assert alone.vector == pytest.approx((2.0, -1.5))
    assert shift_of_all_masks([UNKNOWN, SHIFT, SiteShift.absent(2)]) == shift_of_all_masks([SHIFT])


def test_classes_count_by_their_precision():
    other = replace(SHIFT, vector=(2.5, -1.0), half_width=(0.6, 0.3), patients=7)

    together = shift_of_all_masks([SHIFT, other])

    assert (together.status, together.patients) == (ShiftStatus.CORRECTABLE, 7)
    assert together.vector == pytest.approx(((4 * 2.0 + 2.5) / 5, -1.25))


def test_an_axis_of_which_nothing_is_said_is_not_moved_along():
    coarse = SiteShift(9, (2.0, 0.0, 0.0), (0.1, 0.1, np.nan), (0.3, 0.3, np.inf), (1.0, 1.0, 8.0), 0.5, 1.0)

    assert shift_of_all_masks([coarse, coarse]) == WholeShift(ShiftStatus.CORRECTABLE, 9, (2.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("shifts", "status"),
    [
        ([], ShiftStatus.UNKNOWN),
        ([UNKNOWN], ShiftStatus.UNKNOWN),
        ([SiteShift.absent(2)], ShiftStatus.UNKNOWN),
        ([replace(SHIFT, patients=2)], ShiftStatus.TOO_FEW_PATIENTS),
        ([replace(SHIFT, vector=(0.9, 0.1))], ShiftStatus.TOO_SMALL),
        # Two hypotenuses of 0.3 and a pixel: 1.42.
        ([SHIFT, replace(SHIFT, vector=(3.5, -1.5))], ShiftStatus.CLASSES_DIFFER),
        ([SHIFT, replace(SHIFT, vector=(3.4, -1.5))], ShiftStatus.CORRECTABLE),
    ],
)
def test_why_masks_cannot_be_moved_back(shifts, status):
    assert shift_of_all_masks(shifts).status is status
