"""The schemas in the documentation are those of the records."""

from pathlib import Path

import pytest

from fedannot.custom.run.schemas import schema_text, schemas

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
    """What reads version 1 must find it so: required fields, and their version."""
    for name, kinds in (
        ("summary.schema.json", ("SegmentationSummary", "ClassificationSummary")),
        ("metrics.schema.json", ("SegmentationRecord", "ClassificationRecord")),
    ):
        definitions = schemas()[name]["$defs"]
        for kind in kinds:
            assert definitions[kind]["properties"]["version"]["const"] == 1
            assert "version" in definitions[kind]["required"]
