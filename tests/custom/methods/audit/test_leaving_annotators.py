"""What leaves a site of its annotators, as somebody sees it who wants to know a name or a patient."""

import json
import math
import random

import pytest
from plain_records import in_words

from fedannot.custom.annotation_bias.annotators.from_predictions import GroupEstimate
from fedannot.custom.annotation_bias.annotators.records import AnnotatorsAudit
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from fedannot.custom.audit.kind_names import SEGMENTATION_KINDS
from fedannot.custom.methods.audit.annotator_fields import ANNOTATOR_FIELDS, PLACES
from fedannot.custom.methods.audit.annotator_places import LEFT_FILE
from fedannot.custom.methods.audit.annotators import MeasuredAnnotators
from fedannot.custom.methods.audit.leaving_annotators import annotators_left
from fedannot.custom.methods.audit.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.audit.records import AuditRecord
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.task_names import AUDIT_CASES
from fedannot.transforms.errors import DataError

OFFSET, MISSING = ParameterKey(ParameterKind.OFFSET, 1), ParameterKey(ParameterKind.MISSING, 1)
REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)
NAMES = ("Ann", "Ben", "Cem")


def group(value, patients):
    people = frozenset(patients)
    return GroupEstimate(Estimate(len(people), value, value - 0.1, value + 0.1, 1.0, 0.9), people)


def measured(offsets, unnamed=()):
    """Annotators with a bias each, over their own patients."""
    predictions = {
        name: {OFFSET: group(value, patients), MISSING: group(0.2, patients), CONFUSED_OBJECTS: group(0.1, patients)}
        for name, (value, patients) in offsets.items()
    }
    audit = AnnotatorsAudit(unit="px", annotators=())
    return MeasuredAnnotators(audit, {}, predictions, {OFFSET: group(0.0, unnamed)} if unnamed else {})


def people(name, count):
    return [f"{name}{number}" for number in range(count)]


THREE = {name: (float(number), people(name, 6)) for number, name in enumerate(NAMES, start=1)}


def test_what_leaves_may_leave_and_names_nobody(tmp_path):
    left = annotators_left(tmp_path, measured(THREE), 1)
    REGISTRY.check(AUDIT_CASES, left.sent())
    assert not any(name in json.dumps(left.fields) for name in NAMES)
    assert {left.sent()["annotator_offset"][number - 1] for number in left.numbers.values()} == {1.0, 2.0, 3.0}
    assert (tmp_path / LEFT_FILE).stat().st_mode & 0o077 == 0


def test_numbers_are_drawn_and_say_nothing_of_the_order_of_names(tmp_path):
    draws = [annotators_left(tmp_path / str(n), measured(THREE), 1, chance=random.Random(n)).numbers for n in range(60)]
    for name in NAMES:
        assert {draw[name] for draw in draws} == set(range(1, PLACES + 1))
    # As good as independent of the alphabet: the first of it has the lowest number in a third of the runs.
    assert 8 <= sum(draw["Ann"] == min(draw.values()) for draw in draws) <= 32


def test_the_seed_of_the_job_does_not_tell_the_numbers(tmp_path):
    random.seed(0)
    first = [tuple(annotators_left(tmp_path / f"a{n}", measured(THREE), 1).numbers.values()) for n in range(8)]
    random.seed(0)
    assert first != [tuple(annotators_left(tmp_path / f"b{n}", measured(THREE), 1).numbers.values()) for n in range(8)]


def test_who_has_too_few_patients_is_withheld_and_so_is_what_the_rest_would_be_one_patient_of(tmp_path):
    offsets = THREE | {"Cem": (3.0, people("Cem", 1))}
    fields = annotators_left(tmp_path / "one", measured(offsets), 1).sent()
    # Known figures of Ann, Ben and all would leave those of Cem's only patient: Ann goes with it.
    assert sorted(value for value in fields["annotator_offset"] if not math.isnan(value)) == [2.0]
    assert sorted(fields["annotator_offset_patients"]) == [0] * 7 + [6]
    unnamed = annotators_left(tmp_path / "unnamed", measured(THREE, unnamed=["x"]), 1).sent()
    assert sorted(unnamed["annotator_offset_patients"]) == [0] * 6 + [6, 6]


def test_nothing_leaves_where_nobody_has_enough_patients(tmp_path):
    few = {name: (1.0, people(name, 4)) for name in NAMES}
    assert annotators_left(tmp_path, measured(few), 1).sent() == {}


