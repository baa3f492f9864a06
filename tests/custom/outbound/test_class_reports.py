"""What a site reports of a classifier and of its doubts, and what it keeps to itself."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.data.description import ClassificationDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.method_settings import ClassificationSettings
from fedannot.custom.methods.fedgsca.label_detection import detection_record, suspicions
from fedannot.custom.methods.fedgsca.label_selection import Selection
from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector
from fedannot.custom.outbound.registry import TRAIN, VALIDATE_CLASSES, check_outbound
from fedannot.custom.outbound.reports import class_validation_report, selection_report, training_report
from fedannot.custom.settings import ClassifierSettings
from fedannot.custom.training.loop import TrainingOutcome

SETTINGS = ClassificationSettings(network=ClassifierSettings(in_channels=1, num_classes=3))
SELECTOR = SampleSelector((0.2, 2.0), (0.1, 0.4), (0.8, 0.2))


class Brightness(nn.Module):
    """The class is the brightness, rounded."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images):
        return -self.scale * (images.mean(dim=(1, 2, 3))[:, None] - torch.arange(3)) ** 2


def make_data(labels, brightness, units=None, true=None):
    cases = []
    for index, (label, value) in enumerate(zip(labels, brightness, strict=True)):
        clean = None if true is None else torch.tensor([true[index]], dtype=torch.uint8)
        unit = str(index) if units is None else units[index]
        image = torch.full((1, 1, 4, 4), float(value))
        cases.append(LoadedCase(f"{index}.png", unit, image, torch.tensor([label], dtype=torch.uint8), clean, None))
    description = ClassificationDescription(channels=1, size=(4, 4), classes=("a", "b", "c"))
    return SiteData("site-1", tuple(cases), description, ())


def test_validation_counts_leave_and_classes_with_few_patients_are_left_out():
    # Class b has two patients only; one of its cases is taken for a, which must not count either.
    data = make_data([0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 2, 0, 1, 1, 2, 2, 0], units=list("xyzppqrst"))
    report = class_validation_report(Brightness(), data, SETTINGS)
    assert report == {
        "num_samples": 9,
        "num_patients": 6,
        "num_class_patients": [3, 0, 3],
        "num_correct": [2, 0, 2],
        "num_labelled": [3, 0, 3],
        "num_predicted": [3, 0, 3],
    }
    check_outbound(VALIDATE_CLASSES, report)


@pytest.mark.parametrize("labels", [[], [0, 0], [0, 1, 2]])
def test_with_few_patients_nothing_is_scored(labels):
    data = make_data(labels, labels) if labels else None
    report = class_validation_report(Brightness(), data, SETTINGS)
    assert report == {"num_samples": len(labels)}


def selection(clean, pseudo=None, labels=None):
    clean = np.array(clean)
    pseudo = np.zeros(len(clean), dtype=bool) if pseudo is None else np.array(pseudo)
    labels = np.zeros(len(clean), dtype=np.int64) if labels is None else np.array(labels)
    return Selection(
        0.6, np.where(clean, 0.9, np.linspace(0.3, 0.1, len(clean))), clean, labels, clean | pseudo, pseudo
    )


# Losses of six samples that are as probable as can be of the first or the second component of SELECTOR.
LOSSES = np.array([0.2, 0.1, 0.3, 2.0, 1.9, 2.1])


def test_noise_level_and_selector_leave_with_the_patients_of_each_component():
    chosen = selection([True, False, True, True, True, True])
    report = selection_report(make_data([0] * 6, [0] * 6), chosen, SELECTOR, LOSSES)
    assert report == {
        "noise_level": 1 / 6,
        "selector_means": [0.2, 2.0],
        "selector_variances": [0.1, 0.4],
        "selector_priors": [0.8, 0.2],
        "selector_patients": [3, 3],
    }
    check_outbound(TRAIN, report | {"num_patients": 5})
    assert selection_report(make_data([0] * 6, [0] * 6), chosen, None, LOSSES) == {"noise_level": 1 / 6}


@pytest.mark.parametrize(
    ("units", "leaves"), [("abcdef", True), ("aabdef", False), ("abcdde", False), ("abccba", True)]
)
def test_the_selector_stays_where_a_component_has_few_patients(units, leaves):
    """A patient counts for every component that a sample of it belongs to."""
    chosen = selection([True] * 6)
    report = selection_report(make_data([0] * 6, [0] * 6, units=list(units)), chosen, SELECTOR, LOSSES)
    assert ("selector_means" in report) is leaves
    assert ("selector_patients" in report) is leaves
    assert report["noise_level"] == 0.0


