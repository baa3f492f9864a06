"""What the server of `auto` asks a site of its boundary profile, as plain values."""

import math
from collections.abc import Sequence
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field, FiniteFloat

from ....transforms.strict_files import JsonObject
from ...annotation_bias.profile.alignment import WINDOW, Template
from ...annotation_bias.profile.curves import STEP
from ...records.round_records import Record

T = TypeVar("T")

# A template as it is sent: a value at each level, None where it has none; itself None of a site alone.
_Levels = Annotated[
    tuple[Annotated[FiniteFloat, Field(ge=-100, le=100)] | None, ...],
    Field(min_length=round(2 * WINDOW / STEP) + 1, max_length=round(2 * WINDOW / STEP) + 1),
]


class ProfileRequest(Record):
    """A scale, and what was found so far.

    Attributes:
        halvings: of the pixel size until it is the images' own; None for the site's own first scale.
        biases: of each class what was found so far, in millimetres, pixels without spacing; empty for nothing.
        templates: of each class the template of the other sites; None of a site alone. Empty where curves are asked.
    """

    halvings: Annotated[int, Field(ge=0, le=16)] | None = None
    biases: tuple[Annotated[FiniteFloat, Field(ge=-1e5, le=1e5)], ...] = ()
    templates: tuple[_Levels | None, ...] = ()

    @classmethod
    def of_templates(cls, biases: Sequence[float], templates: Sequence[Template | None]) -> "ProfileRequest":
        """Ask how certain biases are."""
        levels = tuple(None if one is None else tuple(_plain(one)) for one in templates)
        return cls(halvings=0, biases=tuple(biases), templates=levels)

    def message(self) -> JsonObject:
        """Return what goes along with the task."""
        return {"profile": self.model_dump(mode="json")}

    def biases_of(self, num_classes: int) -> tuple[float, ...]:
        """Return what was found of each class, 0 for nothing.

        Raises:
            ValueError: if it is of another number of classes.
        """
        return _checked(self.biases or (0.0,) * num_classes, num_classes)

    def templates_of(self, num_classes: int) -> tuple[Template | None, ...]:
        """Return the template of each class.

        Raises:
            ValueError: as above.
        """
        return tuple(None if one is None else _template(one) for one in _checked(self.templates, num_classes))


def _checked(of_classes: tuple[T, ...], num_classes: int) -> tuple[T, ...]:
    if len(of_classes) != num_classes:
        raise ValueError(f"Expected an entry for each of {num_classes} classes, but got {len(of_classes)}.")
    return of_classes


def _plain(template: Template) -> list[float | None]:
    return [
        round(float(value), 6) if is_known else None
        for value, is_known in zip(template.values, template.known, strict=True)
    ]


def _template(levels: Sequence[float | None]) -> Template:
    values = np.array([math.nan if level is None else level for level in levels])
    known = np.isfinite(values)
    return Template(np.where(known, values, 0.0), known)
