"""What an injected errors of annotations is: put into copies, so that it is seen how well an audit finds it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ...transforms.array_types import Array, Classes
from ...transforms.ignored_label import IGNORED_LABEL

Params = TypeVar("Params")


@dataclass(frozen=True)
class Chance:
    """What an error is drawn from.

    Attributes:
        generator: source of randomness.
        num_classes: foreground classes.
        other: the annotation of another case; None where there is none.
    """

    generator: np.random.Generator
    num_classes: int
    other: Classes | None = None


class KnownError(ABC, Generic[Params]):
    """An error of the annotation ``(H, W[, D])`` of a case; everything random is in its parameters."""

    @abstractmethod
    def make_params(self, annotation: Classes, chance: Chance) -> Params | None:
        """Draw an error of an annotation; None where this one cannot have any.

        Args:
            annotation: given classes, 0 for background.
            chance: what it is drawn from.
        """

    @abstractmethod
    def apply(self, annotation: Classes, params: Params) -> Classes:
        """Return a copy of the annotation with the error."""

    def __call__(self, annotation: Classes, chance: Chance) -> Classes | None:
        """Draw and apply; None where the annotation cannot have such an error, or it would change nothing."""
        params = self.make_params(annotation, chance)
        if params is None:
            return None
        changed = self.apply(annotation, params)
        return None if np.array_equal(changed, annotation) else changed


def counted(annotation: Array) -> Classes:
    """Return the annotation with ignored pixels as background."""
    return np.where(annotation == IGNORED_LABEL, 0, annotation).astype(np.uint8)
