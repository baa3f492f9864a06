"""Matching of objects, worked by hand."""

import numpy as np
import pytest

from fedannot.custom.annotation_bias.objects import match_objects


def strip(*spans):
    mask = np.zeros((1, 40), dtype=bool)
    for first, last in spans:
        mask[0, first:last] = True
    return mask


def test_the_largest_overlap_matches_first():
    # The first predicted object overlaps the annotated one by 4 of 12, the second by 5 of 9.
    matched = match_objects(strip((4, 14)), strip((0, 8), (9, 14)))
    assert matched.pairs == ((1, 2),)
    assert matched.unmatched_predicted == (1,)
    assert matched.unmatched_annotated == ()


def test_one_object_matches_one():
    matched = match_objects(strip((0, 5), (6, 10)), strip((0, 10)))
    assert matched.pairs == ((1, 1),)
    assert matched.unmatched_annotated == (2,)


@pytest.mark.parametrize(("last", "matches"), [(10, True), (11, False)])
def test_less_than_a_tenth_is_no_match(last, matches):
    # Of one pixel the intersection is 1, the union as long as the other one.
    result = match_objects(strip((0, 1)), strip((0, last)))
    assert (result.pairs == ((1, 1),)) is matches


def test_empty_masks_match_nothing():
    matched = match_objects(strip(), strip((3, 5)))
    assert (matched.pairs, matched.num_annotated, matched.unmatched_predicted) == ((), 0, (1,))
