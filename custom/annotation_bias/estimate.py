"""An estimate of one parameter of a site's annotation bias, and the fields in which it leaves the site."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..outbound.fields import MINIMUM_CASES, OutboundField
from ..outbound.values import OutboundValues

if TYPE_CHECKING:
    # Settings declare what leaves, and load no numpy.
    from .bootstrap import Interval

# A normal distribution has the 90 % of an interval within so many standard deviations.
INTERVAL_DEVIATIONS = 1.6449
# Of normal errors a median spreads so many times as much as a mean.
MEDIAN_SPREAD = math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class Estimate:
    """One parameter of one class at one site.

    Attributes:
        patients: patients or volumes behind it.
        value: the estimate; NaN where it is not defined or withheld.
        low: lower end of its 90 % interval.
        high: upper end.
        slope: estimated divided by injected error; NaN where no error was injected.
        auroc: how well cases with an injected error are distinguished from others, 0.5 for not at all; NaN as above.
        degrees_of_freedom: of its standard error; NaN for n − 1 of n patients. It does not leave the site.
    """

    patients: int
    value: float
    low: float
    high: float
    slope: float = math.nan
    auroc: float = math.nan
    degrees_of_freedom: float = math.nan

    @classmethod
    def of_interval(cls, patients: int, interval: "Interval") -> "Estimate":
        """Take over an interval."""
        return cls(patients, interval.value, interval.low, interval.high)

    @classmethod
    def unknown(cls, patients: int = 0) -> "Estimate":
        """Return what stands for an estimate that cannot be made."""
        return cls(patients, math.nan, math.nan, math.nan)

    @property
    def is_known(self) -> bool:
        """Whether there are a value and an interval."""
        return all(map(math.isfinite, (self.value, self.low, self.high)))

    def corrected(self) -> "Estimate":
        """Return the estimate divided by the slope of error injection, as it is where that is unknown or not above 0.

        For parameters whose neutral value is 0.
        """
        if not (math.isfinite(self.slope) and self.slope > 0):
            return self
        value, low, high = (number / self.slope for number in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)

    def outbound(self) -> "Estimate":
        """Return what may leave the site: three digits of each number, none over fewer patients than the minimum."""
        if self.patients < MINIMUM_CASES:
            return Estimate.unknown()
        numbers = (self.value, self.low, self.high, self.slope, self.auroc)
        return Estimate(self.patients, *(three_digits(number) for number in numbers))


def three_digits(number: float) -> float:
    """Return a number rounded to three significant digits; NaN and infinities as they are.

    Example:
        >>> three_digits(-3.14159), three_digits(0.0012345)
        (-3.14, 0.00123)
    """
    return float(f"{number:.3g}") if math.isfinite(number) else number


_ON_THE_SCALE = ("", "_low", "_high")
_OF_INJECTED_ERRORS = ("_slope", "_auroc")


def estimate_fields(
    name: str,
    task: str,
    *,
    calibrated: bool,
    length: int | None = None,
    limits: tuple[float, float] | None = None,
) -> tuple[OutboundField, ...]:
    """Return what a site sends of a parameter: numbers with three digits, and the patients behind each.

    Args:
        name: of the parameter.
        task: whose answer holds it.
        calibrated: whether the site tests its estimate by injected errors.
        length: number of estimates; None for one per class.
        limits: smallest and largest value of the estimate and of its interval.
    """
    endings = (*_ON_THE_SCALE, *_OF_INJECTED_ERRORS) if calibrated else _ON_THE_SCALE
    numbers = (
        OutboundField(
            name + ending,
            (task,),
            "numbers",
            counted_by=f"{name}_patients",
            length=length,
            limits=limits if ending in _ON_THE_SCALE else None,
        )
        for ending in endings
    )
    counts = OutboundField(f"{name}_patients", (task,), "counts", length=length, follows_model=True)
    return (*numbers, counts)


def sent(name: str, estimates: Sequence[Estimate], *, calibrated: bool) -> OutboundValues:
    """Return estimates of a parameter as the fields that :func:`estimate_fields` declares; they leave the site."""
    leaving = [estimate.outbound() for estimate in estimates]
    fields: OutboundValues = {
        name: [item.value for item in leaving],
        f"{name}_low": [item.low for item in leaving],
        f"{name}_high": [item.high for item in leaving],
        f"{name}_patients": [item.patients for item in leaving],
    }
    if calibrated:
        fields |= {f"{name}_slope": [item.slope for item in leaving], f"{name}_auroc": [item.auroc for item in leaving]}
    return fields


def received(name: str, fields: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """Read estimates of a parameter from fields that the guard has checked.

    An interval that ends before it begins says nothing, so that its estimate is unknown.
    """
    nothing = [float("nan")] * len(fields[name])
    columns = (
        fields[f"{name}_patients"],
        fields[name],
        fields[f"{name}_low"],
        fields[f"{name}_high"],
        fields.get(f"{name}_slope", nothing),
        fields.get(f"{name}_auroc", nothing),
    )
    estimates = [Estimate(*values) for values in zip(*columns, strict=True)]
    return tuple(Estimate.unknown(one.patients) if one.low > one.high else one for one in estimates)
