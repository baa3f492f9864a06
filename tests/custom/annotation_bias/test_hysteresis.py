"""When a later estimate contradicts what was confirmed, and which size stays where it does not: by hand."""

import math

import pytest

from fedannot.custom.annotation_bias.hysteresis import contradicts, standing
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status, TestResult

# Half of the 90 % interval of this is 0.5.
ERROR = 0.5 / 1.6449
THRESHOLDS = (Evidence(EvidenceCode.THRESHOLDS, {"level": 0.05, "minimum_effect": 2.0}),)


def result(effect, status=Status.SMALL, error=ERROR):
    return TestResult(effect, error, 0.01, status, THRESHOLDS)


@pytest.mark.parametrize(
    ("effect", "confirmed", "contradicted"),
    [
        (1.6, 2.4, False),  # 1.1 to 2.1, the minimum effect is 2
        (1.4, 2.4, True),  # 0.9 to 1.9
        (-3.0, 2.4, True),  # the other sign
        (-1.6, -2.4, False),
        (-1.4, -2.4, True),
        (3.0, -2.4, True),
    ],
)
def test_an_interval_wholly_below_the_minimum_effect_contradicts(effect, confirmed, contradicted):
    assert contradicts(result(effect), confirmed, 2.0) == contradicted
    assert standing(result(effect), confirmed, 2.0).is_confirmed != contradicted


@pytest.mark.parametrize("effect", [0.0, -9.0, math.nan])
def test_what_cannot_be_tested_contradicts_nothing_and_the_size_stays(effect):
    doubt = (Evidence(EvidenceCode.AUROC_LOW, {"auroc": 0.68}),)
    unknown = TestResult(effect, ERROR, math.nan, Status.UNKNOWN, doubt)
    stays = standing(unknown, 2.4, 2.0, standard_error=0.1, p_value=0.002)
    evidence = (*doubt, Evidence(EvidenceCode.EARLIER_AGREES, {"effect": 2.4}))
    assert stays == TestResult(2.4, 0.1, 0.002, Status.CONFIRMED, evidence)


@pytest.mark.parametrize(
    ("effect", "confirmed", "size"),
    [(1.9, 2.2, 2.2), (1.9, 6.0, 2.4), (-1.9, -6.0, -2.4), (3.0, 2.2, 2.5)],
)
def test_the_size_that_stays_is_the_confirmed_one_or_the_nearer_end_of_the_interval(effect, confirmed, size):
    stays = standing(result(effect, Status.NOT_SIGNIFICANT), confirmed, 2.0)
    assert stays.effect == pytest.approx(size)
    assert (stays.standard_error, stays.p_value) == (ERROR, 0.01)
    assert stays.evidence[-1] == Evidence(EvidenceCode.EARLIER_AGREES, {"effect": stays.effect})


def test_what_is_confirmed_again_has_its_new_size_and_what_never_was_does_not_stay():
    again = result(3.0, Status.CONFIRMED)
    assert standing(again, 6.0, 2.0) is again
    assert standing(result(1.9), math.nan, 2.0).status is Status.SMALL
