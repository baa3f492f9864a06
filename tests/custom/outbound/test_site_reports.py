"""Site reports: what they hold may leave, and means over too few cases are held back."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.data.datalist import ExcludedCase
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.evaluation import segmentation_scores as evaluation
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.feda3i.learning_difficulty import site_difficulty
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.outbound.registry import (
    ESTIMATE_COMPLETENESS,
    ESTIMATE_QUALITY,
    TRAIN,
    VALIDATE,
    check_outbound,
)
from fedannot.custom.outbound.reports import (
    completeness_report,
    quality_report,
    training_report,
    validation_report,
)
from fedannot.custom.settings import NetworkSettings, TrainingSettings
from fedannot.custom.training.local_training import TrainingOutcome

SIDE = 16
OUTCOME = TrainingOutcome(0.5, 3)


class Threshold(nn.Module):
    """Logits by the distance of the intensity from the class number; independent of the other samples."""

    def __init__(self, num_classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.num_classes = num_classes

    def forward(self, images):
        return -self.scale * (images - torch.arange(self.num_classes + 1).view(1, -1, 1, 1)) ** 2


def settings(num_classes, **training):
    return FedAvgSettings(network=NetworkSettings(num_classes=num_classes), training=TrainingSettings(**training))


def make_data(classes_of_case, seed=0, excluded=(), units=None):
    """Pictures with a square for each of their classes, and images that are the label with noise."""
    generator = np.random.default_rng(seed)
    cases = []
    for number, classes in enumerate(classes_of_case):
        label = torch.zeros(1, SIDE, SIDE, dtype=torch.uint8)
        for index in classes:
            top = 1 + 5 * (index - 1)
            left = int(generator.integers(1, 9))
            label[:, top : top + 4, left : left + 5] = index
        noise = torch.from_numpy(0.3 * generator.normal(size=(1, 1, SIDE, SIDE)).astype(np.float32))
        unit = str(number) if units is None else units[number]
        cases.append(LoadedCase(f"{number}.png", unit, label[:, None].float() + noise, label, None, None))
    description = ImageDescription(channels=1, size=(SIDE, SIDE), classes=("a", "b"), labels={0: 0, 1: 1, 2: 2})
    return SiteData("site-1", tuple(cases), description, tuple(ExcludedCase(name, "broken") for name in excluded))


def as_slices(data, slices_per_volume):
    """The same samples as slices of volumes, a volume being a patient."""
    volumes = []
    for start in range(0, len(data.cases), slices_per_volume):
        parts = data.cases[start : start + slices_per_volume]
        image, label = torch.cat([case.image for case in parts]), torch.cat([case.label for case in parts])
        volumes.append(LoadedCase(f"{start}.nii", str(start), image, label, None, (1.0, 1.0), slice_spacing=2.0))
    return replace(data, cases=tuple(volumes))


@pytest.mark.parametrize("embedded", [True, False])
def test_training_report_holds_counts_and_the_mean_loss(embedded):
    data = make_data([(1,)] * 3, excluded=["a.png", "b.png"])
    report = training_report(data, OUTCOME, embedded=embedded)
    counts = {"num_samples": 3, "num_excluded": 2, "num_patients": 3, "num_threads": torch.get_num_threads()}
    assert report == counts | {"embedded_data": embedded, "train_loss": 0.5}
    check_outbound(TRAIN, report)


def test_mean_loss_of_few_cases_stays_at_the_site():
    report = training_report(make_data([(1,)] * 2), TrainingOutcome(0.5, 3, 0.25), embedded=False)
    assert set(report) == {"num_samples", "num_excluded", "embedded_data", "num_threads"}
    check_outbound(TRAIN, report)


@pytest.mark.parametrize(
    ("units", "samples", "loss", "expected"),
    [
        ("abc", {0, 1, 2}, 0.25, {"dice_loss": 0.25, "num_dice_patients": 3}),
        # Two of four patients stand behind the mean: those annotated, or those whose patches have an object.
        ("abcd", {0, 1}, 0.25, {}),
        ("aaab", {0, 1, 2, 3}, 0.25, {}),
        ("aabc", {1, 2, 3}, 0.25, {"dice_loss": 0.25, "num_dice_patients": 3}),
        # Rounding leads out of the range.
        ("abc", {0, 1, 2}, 1 + 1e-7, {"dice_loss": 1.0, "num_dice_patients": 3}),
        ("abc", {0, 1, 2}, -1e-7, {"dice_loss": 0.0, "num_dice_patients": 3}),
    ],
)
def test_the_dice_loss_leaves_with_enough_patients_behind_it(units, samples, loss, expected):
    outcome = TrainingOutcome(0.5, 3, loss, frozenset(samples))
    report = training_report(make_data([(1,)] * len(units), units=list(units)), outcome, embedded=False)
    assert {name: value for name, value in report.items() if "dice" in name} == expected
    check_outbound(TRAIN, report)


@pytest.mark.parametrize("cases", [1, 4])
def test_a_site_without_annotation_has_no_dice_loss_and_says_so(cases):
    report = training_report(make_data([()] * cases), TrainingOutcome(0.5, 3, math.nan), embedded=False)
    assert math.isnan(report["dice_loss"])
    assert report["num_dice_patients"] == 0
    check_outbound(TRAIN, report)


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
    check_outbound(ESTIMATE_COMPLETENESS, report)


def test_numbers_of_lesions_of_few_patients_stay_at_the_site():
    report = completeness_report(Threshold(2), as_slices(make_data(SIX), 3), settings(2)).fields
    assert report == {"num_samples": 6}
    check_outbound(ESTIMATE_COMPLETENESS, report)


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
    check_outbound(ESTIMATE_QUALITY, report)


def test_difficulty_of_a_class_with_few_samples_stays_at_the_site():
    report = quality_report(Threshold(2), make_data([(1, 2), (1, 2), (1,), (1,)]), settings(2)).fields
    assert report["num_estimated"] == [4, 2]
    for part in ("inner_difficulty", "outer_difficulty"):
        assert math.isfinite(report[part][0])
        assert math.isnan(report[part][1])
    check_outbound(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize("cases", [1, 2])
def test_quality_of_a_small_site_stays_at_the_site(cases):
    report = quality_report(Threshold(1), make_data([(1,)] * cases), settings(1)).fields
    assert "predicted_share" not in report
    assert all(map(math.isnan, report["inner_difficulty"] + report["outer_difficulty"]))
    check_outbound(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize(("annotated", "leaves"), [(2, False), (3, True)])
def test_share_over_few_annotated_cases_stays_at_the_site(annotated, leaves):
    report = quality_report(Threshold(1), make_data([(1,)] * annotated + [()] * 5), settings(1)).fields
    assert (report["num_samples"], report["num_annotated"]) == (annotated + 5, annotated)
    assert ("predicted_share" in report) is leaves
    check_outbound(ESTIMATE_QUALITY, report)


def test_cases_are_annotated_by_any_class():
    report = quality_report(Threshold(2), make_data([(1,), (2,), (1, 2), ()]), settings(2)).fields
    assert report["num_annotated"] == 3
    assert report["num_estimated"] == [2, 2]
    assert report["predicted_share"] == 1.0
    check_outbound(ESTIMATE_QUALITY, report)


def test_site_without_annotated_foreground_has_no_estimate():
    report = quality_report(Threshold(1), make_data([()] * 4), settings(1)).fields
    assert report["num_annotated"] == 0
    assert "predicted_share" not in report
    assert report["num_estimated"] == [0]
    assert math.isnan(report["inner_difficulty"][0])
    check_outbound(ESTIMATE_QUALITY, report)


def test_a_loss_that_is_not_finite_is_undefined():
    report = training_report(make_data([(1,)] * 3), TrainingOutcome(math.inf, 3), embedded=False)
    assert math.isnan(report["train_loss"])
    check_outbound(TRAIN, report)


def test_dice_of_a_class_that_few_patients_have_stays_at_the_site():
    """Class 2 is in the pictures of two of 24 patients; that it is found in none of the others' may be known."""
    data = make_data([(1, 2)] * 2 + [(1,)] * 22)
    data = replace(data, cases=tuple(replace(case, image=case.label[:, None].float()) for case in data.cases))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_class_patients"] == [24, 2]
    assert report["dice"][0] == 1.0
    assert math.isnan(report["dice"][1])
    assert math.isnan(report["left_empty"][0])
    assert (report["left_empty"][1], report["num_empty_patients"]) == (1.0, [0, 22])
    check_outbound(VALIDATE, report)


