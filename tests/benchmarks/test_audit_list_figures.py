"""The figures of the audit's list by hand, and the errors that only this benchmark has."""

import numpy as np
import pytest
from audit_list import SiteLists, figures
from erroneous_federations import Flipped, HalfAVolume, Shifted

from fedannot.custom.audit.injected_errors import Chance


def chance(seed=0):
    return Chance(np.random.default_rng(seed), 1)


def test_recall_and_cases_until_most_are_found_by_hand():
    # Site 1: errors are third, fifth and eleventh in the list; site 2: the second of two cases.
    errors = ["", "", "boundary", "", "missing", *[""] * 5, "missing", *[""] * 9]
    sites = [
        SiteLists(tuple(errors), {"list": range(20), "random": range(19, -1, -1)}, frozenset({0, 2})),
        SiteLists(("", "boundary"), {"list": (0, 1), "random": (1, 0)}, frozenset()),
    ]
    result = figures(sites, ("boundary", "missing"))
    assert (result["cases"], result["errors"]) == (22, {"boundary": 2, "missing": 2, "all": 4})
    # Of 18 correct cases one has a finding; case 2, with an error, is none of them.
    assert result["accused"] == pytest.approx(1 / 18)
    recall = result["lists"]["list"]["recall"]
    assert recall == {
        "boundary": {"10": 1.0, "20": 1.0},
        "missing": {"10": 0.5, "20": 1.0},
        "all": {"10": 0.75, "20": 1.0},
    }
    # 80 % of four are all four: the last is eleventh; backwards 20 - 3 + 1 = 18th.
    assert {name: one["needed"] for name, one in result["lists"].items()} == {"list": 11, "random": 18}


def test_half_a_volume_is_gone_from_its_middle_slice_on():
    volume = np.zeros((4, 4, 8), dtype=np.uint8)
    volume[1:3, 1:3, 2:6] = 1
    changed = HalfAVolume()(volume, chance())
    np.testing.assert_array_equal(changed.any(axis=(0, 1)), [0, 0, 1, 1, 0, 0, 0, 0])
    assert HalfAVolume()(volume[..., 3], chance()) is None


def test_shifted_is_never_mirrored_and_flipped_never_shifted():
    image = np.zeros((40, 40), dtype=np.uint8)
    image[4:12, 20:34] = 1
    for seed in range(8):
        assert Shifted().make_params(image, chance(seed)).flipped == ()
        movement = Flipped().make_params(image, chance(seed))
        assert movement.steps == (0, 0)
        assert movement.flipped
    symmetrical = np.zeros((40, 40), dtype=np.uint8)
    symmetrical[10:30, 10:30] = 1
    assert Flipped().make_params(symmetrical, chance()) is None
