"""FedA³I's report of a site: the difficulties of its annotations, held back over too few patients."""

import math

import numpy as np
import pytest
from support.pictures import SIX, Threshold, as_slices, make_data, settings

from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.feda3i import OUTBOUND_FIELDS
from fedannot.custom.methods.feda3i.learning_difficulty import site_difficulty
from fedannot.custom.methods.feda3i.quality_report import quality_report
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import ESTIMATE_QUALITY

REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)


def test_quality_report_is_the_site_difficulty():
    data = make_data([(1, 2), (1, 2), (1, 2), (1,), ()])
    network = Threshold(2)
    report = quality_report(network, data, settings(2)).fields
    difficulty = site_difficulty(network, data.cases, 2, Inference(8))
    assert report["num_samples"] == 5
    assert report["num_annotated"] == 4
    assert report["num_estimated"] == [4, 3]
    assert report["inner_difficulty"] == pytest.approx(difficulty.inner.tolist())
    assert report["outer_difficulty"] == pytest.approx(difficulty.outer.tolist())
    assert report["predicted_share"] == difficulty.predicted_share == 1.0
    assert set(map(type, [*report["num_estimated"], report["num_annotated"]])) == {int}
    REGISTRY.check(ESTIMATE_QUALITY, report)


def test_difficulty_of_a_class_with_few_samples_stays_at_the_site():
    report = quality_report(Threshold(2), make_data([(1, 2), (1, 2), (1,), (1,)]), settings(2)).fields
    assert report["num_estimated"] == [4, 2]
    for part in ("inner_difficulty", "outer_difficulty"):
        assert math.isfinite(report[part][0])
        assert math.isnan(report[part][1])
    REGISTRY.check(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize("cases", [1, 2])
def test_quality_of_a_small_site_stays_at_the_site(cases):
    report = quality_report(Threshold(1), make_data([(1,)] * cases), settings(1)).fields
    assert "predicted_share" not in report
    assert all(map(math.isnan, report["inner_difficulty"] + report["outer_difficulty"]))
    REGISTRY.check(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize(("annotated", "outbound_fields"), [(2, False), (3, True)])
def test_share_over_few_annotated_cases_stays_at_the_site(annotated, outbound_fields):
    report = quality_report(Threshold(1), make_data([(1,)] * annotated + [()] * 5), settings(1)).fields
    assert (report["num_samples"], report["num_annotated"]) == (annotated + 5, annotated)
    assert ("predicted_share" in report) is outbound_fields
    REGISTRY.check(ESTIMATE_QUALITY, report)


def test_cases_are_annotated_by_any_class():
    report = quality_report(Threshold(2), make_data([(1,), (2,), (1, 2), ()]), settings(2)).fields
    assert report["num_annotated"] == 3
    assert report["num_estimated"] == [2, 2]
    assert report["predicted_share"] == 1.0
    REGISTRY.check(ESTIMATE_QUALITY, report)


def test_site_without_annotated_foreground_has_no_estimate():
    report = quality_report(Threshold(1), make_data([()] * 4), settings(1)).fields
    assert report["num_annotated"] == 0
    assert "predicted_share" not in report
    assert report["num_estimated"] == [0]
    assert math.isnan(report["inner_difficulty"][0])
    REGISTRY.check(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize("data", [as_slices(make_data(SIX), 3), make_data(SIX, units=["a", "b", "a", "b", "a", "a"])])
def test_slices_of_few_volumes_or_pictures_of_few_patients_are_not_many_people(data):
    report = quality_report(Threshold(2), data, settings(2)).fields
    assert (report["num_samples"], report["num_annotated"], report["num_estimated"]) == (6, 2, [2, 2])
    assert "predicted_share" not in report
    assert all(map(math.isnan, report["inner_difficulty"] + report["outer_difficulty"]))
    REGISTRY.check(ESTIMATE_QUALITY, report)


def test_slices_of_enough_volumes_are_estimated_by_slice():
    report = quality_report(Threshold(2), as_slices(make_data(SIX), 2), settings(2)).fields
    same = quality_report(Threshold(2), make_data(SIX), settings(2)).fields
    assert report == same | {"num_annotated": 3, "num_estimated": [3, 3]}
    REGISTRY.check(ESTIMATE_QUALITY, report)


def test_the_means_are_over_the_samples_that_stay_at_the_site():
    """Noise that hides a patient is made from them: they give the same means, and NaN does not count."""
    data = make_data([(1, 2), (1, 2), (1, 2), (1,), ()])
    answer = quality_report(Threshold(2), data, settings(2))
    assert set(answer.samples) == {"inner_difficulty", "outer_difficulty", "predicted_share"}
    for name, samples in answer.samples.items():
        assert samples.is_mean
        assert np.nanmean(samples.values, axis=0) == pytest.approx(np.atleast_1d(answer.fields[name]))
    counted = (~np.isnan(answer.samples["inner_difficulty"].values)).sum(axis=0)
    assert counted.tolist() == answer.fields["num_estimated"]
