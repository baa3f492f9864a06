"""YAML files whose content is a pydantic model; errors name the file, the key, what was found and what is allowed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from ...transforms.errors import DataError, describe_validation_error, shown
from ...transforms.strict_files import JsonObject, read_yaml
from ..strict_model import StrictModel
from .whole_files import write_text


class YamlContent(StrictModel):
    """The content of a YAML file; unknown keys are errors."""


Content = TypeVar("Content", bound=YamlContent)


def read_values(file: Path, kind: type[YamlContent]) -> JsonObject:
    """Read a YAML file's keys and values, not yet checked.

    Args:
        file: the file.
        kind: the model whose keys an error names.

    Raises:
        DataError: if the file is missing or holds anything but keys with values.
    """
    expected = f"the keys {', '.join(kind.model_fields)}"
    values = read_yaml(file, f"one with {expected}")
    if not isinstance(values, dict):
        result = "nothing" if values is None else shown(values)
        raise DataError(f"{file}: found {result}; expected {expected}.")
    return values


def validated(values: Mapping[str, Any], kind: type[Content], source: str) -> Content:
    """Check values against a model.

    Raises:
        DataError: with a line for every wrong key.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=source, model=kind)) from error


def write_values(file: Path, values: Mapping[str, Any]) -> None:
    """Write keys and values in their order."""
    write_text(file, yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))
