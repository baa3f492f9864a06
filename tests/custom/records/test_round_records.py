"""Records of rounds and summaries: what methods add, what is absent, and files of other versions."""

import json

import pytest
from plain_records import record, report, site_report, summary_values

from fedannot.custom.methods.fedia.records import CompletenessFindings
from fedannot.custom.outbound.fields import COMMON_FIELDS, PREPARATION
from fedannot.custom.records.round_records import ClassificationRecord, SegmentationRecord, SiteReport
from fedannot.custom.run.reading import read_metrics_file, read_summary_file
from fedannot.custom.run.summary_record import ClassificationSummary, SegmentationSummary
from fedannot.custom.task_names import TRAIN
from fedannot.transforms.errors import DataError


def test_a_report_has_every_field_that_all_methods_send():
    sent = {field.name for field in COMMON_FIELDS if TRAIN in field.tasks and field.kind != "model"}
    # How a site prepares its images is the same in all rounds, and in the summary.
    assert sent - {PREPARATION} == set(SiteReport.model_fields)


def test_what_a_method_adds_is_plain_and_reachable():
    made = SegmentationRecord.of(record(2, dice=0.5).plain(), {"completeness": None, "pair": (1, 2.5)})
    assert made.extra == {"completeness": None, "pair": [1, 2.5]}
    assert (made.named("dice"), made.named("pair"), made.named("absent")) == (0.5, [1, 2.5], None)
    assert made.added(CompletenessFindings) == CompletenessFindings(completeness=None)
    assert made.plain()["pair"] == [1, 2.5]


def test_what_another_method_calls_the_same_is_not_taken_for_it():
    assert record(1, completeness="none").added(CompletenessFindings) is None
    assert record(1).added(CompletenessFindings) is None


def test_a_method_cannot_replace_what_all_records_have():
    with pytest.raises(ValueError, match="A method cannot add 'seconds' to a record that has it"):
        SegmentationRecord.of(record(1).plain(), {"seconds": 0.0})


def test_weights_that_earlier_versions_wrote_for_one_method_are_those_of_all():
    assert record(1, weights={"a": 0.25}).weights == {"a": 0.25}


def test_a_method_cannot_add_what_files_cannot_hold():
    with pytest.raises(ValueError, match=r"Expected plain values from a method in \['model'\]"):
        SegmentationRecord.of(record(1).plain(), {"model": object()})


def test_a_loss_that_was_not_sent_differs_from_one_that_is_undefined():
    assert not site_report().has_dice_loss
    undefined = site_report(dice_loss=None, num_dice_patients=4)
    assert undefined.has_dice_loss
    assert undefined.dice_loss is None
    assert "dice_loss" not in site_report().plain()
    assert undefined.plain()["dice_loss"] is None


def test_the_version_comes_first():
    assert next(iter(record(1).plain())) == "version"
    assert next(iter(record(1, f1=0.5).plain())) == "version"


def written(folder, values):
    file = folder / "summary.json"
    file.write_text(json.dumps(values))
    return file


@pytest.mark.parametrize(
    ("task", "kind"), [("segmentation", SegmentationSummary), ("classification", ClassificationSummary)]
)
def test_a_summary_comes_back_as_it_was_written(tmp_path, task, kind):
    values = summary_values(task=task, sites={"a": {"num_samples": 3, "own": [1, 2]}}, rounds=[{}], added={"x": None})
    result = read_summary_file(written(tmp_path, values))
    assert type(result) is kind
    assert result.plain() == values
    assert result.sites["a"].extra == {"own": [1, 2]}
    assert result.extra == {"added": {"x": None}}


def test_files_from_before_there_was_a_version_are_of_the_first(tmp_path):
    values = summary_values()
    del values["version"]
    assert read_summary_file(written(tmp_path, values)).plain() == summary_values() | {"version": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "found version 3 of the summary of a run, expected at most 2: a later fedannot wrote it"),
        ({"version": "new"}, "key 'version' is 'new'"),
        ({"task": "registration"}, "key 'task' is 'registration', expected segmentation or classification"),
        ({"rounds_finished": "many"}, "key 'rounds_finished' is 'many'"),
    ],
)
def test_a_foreign_summary_is_refused_with_its_file(tmp_path, changes, message):
    file = written(tmp_path, summary_values() | changes)
    with pytest.raises(DataError) as caught:
        read_summary_file(file)
    assert str(caught.value).startswith(f"{file}: {message}")


@pytest.mark.parametrize("values", [[], "text", None])
def test_what_is_no_mapping_is_no_summary(tmp_path, values):
    with pytest.raises(DataError, match=f"summary.json: found {type(values).__name__}, expected the summary of a run"):
        read_summary_file(written(tmp_path, values))


def test_records_of_both_tasks_come_back(tmp_path):
    records = [record(1, dice=0.5, sites={"a": report(noise=1)}), record(2, f1=0.25, confusion=[[1, 2], [0, 3]])]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(item.plain()) + "\n" for item in records))
    result = read_metrics_file(tmp_path / "metrics.jsonl")
    assert result == records
    assert [type(item) for item in result] == [SegmentationRecord, ClassificationRecord]
    assert [item.main_score for item in result] == [0.5, 0.25]


def test_a_line_that_is_no_record_is_named(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text(json.dumps(record(1).plain()) + "\n" + json.dumps({"round": 2, "version": 3}) + "\n")
    with pytest.raises(DataError) as caught:
        read_metrics_file(file)
    assert str(caught.value).startswith(f"{file}, line 2: found version 3 of the record of a round, expected at most 1")
    with pytest.raises(DataError, match=r"none\.jsonl: cannot be read .*; expected the records of a run's rounds"):
        read_metrics_file(tmp_path / "none.jsonl")
