"""JSON files that the software keeps as a record, their content a pydantic model."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ...transforms.errors import DataError, describe_validation_error
from ...transforms.strict_files import read_json
from ..strict_model import StrictModel
from .whole_files import write_text


class JsonRecord(StrictModel):
    """The content of a record, or a part of it; unknown keys are errors."""


Record = TypeVar("Record", bound=JsonRecord)


def read_record(file: Path, kind: type[Record]) -> Record | None:
    """Read a record, None if there is no such file.

    Raises:
        DataError: if the file is not JSON, has a key twice, or a wrong key or value.
    """
    if not file.is_file():
        return None
    try:
        return kind.model_validate(read_json(file, "a record in JSON"))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=kind)) from error


def write_record(file: Path, record: JsonRecord, *, shared: bool = False) -> None:
    """Write a record in one step.

    Args:
        file: the file.
        record: its content.
        shared: whether others may read it; for records that say nothing of a patient.
    """
    write_text(file, json.dumps(record.model_dump(mode="json"), indent=2) + "\n", shared=shared)
