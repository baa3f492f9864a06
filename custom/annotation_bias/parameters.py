"""The parameters of a site's annotation bias, each named by what it measures and of which class."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

ALL_CLASSES = 0


class ParameterKind(StrEnum):
    """What a parameter measures: the boundary bias, missed objects, objects of another class, or wrong case labels."""

    OFFSET = "offset"
    MISSING = "missing"
    CONFUSED = "swapped"
    LABELS = "labels"

    @property
    def is_fraction(self) -> bool:
        """Whether it is a fraction of wrong objects or labels: less of them than at the reference is no fault."""
        return self is not ParameterKind.OFFSET


@dataclass(frozen=True, order=True)
class ParameterKey:
    """One parameter: its kind and its class.

    The plain form, on the wire and in JSON, is the kind, a space and the label, such as ``offset 1``. It is written and
    read here alone; pydantic records use it for fields and for keys.

    Attributes:
        kind: what it measures.
        label: of the class; 0 where it is of all classes together.

    Example:
        >>> key = ParameterKey(ParameterKind.OFFSET, 1)
        >>> str(key), ParameterKey.parse("offset 1") == key
        ('offset 1', True)
    """

    kind: ParameterKind
    label: int

    def __str__(self) -> str:
        return f"{self.kind} {self.label}"

    @property
    def is_of_all_classes(self) -> bool:
        """Whether it is of all classes together."""
        return self.label == ALL_CLASSES

    @classmethod
    def parse(cls, text: str) -> "ParameterKey":
        """Read the plain form.

        Raises:
            ValueError: if it is none.
        """
        kind, _, label = text.partition(" ")
        if kind not in tuple(ParameterKind) or not (label.isascii() and label.isdigit()):
            kinds = ", ".join(ParameterKind)
            raise ValueError(f"Expected one of {kinds}, a space and a class from 0, but found {text!r}.")
        return cls(ParameterKind(kind), int(label))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source, handler
        return core_schema.no_info_plain_validator_function(
            cls._validated, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        del schema, handler
        return {"type": "string", "pattern": f"^({'|'.join(ParameterKind)}) [0-9]+$"}

    @classmethod
    def _validated(cls, value: Any) -> "ParameterKey":
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise ValueError(f"Expected a parameter such as 'offset 1', but found {value!r}.")


CONFUSED_OBJECTS = ParameterKey(ParameterKind.CONFUSED, ALL_CLASSES)
WRONG_LABELS = ParameterKey(ParameterKind.LABELS, ALL_CLASSES)
