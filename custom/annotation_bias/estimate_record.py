"""Estimates, tests and reference levels as parts of a run's record, and of an audit's."""

import math
from typing import Any, TypedDict

from pydantic import model_validator

from ..records.plain_values import finite
from ..records.round_records import Record
from .estimate import Estimate
from .statuses import Evidence, EvidenceCode, ReferenceKind, ReferenceLevel, Status, TestResult, Unit, has
from .version_1 import is_parameter, parameter_of_version_1, text_evidence


class EstimateRecord(Record):
    """An estimate of one parameter of one site; numbers are None where there are none.

    Attributes:
        estimate: the estimate.
        low: lower end of its 90 % interval.
        high: upper end.
        patients: patients or volumes behind it.
        slope: estimated divided by injected error.
        auroc: how well cases or labels with an injected error are distinguished from others there.
    """

    estimate: float | None
    low: float | None
    high: float | None
    patients: int
    slope: float | None
    auroc: float | None

    def as_estimate(self) -> Estimate:
        """Return the estimate, NaN for what is None."""
        numbers = (self.estimate, self.low, self.high, self.slope, self.auroc)
        return Estimate(self.patients, *(math.nan if number is None else number for number in numbers))


class ParameterRecord(EstimateRecord):
    """What is known of one parameter of a site; an offset is on the model's scale.

    The form of version 1, with a reason in words, is read as well.

    Attributes:
        effect: the estimate less the reference level.
        standard_error: of the effect; None where nothing was tested, or in a record of version 1.
        p_value: corrected for all sites and classes.
        status: what follows from the test.
        evidence: what the status rests on.
    """

    effect: float | None
    standard_error: float | None = None
    p_value: float | None
    status: Status
    evidence: tuple[Evidence, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return parameter_of_version_1(values) if is_parameter(values) else values

    @classmethod
    def of(cls, estimate: Estimate, result: TestResult) -> "ParameterRecord":
        """Put an estimate and what a test says of it together."""
        numbers = {name: getattr(result, name) for name in ("effect", "standard_error", "p_value")}
        return cls(**plain_estimate(estimate), **finite(numbers), status=result.status, evidence=result.evidence)

    def as_result(self) -> TestResult:
        """Return what the test says, NaN for what is None."""
        numbers = (self.effect, self.standard_error, self.p_value)
        effect, error, p_value = (math.nan if number is None else number for number in numbers)
        return TestResult(effect, error, p_value, self.status, self.evidence)

    @property
    def is_confirmed(self) -> bool:
        """Whether the effect is significant and large enough to act on."""
        return self.status is Status.CONFIRMED

    @property
    def from_reference(self) -> tuple[float, float, float] | None:
        """The effect and the ends of its interval; None where there is no estimate."""
        if self.estimate is None or self.effect is None or self.low is None or self.high is None:
            return None
        zero = self.estimate - self.effect
        return self.effect, self.low - zero, self.high - zero

    def has(self, code: EvidenceCode) -> bool:
        """Return whether the status rests on this."""
        return has(self.evidence, code)


class ReferenceLevelRecord(Record):
    """Where the reference level of the offsets of a class is, and what that rests on.

    Attributes:
        kind: how it was chosen; None in a record of version 1 that does not say it.
        value: on the model's scale; None as above.
        standard_error: of the value; None as above.
        is_confident: whether anything may be done on its strength.
        unit: of the lengths; None as above.
        reasons: how it came about, and what it assumes.
        groups: the two groups of sites that it is between; empty in what a site gets.
    """

    kind: ReferenceKind | None
    value: float | None
    standard_error: float | None
    is_confident: bool
    unit: Unit | None
    reasons: tuple[Evidence, ...]
    groups: tuple[tuple[str, ...], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        """A sentence, which is all that an audit of version 1 has."""
        if not isinstance(values, str):
            return values
        absent = dict.fromkeys(("kind", "value", "standard_error", "unit"))
        return {**absent, "is_sure": False, "reasons": (text_evidence(values),)}

    @classmethod
    def of(cls, level: ReferenceLevel, unit: Unit) -> "ReferenceLevelRecord":
        """Take over a reference level, with the names of its groups."""
        numbers = finite({"value": level.value, "standard_error": level.standard_error})
        return cls(
            kind=level.kind,
            **numbers,
            is_confident=level.is_confident,
            unit=unit,
            reasons=level.reasons,
            groups=level.groups,
        )

    @property
    def is_inferred(self) -> bool:
        """Whether it follows from the sites' offsets alone, and is sure."""
        return self.is_confident and self.kind in (ReferenceKind.BALANCED, ReferenceKind.MEDIAN)

    @property
    def is_balanced(self) -> bool:
        """Whether it is between two groups of sites, and sure."""
        return self.is_confident and self.kind is ReferenceKind.BALANCED

    def without_names(self) -> "ReferenceLevelRecord":
        """Return what a site may know of it: no other site's name."""
        return self.model_copy(update={"groups": ()})


class PlainEstimate(TypedDict):
    """The fields of an :class:`EstimateRecord`."""

    estimate: float | None
    patients: int
    low: float | None
    high: float | None
    slope: float | None
    auroc: float | None


def plain_estimate(estimate: Estimate) -> PlainEstimate:
    """Return the fields of an :class:`EstimateRecord`, for records that say more."""
    return {
        "estimate": finite(estimate.value),
        "patients": estimate.patients,
        "low": finite(estimate.low),
        "high": finite(estimate.high),
        "slope": finite(estimate.slope),
        "auroc": finite(estimate.auroc),
    }
