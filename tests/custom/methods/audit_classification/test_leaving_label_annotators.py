"""What leaves a site of its annotators of class labels, as somebody sees it who wants to know a name or a patient."""

import json
import math
import random
from types import SimpleNamespace

import pytest
import torch
from plain_records import in_words

from fedannot.apps.wording.annotator_classes import reported_kappas, reported_label_rows
from fedannot.custom.annotation_bias.annotators.from_labels import CaseLabels, label_kappa
from fedannot.custom.methods.audit_classification.annotator_fields import LABEL_ANNOTATOR_FIELDS
from fedannot.custom.methods.audit_classification.leaving_annotators import (
    label_annotators_answer,
    label_annotators_left,
)
from fedannot.custom.methods.audit_classification.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.audit_classification.records import LabelAuditFindings, ReportedLabels
from fedannot.custom.methods.audit_classification.settings import AuditClassificationSettings
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.run.answers import Answers
from fedannot.custom.run.transport import Reply
from fedannot.custom.task_names import AUDIT_LABELS

REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)
NAMES = ("Ann", "Ben", "Cem", "Dea")
CLASSES = 3
SHARES = {"num_patients": 18, "flagged_shares": [0.0], "kind_aurocs": [0.9]}


def swapped(count=18, names=NAMES):
    """Cases of one patient each; the third annotator takes class 0 for 1 and 1 for 0."""
    labels = [n % CLASSES for n in range(count)]
    return [
        CaseLabels(f"p{n}", names, tuple((1, 0, 2)[label] if name == "Cem" else label for name in names))
        for n, label in enumerate(labels)
    ]


def left(folder, cases=None, **options):
    return label_annotators_left(folder, swapped() if cases is None else cases, CLASSES, seed=0, **options)


def of_number(values, number):
    """The entries of one annotator, class by class."""
    return values[number - 1 :: 8]


def test_who_swaps_two_classes_is_a_number_to_the_server_and_nobody_is_named(tmp_path):
    sent = left(tmp_path)
    fields = SHARES | sent.sent()
    REGISTRY.check(AUDIT_LABELS, fields)
    assert REGISTRY.refusal(AUDIT_LABELS, fields, CLASSES) is None
    assert sorted(sent.numbers) == sorted(NAMES)
    assert not any(name in json.dumps(fields) for name in NAMES)
    cem, ann = sent.numbers["Cem"], sent.numbers["Ann"]
    assert fields["annotator_other_class"][cem - 1] == pytest.approx(2 / 3, abs=1e-3)
    assert of_number(fields["annotator_class"], cem) == [1, 1, 0]
    assert of_number(fields["annotator_class_given"], cem) == [2, 1, 0]
    assert of_number(fields["annotator_class_patients"], cem) == [6, 6, 6]
    assert of_number(fields["annotator_class"], ann) == [0, 0, 0]
    assert fields["annotators_kappa"] == [pytest.approx(label_kappa(swapped(), CLASSES, seed=0).value, abs=1e-3)]
    reported = ReportedLabels.of(fields)
    rows = reported_label_rows({"site-1": reported})
    (first, second) = [row for row in rows if row.number == cem]
    assert (first.others, first.given) == ("class 0", "class 1, and class 0 in place of class 1")
    assert (second.others, second.fraction) == ("class 1", "100 % (100 to 100 %), 6 patients")
    assert [row.others for row in rows if row.number == ann] == ["–"]
    assert "18 patients" in reported_kappas({"site-1": reported})["site-1"]
    findings = LabelAuditFindings(noise_levels={}, right_labels=None, audit=None, annotators={"site-1": reported})
    assert LabelAuditFindings.model_validate(findings.plain()) == findings


def test_numbers_are_drawn_and_an_answer_is_never_drawn_again(tmp_path):
    draws = [left(tmp_path / str(n), chance=random.Random(n)).numbers["Ann"] for n in range(6)]
    assert len(set(draws)) > 2
    first = left(tmp_path / "run")
    others = [CaseLabels(case.unit, case.annotators, (0, 1, 2, 0)) for case in swapped()]
    assert left(tmp_path / "run", others) == first
    assert left(tmp_path / "resumed", others, earlier=[tmp_path / "run"]) == first


