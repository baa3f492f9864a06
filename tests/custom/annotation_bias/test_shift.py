"""Translations and flips that were made."""

import numpy as np
import pytest
from predicted_cases import PredictedCase, case_of

from fedannot.custom.annotation_bias.shift import case_shift
from fedannot.custom.annotation_bias.site_estimates import estimate_shift


def letter(shape=(40, 40)):
    """An L, which no flip leaves as it is."""
    mask = np.zeros(shape, dtype=np.uint8)
    mask[8:28, 8:13] = mask[23:28, 8:24] = 1
    return mask


@pytest.mark.parametrize("steps", [(0, 0), (3, -2), (-4, 5)])
def test_a_translation_is_found(steps):
    result = case_shift(case_of(np.roll(letter(), steps, (0, 1)), letter()), largest=6)
    assert result.translation == steps
    assert result.flipped == ()
    assert (result.gain > 0.1) is (steps != (0, 0))


def test_a_translation_is_in_millimetres():
    case = case_of(np.roll(letter(), 2, 0), letter())
    result = case_shift(PredictedCase("patient", case.annotation, case.probabilities, (1.5, 0.5)), largest=6)
    assert result.translation == (3.0, 0.0)


def test_a_flip_is_found():
    result = case_shift(case_of(np.flip(letter(), 1), letter()), largest=12)
    assert result.flipped == (1,)
    assert result.gain > 0.2


def test_a_mask_that_looks_the_same_mirrored_is_not_flipped():
    mask = np.zeros((40, 40), dtype=np.uint8)
    mask[10:20, 12:22] = 1
    assert case_shift(case_of(mask, mask), largest=6).flipped == ()


def test_nothing_annotated_has_no_shift():
    assert case_shift(case_of(np.zeros((40, 40)), letter()), largest=6) is None


def test_a_site_has_the_median_of_its_cases():
    cases = [case_of(np.roll(letter(), step, 0), letter(), unit=str(step)) for step in (2, 2, 3, 2, 0)]
    (rows, columns), flipped = estimate_shift(cases, largest=6, seed=100)
    assert (rows.value, columns.value, flipped.value) == (2.0, 0.0, 0.0)
    assert rows.low <= 2.0 <= rows.high
