"""FedIA's report of a site: how many lesions it has annotated, and how many a model finds there."""

from dataclasses import replace
from typing import Any

import torch
from support.pictures import SIX, Threshold, as_slices, make_data

from fedannot.custom.methods.fedia import OUTBOUND_FIELDS
from fedannot.custom.methods.fedia.completeness_report import completeness_report
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import ESTIMATE_COMPLETENESS

REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)


def settings(num_classes: int, **values: Any) -> FedIASettings:
    return FedIASettings.model_validate({"rounds": 20, "network": {"num_classes": num_classes}} | values)


def test_numbers_of_lesions_are_sums_over_the_site():
    data = make_data([(1,), (1, 2), (2,), ()])
    # Predicted without a fault, but for the last case, where an object appears.
    images = [case.label[:, None].float() for case in data.cases]
    images[3][..., 2:4, 2:4] = 1.0
    data = replace(data, cases=tuple(replace(c, image=image) for c, image in zip(data.cases, images, strict=True)))
    report = completeness_report(Threshold(2), data, settings(2), seed=0).fields
    assert report == {
        "num_samples": 4,
        "num_patients": 4,
        "num_annotated_lesions": 4,
        "num_predicted_lesions": 5,
        "num_matched_lesions": 4,
    }
    REGISTRY.check(ESTIMATE_COMPLETENESS, report)


def test_numbers_of_lesions_of_few_patients_stay_at_the_site():
    report = completeness_report(Threshold(2), as_slices(make_data(SIX), 3), settings(2), seed=0).fields
    assert report == {"num_samples": 6}
    REGISTRY.check(ESTIMATE_COMPLETENESS, report)


def test_the_sums_are_over_the_cases_that_stay_at_the_site():
    answer = completeness_report(Threshold(2), make_data([(1,), (1, 2), (2,), ()]), settings(2), seed=0)
    assert set(answer.samples) == {"num_annotated_lesions", "num_predicted_lesions", "num_matched_lesions"}
    for name, samples in answer.samples.items():
        assert not samples.is_mean
        assert samples.values.sum() == answer.fields[name]
    assert answer.samples["num_annotated_lesions"].values[:, 0].tolist() == [1, 2, 1, 0]


def test_where_completeness_is_confirmed_the_report_says_how_sure_it_is():
    data = make_data([(1,), (1, 2), (2,), ()])
    images = [case.label[:, None].float() for case in data.cases]
    images[3][..., 8:12, 2:6] = 1.0
    data = replace(data, cases=tuple(replace(c, image=image) for c, image in zip(data.cases, images, strict=True)))
    own = settings(2, weighting="established", estimator="sure", trigger="estimate")
    answer = completeness_report(Threshold(2), data, own, seed=0)
    REGISTRY.check(ESTIMATE_COMPLETENESS, answer.fields)
    # Four lesions are annotated, a fifth is as sure as those of the first class, which counts 4/3: 4 / (4 + 4/3).
    assert answer.fields["completeness"] == 0.75
    assert 0 < answer.fields["completeness_low"] < 0.75
    assert answer.fields["completeness_high"] == 1.0
    assert (answer.fields["lesion_recall"], answer.fields["lesion_precision"]) == (1.0, 1.0)
    # No noise hides it: a site whose statistics are private does not send it.
    assert set(answer.samples) == {"num_annotated_lesions", "num_predicted_lesions", "num_matched_lesions"}
    counted = completeness_report(Threshold(2), data, settings(2), seed=0).fields
    assert {name: value for name, value in answer.fields.items() if name in counted} == counted


def test_a_model_that_finds_nothing_says_nothing_of_completeness():
    data = make_data([(1,)] * 4)
    data = replace(data, cases=tuple(replace(case, image=torch.zeros_like(case.image)) for case in data.cases))
    own = settings(2, weighting="established", estimator="sure")
    fields = completeness_report(Threshold(2), data, own, seed=0).fields
    assert fields["num_predicted_lesions"] == 0
    assert "completeness" not in fields
    REGISTRY.check(ESTIMATE_COMPLETENESS, fields)
