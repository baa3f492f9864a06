"""Annotations that are moved, mirrored or another image's, and problems that are seen without a model."""

import numpy as np
import pytest
from support.examined_cases import drawn, examined, measured, scores, seen, site

from fedannot.custom.audit.alignment import thumbnail_containment
from fedannot.custom.audit.examined import ExaminedCase
from fedannot.custom.audit.kinds.empty import Empty
from fedannot.custom.audit.kinds.equal_images import EqualImages
from fedannot.custom.audit.kinds.kind import CaseMasks
from fedannot.custom.audit.kinds.misaligned import Misaligned
from fedannot.custom.audit.kinds.missing_slice import MissingSlice
from fedannot.custom.audit.kinds.specks import Specks
from fedannot.custom.audit.kinds.wrong_pair import WrongPair


def test_a_shifted_annotation_is_found_and_moved_back():
    cases = site()
    right = drawn(((30, 30), 9))
    cases.append(examined(np.roll(right, (8, -5), (0, 1)), seen(((30, 30), 9)), index=12))
    result = scores(Misaligned(), cases)
    assert np.argmax(result) == 12
    assert result[12] > Misaligned.threshold > max(result[:12])
    suspicions, typical = measured(Misaligned(), cases)
    movement = suspicions[12][0].features.movement
    assert movement.steps == (-8, 5)
    suggested = Misaligned().suggestion(
        suspicions[12][0], typical, CaseMasks(cases[12].annotation, cases[12].predicted)
    )
    assert np.array_equal(suggested[0], right)


def test_confused_annotations_of_two_cases_are_wrong_pairs():
    cases = site()
    cases[3], cases[7] = cases[3].with_annotation(cases[7].annotation), cases[7].with_annotation(cases[3].annotation)
    result = np.array(scores(WrongPair(), cases))
    assert set(np.argsort(-result)[:2]) == {3, 7}
    assert result[[3, 7]].min() > WrongPair.threshold > np.delete(result, [3, 7]).max()


def test_where_the_model_sees_nothing_no_annotation_is_another_images():
    cases = site()
    cases.append(examined(drawn(((20, 40), 8)), seen(), index=12))
    cases.append(examined(drawn(((20, 40), 8)), seen(((20, 40), 8)), index=13))
    assert scores(WrongPair(), cases)[12] == 0.0


def test_an_annotation_that_is_only_too_large_is_none_of_another_image():
    cases = site()
    cases.append(examined(drawn(((32, 32), 12)), seen(((32, 32), 9)), index=12))
    # Another case's object has the size that this one is annotated with.
    cases.append(examined(drawn(((33, 33), 12)), seen(((33, 33), 12)), index=13))
    assert scores(WrongPair(), cases)[12] < WrongPair.threshold


@pytest.mark.parametrize(
    ("one", "other", "share"), [([1, 1, 0, 0], [1, 1, 1, 0], 1.0), ([1, 1, 0, 0], [0, 1, 1, 0], 0.5)]
)
def test_containment_is_the_fraction_of_the_smaller(one, other, share):
    small, large = (np.array(values, dtype=np.float32) for values in (one, other))
    assert thumbnail_containment(small, large) == thumbnail_containment(large, small) == share
    assert thumbnail_containment(small, np.zeros_like(small)) == 0.0


def test_one_image_annotated_in_two_ways_is_found_in_both_cases():
    cases = site()
    copy = examined(drawn(((10, 10), 5)), np.asarray(cases[0].probabilities[0, 1]), index=12)
    result = scores(EqualImages(), [*cases, copy])
    assert result[0] == result[12] > EqualImages.threshold
    assert max(result[1:12]) == 0.0


def test_one_image_annotated_alike_twice_is_no_problem():
    cases = site(3)
    copy = examined(cases[0].annotation[0], np.asarray(cases[0].probabilities[0, 1]), index=3)
    assert scores(EqualImages(), [*cases, copy]) == [0.0] * 4


def test_an_empty_annotation_among_others_scores_their_share():
    cases = site(19)
    empty = examined(np.zeros((64, 64), dtype=np.uint8), seen(), index=19)
    assert scores(Empty(), [*cases, empty]) == [0.0] * 19 + [pytest.approx(19 / 20)]


def test_where_half_is_empty_it_is_typical():
    empty = [examined(np.zeros((64, 64), dtype=np.uint8), seen(), index=12 + index) for index in range(12)]
    assert max(scores(Empty(), [*site(12), *empty])) < Empty.threshold


def test_a_speck_is_found_and_left_out():
    annotation = drawn(((30, 30), 14))
    annotation[5, 5] = 1
    case = examined(annotation, seen(((30, 30), 14)), index=12)
    cases = [examined(drawn(((30, 30), 14)), seen(((30, 30), 14)), index=index) for index in range(12)]
    result, typical = measured(Specks(), [*cases, case])
    suspect = [item for item in result[12] if Specks().score(item, typical) >= Specks.threshold]
    assert len(suspect) == 1
    whole = case.annotation.copy()
    suspect[0].place.of(whole)[...] = Specks().suggestion(
        suspect[0], typical, CaseMasks(case.annotation, case.predicted)
    )
    assert np.array_equal(whole[0], drawn(((30, 30), 14)))


def test_a_piece_beside_its_object_is_no_speck():
    """A thin part of an object falls into pieces on the coarser grid of a network."""
    near, far = drawn(((30, 30), 14)), drawn(((30, 30), 14))
    near[30, 47], far[30, 60] = 1, 1
    cases = [examined(mask, seen(((30, 30), 14)), index=index) for index, mask in enumerate((near, far))]
    result, _ = measured(Specks(), cases)
    assert [len(of_case) for of_case in result] == [1, 2]


def test_a_slice_left_out_is_found_and_filled():
    whole = np.zeros((9, 20, 20), dtype=np.uint8)
    whole[2:8, 5:15, 5:15] = 1
    given = whole.copy()
    given[4] = 0
    probabilities = np.stack([1 - whole, whole], axis=1).astype(np.float64)
    case = ExaminedCase(0, "volume", given, probabilities, np.zeros((9, 1, 20, 20)))
    result, typical = measured(MissingSlice(), [case])
    (one,) = [item for item in result[0] if MissingSlice().score(item, typical) >= MissingSlice.threshold]
    assert one.place.sample == 4
    one.place.of(given)[...] = MissingSlice().suggestion(one, typical, CaseMasks(case.annotation, case.predicted))
    assert np.array_equal(given, whole)


def test_a_whole_volume_has_the_same_gap():
    whole = np.zeros((20, 20, 9), dtype=np.uint8)
    whole[5:15, 5:15, 2:8] = 1
    given = whole.copy()
    given[..., 4] = 0
    probabilities = np.stack([1 - whole, whole])[None].astype(np.float64)
    case = ExaminedCase(0, "volume", given[None], probabilities, np.zeros((1, 1, 20, 20, 9)))
    result, typical = measured(MissingSlice(), [case])
    (one,) = [item for item in result[0] if MissingSlice().score(item, typical) >= MissingSlice.threshold]
    assert (one.place.start, one.place.stop) == ((5, 5, 4), (15, 15, 5))
