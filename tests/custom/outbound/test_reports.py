"""What a site of any method reports: what it holds may leave, and means over too few cases are held back."""

import math
from dataclasses import replace

import pytest
import torch
from support.pictures import SIX, Threshold, as_slices, make_data, settings

from fedannot.custom.evaluation import segmentation_scores as evaluation
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.outbound.reports import training_report, validation_report
from fedannot.custom.task_names import TRAIN, VALIDATE
from fedannot.custom.training.loop import TrainingOutcome

REGISTRY = OutboundRegistry()
OUTCOME = TrainingOutcome(0.5, 3)


@pytest.mark.parametrize("embedded", [True, False])
def test_training_report_holds_counts_and_the_mean_loss(embedded):
    data = make_data([(1,)] * 3, excluded=["a.png", "b.png"])
    report = training_report(data, OUTCOME, embedded=embedded)
    counts = {"num_samples": 3, "num_excluded": 2, "num_patients": 3, "num_threads": torch.get_num_threads()}
    preparation = report.pop("preparation")
    assert preparation[:5] == pytest.approx([0, 1, 16, 16, math.nan], nan_ok=True)
    assert report == counts | {"embedded_data": embedded, "train_loss": 0.5}
    report["preparation"] = preparation
    REGISTRY.check(TRAIN, report)


def test_mean_loss_of_few_cases_stays_at_the_site():
    report = training_report(make_data([(1,)] * 2), TrainingOutcome(0.5, 3, 0.25), embedded=False)
    assert set(report) == {"num_samples", "num_excluded", "embedded_data", "num_threads", "preparation"}
    REGISTRY.check(TRAIN, report)


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
    REGISTRY.check(TRAIN, report)


@pytest.mark.parametrize("cases", [1, 4])
def test_a_site_without_annotation_has_no_dice_loss_and_says_so(cases):
    report = training_report(make_data([()] * cases), TrainingOutcome(0.5, 3, math.nan), embedded=False)
    assert math.isnan(report["dice_loss"])
    assert report["num_dice_patients"] == 0
    REGISTRY.check(TRAIN, report)


def test_a_loss_that_is_not_finite_is_undefined():
    report = training_report(make_data([(1,)] * 3), TrainingOutcome(math.inf, 3), embedded=False)
    assert math.isnan(report["train_loss"])
    REGISTRY.check(TRAIN, report)


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
    REGISTRY.check(VALIDATE, report)


@pytest.mark.parametrize(("units", "outbound_fields"), [("abcdef", True), ("abcdee", False)])
def test_the_fraction_of_few_patients_empty_cases_stays_at_the_site(units, outbound_fields):
    """Class 2 is missing in the last three pictures; in one of them it is found."""
    data = make_data([(1, 2)] * 3 + [(1,)] * 3, units=list(units))
    images = [case.label[:, None].float() for case in data.cases]
    images[3][..., 12:14, 2:4] = 2.0
    data = replace(data, cases=tuple(replace(c, image=image) for c, image in zip(data.cases, images, strict=True)))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_class_cases"] == [6, 3]
    assert report["num_empty_patients"] == [0, 3 if outbound_fields else 2]
    assert report["left_empty"][1] == pytest.approx(2 / 3) if outbound_fields else math.isnan(report["left_empty"][1])
    assert report["dice"][1] == 1.0
    REGISTRY.check(VALIDATE, report)


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
    REGISTRY.check(VALIDATE, report)


def test_a_class_that_the_site_does_not_annotate_has_no_score_and_counts_for_no_case():
    """Whatever the model finds: the third site's Dice of class 2 is that of the others."""
    data = make_data(SIX)
    labels = {0: 0, 1: 1}
    description = data.description.model_copy(update={"annotated_classes": ("a",), "labels": labels})
    cases = tuple(replace(case, label=torch.where(case.label == 2, 0, case.label)) for case in data.cases)
    partial = validation_report(Threshold(2), replace(data, cases=cases, description=description), settings(2))
    whole = validation_report(Threshold(2), data, settings(2))
    REGISTRY.check(VALIDATE, partial)
    assert (partial["dice"][0], partial["hd95"][0]) == (whole["dice"][0], whole["hd95"][0])
    for name in ("dice", "hd95", "left_empty"):
        assert math.isnan(partial[name][1])
    for name in ("num_class_patients", "num_class_cases", "num_empty_patients", "num_distance_patients", "num_defined"):
        assert partial[name][1] == 0
    pooled = evaluation.pool_site_scores({"a": whole, "b": partial})
    assert pooled["dice_per_class"] == pytest.approx(whole["dice"])
    assert pooled["num_annotated_per_class"] == [12, 6]
    # No site had a case without an object of an annotated class.
    assert pooled["left_empty_per_class"] == [None, None]