@pytest.mark.parametrize(("units", "leaves"), [("abcdef", True), ("abcdee", False)])
def test_the_share_of_few_patients_empty_cases_stays_at_the_site(units, leaves):
    """Class 2 is missing in the last three pictures; in one of them it is found."""
    data = make_data([(1, 2)] * 3 + [(1,)] * 3, units=list(units))
    images = [case.label[:, None].float() for case in data.cases]
    images[3][..., 12:14, 2:4] = 2.0
    data = replace(data, cases=tuple(replace(c, image=image) for c, image in zip(data.cases, images, strict=True)))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_class_cases"] == [6, 3]
    assert report["num_empty_patients"] == [0, 3 if leaves else 2]
    assert report["left_empty"][1] == pytest.approx(2 / 3) if leaves else math.isnan(report["left_empty"][1])
    assert report["dice"][1] == 1.0
    check_outbound(VALIDATE, report)


def test_validation_report_is_the_evaluation():
    data = make_data([(1, 2)] * 4 + [(1,)] * 3)
    report = validation_report(Threshold(2), data, settings(2))
    scores = evaluate(Threshold(2), data.cases, 2, Inference(8))
    assert report["num_samples"] == 7
    assert report["dice"] == list(scores.dice)
    assert report["num_class_cases"] == [7, 4]
    assert report["left_empty"][1] == scores.left_empty[1]
    assert report["num_defined"] == [7 - scores.hd95_undefined[0], 4 - scores.hd95_undefined[1]]
    assert report["hd95"] == pytest.approx(list(scores.hd95))
    check_outbound(VALIDATE, report)


