"""What an audit keeps of a site's annotators; it stays at the site, since it holds their names."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from ...data.json_record import JsonRecord
from ...records.plain_values import finite
from ..estimate import Estimate
from ..estimate_record import ParameterRecord
from ..parameters import ParameterKey
from ..statuses import Unit


class Figure(JsonRecord):
    """An estimate with its 90 % interval; numbers are None where there are none.

    Args:
        value: the estimate.
        low: lower end of the interval.
        high: upper end.
        patients: behind it.
    """

    value: float | None
    low: float | None
    high: float | None
    patients: int

    @classmethod
    def of(cls, estimate: Estimate) -> "Figure":
        """Take over an estimate."""
        numbers = {name: getattr(estimate, name) for name in ("value", "low", "high")}
        return cls(**finite(numbers), patients=estimate.patients)


class AnnotatorPair(JsonRecord):
    """How far two annotators agree on a class where they annotated the same cases.

    Args:
        annotators: their names.
        label: the class.
        dice: median over cases.
        hd95: as above, in millimetres, pixels without spacing.
    """

    annotators: tuple[str, str]
    label: Annotated[int, Field(ge=1)]
    dice: Figure
    hd95: Figure


class ConfusedClasses(JsonRecord):
    """How often an annotator gives one class where more than half of the others give another one.

    Args:
        others: the class of the others, from 0.
        own: the class given.
        num_confused: cases in which both is so.
        num_cases: cases in which the others give their class.
        fraction: of the two; None below the fewest patients of whom anything is said.
    """

    others: Annotated[int, Field(ge=0)]
    own: Annotated[int, Field(ge=0)]
    num_confused: Annotated[int, Field(ge=1)]
    num_cases: Annotated[int, Field(ge=1)]
    fraction: Figure


class AnnotatorClassPair(JsonRecord):
    """How far two annotators agree on class labels.

    Args:
        annotators: their names.
        num_cases: that both have labelled.
        kappa: Cohen's; None below the fewest patients, and where both give one class alone.
    """

    annotators: tuple[str, str]
    num_cases: int
    kappa: Figure


class AnnotatorAudit(JsonRecord):
    """What an audit says of one annotator.

    Args:
        annotator: the name; it never leaves the site.
        number: by which the server knows the annotator, drawn at random by the site for this run; None where nothing of
            the annotator has left.
        num_cases: annotated.
        num_patients: of them.
        consensus: by parameter, compared with the other annotators of the same cases; empty without such cases.
        predictions: by parameter, compared with the model's predictions.
        confused: of class labels the pairs of classes that occur; empty of masks.
    """

    annotator: str
    number: int | None = None
    num_cases: int
    num_patients: int
    consensus: dict[ParameterKey, ParameterRecord] = Field(default_factory=dict)
    predictions: dict[ParameterKey, ParameterRecord] = Field(default_factory=dict)
    confused: tuple[ConfusedClasses, ...] = ()

    @property
    def parameters(self) -> dict[ParameterKey, ParameterRecord]:
        """What the annotator is judged by: the consensus where there is one, which needs no model."""
        return self.predictions | self.consensus


class AnnotatorsAudit(JsonRecord):
    """The annotators of a site, and how far they agree.

    Args:
        unit: of lengths; None of class labels, which have none.
        annotators: in the order of their names.
        num_unnamed: cases of which no annotator is known.
        pairs: of annotators with common cases, by class.
        class_pairs: of annotators with common cases, of class labels.
        kappa: Fleiss' κ of the classes of objects; None of one class, or without common cases.
    """

    unit: Unit | None
    annotators: tuple[AnnotatorAudit, ...]
    num_unnamed: int = 0
    pairs: tuple[AnnotatorPair, ...] = ()
    class_pairs: tuple[AnnotatorClassPair, ...] = ()
    kappa: Figure | None = None

    def with_numbers(self, numbers: Mapping[str, int]) -> "AnnotatorsAudit":
        """Return it with the numbers by which the server knows annotators, by name."""
        annotators = (one.model_copy(update={"number": numbers.get(one.annotator)}) for one in self.annotators)
        return self.model_copy(update={"annotators": tuple(annotators)})
