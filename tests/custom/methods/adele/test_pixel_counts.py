"""What a site counts of its overlap with predictions, what it holds back, and the IoU of all sites."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_records import in_words
from support.pictures import Threshold, make_data

from fedannot.custom.data.site_data import SiteData
from fedannot.custom.methods.adele import METHOD
from fedannot.custom.methods.adele.outbound import ANNOTATED, ANNOTATED_PATIENTS, PREDICTED, TRUE_POSITIVE
from fedannot.custom.methods.adele.overlap import Overlap, overlap_report, overlaps_of, pooled_iou
from fedannot.custom.methods.adele.settings import AdeleSettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import MEASURE_OVERLAP

SETTINGS = AdeleSettings.model_validate({"network": {"num_classes": 2}, "training": {"batch_size": 4}})
REGISTRY = OutboundRegistry(METHOD.outbound_fields)


def shown(data: SiteData, *classes: int) -> SiteData:
    """Images in which the network reads some classes of the annotation alone."""
    images = [torch.where(torch.isin(case.label, torch.tensor(classes)), case.label, 0) for case in data.cases]
    return replace(
        data, cases=tuple(replace(c, image=i[:, None].float()) for c, i in zip(data.cases, images, strict=True))
    )


def test_a_site_counts_pixels_over_all_cases_without_ignored_ones() -> None:
    data = shown(make_data([(1, 2)] * 4, units=["a", "a", "b", "c"]), 1)
    data.cases[0].label[0, :, 0] = 255
    answer = overlap_report(Threshold(2), data, SETTINGS)
    squares = 4 * 4 * 5
    assert answer.fields == {
        "num_samples": 4,
        ANNOTATED_PATIENTS: [3, 3],
        TRUE_POSITIVE: [squares, 0],
        PREDICTED: [squares, 0],
        ANNOTATED: [squares, squares],
    }
    REGISTRY.check(MEASURE_OVERLAP, answer.fields)
    assert overlaps_of(answer.fields) == [Overlap(squares, squares, squares), Overlap(0, 0, squares)]


def test_small_numbers_stay_at_the_site() -> None:
    """Class 2 is annotated in two patients; class 1 is found in two, so that nothing predicted of it is sent."""
    data = shown(make_data([(1, 2), (1, 2), (1,), (1,)]), 1, 2)
    hidden = [replace(case, image=torch.zeros_like(case.image)) for case in data.cases[2:]]
    answer = overlap_report(Threshold(2), replace(data, cases=(*data.cases[:2], *hidden)), SETTINGS)
    assert answer.fields == {
        "num_samples": 4,
        ANNOTATED_PATIENTS: [4, 0],
        TRUE_POSITIVE: [0, 0],
        PREDICTED: [0, 0],
        ANNOTATED: [80, 0],
    }
    two = overlap_report(Threshold(2), make_data([(1, 2)] * 4, units=["a", "a", "b", "b"]), SETTINGS)
    assert two.fields == {"num_samples": 4}
    assert overlaps_of(two.fields) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({TRUE_POSITIVE: [21, 0]}, "its 'true_positive_pixels' is 21, expected 0 to predicted_pixels = 20"),
        ({TRUE_POSITIVE: [0, 31], PREDICTED: [0, 99]}, "is 31, expected 0 to annotated_pixels = 30"),
        ({ANNOTATED_PATIENTS: [31, 3]}, "its 'num_annotated_patients' is 31, expected 0 to annotated_pixels = 30"),
        ({PREDICTED: [2**51, 0]}, "its 'predicted_pixels' is [2251799813685248, 0], expected 0.0 to"),
        ({PREDICTED: [10**400, 0]}, "expected a list of counts"),
        ({PREDICTED: [-1, 0]}, "its 'predicted_pixels' is list, expected a list of counts"),
        ({PREDICTED: [1]}, "its 'predicted_pixels' has 1 entries, expected 2"),
        ({ANNOTATED: math.nan}, "its 'annotated_pixels' is float, expected a list of counts"),
        ({}, None),
    ],
)
def test_a_site_with_impossible_counts_is_refused(changes: dict[str, object], reason: str | None) -> None:
    honest = {TRUE_POSITIVE: [10, 0], PREDICTED: [20, 0], ANNOTATED: [30, 30], ANNOTATED_PATIENTS: [3, 3]}
    refused = REGISTRY.refusal(MEASURE_OVERLAP, {"num_samples": 4} | honest | changes, 2)
    assert (refused is None) is (reason is None)
    assert reason is None or reason in str(in_words(refused))


def test_the_iou_is_that_of_all_sites_and_no_site_counts_more_than_three_times_the_middle_one() -> None:
    sites = [Overlap(10, 20, 30), Overlap(5, 5, 45), Overlap(30, 40, 50)]
    assert pooled_iou(sites) == pytest.approx((10 + 5 + 30) / (40 + 45 + 60))
    assert math.isnan(pooled_iou([Overlap(0, 0, 0), Overlap(0, 9, 0)]))
    liar = Overlap(2**50, 2**50, 2**50)
    # The lower middle one of 40, 45, 60 and 2⁵⁰ is 45; beside a site of 40 the liar is not the middle one.
    assert pooled_iou([*sites, liar]) == pytest.approx((45 + 135) / (145 + 135))
    assert pooled_iou([sites[0], liar]) == pytest.approx((10 + 120) / (40 + 120))
    assert pooled_iou([*reversed(sites)]) == pytest.approx(pooled_iou(sites))
    rng = np.random.default_rng(0)
    for _ in range(20):
        tp, more, fewer = rng.integers(0, 50, 3)
        assert 0 <= pooled_iou([*sites, Overlap(int(tp), int(tp + more), int(tp + fewer) + 1)]) <= 1
