"""Site reports: what they hold may leave, and means over too few cases are held back."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom import evaluation
from fedannot.custom.evaluation import evaluate
from fedannot.custom.outbound import ESTIMATE_QUALITY, TRAIN, VALIDATE, check_outbound
from fedannot.custom.quality import learning_difficulty
from fedannot.custom.quality.learning_difficulty import LearningDifficulty, site_difficulty
from fedannot.custom.settings import FedAvgSettings, NetworkSettings
from fedannot.custom.site_reports import quality_report, training_report, validation_report

SIDE = 16


class Threshold(nn.Module):
    """Logits by the distance of the intensity from the class number; independent of the other samples."""

    def __init__(self, num_classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.num_classes = num_classes

    def forward(self, images):
        return -self.scale * (images - torch.arange(self.num_classes + 1).view(1, -1, 1, 1)) ** 2


def settings(num_classes):
    return FedAvgSettings(network=NetworkSettings(num_classes=num_classes))


def make_data(classes_of_case, seed=0, excluded=()):
    """Cases with a square for each of their classes, and images that are the label with noise."""
    generator = np.random.default_rng(seed)
    labels = torch.zeros(len(classes_of_case), SIDE, SIDE, dtype=torch.uint8)
    for case, classes in enumerate(classes_of_case):
        for label in classes:
            top = 1 + 5 * (label - 1)
            left = int(generator.integers(1, 9))
            labels[case, top : top + 4, left : left + 5] = label
    noise = torch.from_numpy(0.3 * generator.normal(size=(len(labels), 1, SIDE, SIDE)).astype(np.float32))
    return SimpleNamespace(
        site="site-1",
        images=labels[:, None].float() + noise,
        labels=labels,
        num_samples=len(labels),
        excluded=list(excluded),
    )


@pytest.mark.parametrize("embedded", [True, False])
def test_training_report_holds_counts_and_the_mean_loss(embedded):
    data = make_data([(1,)] * 3, excluded=["a.png", "b.png"])
    report = training_report(data, 0.5, embedded=embedded)
    assert report == {"num_samples": 3, "num_excluded": 2, "embedded_data": embedded, "train_loss": 0.5}
    check_outbound(TRAIN, report)


def test_mean_loss_of_few_cases_stays_at_the_site():
    report = training_report(make_data([(1,)] * 2), 0.5, embedded=False)
    assert report == {"num_samples": 2, "num_excluded": 0, "embedded_data": False}
    check_outbound(TRAIN, report)


def test_quality_report_is_the_site_difficulty():
    data = make_data([(1, 2), (1, 2), (1, 2), (1,), ()])
    network = Threshold(2)
    report = quality_report(network, data, settings(2))
    difficulty = site_difficulty(network, data.images, data.labels, 2)
    assert report["num_samples"] == 5
    assert report["num_annotated"] == 4
    assert report["num_estimated"] == [4, 3]
    assert report["inner_difficulty"] == pytest.approx(difficulty.inner.tolist())
    assert report["outer_difficulty"] == pytest.approx(difficulty.outer.tolist())
    assert report["predicted_share"] == difficulty.predicted_share == 1.0
    assert set(map(type, [*report["num_estimated"], report["num_annotated"]])) == {int}
    check_outbound(ESTIMATE_QUALITY, report)


def test_difficulty_of_a_class_with_few_samples_stays_at_the_site():
    report = quality_report(Threshold(2), make_data([(1, 2), (1, 2), (1,), (1,)]), settings(2))
    assert report["num_estimated"] == [4, 2]
    for part in ("inner_difficulty", "outer_difficulty"):
        assert math.isfinite(report[part][0])
        assert math.isnan(report[part][1])
    check_outbound(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize("cases", [1, 2])
def test_quality_of_a_small_site_stays_at_the_site(cases):
    report = quality_report(Threshold(1), make_data([(1,)] * cases), settings(1))
    assert "predicted_share" not in report
    assert all(map(math.isnan, report["inner_difficulty"] + report["outer_difficulty"]))
    check_outbound(ESTIMATE_QUALITY, report)


@pytest.mark.parametrize(("annotated", "leaves"), [(2, False), (3, True)])
def test_share_over_few_annotated_cases_stays_at_the_site(annotated, leaves):
    report = quality_report(Threshold(1), make_data([(1,)] * annotated + [()] * 5), settings(1))
    assert (report["num_samples"], report["num_annotated"]) == (annotated + 5, annotated)
    assert ("predicted_share" in report) is leaves
    check_outbound(ESTIMATE_QUALITY, report)


def test_cases_are_annotated_by_any_class():
    report = quality_report(Threshold(2), make_data([(1,), (2,), (1, 2), ()]), settings(2))
    assert report["num_annotated"] == 3
    assert report["num_estimated"] == [2, 2]
    assert report["predicted_share"] == 1.0
    check_outbound(ESTIMATE_QUALITY, report)


def test_data_follow_the_network_to_its_device(monkeypatch):
    devices = []

    def note(network, images, labels, num_classes, *, batch_size):
        devices.extend([images.device.type, labels.device.type])
        return LearningDifficulty(np.ones(1), np.ones(1), np.array([3]), 1.0)

    monkeypatch.setattr(learning_difficulty, "site_difficulty", note)
    data = make_data([(1,)] * 3)
    # "meta" is a device that every machine has.
    quality_report(Threshold(1).to("meta"), data, settings(1))
    assert devices == ["meta", "meta"]
    assert data.images.device.type == data.labels.device.type == "cpu"


def test_site_without_annotated_foreground_has_no_estimate():
    report = quality_report(Threshold(1), make_data([()] * 4), settings(1))
    assert report["num_annotated"] == 0
    assert "predicted_share" not in report
    assert report["num_estimated"] == [0]
    assert math.isnan(report["inner_difficulty"][0])
    check_outbound(ESTIMATE_QUALITY, report)


def test_validation_report_is_the_evaluation():
    data = make_data([(1, 2)] * 4 + [(1,)])
    report = validation_report(Threshold(2), data, settings(2))
    scores = evaluate(Threshold(2), data.images, data.labels, 2, batch_size=8)
    assert report["num_samples"] == 5
    assert report["dice"] == list(scores.dice)
    assert report["num_defined"] == [5 - count for count in scores.hd95_undefined]
    assert report["hd95"] == pytest.approx(list(scores.hd95))
    check_outbound(VALIDATE, report)


def test_distance_over_few_defined_cases_stays_at_the_site():
    data = make_data([(1, 2), (1, 2), (1,), (1,)])
    data.images = data.labels[:, None].float()  # predicted without a fault, so class 2 has a distance in two cases only
    report = validation_report(Threshold(2), data, settings(2))
    assert report["num_defined"] == [4, 2]
    assert report["hd95"][0] == 0.0
    assert math.isnan(report["hd95"][1])
    assert report["dice"] == [1.0, 1.0]
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