def test_small_numbers_are_withheld(tmp_path):
    assert left(tmp_path / "few", swapped(4)).sent() == {}
    # Cases repeat, patients do not: four are still four.
    repeated = [CaseLabels(f"p{n % 4}", one.annotators, one.classes) for n, one in enumerate(swapped())]
    assert left(tmp_path / "repeated", repeated).sent() == {}
    # Twelve patients, of class 0 four: those of the other classes would be all less these, so one more goes.
    few = [case for case in swapped(24) if case.classes[0] or int(case.unit[1:]) < 12]
    fields = left(tmp_path / "class", few).sent()
    assert 8 in fields["annotator_class_patients"]
    for number in range(1, 9):
        counts = of_number(fields["annotator_class_patients"], number)
        assert counts in ([0, 0, 0], [0, 0, 8], [0, 8, 0])
        values = of_number(fields["annotator_class"], number)
        assert [math.isnan(value) for value in values] == [count == 0 for count in counts]
        given = of_number(fields["annotator_class_given"], number)
        assert not any(value for value, count in zip(given, counts, strict=True) if count == 0)


def test_kappa_is_withheld_where_the_annotators_leave_over_few_patients(tmp_path):
    # Whatever Cem gives in 16 of 18 cases, Ann and Ben are compared in two alone.
    cases = [CaseLabels(f"p{n}", NAMES[:3], (0, 0, 1 if n < 16 else 0)) for n in range(18)]
    fields = left(tmp_path / "few", cases).sent()
    assert (sorted(fields["annotator_other_class_patients"])[-2:], fields["annotators_kappa_patients"]) == (
        [0, 18],
        [0],
    )
    assert left(tmp_path / "more", swapped(names=NAMES[:3])).sent()["annotators_kappa_patients"] == [18]


def test_the_class_given_is_withheld_where_fewer_than_five_patients_have_it(tmp_path):
    cases = [CaseLabels(f"p{n}", NAMES, (0, 0, 1 if n < 4 else 0, 0)) for n in range(12)]
    fields, cem = left(tmp_path, cases).sent(), left(tmp_path, cases).numbers["Cem"]
    assert of_number(fields["annotator_class"], cem)[0] == pytest.approx(1 / 3, abs=1e-3)
    assert not any(fields["annotator_class_given"])
    assert reported_label_rows({"s": ReportedLabels.of(fields)})[0].given in ("–", "not reported")


def test_of_two_annotators_kappa_alone_leaves(tmp_path):
    fields = left(tmp_path, swapped(names=("Ann", "Cem"))).sent()
    assert not any(fields["annotator_other_class_patients"])
    assert fields["annotators_kappa_patients"] == [18]
    reported = ReportedLabels.of(fields)
    assert (reported.annotators, reported_label_rows({"s": reported})) == ((), ())


@pytest.mark.parametrize("is_asked", [False, True])
def test_nothing_leaves_unless_the_job_asks_for_it(tmp_path, is_asked):
    cases = [
        SimpleNamespace(
            unit=one.unit,
            annotations=torch.tensor([one.classes], dtype=torch.uint8),
            files=SimpleNamespace(annotations=[SimpleNamespace(annotator=name) for name in NAMES], annotator=None),
        )
        for one in swapped()
    ]
    data = SimpleNamespace(cases=cases, classes=("a", "b", "c"))
    site = SimpleNamespace(seed=0, name="s", run_folder=tmp_path, earlier_folders=())
    settings = AuditClassificationSettings(report_annotators=is_asked)
    audit, fields = label_annotators_answer(data, site, settings)
    assert bool(fields) == is_asked
    assert {one.number is None for one in audit.annotators} == {not is_asked}
    assert {file.name for file in tmp_path.rglob("*.json")} == ({"annotators_left.json"} if is_asked else set())