def test_two_patients_of_24_who_stand_apart_cannot_be_told_from_the_selector():
    """Mean μ and variance σ² of a component of two are their losses, μ ± σ; such a selector stays at the site."""
    losses = np.concatenate((np.random.default_rng(0).uniform(0.1, 0.3, 22), [4.0, 5.0]))
    fitted = SampleSelector.start(losses).fitted(losses)
    mean, deviation = fitted.means[1], fitted.variances[1] ** 0.5
    assert (mean - deviation, mean + deviation) == pytest.approx((4.0, 5.0), abs=1e-6), "the attack works"
    data = make_data([0] * 24, [0] * 24)
    assert selection_report(data, selection([True] * 24), fitted, losses) == {"noise_level": 0.0}
    more = np.append(losses, 4.6)
    fitted = SampleSelector.start(more).fitted(more)
    report = selection_report(make_data([0] * 25, [0] * 25), selection([True] * 25), fitted, more)
    assert report["selector_patients"] == [22, 3]


def test_nothing_of_training_on_few_patients_leaves():
    """The loss is over what was trained on: four patients are there, samples of two of them are used."""
    data = make_data([0] * 6, [0] * 6, units=list("aabbcd"))
    chosen = selection([True] * 4 + [False] * 2)
    used = [unit for unit, is_used in zip(data.units, chosen.used, strict=True) if is_used]
    report = training_report(data, TrainingOutcome(0.5, 3), embedded=False, trained_on=used)
    assert set(report) == {"num_samples", "num_excluded", "embedded_data", "num_threads"}
    assert selection_report(data, chosen, SELECTOR, LOSSES) == {}
    whole = training_report(data, TrainingOutcome(0.5, 3), embedded=False)
    assert (whole["train_loss"], whole["num_patients"]) == (0.5, 4)


def test_suspects_are_listed_with_the_least_likely_first(tmp_path):
    data = make_data([0, 1, 2, 0], [0, 0, 0, 0])
    probabilities = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.4, 0.5, 0.1]])
    chosen = selection([True, False, False, False], [False, True, False, False])
    found = suspicions(data, chosen, probabilities, data_folder=tmp_path, method="fedgsca", round_number=4)
    assert [(s.image, s.given, s.predicted, s.relabelled) for s in found.suspects] == [
        ("3.png", "a", "b", False),
        ("2.png", "c", "b", False),
        ("1.png", "b", "a", True),
    ]
    assert (found.noise_level, found.coefficient, found.round_number) == (0.75, 0.6, 4)
    assert json.loads(found.model_dump_json())["suspects"][2]["confidence"] == 0.7


def test_among_equally_unlikely_suspects_the_surest_comes_first(tmp_path):
    data = make_data([0, 1, 2, 0], [0, 0, 0, 0])
    probabilities = np.array([[0.2, 0.5, 0.3], [0.9, 0.0, 0.1], [0.7, 0.3, 0.0], [0.3, 0.6, 0.1]])
    nothing = np.zeros(4, dtype=bool)
    chosen = Selection(0.6, np.array([0.0, 0.0, 0.0, 0.1]), nothing, data.labels.numpy(), ~nothing, nothing)
    found = suspicions(data, chosen, probabilities, data_folder=tmp_path, method="fedgsca", round_number=4)
    assert [suspect.image for suspect in found.suspects] == ["1.png", "2.png", "0.png", "3.png"]


def test_what_is_noted_for_evaluation_by_hand():
    data = make_data([0, 1, 2, 0], [0] * 4, true=[0, 0, 2, 1])
    chosen = selection([True, False, False, True], [False, True, True, False], labels=[0, 0, 1, 0])
    record = detection_record(data, chosen, 3)
    assert record == {
        "round": 3,
        "num_samples": 4,
        "coefficient": 0.6,
        "noise_level": 0.5,
        "num_suspects": 2,
        "num_pseudo": 2,
        "num_used": 4,
        "num_wrong": 2,
        "num_wrong_suspects": 1,
        "num_right_pseudo": 1,
    }
    assert "num_wrong" not in detection_record(make_data([0, 1, 2, 0], [0] * 4), chosen, 3)
