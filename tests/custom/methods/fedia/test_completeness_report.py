"""FedIA's report of a site: how many lesions it has annotated, and how many a model finds there."""

from dataclasses import replace

from support.pictures import SIX, Threshold, as_slices, make_data, settings

from fedannot.custom.methods.fedia import LEAVES
from fedannot.custom.methods.fedia.completeness_report import completeness_report
from fedannot.custom.methods.fedia.outbound import ESTIMATE_COMPLETENESS
from fedannot.custom.outbound.registry import OutboundRegistry

REGISTRY = OutboundRegistry(LEAVES)


def test_numbers_of_lesions_are_sums_over_the_site():
    data = make_data([(1,), (1, 2), (2,), ()])
    # Predicted without a fault, but for the last case, where an object appears.
    images = [case.label[:, None].float() for case in data.cases]
    images[3][..., 2:4, 2:4] = 1.0
    data = replace(data, cases=tuple(replace(c, image=image) for c, image in zip(data.cases, images, strict=True)))
    report = completeness_report(Threshold(2), data, settings(2)).fields
    assert report == {
        "num_samples": 4,
        "num_patients": 4,
        "num_annotated_lesions": 4,
        "num_predicted_lesions": 5,
        "num_matched_lesions": 4,
    }
    REGISTRY.check(ESTIMATE_COMPLETENESS, report)


def test_numbers_of_lesions_of_few_patients_stay_at_the_site():
    report = completeness_report(Threshold(2), as_slices(make_data(SIX), 3), settings(2)).fields
    assert report == {"num_samples": 6}
    REGISTRY.check(ESTIMATE_COMPLETENESS, report)


def test_the_sums_are_over_the_cases_that_stay_at_the_site():
    answer = completeness_report(Threshold(2), make_data([(1,), (1, 2), (2,), ()]), settings(2))
    assert set(answer.samples) == {"num_annotated_lesions", "num_predicted_lesions", "num_matched_lesions"}
    for name, samples in answer.samples.items():
        assert not samples.is_mean
        assert samples.values.sum() == answer.fields[name]
    assert answer.samples["num_annotated_lesions"].values[:, 0].tolist() == [1, 2, 1, 0]
