"""Estimates of sites whose masks ignore pixels: what lies there or touches it takes no part."""

from types import SimpleNamespace

import numpy as np
import pytest
from predicted_cases import PredictedCase, round_case

from fedannot.custom.annotation_bias.confusion import class_samples
from fedannot.custom.annotation_bias.ignored_objects import (
    at_ignored,
    whole_objects,
    without_common_ignored,
    without_objects_at_ignored,
)
from fedannot.custom.annotation_bias.profile.object_size import mean_radius
from fedannot.custom.annotation_bias.profile.scales import ProfileCase
from fedannot.custom.annotation_bias.site_estimates import (
    estimate_completeness,
    estimate_jitter,
    estimate_offset,
    estimate_spurious,
)
from fedannot.transforms.ignored_label import IGNORED_LABEL

STRIP = 44


def case_with_strip(number, *, is_ignored):
    """A disc annotated 2 pixels too large, and one at a strip at the right, annotated far too small and cut by it.

    A third one is predicted, half of it in the strip, and not annotated. With the strip ignored, or without both.
    """
    generator = np.random.default_rng(number)
    whole = round_case(generator.uniform([28, 15], [34, 19]), generator.uniform(8, 10), 2.0, shape=(64, 64))
    cut = round_case((14, STRIP - 2), 6.0, -4.0)
    half_seen = round_case((48, STRIP), 7.0, 0.0, softness=0.3)
    parts = (whole, cut, half_seen) if is_ignored else (whole,)
    foreground = np.max([part.probabilities[1] for part in parts], axis=0)
    annotation = whole.annotation.copy()
    if is_ignored:
        annotation |= cut.annotation
        annotation[:, STRIP:] = IGNORED_LABEL
    return PredictedCase(f"patient-{number}", annotation, np.stack([1 - foreground, foreground]))


IGNORED, ABSENT = ([case_with_strip(number, is_ignored=by) for number in range(6)] for by in (True, False))


@pytest.mark.parametrize("estimate", [estimate_offset, estimate_completeness, estimate_spurious, estimate_jitter])
def test_estimates_are_those_of_a_site_at_which_nothing_is_there(estimate):
    left = [without_objects_at_ignored(case) for case in IGNORED]
    assert estimate(left, 1, seed=3) == estimate(ABSENT, 1, seed=3)
    # What is left out would count: an object that is cut, and one that is drawn too small.
    if estimate in (estimate_offset, estimate_completeness):
        assert estimate(IGNORED, 1, seed=3) != estimate(ABSENT, 1, seed=3)


def test_the_offset_is_that_with_which_whole_objects_are_drawn():
    left = [without_objects_at_ignored(case) for case in IGNORED]
    assert estimate_offset(left, 1, seed=0).value == pytest.approx(2.0, abs=0.15)


def test_objects_that_touch_the_strip_are_ignored_in_annotation_and_prediction():
    case = IGNORED[0]
    left = without_objects_at_ignored(case)
    assert not left.annotation[:30, 30:STRIP].any() or set(np.unique(left.annotation[:30, 30:STRIP])) == {
        0,
        IGNORED_LABEL,
    }
    assert not left.predicted[:, 34:].any()
    assert np.array_equal(left.annotation == 1, ABSENT[0].annotation == 1)
    assert left.annotation.dtype == case.annotation.dtype
    assert np.array_equal(case.annotation, IGNORED[0].annotation)


def test_samples_of_classes_are_of_whole_objects():
    three = [
        PredictedCase(case.unit, case.annotation, np.concatenate([case.probabilities, 0 * case.probabilities[:1]]))
        for case in map(without_objects_at_ignored, IGNORED)
    ]
    assert len(class_samples(three).labels) == len(IGNORED)


def test_without_ignored_values_a_case_stays_the_same_object():
    keep = whole_objects(SimpleNamespace(ignore=()))
    assert all(keep(case) is case for case in (*IGNORED, *ABSENT))
    leave_out = whole_objects(SimpleNamespace(ignore=(255,)))
    assert all(leave_out(case) is case for case in ABSENT)
    assert not any(leave_out(case) is case for case in IGNORED)


def test_two_annotations_lose_what_either_cannot_see_whole():
    one, other = np.zeros((2, 12, 20), dtype=np.uint8)
    one[2:6, 2:6], other[2:7, 2:7] = 1, 1
    one[2:6, 10:14], other[2:6, 10:14], other[2:6, 15:] = 1, 1, IGNORED_LABEL
    description = SimpleNamespace(ignore=(9,))
    first, second = without_common_ignored(one, other, description)
    assert ((first == 1).sum(), (second == 1).sum()) == (16, 25)
    same = without_common_ignored(one, other, SimpleNamespace(ignore=()))
    assert same[0] is one
    assert same[1] is other


@pytest.mark.parametrize(("gap", "touches"), [(0, True), (1, True), (2, False)])
def test_an_object_within_two_pixels_may_go_on(gap, touches):
    ignored, objects = np.zeros((2, 9, 12), dtype=bool)
    ignored[:, 8:] = True
    objects[3:6, 3 : 8 - gap] = True
    result = at_ignored(ignored, objects)
    assert np.array_equal(result, objects if touches else np.zeros_like(objects))


def test_the_radius_is_that_of_whole_objects():
    mask = (np.hypot(*np.indices((64, 64)) - np.array([20, 20]).reshape(2, 1, 1)) <= 9).astype(np.uint8)
    with_cut = mask.copy()
    with_cut[36:60, STRIP - 3 :] = 1
    with_cut[:, STRIP:] = IGNORED_LABEL
    image = np.zeros((1, 64, 64))
    whole, ignoring, other = (
        mean_radius([ProfileCase("a", image, annotation, None, ignores)], 1)
        for annotation, ignores in ((mask, False), (with_cut, True), (with_cut, False))
    )
    assert ignoring == whole
    assert other != whole
