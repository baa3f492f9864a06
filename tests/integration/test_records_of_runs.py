"""What runs leave behind is what the schemas say, by an independent validator where one is installed."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import job_hashes
import pytest

from fedannot.apps.reports.output import read_metrics, read_summary
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.records.round_records import RoundRecord
from fedannot.custom.run.schemas import schemas
from fedannot.custom.run.summary_record import Summary

# Of both tasks, without anything of a method's own, and with each kind of it.
JOBS = ("fedavg", "fedaaai", "fedia", "fedgsca")
FEW = {
    "embedded.sites": 2,
    "embedded.completeness": [0.3, 0.8],
    "embedded.images_per_site": 3,
    "embedded.test_images": 2,
}


def check(values: Any, schema: str) -> None:
    """Validate values against a schema, where a validator is installed."""
    if importlib.util.find_spec("jsonschema") is not None:
        import jsonschema

        jsonschema.validate(values, schemas()[schema])


@pytest.mark.parametrize("name", JOBS)
def test_files_of_a_run_are_what_their_schemas_say(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = FEW if name == "fedia" else {}
    returned = simulate(job_hashes.small_job(name, tmp_path / "job"), out, overrides=few)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    check(summary, "summary.schema.json")
    read = read_summary(out)
    assert isinstance(read, Summary)
    assert read == returned
    assert read.plain() == summary
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    records = read_metrics(out)
    assert [record.plain() for record in records] == lines
    assert all(isinstance(record, RoundRecord) for record in records)
    assert [line["version"] for line in [summary, *lines]] == [2, 1, 1, 1]
    for line in lines:
        check(line, "metrics.schema.json")
    # Nothing that a method calls its own is a field that all have.
    assert not set(read.extra) & set(type(read).model_fields)