def test_what_a_site_may_not_send_does_not_leave(tmp_path):
    fields = left(tmp_path).sent()
    fields["annotator_class_patients"] = [2] * len(fields["annotator_class_patients"])
    with pytest.raises(OutboundError, match=r"'annotator_class' is a mean over 2 cases; at least 5 are"):
        REGISTRY.check(AUDIT_LABELS, fields)


ATTACKS = [
    ("annotator_other_class", 1.5, "expected 0.0 to 1.0"),
    ("annotator_class_low", -0.1, "expected 0.0 to 1.0"),
    ("annotator_class_high", math.inf, "expected 0.0 to 1.0"),
    ("annotators_kappa", -1.01, "expected -1.0 to 1.0"),
    ("annotator_class_given", CLASSES + 1, "expected 0 to 3"),
    ("annotator_class_given", 10**5000, "expected a list of counts"),
    ("annotator_class_given", -1, "expected a list of counts"),
    ("annotator_class_given", 1.0, "expected a list of counts"),
    ("annotator_class_patients", True, "expected a list of counts"),
    ("annotator_class", "Ann", "expected a list of numbers"),
    # A figure of somebody, or of too few: the count that stands beside it says so.
    ("annotator_class_patients", 1, "an entry of 1 patients, expected at least 5 or none"),
    ("annotator_other_class_patients", 4, "an entry of 4 patients, expected at least 5 or none"),
    ("annotators_kappa_patients", 1, "an entry of 1 patients, expected at least 5 or none"),
]


@pytest.mark.parametrize(("name", "value", "said"), ATTACKS, ids=range(len(ATTACKS)))
def test_a_lying_site_is_refused_by_name_and_field_and_no_other_is(tmp_path, name, value, said):
    fields, refused = SHARES | left(tmp_path).sent(), []
    lie = fields | {name: [value, *fields[name][1:]]}
    answers = Answers(AUDIT_LABELS, 3, REGISTRY, CLASSES, lambda site, why: refused.append((site, in_words(why))))
    assert answers.receive(Reply("honest", 3, fields))
    assert not answers.receive(Reply("liar", 3, lie))
    ((site, reason),) = refused
    assert site == "liar"
    assert repr(name.removesuffix("_patients")) in reason or repr(name) in reason
    assert said in reason
    # Nor can it answer once more, or for another site.
    assert not answers.receive(Reply("honest", 3, fields))
    assert set(answers.by_site) == {"honest"}


@pytest.mark.parametrize("name", [field.name for field in LABEL_ANNOTATOR_FIELDS])
def test_lists_of_another_length_and_parts_of_the_group_are_refused(tmp_path, name):
    fields = SHARES | left(tmp_path).sent()
    for lie in (fields | {name: fields[name][:-1]}, {key: value for key, value in fields.items() if key != name}):
        assert repr(name) in in_words(REGISTRY.refusal(AUDIT_LABELS, lie, CLASSES))


def test_a_class_in_place_of_itself_is_none(tmp_path):
    fields = left(tmp_path).sent()
    lie = fields | {"annotator_class_given": [1] * len(fields["annotator_class_given"])}
    assert {one.classes[0].given for one in ReportedLabels.of(lie).annotators} == {None}


def test_an_interval_that_ends_before_it_begins_is_no_figure(tmp_path):
    fields = left(tmp_path).sent()
    names = ("annotator_other_class", "annotator_class", "annotators_kappa")
    ends = {f"{name}_{end}": fields[f"{name}_{end}"] for name in names for end in ("low", "high")}
    lie = fields | {name: [(0.9 if name.endswith("low") else 0.1) + 0 * one for one in ends[name]] for name in ends}
    assert REGISTRY.refusal(AUDIT_LABELS, SHARES | lie, CLASSES) is None
    assert ReportedLabels.of(lie) == ReportedLabels(annotators=(), kappa=None)
