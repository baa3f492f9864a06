"""`auto` for classification at a site: what it reports, what it trains on, and what it finds again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.labelled_pictures import Brightness, make_data
from support.site_views import HandmadeSite

from fedannot.custom.corrections.case_states import revert
from fedannot.custom.corrections.store import CorrectionStore, StoredCorrections
from fedannot.custom.corrections.targets import active_targets
from fedannot.custom.data.datalist import Case
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.auto import rollback_scores, scored_cases
from fedannot.custom.methods.auto_classification import OUTBOUND_FIELDS
from fedannot.custom.methods.auto_classification.outbound import CORRECTS_LABELS
from fedannot.custom.methods.auto_classification.predicted_classes import patient_accuracy
from fedannot.custom.methods.auto_classification.settings import AutoClassificationSettings
from fedannot.custom.methods.auto_classification.site import AutoClassificationSite
from fedannot.custom.methods.fedavg.settings import ClassificationSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import (
    COMPARE_SCORES,
    CORRECT_LABELS,
    ESTIMATE_CONFUSION,
    KEEP_SCORES,
    USE_GIVEN_LABELS,
)

# Brightness is the class; every fifth label is the next class.
TRUE = [index % 3 for index in range(30)]
GIVEN = [(label + 1) % 3 if index % 5 == 0 else label for index, label in enumerate(TRUE)]
BRIGHTNESS = (np.array(TRUE) + np.linspace(-0.1, 0.1, 30)).tolist()
DATA = make_data(GIVEN, BRIGHTNESS, true=TRUE)
WRONG = {f"{index}.png" for index in range(0, 30, 5)}
COMMON = {
    "rounds": 9,
    "network": {"in_channels": 1, "num_classes": 3},
    "training": {"batch_size": 6, "local_epochs": 1, "learning_rate": 0.01, "augmentation": False},
}


def method_of(**settings: object) -> AutoClassificationSite:
    values = {"warmup_rounds": 2, "confident_fraction": 1.0, "margin": 0.3}
    return AutoClassificationSite(AutoClassificationSettings.model_validate(COMMON | values | settings))


def network_of(scale: float = 4.0) -> Brightness:
    network = Brightness()
    with torch.no_grad():
        network.scale.fill_(scale)
    return network


def latest(site: HandmadeSite, last_round: int) -> StoredCorrections:
    stored = CorrectionStore(site.run_folder, last_round).latest()
    assert stored is not None
    return stored


def scale_of(network: Brightness) -> float:
    return float(network.scale.detach())


def test_the_noise_level_leaves_and_no_case_does(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    answer = method.answer(ESTIMATE_CONFUSION, network_of(), site.view(method, 3))
    assert answer.fields["noise_level"] == [0.2]
    assert answer.fields["support"] == [1.0]
    assert answer.fields["support_patients"] == [6]
    OutboundRegistry(OUTBOUND_FIELDS).check(ESTIMATE_CONFUSION, dict(answer.fields))
    assert OutboundRegistry(OUTBOUND_FIELDS).refusal(ESTIMATE_CONFUSION, answer.fields, 3) is None
    # A level below zero would make all others noisy where the least noisy site is the reference.
    for field, value in (("noise_level", -5.0), ("noise_level_low", -0.1), ("support_high", 2.0)):
        hostile = dict(answer.fields) | {field: [value]}
        assert OutboundRegistry(OUTBOUND_FIELDS).refusal(ESTIMATE_CONFUSION, hostile, 3) is not None


def test_over_too_few_patients_nothing_leaves(tmp_path: Path) -> None:
    data = make_data(GIVEN, BRIGHTNESS, units=["one", "other"] * 15)
    method, site = method_of(), HandmadeSite(tmp_path, data)
    answer = method.answer(ESTIMATE_CONFUSION, network_of(), site.view(method, 3))
    assert np.isnan(answer.fields["noise_level"]).all()
    OutboundRegistry(OUTBOUND_FIELDS).check(ESTIMATE_CONFUSION, dict(answer.fields))


@pytest.mark.parametrize("task", [None, USE_GIVEN_LABELS])
def test_without_anything_to_correct_it_is_federated_averaging(tmp_path: Path, task: str | None) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    if task:
        method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
        assert method.answer(task, network_of(), site.view(method, 4)).fields == {CORRECTS_LABELS: False}
    ours, theirs = network_of(), network_of()
    method.train(ours, site.view(method, 4))
    plain = FedAvgSite(ClassificationSettings.model_validate(COMMON))
    plain.train(theirs, HandmadeSite(tmp_path / "plain", DATA).view(plain, 4))
    assert method.training_flags(site.view(method, 4)) == {CORRECTS_LABELS: False}
    assert scale_of(ours) == scale_of(theirs) != 4.0


def test_wrong_labels_are_changed_in_memory_and_the_data_manager_sees_which(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    assert method.answer(CORRECT_LABELS, network_of(), site.view(method, 3)).fields == {CORRECTS_LABELS: True}
    stored = latest(site, 3)
    assert {case.image for case in stored.corrections.cases} == WRONG
    targets = active_targets(stored, DATA, tmp_path)
    assert (targets.labels.tolist(), targets.used) == (TRUE, None)  # type: ignore[union-attr]
    assert DATA.labels.tolist() == GIVEN
    assert "Round 3: 6 of 30 labels count as another class" in site.said[-1]


def test_a_class_that_the_model_takes_for_another_one_is_left_alone_and_the_site_says_so(tmp_path: Path) -> None:
    """Images of class 2 are as bright as those of class 1, so that no model tells them apart."""
    data = make_data(GIVEN, np.minimum(BRIGHTNESS, 1.0).tolist(), true=TRUE)
    method, site = method_of(), HandmadeSite(tmp_path, data)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    cases, names = latest(site, 3).corrections.cases, data.classes
    changes = [(case.new_class.given, case.new_class.becomes) for case in cases if case.new_class is not None]
    assert (names[2], names[1]) not in changes
    # Of the six wrong labels two are of class 1 and given as 2.
    assert {case.image for case in cases} == WRONG - {"10.png", "25.png"}
    left = f"Labels are left alone where the model may take a class for another: {names[2]} that look like {names[1]}."
    assert left in site.said


def test_it_trains_as_if_the_labels_were_right(tmp_path: Path) -> None:
    method, site = method_of(treatment="relabel"), HandmadeSite(tmp_path, DATA)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    ours, theirs = network_of(), network_of()
    assert method.training_flags(site.view(method, 3)) == {CORRECTS_LABELS: True}
    method.train(ours, site.view(method, 3))
    plain = FedAvgSite(ClassificationSettings.model_validate(COMMON))
    plain.train(theirs, HandmadeSite(tmp_path / "right", make_data(TRUE, BRIGHTNESS)).view(plain, 3))
    assert scale_of(ours) == scale_of(theirs)


def test_a_new_half_predicts_again_in_every_later_round(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    assert method_of().training_flags(site.view(method, 5)) == {CORRECTS_LABELS: True}
    method_of().train(network_of(), site.view(method, 5))
    assert latest(site, 9).corrections.round_number == 5


def test_a_reverted_case_is_trained_on_as_given_also_when_the_model_predicts_again(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    revert(latest(site, 3).folder, ["5.png"])
    expected = [given if index == 5 else label for index, (given, label) in enumerate(zip(GIVEN, TRUE, strict=True))]
    for number in (3, 5):
        method.train(network_of(), site.view(method, number))
        targets = method.targets(site.view(method, number))
        assert targets.labels.tolist() == expected  # type: ignore[union-attr]


def test_a_round_that_is_done_once_more_knows_nothing_of_later_ones(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 5))
    assert method.training_flags(site.view(method, 4)) == {CORRECTS_LABELS: False}


@pytest.mark.parametrize(("continued", "corrects"), [(3, True), (2, False)])
def test_a_continued_run_takes_over_what_was_corrected_by_then(tmp_path: Path, continued: int, corrects: bool) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    later = HandmadeSite(tmp_path / "later", DATA)
    view = later.view(method, continued + 1, earlier_folders=(site.run_folder,), continued_round=continued)
    method.before_task(view)
    assert method.training_flags(view) == {CORRECTS_LABELS: corrects}


def test_a_case_whose_given_label_has_changed_since_keeps_it(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    # Somebody has given the first case another class, neither that of before nor the one that it looks like.
    other = [2, *GIVEN[1:]]
    targets = active_targets(latest(site, 3), make_data(other, BRIGHTNESS), tmp_path)
    assert targets.labels.tolist() == [2, *TRUE[1:]]  # type: ignore[union-attr]


@pytest.fixture
def without_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites have training cases alone."""
    for module in (scored_cases, rollback_scores):
        monkeypatch.setattr(module, "count_cases", lambda *_: 0)


