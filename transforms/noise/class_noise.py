"""How sites mislabel their cases: symmetric, pairflip and clinical noise, one kind and rate for each site."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # Settings are checked without NumPy.
    from ..array_types import Floats

_KINDS: dict[str, Literal["symmetric", "pairflip", "clinical"]] = {"S": "symmetric", "P": "pairflip", "C": "clinical"}

# For every class the classes that it is mistaken for.
Confusions = Sequence[Sequence[int]]


@dataclass(frozen=True)
class ClassNoise:
    """How one site mislabels its cases; see Ye et al., *FedGSCA* (2025), Sec. 4.1.2.

    Args:
        kind: with `rate` a label becomes another one: any other class (``symmetric``), the next class (``pairflip``),
            or one of the classes that clinicians confuse it with (``clinical``).
        rate: probability that a label is wrong, from 0 to 1.

    Raises:
        ValueError: when the rate is out of range.

    Example:
        >>> [str(noise) for noise in ClassNoise.parse_sites("0-S40-P20-C20")]
        ['0', 'S40', 'P20', 'C20']
    """

    kind: Literal["symmetric", "pairflip", "clinical"] = "symmetric"
    rate: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"Expected a rate from 0 to 1, but got {self.rate}.")

    @classmethod
    def parse(cls, text: str) -> ClassNoise:
        """Read ``S40``, ``P20``, ``C20`` or ``0``; rates in percent.

        Raises:
            ValueError: when the text has another form, or the rate is out of range.
        """
        result = re.fullmatch(r"([SPC]?)(\d+(?:\.\d+)?)%?", text.strip())
        if result is None or (not result[1] and float(result[2]) != 0) or float(result[2]) > 100:
            raise ValueError(
                f"Found the label noise {text!r}; expected 0, or S, P or C (symmetric, pairflip, clinical) with a rate "
                "from 0 to 100 %, for example S40."
            )
        return cls(_KINDS[result[1] or "S"], float(result[2]) / 100)

    @classmethod
    def parse_sites(cls, text: str) -> tuple[ClassNoise, ...]:
        """Read the noise of several sites, ``0-S10-P10-C10``.

        Raises:
            ValueError: as :meth:`parse`.
        """
        return tuple(cls.parse(part) for part in text.split("-"))

    def __str__(self) -> str:
        letter = next(letter for letter, kind in _KINDS.items() if kind == self.kind)
        return f"{letter}{100 * self.rate:g}" if self.rate else "0"

    def transition_matrix(self, num_classes: int, confusions: Confusions | None = None) -> Floats:
        """Return ``(C, C)``: the probability that a case of the row's class is labelled as the column's.

        Args:
            num_classes: number of classes C.
            confusions: what each class is mistaken for, for clinical noise; a class without any keeps its labels.

        Raises:
            ValueError: when there are fewer than two classes, or clinical noise without confusions of every class.
        """
        # Settings read the text of a noise alone, and load no NumPy.
        import numpy as np  # noqa: PLC0415

        if num_classes < 2:
            raise ValueError(f"Expected at least two classes, but got {num_classes=}.")
        if self.rate == 0:
            return np.eye(num_classes)
        matrix = np.zeros((num_classes, num_classes))
        for label, others in enumerate(self._candidates(num_classes, confusions)):
            matrix[label, list(others)] = self.rate / len(others) if others else 0.0
            matrix[label, label] = 1.0 - self.rate if others else 1.0
        return matrix

    def _candidates(self, num_classes: int, confusions: Confusions | None) -> Confusions:
        if self.kind == "symmetric":
            return [[other for other in range(num_classes) if other != label] for label in range(num_classes)]
        if self.kind == "pairflip":
            return [[(label + 1) % num_classes] for label in range(num_classes)]
        if confusions is None or len(confusions) != num_classes:
            result = "none" if confusions is None else str(len(confusions))
            raise ValueError(
                f"Clinical noise needs what each of {num_classes} classes is mistaken for; found {result}."
            )
        return confusions
