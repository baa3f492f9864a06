"""Wrong class labels: each label of a set of cases may become another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from monai.transforms import Randomizable, Transform

from ..array_types import Array, Labels
from .class_noise import ClassNoise, Confusions


@dataclass(frozen=True)
class MislabelParams:
    """Everything random about the wrong labels of a set of cases.

    Attributes:
        given: the labels that the cases were drawn for, ``(N,)``.
        assigned: the labels that they get, ``(N,)``.
    """

    given: Labels
    assigned: Labels

    def to_dict(self) -> dict[str, list[int]]:
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

    Labels are drawn independently of each other, so the fraction of wrong ones varies around the rate. Nothing leaves
    the site.

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

    def make_params(self, labels: Array) -> MislabelParams:
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

    def apply_transform(self, labels: Array, params: MislabelParams) -> Labels:
        """Return the assigned labels.

        Raises:
            ValueError: when the parameters were drawn for other labels.
        """
        if not np.array_equal(labels, params.given):
            raise ValueError("The parameters were drawn for other labels; replay them on those they were made from.")
        return params.assigned

    def __call__(self, labels: Array) -> Labels:
        """Draw and apply: the labels ``(N,)`` that the cases get."""
        return self.apply_transform(labels, self.make_params(labels))
