"""Thin parts left out and gaps filled, on masks drawn by hand."""

import numpy as np
import pytest
from predicted_cases import case_of

from fedannot.custom.annotation_bias.protocol import binned_offset
from fedannot.custom.annotation_bias.site_estimates import estimate_protocol


def fork():
    """A block with an arm of three pixels and a slit of three pixels."""
    mask = np.zeros((60, 80), dtype=np.uint8)
    mask[10:50, 10:45] = 1
    mask[20:23, 45:70] = 1
    mask[34:37, 25:45] = 0
    return mask


def test_the_same_mask_has_no_offset_anywhere():
    result = binned_offset(case_of(fork(), fork(), 0.99), 1, width=6)
    assert result.thin == pytest.approx(0, abs=0.15)
    assert result.gap == pytest.approx(0, abs=0.15)
    assert result.plain == pytest.approx(0, abs=0.1)


def test_an_arm_that_is_left_out_shows_in_the_thin_parts():
    opened = fork()
    opened[:, 45:] = 0
    result = binned_offset(case_of(opened, fork(), 0.99), 1, width=6)
    assert result.thin < -5
    assert abs(result.plain) < 0.5
    assert abs(result.gap) < 0.5


def test_a_slit_that_is_filled_shows_in_the_gaps():
    closed = fork()
    closed[34:37, 25:45] = 1
    result = binned_offset(case_of(closed, fork(), 0.99), 1, width=6)
    assert result.gap > 1
    assert abs(result.plain) < 0.5
    assert abs(result.thin) < 0.2


def test_a_site_without_gaps_has_no_estimate_of_them():
    mask = np.zeros((60, 60), dtype=np.uint8)
    mask[10:50, 10:50] = 1
    result = estimate_protocol([case_of(mask, mask, 0.99)], 1, width=6, seed=100)
    assert not result["gap"].is_known
    assert result["plain"].value == pytest.approx(0, abs=0.05)
