"""How many unannotated objects each site ignores, where some site leaves objects out: by hand-worked shares."""

import math
from dataclasses import dataclass

import pytest

from fedannot.custom.channel.estimate import Estimate
from fedannot.custom.methods.auto.unannotated import unannotated_shares


@dataclass(frozen=True)
class Says:
    """The part of a site's answer that counts: its completeness, class by class."""

    completeness: tuple[Estimate, ...]
    hides_patients: bool = False


def says(*values, hides_patients=False):
    known = [Estimate.unknown() if math.isnan(value) else Estimate(12, value, 0.0, 1.0) for value in values]
    return Says(tuple(known), hides_patients)


ANSWERS = {"a": says(0.7, 0.5), "b": says(0.21, 0.9), "c": says(0.95, 0.4)}


def test_nobody_ignores_anything_where_nothing_is_established():
    assert unannotated_shares(ANSWERS, {"a": {}, "b": {}, "c": {}}, floor=0.1) == {}
    assert unannotated_shares(ANSWERS, {}, floor=0.1) == {}


def test_each_site_ignores_what_it_leaves_out_itself_in_that_class_alone():
    """Site b leaves out 1 − 0.21 / 0.7 of what the most complete site has, and 1 − 0.21 of all."""
    found = unannotated_shares(ANSWERS, {"a": {}, "b": {1: 0.7}, "c": {}}, floor=0.1)
    assert found == {"a": {1: pytest.approx(0.3)}, "b": {1: pytest.approx(0.79)}}


def test_what_is_established_counts_where_the_site_itself_says_less_or_nothing():
    answers = {"a": says(0.8), "b": says(float("nan")), "c": says(float("nan"))}
    found = unannotated_shares(answers, {"a": {1: 0.25}, "b": {1: 0.5}, "c": {}}, floor=0.1)
    assert found == {"a": {1: 0.25}, "b": {1: 0.5}}


def test_a_site_that_hides_its_patients_ignores_what_is_established_of_it():
    """It tells the completeness of all that the model predicts, of which false objects are a part."""
    answers = {"a": says(0.5, hides_patients=True), "b": says(0.5, hides_patients=True)}
    assert unannotated_shares(answers, {"a": {}, "b": {1: 0.4}}, floor=0.1) == {"b": {1: 0.4}}


def test_what_is_established_of_a_site_that_is_no_measure_for_others_counts_as_it_is():
    assert unannotated_shares({"a": says(1.0)}, {"a": {}, "z": {1: 0.4}}, floor=0.1) == {"z": {1: 0.4}}
