"""An estimate of one parameter of a site's channel, as it may leave the site."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..outbound.fields import MINIMUM_CASES

if TYPE_CHECKING:
    # Settings declare what leaves, and load no numpy.
    from .bootstrap import Interval


@dataclass(frozen=True)
class Estimate:
    """One parameter of one class at one site.

    Attributes:
        patients: patients or volumes behind it.
        value: the estimate; NaN where it is not defined or withheld.
        low: lower end of its 90 % interval.
        high: upper end.
        slope: what the site's own estimate makes of a known error, as a share of it; NaN where it was not tried.
        auroc: how well cases with a known error are told from the others, 0.5 for not at all; NaN likewise.
    """

    patients: int
    value: float
    low: float
    high: float
    slope: float = math.nan
    auroc: float = math.nan

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
        """Return the estimate divided by the slope of self-calibration, as it is where that is unknown or not above 0.

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