def test_a_patients_part_in_the_balanced_accuracy_by_hand() -> None:
    """Four samples of class 0, one of class 1, which is of patient a; class 2 has none. 5 / (2 · 4) and 5 / (2 · 1)."""
    data = make_data([0, 0, 0, 0, 1], [0.0, 0.0, 1.0, 0.0, 1.0], units=["a", "b", "b", "c", "a"])
    scores = patient_accuracy(network_of(), data, Inference(4))
    assert scores == {"a": (0.625 + 2.5) / 2, "b": 0.625 / 2, "c": 0.625}
    one_each = make_data([0, 0, 0, 0, 1], [0.0, 0.0, 1.0, 0.0, 1.0])
    # Recalls of ¾ and 1.
    assert np.mean(list(patient_accuracy(network_of(), one_each, Inference(4)).values())) == 0.875


@pytest.mark.usefixtures("without_sections")
def test_patients_that_are_held_out_are_not_learnt_and_models_are_scored_on_them(tmp_path: Path) -> None:
    method, site = method_of(held_out=0.4), HandmadeSite(tmp_path, DATA)
    trained = method.train(network_of(), site.view(method, 3))
    assert trained.trained_on is not None
    held_out = [index for index in range(30) if str(index) not in trained.trained_on]
    assert len(held_out) == 12
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    assert {case.image for case in latest(site, 3).corrections.cases} <= WRONG - {f"{index}.png" for index in held_out}
    # The first model takes the farthest class, the second the right one.
    assert method.answer(KEEP_SCORES, network_of(-4.0), site.view(method, 3)).fields == {"has_scored": True}
    answer = method.answer(COMPARE_SCORES, network_of(), site.view(method, 5, {"kept_round": 3})).fields
    registry = OutboundRegistry(OUTBOUND_FIELDS)
    registry.check(COMPARE_SCORES, answer)
    assert registry.refusal(COMPARE_SCORES, answer, 5) is None
    given, brightness = np.array(GIVEN)[held_out], np.array(BRIGHTNESS)[held_out]
    nearest = np.abs(brightness[:, None] - np.arange(3)).argmin(axis=1)
    farthest = np.abs(brightness[:, None] - np.arange(3)).argmax(axis=1)
    recalls = [
        np.mean([(said == label)[given == label].mean() for label in np.unique(given)]) for said in (farthest, nearest)
    ]
    assert answer["held_out_gain_patients"] == [12]
    assert answer["held_out_gain"] == [pytest.approx(recalls[1] - recalls[0], rel=0.01)]
    assert np.isnan(answer["reviewed_gain"]).all()


