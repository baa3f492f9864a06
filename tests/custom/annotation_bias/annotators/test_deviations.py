"""Who deviates: against hand-made estimates, whose right answer is plain."""

import numpy as np
import pytest
from moved_cells import annotated_discs

from fedannot.custom.annotation_bias.annotators.case_annotations import CaseAnnotations
from fedannot.custom.annotation_bias.annotators.deviations import MinimumEffects, consensus_tests, prediction_tests
from fedannot.custom.annotation_bias.annotators.from_consensus import consensus_estimates
from fedannot.custom.annotation_bias.annotators.from_predictions import GroupEstimate
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.statuses import EvidenceCode, Status

MINIMUM = MinimumEffects.of_pixels(0.5, 0.1, 1.0)
OFFSET, MISSING = ParameterKey(ParameterKind.OFFSET, 1), ParameterKey(ParameterKind.MISSING, 1)


def by_consensus(biases, count=6):
    tested = consensus_tests(consensus_estimates(annotated_discs(biases, count), 1, seed=0), MINIMUM, level=0.05)
    return {name: of_name[OFFSET][1] for name, of_name in tested.items()}


def test_who_is_moved_deviates_and_the_others_do_not():
    results = by_consensus({"a": 0.0, "b": 0.0, "c": 4.0})
    assert {name: result.status for name, result in results.items()} == {
        "a": Status.NOT_SIGNIFICANT, "b": Status.NOT_SIGNIFICANT, "c": Status.CONFIRMED,
    }  # fmt: skip
    assert results["c"].effect == pytest.approx(4, abs=0.3)


def test_nobody_can_tell_which_of_two_deviates():
    results = by_consensus({"a": 0.0, "b": 4.0})
    assert {result.status for result in results.values()} == {Status.UNKNOWN}
    assert results["a"].evidence[0].code is EvidenceCode.TWO_ANNOTATORS


def test_of_two_annotators_in_each_case_who_deviates_is_told_by_pairs():
    discs = annotated_discs({"a": 0.0, "b": 0.0, "c": 4.0}, 18)
    cases = [
        CaseAnnotations(
            case.unit, *((of_case[n % 3], of_case[(n + 1) % 3]) for of_case in (case.annotators, case.masks))
        )
        for n, case in enumerate(discs)
    ]
    tested = consensus_tests(consensus_estimates(cases, 1, seed=0), MINIMUM, level=0.05)
    results = {name: of_name[OFFSET][1] for name, of_name in tested.items()}
    assert {name for name, result in results.items() if result.is_confirmed} == {"c"}
    assert results["c"].effect == pytest.approx(4, abs=0.3)
    assert all(any(item.code is EvidenceCode.PAIRS for item in result.evidence) for result in results.values())


def test_four_patients_are_too_few_however_large_the_effect():
    results = by_consensus({"a": 0.0, "b": 0.0, "c": 4.0}, count=4)
    assert {result.status for result in results.values()} == {Status.UNKNOWN}
    assert results["c"].evidence[0].numbers == {"patients": 4.0, "needed": 5.0}


def offset(value, patients=12, auroc=0.9):
    return {OFFSET: GroupEstimate(Estimate(patients, value, value - 0.2, value + 0.2, 1.0, auroc))}


def test_the_bias_of_the_model_is_nobodys():
    estimates = {"a": offset(5.0), "b": offset(5.1), "c": offset(8.0)}
    tested = prediction_tests(estimates, MINIMUM, level=0.05)
    assert [tested[name][OFFSET][1].status for name in "abc"] == [
        Status.NOT_SIGNIFICANT, Status.NOT_SIGNIFICANT, Status.CONFIRMED,
    ]  # fmt: skip
    assert tested["c"][OFFSET][1].effect == pytest.approx(2.9)


def test_a_third_annotator_of_few_patients_does_not_decide_between_two():
    tested = prediction_tests({"a": offset(0.0), "b": offset(3.0), "c": offset(3.0, 4)}, MINIMUM, level=0.05)
    codes = {name: tested[name][OFFSET][1].evidence[0].code for name in "abc"}
    assert codes == {"a": EvidenceCode.TWO_ANNOTATORS, "b": EvidenceCode.TWO_ANNOTATORS, "c": EvidenceCode.FEW_PATIENTS}


def test_missed_fractions_need_injected_errors_that_are_distinguished():
    def missed(value, auroc):
        return {MISSING: GroupEstimate(Estimate(12, value, value - 0.05, value + 0.05, 1.0, auroc))}

    for auroc, status in ((0.9, Status.CONFIRMED), (0.6, Status.UNKNOWN), (np.nan, Status.UNKNOWN)):
        estimates = {"a": missed(0.1, auroc), "b": missed(0.1, auroc), "c": missed(0.5, auroc)}
        assert prediction_tests(estimates, MINIMUM, level=0.05)["c"][MISSING][1].status is status
