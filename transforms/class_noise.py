"""Wrong class labels: symmetric, pairflip and clinical noise, one kind and rate for each site of a federation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from monai.transforms import Randomizable, Transform
from numpy.typing import NDArray

_KINDS: dict[str, Literal["symmetric", "pairflip", "clinical"]] = {"S": "symmetric", "P": "pairflip", "C": "clinical"}
_EXPECTED_FORM = "0, or S, P or C (symmetric, pairflip, clinical) with a rate from 0 to 100 %, for example S40"

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
        found = re.fullmatch(r"([SPC]?)(\d+(?:\.\d+)?)%?", text.strip())
        if found is None or (not found[1] and float(found[2]) != 0) or float(found[2]) > 100:
            raise ValueError(f"Found the label noise {text!r}; expected {_EXPECTED_FORM}.")
        return cls(_KINDS[found[1] or "S"], float(found[2]) / 100)

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

    def transition_matrix(self, num_classes: int, confusions: Confusions | None = None) -> NDArray[np.float64]:
        """Return ``(C, C)``: the probability that a case of the row's class is labelled as the column's.

        Args:
            num_classes: number of classes C.
            confusions: what each class is mistaken for, for clinical noise; a class without any keeps its labels.

        Raises:
            ValueError: when there are fewer than two classes, or clinical noise without confusions of every class.
        """
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
            found = "none" if confusions is None else str(len(confusions))
            raise ValueError(f"Clinical noise needs what each of {num_classes} classes is mistaken for; found {found}.")
        return confusions


@dataclass(frozen=True)
class MislabelParams:
    """Everything random about the wrong labels of a set of cases.

    Attributes:
        given: the labels that the cases were drawn for, ``(N,)``.
        assigned: the labels that they get, ``(N,)``.
    """

    given: NDArray[np.int64]
    assigned: NDArray[np.int64]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for JSON."""
        return {"given": self.given.tolist(), "assigned": self.assigned.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MislabelParams:
        """Build the parameters from what :meth:`to_dict` returned.

        Raises:
            KeyError: when an entry is missing.
        """
        return cls(*(np.asarray(values[name], dtype=np.int64) for name in ("given", "assigned")))


class Mislabel(Randomizable, Transform):  # type: ignore[misc]
    """Mislabel cases: each label becomes another one with the probabilities of a transition matrix.

    Labels are drawn independently of each other, so the share of wrong ones varies around the rate. Nothing leaves the
    site.

    Args:
        noise: kind and rate.
        num_classes: number of classes C.
        confusions: see :meth:`ClassNoise.transition_matrix`.

    Raises:
        ValueError: as :meth:`ClassNoise.transition_matrix`.

    Example:
        >>> mislabel = Mislabel(ClassNoise.parse("P100"), num_classes=3).set_random_state(seed=0)
        >>> mislabel(np.array([0, 1, 2, 2])).tolist()
        [1, 2, 0, 0]
    """

    def __init__(self, noise: ClassNoise, num_classes: int, confusions: Confusions | None = None) -> None:
        self.noise = noise
        cumulated = noise.transition_matrix(num_classes, confusions).cumsum(axis=1)
        # Rows end at exactly 1, above every number that is drawn.
        self._cumulated = cumulated / cumulated[:, -1:]

    def make_params(self, labels: NDArray[Any]) -> MislabelParams:
        """Draw the labels that cases with the labels ``(N,)`` get.

        Raises:
            ValueError: when a label is not among the classes.
        """
        given = np.asarray(labels, dtype=np.int64)
        num_classes = len(self._cumulated)
        if given.size and not 0 <= given.min() <= given.max() < num_classes:
            raise ValueError(f"Expected labels from 0 to {num_classes - 1}, but got {given.min()} to {given.max()}.")
        drawn = self.R.random_sample(len(given))
        return MislabelParams(given, (self._cumulated[given] <= drawn[:, None]).sum(axis=1))

    def apply_transform(self, labels: NDArray[Any], params: MislabelParams) -> NDArray[np.int64]:
        """Return the assigned labels.

        Raises:
            ValueError: when the parameters were drawn for other labels.
        """
        if not np.array_equal(labels, params.given):
            raise ValueError("The parameters were drawn for other labels; replay them on those they were made from.")
        return params.assigned

    def __call__(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Draw and apply: the labels ``(N,)`` that the cases get."""
        return self.apply_transform(labels, self.make_params(labels))