@pytest.mark.usefixtures("without_sections")
def test_a_site_that_holds_nobody_out_scores_nothing_and_learns_from_all(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    assert method.answer(KEEP_SCORES, network_of(), site.view(method, 3)).fields == {"has_scored": False}
    assert method.train(network_of(), site.view(method, 3)).trained_on is None


@pytest.mark.parametrize("reviewed", [{"is_reference": True}, {"given_label": 2}], ids=["kept", "changed"])
def test_a_label_that_a_review_has_decided_is_not_changed(tmp_path: Path, reviewed) -> None:
    files = Case(image=tmp_path / "5.png", label=GIVEN[5], **reviewed)
    data = replace(DATA, cases=tuple(replace(one, files=files) if one.name == "5.png" else one for one in DATA.cases))
    method, site = method_of(), HandmadeSite(tmp_path, data)
    method.answer(CORRECT_LABELS, network_of(), site.view(method, 3))
    targets = active_targets(latest(site, 3), data, tmp_path)
    assert targets.labels.tolist() == [*TRUE[:5], GIVEN[5], *TRUE[6:]]  # type: ignore[union-attr]
    assert "Round 3: 5 of 30 labels count as another class" in site.said[-1]
    # The next round's training decides again, and not about this one.
    method.train(network_of(), site.view(method, 4))
    assert {case.image for case in latest(site, 4).corrections.cases if case.is_active} == WRONG - {"5.png"}
