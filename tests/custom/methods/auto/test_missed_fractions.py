"""How many unannotated objects a site ignores, by hand-worked shares."""

import math
from dataclasses import dataclass

import pytest

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.methods.auto.decisions import unannotated_fractions


@dataclass(frozen=True)
class Says:
    """The part of a site's answer that counts: its completeness, class by class."""

    completeness: tuple[Estimate, ...]
    hides_patients: bool = False


def says(*values, hides_patients=False):
    known = [Estimate.unknown() if math.isnan(value) else Estimate(12, value, 0.0, 1.0) for value in values]
    return Says(tuple(known), hides_patients)


def test_as_many_as_the_site_leaves_out_itself_and_of_confirmed_classes_alone():
    """It annotates 0.21, the most complete site 0.7: missing are 1 − 0.21 / 0.7 = 0.7 of what that one has."""
    assert unannotated_fractions(says(0.21, 0.5), {1: 0.7}) == {1: pytest.approx(0.79)}
    assert unannotated_fractions(says(0.21, 0.5), {}) == {}


def test_no_less_than_what_is_confirmed():
    assert unannotated_fractions(says(0.8), {1: 0.25}) == {1: 0.25}
    assert unannotated_fractions(says(math.nan), {1: 0.5}) == {1: 0.5}


def test_a_site_that_hides_its_patients_ignores_what_is_confirmed():
    """It tells the completeness of all that the model predicts, of which false objects are a part."""
    assert unannotated_fractions(says(0.5, hides_patients=True), {1: 0.4}) == {1: 0.4}
