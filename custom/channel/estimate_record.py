"""An estimate as a part of a run's record."""

import math
from dataclasses import asdict
from typing import Any, Literal

from ..records.plain_values import finite
from ..records.round_records import Record
from .estimate import Estimate

# Of a parameter: established and large enough to act on; established, too small for that; not established; or nothing
# can be told.
Verdict = Literal["established", "small", "none", "cannot tell"]


class EstimateRecord(Record):
    """An estimate of one parameter of one site; numbers are None where there are none.

    Attributes:
        estimate: the estimate.
        low: lower end of its 90 % interval.
        high: upper end.
        patients: patients or volumes behind it.
        slope: what the site's estimate makes of a known error, as a share of it.
        auroc: how well cases or labels with a known error are told from others there.
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


class DeviationRecord(EstimateRecord):
    """An estimate and what it says beside zero.

    Attributes:
        deviation: of the estimate from zero.
    """

    deviation: float | None

    @property
    def from_zero(self) -> tuple[float, float, float] | None:
        """The deviation and the ends of its interval; None where there is no estimate."""
        if self.estimate is None or self.deviation is None or self.low is None or self.high is None:
            return None
        zero = self.estimate - self.deviation
        return self.deviation, self.low - zero, self.high - zero


def plain_estimate(estimate: Estimate) -> dict[str, Any]:
    """Return the fields of an :class:`EstimateRecord`, for records that say more."""
    values: dict[str, Any] = finite(asdict(estimate))
    return {"estimate": values.pop("value")} | values
