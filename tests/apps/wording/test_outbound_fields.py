"""Why fields leave a site: every declared field has a reason, and no reason is of a field that there is not."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.installed import jobs_folder
from fedannot.apps.runs.job import Job
from fedannot.apps.wording.outbound_fields import REASONS, REASONS_OF_TASK, described_field, reason_of
from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods.lookup import all_methods
from fedannot.custom.outbound.fields import COMMON_FIELDS, OutboundField
from fedannot.custom.task_names import ESTIMATE_COMPLETENESS, TRAIN, VALIDATE

EVERY = pytest.mark.parametrize("method", all_methods(), ids=lambda method: f"{method.name}-{method.task}")


@EVERY
def test_every_declared_field_has_a_reason_for_each_of_its_tasks(method: Method) -> None:
    fields = (*COMMON_FIELDS, *method.outbound_fields)
    without = [(task, field.name) for field in fields for task in field.tasks if not reason_of(field, task)]
    assert not without


def test_no_reason_is_left_over() -> None:
    declared = {field.name: field for method in all_methods() for field in method.outbound_fields}
    declared |= {field.name: field for field in COMMON_FIELDS}
    pairs = {(task, field.name) for method in all_methods() for field in method.outbound_fields for task in field.tasks}
    pairs |= {(task, field.name) for field in COMMON_FIELDS for task in field.tasks}
    assert set(REASONS) <= set(declared)
    assert set(REASONS_OF_TASK) <= pairs


@pytest.mark.parametrize(
    ("name", "task", "reason"),
    [
        ("params", TRAIN, "the locally trained model, to be averaged"),
        ("num_samples", VALIDATE, "weights of means: images, volumes or slices; for validation, images or volumes"),
        ("num_samples", "estimate_quality", "the size of the site's data: images, volumes or slices"),
        ("offset_patients", "estimate_annotation_bias", "patients or volumes behind offset"),
        (
            "reviewed_offset_low",
            "estimate_annotation_bias",
            "distance of given contours from reviewed ones, outward, lower end of its 90 % interval",
        ),
        ("completeness_low", ESTIMATE_COMPLETENESS, "lower end of its 90 % interval over patients"),
        (
            "offset_mean_noise",
            "estimate_annotation_bias",
            "standard deviation of the noise in offset_mean: it is part of the interval",
        ),
    ],
)
def test_a_reason_is_by_name_and_task(name: str, task: str, reason: str) -> None:
    assert reason_of(OutboundField(name, (task,), "number"), task) == reason


def test_a_method_of_another_package_gives_a_reason_or_none() -> None:
    assert reason_of(OutboundField("update_norm", (TRAIN,), "number"), TRAIN) == ""
    said = OutboundField("update_norm", (TRAIN,), "number", "how far it moves the model", "num_patients")
    assert reason_of(said, TRAIN) == "how far it moves the model"


def test_a_field_is_described_with_the_patients_behind_it() -> None:
    field = OutboundField("noise_level", (TRAIN,), "number", counted_by="num_patients", optional="noise level")
    name, what, reason = described_field(field, TRAIN)
    assert (name, what) == ("noise_level", "number, over num_patients, not always sent")
    assert reason.startswith("fraction of the samples whose label does not look right")


def test_the_command_lists_every_field_of_a_job_with_its_reason() -> None:
    result = CliRunner().invoke(app, ["jobs", "fields", "fedia"])
    assert result.exit_code == 0, result.output
    (method,) = (method for method in all_methods() if method.name == "fedia")
    declared = [(task, field.name) for field in (*COMMON_FIELDS, *method.outbound_fields) for task in field.tasks]
    listed, task = [], ""
    for line in result.output.splitlines():
        if not line.startswith(" "):
            task = line
        elif not line.startswith("    "):
            listed.append((task, line.split()[0]))
    assert sorted(listed) == sorted(declared)
    assert "    lower end of its 90 % interval over patients\n" in result.output


def test_the_command_says_in_which_numbers_the_model_leaves(tmp_path: Path) -> None:
    plain = CliRunner().invoke(app, ["jobs", "fields", "fedavg"]).output
    assert "    the locally trained model, to be averaged\n" in plain
    job = Job.open(jobs_folder() / "fedavg").copy_with({"update_precision": "int8"}, tmp_path / "job").folder
    rounded = CliRunner().invoke(app, ["jobs", "fields", str(job)]).output
    assert "whole numbers from -127 to 127 with a scale" in rounded
    assert "(update_precision = int8)\n" in rounded