def test_distance_over_few_defined_cases_stays_at_the_site():
    data = make_data([(1, 2), (1, 2), (1,), (1,)])
    # Predicted without a fault, so class 2 has a distance in two cases only.
    data = replace(data, cases=tuple(replace(case, image=case.label[:, None].float()) for case in data.cases))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_defined"] == report["num_distance_patients"] == [4, 2]
    assert report["hd95"][0] == 0.0
    assert math.isnan(report["hd95"][1])
    assert report["dice"][0] == 1.0
    REGISTRY.check(VALIDATE, report)


@pytest.mark.parametrize("cases", [1, 2])
def test_scores_of_a_small_site_stay_at_the_site(cases):
    report = validation_report(Threshold(1), make_data([(1,)] * cases), settings(1))
    assert report == {"num_samples": cases}
    REGISTRY.check(VALIDATE, report)


def test_site_without_validation_cases_says_so_and_predicts_nothing(monkeypatch):
    monkeypatch.setattr(evaluation, "evaluate", lambda *_: pytest.fail("evaluated without cases"))
    report = validation_report(Threshold(1), None, settings(1))
    assert report == {"num_samples": 0}
    REGISTRY.check(VALIDATE, report)


def test_distance_of_few_patients_stays_at_the_site():
    """Class 2 has a distance in three pictures, of two patients."""
    data = make_data([(1, 2)] * 3 + [(1,)] * 3, units=["a", "b", "b", "c", "d", "e"])
    data = replace(data, cases=tuple(replace(case, image=case.label[:, None].float()) for case in data.cases))
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_defined"] == [6, 3]
    assert report["num_distance_patients"] == [5, 2]
    assert report["hd95"][0] == 0.0
    assert math.isnan(report["hd95"][1])
    REGISTRY.check(VALIDATE, report)


@pytest.mark.parametrize("data", [as_slices(make_data(SIX), 3), make_data(SIX, units=["a", "b", "a", "b", "a", "a"])])
def test_slices_of_few_volumes_or_pictures_of_few_patients_are_not_many_people(data):
    report = training_report(data, OUTCOME, embedded=False)
    assert report.pop("preparation") is not None
    assert report == {
        "num_samples": 6,
        "num_excluded": 0,
        "embedded_data": False,
        "num_threads": torch.get_num_threads(),
    }
    assert validation_report(Threshold(2), data, settings(2)) == {"num_samples": len(data.cases)}


def test_slices_of_enough_volumes_are_scored_by_volume():
    data = as_slices(make_data(SIX), 2)
    trained = training_report(data, OUTCOME, embedded=False)
    assert (trained["train_loss"], trained["num_patients"]) == (0.5, 3)
    report = validation_report(Threshold(2), data, settings(2))
    assert (report["num_samples"], report["num_defined"]) == (3, [3, 3])
    scores = evaluate(Threshold(2), data.cases, 2, Inference(8))
    assert (report["dice"], report["hd95"]) == (list(scores.dice), list(scores.hd95))
    REGISTRY.check(VALIDATE, report)


def test_the_mean_loss_is_over_those_whose_samples_were_trained_on():
    """Four patients are there, samples of two of them are used."""
    data = make_data([(1,)] * 6, units=list("aabbcd"))
    report = training_report(data, OUTCOME, embedded=False, trained_on=data.units[:4])
    assert set(report) == {"num_samples", "num_excluded", "embedded_data", "num_threads", "preparation"}
    whole = training_report(data, OUTCOME, embedded=False)
    assert (whole["train_loss"], whole["num_patients"]) == (0.5, 4)
