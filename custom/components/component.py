"""A component as settings have it: checked as far as that goes without importing its class."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, WrapValidator, model_serializer
from pydantic_core import PydanticCustomError

from ...transforms.errors import shown
from .roles import Role, allowed_packages, is_below

TARGET = "_target_"

# A class's path: no part begins with an underscore, the class itself with a capital letter.
_PATH = re.compile(r"(?:[A-Za-z][A-Za-z0-9_]*\.)*[A-Z][A-Za-z0-9_]*")
_ARGUMENT = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
# How MONAI's configurations begin an expression, a reference and a macro.
_EXPRESSIONS = ("$", "@", "%")
_LONGEST_TEXT = 200
_DEEPEST = 6


class ComponentError(ValueError):
    """A component cannot be used; the text names it, what was found and what is allowed."""


def first_line(error: BaseException | None) -> str:
    """Return what an error of somebody's class says, without the advice that follows in further lines."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


class Component(BaseModel):
    """A class by its full name, with arguments as JSON has them; an argument may be a component's table in turn.

    Its form in settings is a table, ``{_target_ = "monai.losses.DiceLoss", sigmoid = true}``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    arguments: dict[str, JsonValue] = {}

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.target.rpartition(".")[2]

    @model_serializer
    def table(self) -> dict[str, JsonValue]:
        """Return the component's form in settings."""
        return {TARGET: self.target, **self.arguments}

    def targets(self) -> list[str]:
        """Return the names of all classes, those of nested components as well."""
        return [self.target, *(str(table[TARGET]) for table in tables_in(self.arguments))]


def tables_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Yield every component's table within a value, at any depth."""
    if isinstance(value, dict):
        if TARGET in value:
            yield value
        for inner in value.values():
            yield from tables_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from tables_in(inner)


def read_component(value: Any, role: Role) -> Component:
    """Read a component and check its form: nothing is imported.

    Args:
        value: a table with ``_target_``, a class's name, or a component.
        role: what it is for; a name without a package is looked up in the role's.

    Raises:
        ComponentError: if the form is another, a class is in no allowed package, or an argument is an expression.

    Example:
        >>> read_component("SegResNet", Role.NETWORK).target
        'monai.networks.nets.SegResNet'
    """
    if isinstance(value, Component):
        return value
    if isinstance(value, str):
        value = {TARGET: value}
    if not isinstance(value, Mapping) or TARGET not in value:
        raise ComponentError(
            f"Expected the name of a class, such as '{role.package}.NAME', or a table with {TARGET!r} and arguments, "
            f"but found {shown(value)}"
        )
    target = _checked_target(value[TARGET], role)
    arguments = {key: _checked(entry, str(key), role, 1) for key, entry in value.items() if key != TARGET}
    for key in arguments:
        _check_key(key)
    return Component.model_construct(target=target, arguments=arguments)


def component_or(role: Role, *names: str) -> WrapValidator:
    """Return the check of a setting that is one of some names, or a component.

    Args:
        role: what the component is for.
        names: short forms that mean something else than a class; they begin with a small letter.
    """

    def check(value: Any, _: Callable[[Any], Any]) -> Any:
        if isinstance(value, str) and value in names:
            return value
        try:
            if isinstance(value, str) and names and "." not in value and not value[:1].isupper():
                choices = ", ".join(map(repr, names))
                raise ComponentError(f"Expected {choices}, or the name of a class such as '{role.package}.NAME'")
            return read_component(value, role)
        except ComponentError as error:
            raise as_validation_error(error) from error

    return WrapValidator(check)


def component_or_none(role: Role) -> WrapValidator:
    """Return the check of a setting that is a component or None."""

    def check(value: Any, _: Callable[[Any], Any]) -> Any:
        try:
            return None if value is None else read_component(value, role)
        except ComponentError as error:
            raise as_validation_error(error) from error

    return WrapValidator(check)


def as_validation_error(error: ComponentError) -> PydanticCustomError:
    """Return the error that pydantic reports with the setting's key."""
    return PydanticCustomError("component", "{text}", {"text": str(error).removesuffix(".")})


def _checked_target(value: Any, role: Role) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value) or len(value) > _LONGEST_TEXT:
        raise ComponentError(
            f"{TARGET} is {shown(value)}; expected the name of a class, such as '{role.package}.NAME': parts of "
            "letters, digits and underscores, divided by dots, the last with a capital letter first"
        )
    target = value if "." in value else f"{role.package}.{value}"
    packages = allowed_packages()
    if not is_below(target, packages):
        raise ComponentError(f"{TARGET} is {target!r}; allowed are classes of {', '.join(packages)}")
    return target


def _checked(value: Any, key: str, role: Role, depth: int) -> JsonValue:
    """An argument as JSON has it, without expressions."""
    if depth > _DEEPEST:
        raise ComponentError(f"argument {key!r} is nested more than {_DEEPEST} deep")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str):
        if value.lstrip().startswith(_EXPRESSIONS):
            raise ComponentError(f"argument {key!r} is {shown(value)}; expressions and references are not allowed")
        if len(value) > _LONGEST_TEXT:
            raise ComponentError(f"argument {key!r} is a text of {len(value)} characters; at most {_LONGEST_TEXT}")
        return value
    if isinstance(value, list | tuple):
        return [_checked(entry, key, role, depth + 1) for entry in value]
    if isinstance(value, Mapping):
        return _checked_table(value, key, role, depth)
    raise ComponentError(
        f"argument {key!r} is {shown(value)}; expected a number, a text, true, false, or lists of them"
    )


def _checked_table(value: Mapping[Any, Any], key: str, role: Role, depth: int) -> JsonValue:
    result: dict[str, JsonValue] = {}
    for name, entry in value.items():
        if name == TARGET:
            result[TARGET] = _checked_target(entry, role)
        else:
            _check_key(name)
            result[name] = _checked(entry, f"{key}.{name}", role, depth + 1)
    return result


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not _ARGUMENT.fullmatch(key):
        raise ComponentError(
            f"found the argument {shown(key)}; expected a name that begins with a letter: {TARGET!r} is the only key "
            "with an underscore first"
        )
