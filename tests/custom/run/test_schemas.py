"""The schemas in the documentation are those of the records."""

from pathlib import Path

import pytest

from fedannot.custom.records.round_records import VERSION
from fedannot.custom.run.schemas import schema_text, schemas
from fedannot.custom.run.summary_record import SUMMARY_VERSION

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"


def test_there_is_a_file_for_each():
    assert {file.name for file in FOLDER.iterdir()} == set(schemas())


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schemas_are_up_to_date(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == schema_text(schemas()[name]), (
        f"docs/schemas/{name} is not that of the records; if the change of the records is meant, write it again: "
        "python -m fedannot.custom.run.schemas docs/schemas"
    )


def test_a_later_form_needs_a_later_version():
    """What reads a form must find it so: required fields, and their versions."""
    for name, kinds, version in (
        ("summary.schema.json", ("SegmentationSummary", "ClassificationSummary"), {"enum": [1, SUMMARY_VERSION]}),
        ("metrics.schema.json", ("SegmentationRecord", "ClassificationRecord"), {"const": VERSION}),
    ):
        definitions = schemas()[name]["$defs"]
        for kind in kinds:
            assert version.items() <= definitions[kind]["properties"]["version"].items()
            assert "version" in definitions[kind]["required"]
