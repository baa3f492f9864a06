"""Reading JSON and YAML that others wrote: one meaning or an error, within bounds of size, depth and time."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from .errors import DataError, MissingFileError, shown

# Keys and values of a file in JSON, YAML or HOCON, as it is read or written.
JsonObject = dict[str, Any]

# A datalist of a million cases has 200 MB; descriptions and policies have a few kilobytes, and their parser is slow.
MAX_JSON_BYTES = 2**28
MAX_YAML_BYTES = 2**18

_MAX_DEPTH = 64
_CONTAINERS = (dict, list)
# No number of ours has more digits; the time that a long one takes grows with the square of its length.
_MAX_NUMBER_CHARACTERS = 400
# '<<' and '=' are no keys of their own.
_YAML_SPECIAL_KEYS = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
_YAML_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _RefusedError(ValueError):
    """The text can be parsed but is refused; says what was found and what was expected."""


def read_json(file: Path, expected: str, *, any_number: bool = False) -> Any:
    """Read a JSON file; see :func:`parse_json` for what is refused.

    Args:
        file: the file.
        expected: what it should be, for an error.
        any_number: as for :func:`parse_json`.

    Raises:
        DataError: if the file is missing, too large, is not JSON or is refused.
    """
    return parse_json(_read_text(file, expected, MAX_JSON_BYTES, "JSON"), str(file), any_number=any_number)


def parse_json(text: str, source: str, *, any_number: bool = False) -> Any:
    """Return the content of JSON.

    Keys that appear twice, NaN and Infinity, numbers beyond the range of a float and deep nesting are refused: readers
    differ in what they take from them.

    Args:
        text: the JSON.
        source: the file, or other place, to name in an error.
        any_number: take NaN and Infinity, too, where one wrong item must not make the others unusable.

    Raises:
        DataError: if the text is not JSON or is refused.
    """
    constant, number = (None, None) if any_number else (_refuse_constant, _finite_float)

    def parse() -> Any:
        content = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=constant, parse_float=number)
        _check_depth(content)
        return content

    return _parsed(parse, source, "JSON")


def read_yaml(file: Path, expected: str) -> Any:
    """Read a YAML file; see :func:`parse_yaml` for what is refused.

    Args:
        file: the file.
        expected: what it should be, for an error.

    Raises:
        DataError: if the file is missing, too large, is not YAML or is refused.
    """
    return parse_yaml(_read_text(file, expected, MAX_YAML_BYTES, "YAML"), str(file))


def parse_yaml(text: str, source: str) -> Any:
    """Return the content of YAML, plain values only.

    Aliases (``*name``), keys that appear twice, deep nesting, numbers of hundreds of digits and texts of more than
    :data:`MAX_YAML_BYTES` are refused. A few aliases of aliases stand for millions of values.

    Args:
        text: the YAML.
        source: the file, or other place, to name in an error.

    Raises:
        DataError: if the text is not YAML or is refused.
    """
    if len(text) > MAX_YAML_BYTES:
        raise DataError(f"{source}: found {len(text)} characters of YAML; expected at most {MAX_YAML_BYTES}.")
    return _parsed(lambda: yaml.load(text, _StrictLoader), source, "YAML")


def _read_text(file: Path, expected: str, max_bytes: int, kind: str) -> str:
    if not file.is_file():
        raise MissingFileError(f"{file}: found no such file; expected {expected}.")
    try:
        with file.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); expected {expected}.") from error
    if len(content) > max_bytes:
        raise DataError(f"{file}: found more than {max_bytes} bytes; expected {expected}, which needs fewer.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not {kind} ({error}).") from error


def _parsed(parse: Callable[[], Any], source: str, kind: str) -> Any:
    try:
        return parse()
    except _RefusedError as error:
        raise DataError(f"{source}: {error}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"{source}: is not {kind} ({' '.join(str(error).split())}).") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _twice(twice)
    return content


def _twice(key: Any, place: str = "") -> _RefusedError:
    return _RefusedError(f"found the key {shown(key)} twice{place}; expected each key once. Remove one of the two.")


def _refuse_constant(name: str) -> Any:
    raise _RefusedError(f"found {name}; expected numbers, or null where there is none.")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"found the number {shown(text)}; expected one that a computer can hold.")
    return value


def _check_depth(content: Any) -> None:
    level = [content] if isinstance(content, _CONTAINERS) else []
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, _CONTAINERS)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> _RefusedError:
    return _RefusedError(f"found values nested more than {_MAX_DEPTH} deep; expected fewer levels.")


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader without what makes a short text long, or lets it mean two things."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a value, unless it is an alias or nested too deep."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _RefusedError(
                f"found the alias '*{event.anchor}'{_place(event.start_mark)}; expected values without aliases. Write "
                "the value out."
            )
        if self._depth >= _MAX_DEPTH:
            raise _too_deep()
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Compose a single value, unless it is a number of hundreds of digits."""
        node = super().compose_scalar_node(anchor)
        if node.tag in _YAML_NUMBERS and len(node.value) > _MAX_NUMBER_CHARACTERS:
            raise _RefusedError(
                f"found a number of {len(node.value)} characters{_place(node.start_mark)}; expected at most "
                f"{_MAX_NUMBER_CHARACTERS}."
            )
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Construct a mapping, unless a key appears twice."""
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag in _YAML_SPECIAL_KEYS:
                continue
            key = self.construct_object(key_node, deep=True)
            try:
                if key in seen:
                    raise _twice(key, _place(key_node.start_mark))
                seen.add(key)
            except TypeError:
                # PyYAML says so itself.
                break
        return super().construct_mapping(node, deep)


def _place(mark: Any) -> str:
    return f" in line {mark.line + 1}"
