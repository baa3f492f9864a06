"""Errors about what a person wrote or supplied: they name the file, the key, what was found and what is allowed."""

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

_SHOWN_CHARACTERS = 200


class DataError(ValueError):
    """Data or their description cannot be used; the text names site, file, what was found and what was expected."""


def shown(value: Any) -> str:
    """Return a value as it is written, shortened: nobody knows what stands in a file."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def describe_validation_error(error: ValidationError, *, source: str, model: type[BaseModel]) -> str:
    """Turn pydantic's errors into one line per wrong key: the file, the key, what was found and what is allowed.

    Args:
        error: what pydantic raised.
        source: the file, or other place, that the values come from.
        model: the model that the values were checked against; its fields are the allowed keys.
    """
    return "\n".join(f"{source}: {_describe(details, model)}" for details in error.errors())


def _describe(details: Any, model: type[BaseModel]) -> str:
    location = tuple(details["loc"])
    key = ".".join(str(part) for part in location)
    if details["type"] == "extra_forbidden":
        allowed = sorted(_model_at(model, location[:-1]).model_fields)
        close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        return f"unknown key {shown(key)} = {shown(details['input'])}{hint} Allowed keys: {', '.join(allowed)}."
    if details["type"] == "missing":
        return f"missing key {key!r}."
    if not key:
        return f"{details['msg'].removeprefix('Value error, ')}."
    return f"key {shown(key)} is {shown(details['input'])}: {details['msg']}."


def _model_at(model: type[BaseModel], location: tuple[Any, ...]) -> type[BaseModel]:
    """Follow a location down into nested models as far as they go."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return model
        model = field.annotation
    return model