def test_distance_over_few_defined_cases_stays_at_the_site():
    data = make_data([(1, 2), (1, 2), (1,), (1,)])
    # Predicted without a fault, so class 2 has a distance in two cases only.
    data = replace(data, cases=tuple(replace(case, image=case.label[:, None].float()) for case in data.cases))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_defined"] == report["num_distance_patients"] == [4, 2]
    assert report["hd95"][0] == 0.0
    assert math.isnan(report["hd95"][1])
    assert report["dice"][0] == 1.0
    check_outbound(VALIDATE, report)


@pytest.mark.parametrize("cases", [1, 2])
def test_scores_of_a_small_site_stay_at_the_site(cases):
    report = validation_report(Threshold(1), make_data([(1,)] * cases), settings(1))
    assert report == {"num_samples": cases}
    check_outbound(VALIDATE, report)


def test_site_without_validation_cases_says_so_and_predicts_nothing(monkeypatch):
    monkeypatch.setattr(evaluation, "evaluate", lambda *_: pytest.fail("evaluated without cases"))
    report = validation_report(Threshold(1), None, settings(1))
    assert report == {"num_samples": 0}
    check_outbound(VALIDATE, report)


# Six pictures, or slices of two volumes, which are not enough people for anything but counts to leave.
SIX = [(1, 2)] * 6


def test_slices_of_few_volumes_are_not_many_people():
    data = as_slices(make_data(SIX), 3)
    assert training_report(data, OUTCOME, embedded=False) == {
        "num_samples": 6,
        "num_excluded": 0,
        "embedded_data": False,
        "num_threads": torch.get_num_threads(),
    }
    report = quality_report(Threshold(2), data, settings(2)).fields
    assert (report["num_samples"], report["num_annotated"], report["num_estimated"]) == (6, 2, [2, 2])
    assert "predicted_share" not in report
    assert all(map(math.isnan, report["inner_difficulty"] + report["outer_difficulty"]))
    assert validation_report(Threshold(2), data, settings(2)) == {"num_samples": 2}


def test_slices_of_enough_volumes_are_estimated_by_slice_and_scored_by_volume():
    data, pictures = as_slices(make_data(SIX), 2), make_data(SIX)
    trained = training_report(data, OUTCOME, embedded=False)
    assert (trained["train_loss"], trained["num_patients"]) == (0.5, 3)
    report = quality_report(Threshold(2), data, settings(2)).fields
    same = quality_report(Threshold(2), pictures, settings(2)).fields
    assert report == same | {"num_annotated": 3, "num_estimated": [3, 3]}
    check_outbound(ESTIMATE_QUALITY, report)
    report = validation_report(Threshold(2), data, settings(2))
    assert (report["num_samples"], report["num_defined"]) == (3, [3, 3])
    scores = evaluate(Threshold(2), data.cases, 2, Inference(8))
    assert (report["dice"], report["hd95"]) == (list(scores.dice), list(scores.hd95))
    check_outbound(VALIDATE, report)


def test_pictures_of_few_patients_are_not_many_people():
    data = make_data(SIX, units=["a", "b", "a", "b", "a", "a"])
    assert "train_loss" not in training_report(data, OUTCOME, embedded=False)
    assert all(map(math.isnan, quality_report(Threshold(2), data, settings(2)).fields["inner_difficulty"]))
    assert validation_report(Threshold(2), data, settings(2)) == {"num_samples": 6}


def test_distance_of_few_patients_stays_at_the_site():
    """Class 2 has a distance in three pictures, of two patients."""
    data = make_data([(1, 2)] * 3 + [(1,)] * 3, units=["a", "b", "b", "c", "d", "e"])
    data = replace(data, cases=tuple(replace(case, image=case.label[:, None].float()) for case in data.cases))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_defined"] == [6, 3]
    assert report["num_distance_patients"] == [5, 2]
    assert report["hd95"][0] == 0.0
    assert math.isnan(report["hd95"][1])
    check_outbound(VALIDATE, report)
