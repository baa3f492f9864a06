"""The audit of annotators of class labels: one who swaps two classes is found, and the others are not."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from fedannot.apps.wording.annotators import shown_annotators
from fedannot.custom.annotation_bias.annotators.from_labels import CaseLabels, label_estimates, label_kappa
from fedannot.custom.methods.audit_classification.label_annotators import audit_label_annotators

NAMES = ("ann", "ben", "cem", "dea")


def case(index, classes):
    files = SimpleNamespace(annotations=[SimpleNamespace(annotator=name) for name in NAMES], annotator=None)
    return SimpleNamespace(unit=f"p{index}", files=files, annotations=torch.tensor([classes], dtype=torch.uint8))


def test_who_swaps_two_classes_is_found_and_the_others_are_not():
    true = [index % 3 for index in range(90)]
    cases = [case(index, [label, label, (1, 0, 2)[label], label]) for index, label in enumerate(true)]
    audit = audit_label_annotators(cases, 3, 0.05, seed=0)
    confirmed = {one.annotator: [r.is_confirmed for r in one.parameters.values()] for one in audit.annotators}
    assert confirmed == {"ann": [False], "ben": [False], "cem": [True], "dea": [False]}
    (record,) = audit.annotators[2].parameters.values()
    assert record.estimate == pytest.approx(2 / 3)
    assert (audit.unit, audit.num_unnamed, audit.annotators[0].num_patients) == (None, 0, 90)
    shown = shown_annotators(audit, ("a", "b", "c"))
    assert [one.words for one in shown.annotators].count("Deviates") == 1
    assert "of the cases another class than most others" in shown.annotators[2].sentences[0]
    assert not shown.has_masks
    assert not any("contour" in note for note in shown.notes)


def test_of_two_annotators_kappa_alone_is_known_and_is_near_that_of_cohen():
    rng = np.random.default_rng(0)
    one = rng.integers(0, 3, 200)
    other = np.where(rng.random(200) < 0.2, rng.integers(0, 3, 200), one)
    cases = [CaseLabels(f"p{n}", ("a", "b"), (int(a), int(b))) for n, (a, b) in enumerate(zip(one, other, strict=True))]
    assert label_estimates(cases, seed=0) == {}
    assert label_kappa(cases, 3, seed=0).value == pytest.approx(cohen_kappa_score(one, other), abs=0.01)


def test_who_leaves_a_case_without_a_class_has_no_part_in_it():
    whole = [case(index, [index % 3] * 4) for index in range(9)]
    audit = audit_label_annotators([*whole, case(9, [1, 1, 255, 1]), case(10, [255, 255, 255, 1])], 3, 0.05, seed=0)
    compared = {one.annotator: record.patients for one in audit.annotators for record in one.parameters.values()}
    assert compared == {"ann": 10, "ben": 10, "cem": 9, "dea": 10}
    assert (audit.kappa.value, audit.kappa.patients) == (1.0, 10)


def test_a_review_changes_nothing_that_annotators_have_given():
    cases = [case(index, [index % 3, index % 3, (index + index % 2) % 3, index % 3]) for index in range(12)]
    before = audit_label_annotators(cases, 3, 0.05, seed=0)
    for one in cases:
        one.label, one.given_label, one.files.given_label = torch.tensor([2]), torch.tensor([0]), 0
    assert audit_label_annotators(cases, 3, 0.05, seed=0) == before


def test_cases_of_one_label_say_nothing_of_annotators():
    single = SimpleNamespace(unit="p", files=None, annotations=None)
    assert audit_label_annotators([single], 3, 0.05, seed=0) is None
