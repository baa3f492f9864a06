"""An estimate as a part of a run's record."""

from dataclasses import asdict
from typing import Any

from ..run.plain_values import finite
from ..run.records import Record
from .estimate import Estimate


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


def plain_estimate(estimate: Estimate) -> dict[str, Any]:
    """Return the fields of an :class:`EstimateRecord`, for records that say more."""
    values: dict[str, Any] = finite(asdict(estimate))
    return {"estimate": values.pop("value")} | values
