"""What a kind of problem is: one file each that measures, scores and words it, and the error that it is tested with."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ....transforms.array_types import Classes, Floats
from ...annotation_bias.statuses import Evidence
from ..examined import ExaminedCase
from ..findings import Place, SizeUnit
from ..injected_errors import KnownError

Typical = TypeVar("Typical")


@dataclass(frozen=True)
class Suspicion:
    """What a kind measures of one object or of a whole case, before it is known what is typical at the site.

    Attributes:
        case: the case's place among the site's cases.
        features: the kind's own numbers, few: those of all cases are kept.
        place: where it is; None of a whole annotation.
        reference_level: numbers that name the object again in a repeated audit, such as the corners of its annotation.
        labels: classes concerned.
        pixels: size of the object; None where it is none.
        disagreement: from 0 to 1, how far annotation and prediction differ there.
        uncertainty: from 0 to 1, how uncertain the model is there.
    """

    case: int
    features: Any
    place: Place | None = None
    reference_level: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()
    pixels: float | None = None
    disagreement: float = 0.0
    uncertainty: float = 0.0


@dataclass(frozen=True)
class Measured:
    """A suspicion with its patient and its size in units.

    Attributes:
        suspicion: what was measured.
        unit: the patient or volume.
        size: of the object; 0 where it is none.
        size_unit: of the size.
    """

    suspicion: Suspicion
    unit: str
    size: float
    size_unit: SizeUnit


@dataclass(frozen=True)
class CaseMasks:
    """A case's masks, in place of which something is suggested.

    Attributes:
        annotation: given classes ``(S, H, W[, D])``.
        predicted: the most probable classes, as above.
        spacing: size of a pixel along each axis of a sample in millimetres; None in pixels.
    """

    annotation: Classes
    predicted: Classes
    spacing: tuple[float, ...] | None = None


class Kind(ABC, Generic[Typical]):
    """One kind of problem. Every method is pure; what it needs to know of the site is :meth:`typical`.

    Attributes:
        name: names the kind in findings.
        threshold: a case is a finding from this score on.
        error: the injected error that it is tested with at a site; None where there is none.
        explains: kinds whose findings in a case are but effects of one of this kind.
    """

    name: ClassVar[str]
    threshold: ClassVar[float] = 0.5
    error: ClassVar[KnownError[Any] | None] = None
    explains: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure a case: every object or the whole, suspect or not."""

    @abstractmethod
    def typical(self, given: Sequence[Suspicion]) -> Typical:
        """Return what is typical at the site, from the measurements of all its cases as they are annotated."""

    @abstractmethod
    def score(self, suspicion: Suspicion, typical: Typical) -> float:
        """Return from 0 to 1 how suspect it is."""

    def figures(self, suspicion: Suspicion, typical: Typical) -> dict[str, float]:
        """Return what tells a reader who sees the image what is wrong, besides amount, size and classes; by name.

        Args:
            suspicion: what was measured.
            typical: at the site.
        """
        return {}

    def of_case(self, scores: Sequence[float]) -> float:
        """Return the score of a case with objects of these scores."""
        return max(scores, default=0.0)

    def doubts(self, scores: Floats) -> Floats:
        """Return how probably each case of the site has such an error as it is given, before injected errors say more.

        Args:
            scores: of the cases, ``(n,)``.
        """
        return np.zeros(len(scores))

    def amount(self, suspicion: Suspicion, typical: Typical) -> float | None:
        """Return the signed length that is wrong; None where the kind measures none."""
        return None

    def of_site(self, measured: Sequence[Measured], typical: Typical, names: Sequence[str]) -> tuple[Evidence, ...]:
        """Return what all cases of the site show together, as far as that is likely; empty where it is nothing.

        Args:
            measured: all that was measured at the site.
            typical: at the site.
            names: of the classes, by label.
        """
        return ()

    def suggestion(self, suspicion: Suspicion, typical: Typical, masks: CaseMasks) -> Classes | None:
        """Return the annotation that is suggested: of the shape of the place, or of all samples; None without any.

        Args:
            suspicion: what was measured.
            typical: at the site.
            masks: of the case.
        """
        return None
