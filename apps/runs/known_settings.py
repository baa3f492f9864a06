"""Everything that can be set in a job: name, value, what is allowed, and what it does."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ...custom.components.component import TARGET
from ...custom.components.merging import component_places, place_of
from .job import Job, flat_settings

_BOUNDS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
_KINDS = {"integer": "whole number", "number": "number", "boolean": "true, false", "string": "text", "null": "null"}
# `name: what it is` below "Args:" or "Attributes:" in a class's docstring.
_EXPLAINED = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
# `name = value  # what it is` in a job's settings.conf.
_COMMENTED = re.compile(r"^\s*(\w+)\s*=[^#\n]*#\s*(.+)$", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


@dataclass(frozen=True)
class KnownSetting:
    """A setting of a job.

    Attributes:
        name: its dotted key.
        value: the job's, as JSON.
        allowed: which values there are, in words.
        meaning: what it does; empty where only its name says it.
    """

    name: str
    value: str
    allowed: str
    meaning: str


def known_settings(job: Job) -> list[KnownSetting]:
    """Return everything that can be set in a job.

    Raises:
        JobError, SettingsError: if the job's settings cannot be used.
    """
    settings = job.settings()
    values = flat_settings(settings.model_dump(mode="json"))
    comments = dict(_COMMENTED.findall(job.settings_file.read_text(encoding="utf-8")))
    places = component_places(type(settings))
    components = [place for place in places if f"{place}.{TARGET}" in values]
    described = {
        name: text
        for name, text in _described(type(settings)).items()
        if name in values or not place_of(name, components)
    }
    for name in sorted(values.keys() - described.keys()):
        if (place := place_of(name, components)) is not None:
            described[name] = (
                ("class", "") if name.endswith(TARGET) else (f"argument of {values[f'{place}.{TARGET}']}", "")
            )
    result = []
    for name, (allowed, meaning) in described.items():
        value = json.dumps(values.get(name), ensure_ascii=False)
        comment = comments.get(name.rpartition(".")[2], "")
        # "or ce_dice" is among what is allowed already.
        comment = "" if comment.startswith("or ") else comment
        result.append(KnownSetting(name, value, allowed, meaning or comment))
    return result


def _described(kind: type[BaseModel], prefix: str = "") -> dict[str, tuple[str, str]]:
    """What is allowed and meant, by dotted key."""
    schema = kind.model_json_schema()
    meanings = _meanings(kind)
    described: dict[str, tuple[str, str]] = {}
    for name, field in kind.model_fields.items():
        if field.exclude:
            continue
        of: Any = field.annotation
        if isinstance(of, type) and issubclass(of, BaseModel):
            described |= _described(of, f"{prefix}{name}.")
        else:
            described[f"{prefix}{name}"] = (_allowed(schema["properties"][name]), meanings.get(name, ""))
    return described


def _allowed(schema: Mapping[str, Any]) -> str:
    """Say in words what a JSON schema allows."""
    if "anyOf" in schema:
        return " or ".join(_allowed(item) for item in schema["anyOf"])
    if "$ref" in schema:
        return f"class with {TARGET}"
    if "const" in schema or "enum" in schema:
        return ", ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
    kind = str(schema.get("type", ""))
    if kind == "array":
        return f"list of: {_allowed(schema['items'])}" if schema.get("items") else "list"
    bounds = ", ".join(f"{sign} {schema[key]:g}" for key, sign in _BOUNDS if key in schema)
    return f"{_KINDS.get(kind, kind)} {bounds}".strip()


def _meanings(kind: type[BaseModel]) -> dict[str, str]:
    """What the docstrings of a class, and of those that it builds on, say of its fields."""
    meanings: dict[str, str] = {}
    for docstring in _docstrings(kind):
        for name, text in _EXPLAINED.findall(docstring):
            plain = _ROLE.sub(r"\1", " ".join(text.split())).replace("``", "").replace("`", "")
            meanings.setdefault(name, plain)
    return meanings


def _docstrings(kind: type[BaseModel]) -> Iterator[str]:
    for one in kind.__mro__:
        if one is BaseModel:
            return
        if "__doc__" in vars(one) and one.__doc__:
            yield inspect.cleandoc(one.__doc__)
