"""The audit of annotators of class labels: one who swaps two classes is found, and the others are not."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from fedannot.apps.wording.annotators import shown_annotators
from fedannot.custom.annotation_bias.annotators.from_labels import (
    CaseLabels,
    class_confusions,
    label_estimates,
    label_kappa,
    pair_kappas,
)
from fedannot.custom.annotation_bias.bootstrap import bootstrap_interval
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
    pairs = [(one.others, one.own, one.num_confused, one.num_cases) for one in audit.annotators[2].confused]
    assert pairs == [(0, 1, 30, 30), (1, 0, 30, 30)]
    assert [one.confused for one in audit.annotators if one.annotator != "cem"] == [()] * 3
    (row, _) = shown.confusions
    assert (row.name, row.others, row.own, row.cases) == ("cem", "a", "b", "30 of 30")
    assert row.fraction == "100 % (100 to 100 %)"
    kappas = {pair.names: pair.kappa for pair in shown.class_pairs}
    assert (kappas["ann – ben"], len(kappas)) == ("1.00 (1.00 to 1.00)", 6)
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


def test_fractions_of_pairs_of_classes_are_those_of_a_hand_case_and_few_patients_have_none():
    # Of class 0, by the others, cem gives 1 in two of six cases of six patients; of class 1, 0 in one of two.
    own = [(0, 1), (0, 1), (0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 1)]
    cases = [CaseLabels(f"p{n}", ("ann", "ben", "cem"), (k, k, cem)) for n, (k, cem) in enumerate(own)]
    confused = class_confusions(cases, seed=0)["cem"]
    first, second = confused
    assert (first.others, first.own, first.num_confused, first.num_cases) == (0, 1, 2, 6)
    assert (first.fraction.patients, first.fraction.value) == (6, pytest.approx(1 / 3))
    assert 0 <= first.fraction.low < 1 / 3 < first.fraction.high <= 1
    assert (second.num_confused, second.num_cases, second.fraction.patients) == (1, 2, 2)
    assert not second.fraction.is_known
    # Four patients with many cases each are still four.
    repeated = [CaseLabels(f"p{n % 4}", one.annotators, one.classes) for n, one in enumerate(cases[:6] * 3)]
    assert not any(one.fraction.is_known for one in class_confusions(repeated, seed=0)["cem"])


def test_cohens_kappa_and_its_interval_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    one = rng.integers(0, 4, 60)
    other = np.where(rng.random(60) < 0.4, rng.integers(0, 3, 60), one)
    units = [f"p{n // 2}" for n in range(60)]
    # Names in another order from case to case are one pair.
    cases = [
        CaseLabels(unit, ("b", "a"), (int(y), int(x))) if n % 2 else CaseLabels(unit, ("a", "b"), (int(x), int(y)))
        for n, (unit, x, y) in enumerate(zip(units, one, other, strict=True))
    ]
    (pair,) = pair_kappas(cases, 4, seed=3)
    expected = bootstrap_interval(units, lambda drawn: cohen_kappa_score(one[drawn], other[drawn]), seed=3)
    assert (pair.annotators, pair.num_cases, pair.kappa.patients) == (("a", "b"), 60, 30)
    assert (pair.kappa.value, pair.kappa.low, pair.kappa.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )


def test_two_who_give_one_class_alone_have_no_kappa():
    (pair,) = pair_kappas([CaseLabels(f"p{n}", ("a", "b"), (1, 1)) for n in range(9)], 3, seed=0)
    assert (pair.kappa.is_known, pair.kappa.patients) == (False, 9)
    shown = shown_annotators(audit_label_annotators([case(n, [1] * 4) for n in range(9)], 3, 0.05, seed=0), "abc")
    assert {one.kappa for one in shown.class_pairs} == {"both give one class alone"}


def test_cases_of_one_label_say_nothing_of_annotators():
    single = SimpleNamespace(unit="p", files=None, annotations=None)
    assert audit_label_annotators([single], 3, 0.05, seed=0) is None
