"""Settings as a command line gives them, ``KEY=VALUE``."""

from collections.abc import Mapping
from typing import Any

from ...custom.settings import SettingsError
from ...transforms.errors import DataError
from ...transforms.strict_files import parse_yaml
from .hocon import parse_hocon_value


def parse_override(text: str) -> tuple[str, Any]:
    """Read ``key=value``; the value is YAML (a number, true, a list), a block as in a job's file, or else a text.

    Raises:
        SettingsError: if there is no ``=``.

    >>> parse_override("rounds=8"), parse_override("training.patch=[32, 32, 16]")
    (('rounds', 8), ('training.patch', [32, 32, 16]))
    >>> parse_override("network={_target_ = SegResNet}") == ("network", {"_target_": "SegResNet"})
    True
    """
    key, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not key:
        raise SettingsError(f"Expected a setting as key=value, but got {text!r}.")
    try:
        return key, _parsed_value(value)
    except DataError as error:
        raise SettingsError(f"The value of {text!r} cannot be read: {error}") from error


def _parsed_value(text: str) -> Any:
    """A value of the command line: YAML; a block or a list with ``=`` is HOCON, which YAML takes for odd texts."""
    if text[:1] in ("{", "[") and "=" in text:
        try:
            value = parse_yaml(text, "it")
        except DataError:
            return parse_hocon_value(text)
        return parse_hocon_value(text) if _has_equals_key(value) else value
    return parse_yaml(text, "it") if text else ""


def _has_equals_key(value: Any) -> bool:
    """Whether YAML found ``name=value`` where a key was expected."""
    if isinstance(value, Mapping):
        return any("=" in str(key) or _has_equals_key(entry) for key, entry in value.items())
    return isinstance(value, list) and any(map(_has_equals_key, value))
