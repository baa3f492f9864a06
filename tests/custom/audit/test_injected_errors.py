"""Errors that are put into copies of annotations: what they change, and that the seed decides it."""

import numpy as np
import pytest
from support.examined_cases import drawn

from fedannot.custom.audit.case_errors import (
    AnotherCasesAnnotation,
    DrawnTooLargeOrSmall,
    Movement,
    ShiftedOrFlipped,
    moved,
    typical_radius,
)
from fedannot.custom.audit.injected_errors import Chance
from fedannot.custom.audit.object_errors import ClassTakenForAnother, ObjectLeftOut, ObjectWhereNoneIs, SliceLeftOut

TWO = drawn(((20, 20), 8), ((46, 46), 6))
ERRORS = [
    DrawnTooLargeOrSmall(),
    ObjectLeftOut(),
    ObjectWhereNoneIs(),
    ClassTakenForAnother(),
    ShiftedOrFlipped(),
    AnotherCasesAnnotation(),
]


def put(error, annotation, seed=0, num_classes=2, other=None):
    return error(annotation, Chance(np.random.default_rng(seed), num_classes, other))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_seed_decides_and_the_annotation_is_kept(error):
    before = TWO.copy()
    first, second = (put(error, TWO, seed=3, other=drawn(((30, 30), 5))) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, TWO)
    assert np.array_equal(before, TWO)


@pytest.mark.parametrize("seed", range(6))
def test_contours_move_by_a_fifth_to_two_fifths_of_the_radius(seed):
    disc = drawn(((32, 32), 10))
    changed = put(DrawnTooLargeOrSmall(), disc, seed)
    radius = np.sqrt(changed.sum() / np.pi)
    assert 1.5 <= abs(radius - 10) <= 4.6


def test_one_object_is_left_out():
    changed = put(ObjectLeftOut(), TWO)
    assert changed.sum() in (drawn(((20, 20), 8)).sum(), drawn(((46, 46), 6)).sum())
    assert ((changed == 0) | (TWO == 1)).all()


def test_an_object_that_is_too_small_is_not_chosen():
    annotation = drawn(((20, 20), 8))
    annotation[50, 50:54] = 1
    assert all(put(ObjectLeftOut(), annotation, seed).sum() == 4 for seed in range(5))


def test_an_object_is_put_where_nothing_is():
    changed = put(ObjectWhereNoneIs(), TWO)
    assert (changed[TWO == 1] == 1).all()
    added = changed.sum() - TWO.sum()
    assert added in (drawn(((20, 20), 8)).sum(), drawn(((46, 46), 6)).sum())


def test_an_empty_annotation_gets_an_object_of_another_case():
    changed = put(ObjectWhereNoneIs(), np.zeros_like(TWO), other=drawn(((30, 30), 5)))
    assert changed.sum() == drawn(((30, 30), 5)).sum()


def test_one_object_gets_another_class():
    changed = put(ClassTakenForAnother(), TWO)
    assert np.array_equal(changed > 0, TWO > 0)
    assert sorted(np.unique(changed)) == [0, 1, 2]


def test_with_one_class_none_is_confused():
    assert put(ClassTakenForAnother(), TWO, num_classes=1) is None


def test_a_movement_is_reverted_by_its_opposite():
    there = moved(TWO, Movement((), (5, -3)))
    assert np.array_equal(there, np.roll(TWO, (5, -3), (0, 1)))
    assert np.array_equal(moved(there, Movement((), (-5, 3))), TWO)
    assert np.array_equal(moved(TWO, Movement((1,), (0, 0))), TWO[:, ::-1])


def test_what_moves_out_is_lost_and_background_comes_in():
    line = np.eye(4, dtype=np.uint8)
    assert moved(line, Movement((), (3, 0))).tolist() == [[0] * 4] * 3 + [[1, 0, 0, 0]]
    assert not moved(line, Movement((), (4, 0))).any()


@pytest.mark.parametrize("seed", range(6))
def test_shifts_are_longer_than_a_tenth_of_the_image(seed):
    corner = drawn(((32, 32), 8))
    params = ShiftedOrFlipped().make_params(corner, Chance(np.random.default_rng(seed), 1))
    assert params.flipped or np.hypot(*params.steps) > 6.4


def test_another_size_is_cut_around_the_middle():
    other = np.ones((40, 80), dtype=np.uint8)
    changed = put(AnotherCasesAnnotation(), TWO, other=other)
    assert changed.shape == TWO.shape
    assert changed[12:52].all()
    assert not changed[:12].any()


def test_one_slice_is_left_out_between_others():
    volume = np.zeros((12, 12, 8), dtype=np.uint8)
    volume[3:9, 3:9, 2:6] = 1
    changed = put(SliceLeftOut(), volume)
    empty = [index for index in range(2, 6) if not changed[..., index].any()]
    assert empty in ([3], [4])
    assert put(SliceLeftOut(), TWO) is None


def test_ignored_pixels_stay():
    annotation = TWO.copy()
    annotation[:5] = 255
    assert (put(DrawnTooLargeOrSmall(), annotation)[:5] == 255).all()


def test_the_typical_radius_is_that_of_a_disc():
    assert typical_radius(drawn(((32, 32), 10))) == pytest.approx(10, abs=0.3)
    volume = np.repeat(drawn(((32, 32), 10))[..., None], 5, axis=2)
    assert typical_radius(volume) == pytest.approx(10, abs=0.3)