def test_a_figure_of_fewer_patients_than_its_group_has_is_withheld_and_the_rest_leaves(tmp_path):
    """Of six patients four have the objects that a figure is of: the site's own guard would refuse the whole answer."""
    offsets = measured(THREE)
    of_few = Estimate(4, 0.5, 0.4, 0.6, 1.0, 0.9)
    offsets.predictions["Ann"][MISSING] = GroupEstimate(of_few, frozenset(people("Ann", 6)))
    left = annotators_left(tmp_path, offsets, 1)
    REGISTRY.check(AUDIT_CASES, left.sent())
    known = {name: left.sent()["annotator_missed_patients"][number - 1] for name, number in left.numbers.items()}
    assert known == {"Ann": 0, "Ben": 6, "Cem": 6}


def test_another_question_with_another_model_gets_the_same_answer(tmp_path):
    """Two models that count seven and eight patients of Ann would give the eighth by subtraction."""
    first = annotators_left(tmp_path, measured(THREE), 1)
    more = THREE | {"Ann": (9.0, [*people("Ann", 6), "one more"])}
    assert annotators_left(tmp_path, measured(more), 1) == first
    # Nor does a run that goes on elsewhere.
    assert annotators_left(tmp_path / "resumed", measured(more), 1, earlier=[tmp_path]) == first


def test_an_answer_that_cannot_be_read_is_replaced_by_no_other(tmp_path):
    (tmp_path / LEFT_FILE).write_text("{")
    with pytest.raises(DataError, match=LEFT_FILE):
        annotators_left(tmp_path, measured(THREE), 1)


def test_more_annotators_than_places_leave_as_many_as_there_are_places(tmp_path):
    many = {f"reader-{n}": (float(n), people(f"r{n}-", 5)) for n in range(PLACES + 3)}
    left = annotators_left(tmp_path, measured(many), 1)
    assert sorted(left.numbers.values()) == list(range(1, PLACES + 1))
    REGISTRY.check(AUDIT_CASES, left.sent())


@pytest.mark.parametrize("name", [field.name for field in ANNOTATOR_FIELDS if field.kind == "counts"])
@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_no_figure_of_fewer_than_five_patients_leaves_and_no_server_takes_one(tmp_path, name, count):
    """A site that states its true count is refused, by its own guard and the server; and one that hides it is."""
    fields = annotators_left(tmp_path, measured(THREE), 1).sent()
    shares = {"num_patients": 18} | {key: [0.9] * len(SEGMENTATION_KINDS) for key in ("flagged_shares", "kind_aurocs")}
    figure = name.removesuffix("_patients")
    told = {figure: [0.5] * PLACES, f"{figure}_low": [0.4] * PLACES, f"{figure}_high": [0.6] * PLACES}
    lie = shares | fields | told | {name: [count] * PLACES}
    withheld = lie | {key: [math.nan] * PLACES for key in told}
    if count == 5:
        assert REGISTRY.refusal(AUDIT_CASES, lie, 1) is None
        REGISTRY.check(AUDIT_CASES, lie)
        return
    for sent in (lie, withheld) if count else (lie,):
        reason = in_words(REGISTRY.refusal(AUDIT_CASES, sent, 1))
        assert f"has an entry of {count} patients, expected at least 5 or none" in reason
        with pytest.raises(OutboundError, match=f"of {count} patients|over {count} cases; at least 5 are needed"):
            REGISTRY.check(AUDIT_CASES, sent)
    if not count:
        assert REGISTRY.refusal(AUDIT_CASES, withheld, 1) is None


def test_the_server_reads_what_has_left(tmp_path):
    left = annotators_left(tmp_path, measured(THREE), 1)
    count = len(SEGMENTATION_KINDS)
    shares = {"num_patients": 18, "flagged_shares": [0.0] * count, "kind_aurocs": [0.9] * count}
    fields = shares | left.sent()
    assert REGISTRY.refusal(AUDIT_CASES, fields, 1) is None
    record = AuditRecord.of({"s": fields, "t": shares}, SEGMENTATION_KINDS, ["s", "t"])
    (annotators,) = record.annotators.values()
    assert [one.number for one in annotators] == sorted(left.numbers.values())
    by_number = {one.number: one for one in annotators}
    ben = by_number[left.numbers["Ben"]]
    assert (ben.parameters[OFFSET].value, ben.parameters[OFFSET].patients) == (2.0, 6)
    assert ben.parameters[MISSING].value == 0.2
    # Written and read again.
    assert AuditRecord.model_validate(record.plain()) == record
