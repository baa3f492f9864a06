"""Errors about what a person wrote or supplied: they name the file, the key, what was found and what is allowed."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from .data_error import DataError, MissingFileError

__all__ = ["DataError", "MissingFileError", "describe_validation_error", "did_you_mean", "shown"]

_SHOWN_CHARACTERS = 200
# Names that may have been meant: how many are listed at most, and their minimum similarity, from 0 to 1.
_NEAREST = 3
_LEAST_LIKENESS = 0.6
_ABOUT_EQUAL = 0.05


def shown(value: Any) -> str:
    """Return a value as it is written, shortened: nobody knows what stands in a file."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about an unknown word: those known ones that are nearest to it, or a full stop.

    They are three at most, and about equally near. Of a dotted key the last part counts as well.

    >>> did_you_mean("training.learning_rat", ["rounds", "training.learning_rate", "training.loss"])
    "; did you mean 'training.learning_rate'?"
    >>> did_you_mean("skin-n", ["skin-ns", "skin-ne", "breast-ns"])
    "; did you mean 'skin-ns' or 'skin-ne'?"
    >>> did_you_mean("seeds", ["method", "rounds"])
    '.'
    """
    likeness = {name: max(_likeness(word, name), _likeness(_last(word), _last(name))) for name in known}
    enough = max(_LEAST_LIKENESS, max(likeness.values(), default=0) - _ABOUT_EQUAL)
    near = sorted((name for name in known if likeness[name] >= enough), key=lambda name: -likeness[name])[:_NEAREST]
    if not near:
        return "."
    *others, last = map(repr, near)
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def describe_validation_error(
    error: ValidationError, *, source: str, model: type[BaseModel], where_listed: str = ""
) -> str:
    """Turn pydantic's errors into one line per wrong key: the file, the key, what was found and what is allowed.

    Args:
        error: what pydantic raised.
        source: the file, or other place, that the values come from.
        model: the model that the values were checked against; its fields are the allowed keys.
        where_listed: a sentence that says where all allowed keys are listed, for models with many.
    """
    return "\n".join(f"{source}: {_describe(details, model, where_listed)}" for details in error.errors())


def _describe(details: Any, model: type[BaseModel], where_listed: str) -> str:
    location = tuple(details["loc"])
    key = ".".join(str(part) for part in location)
    if details["type"] == "extra_forbidden":
        allowed = sorted(_model_at(model, location[:-1]).model_fields)
        hint = did_you_mean(str(location[-1]), allowed)
        all_of_them = where_listed or f"Allowed keys: {', '.join(allowed)}."
        return f"unknown key {shown(key)} = {shown(details['input'])}{hint} {all_of_them}"
    if details["type"] == "missing":
        return f"missing key {key!r}."
    text = details["msg"].removeprefix("Value error, ")
    # Of a block, a text that begins with its key says what was found there.
    if not key or (isinstance(details["input"], Mapping) and text.startswith("key '")):
        return f"{text}."
    return f"key {shown(key)} is {shown(details['input'])}: {details['msg']}."


def _model_at(model: type[BaseModel], location: tuple[Any, ...]) -> type[BaseModel]:
    """Follow a location down into nested models as far as they go."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return model
        model = field.annotation
    return model
