"""Estimates of a site's channel as fields that leave it, and as the server reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..outbound.fields import OutboundField
from .estimate import Estimate

_NUMBERS = {
    "": "",
    "_low": ", lower end of its 90 % interval",
    "_high": ", upper end of its 90 % interval",
    "_slope": ", what the site's estimate makes of a known error: whether such an error would be seen",
    "_auroc": ", how well cases with a known error are told from others there: whether such an error would be seen",
}

_ON_THE_SCALE = ("", "_low", "_high")


def estimate_fields(
    name: str,
    task: str,
    reason: str,
    *,
    calibrated: bool,
    length: int | None = None,
    limits: tuple[float, float] | None = None,
) -> tuple[OutboundField, ...]:
    """Return what a site sends of a parameter: numbers with three digits, and the patients behind each.

    Args:
        name: of the parameter.
        task: whose answer holds it.
        reason: why the server needs it.
        calibrated: whether the site tests its estimate by known errors.
        length: number of estimates; None for one per class.
        limits: smallest and largest value of the estimate and of its interval.
    """
    endings = [ending for ending in _NUMBERS if calibrated or ending in _ON_THE_SCALE]
    numbers = (
        OutboundField(
            name + ending,
            (task,),
            "numbers",
            reason + _NUMBERS[ending],
            f"{name}_patients",
            length=length,
            limits=limits if ending in _ON_THE_SCALE else None,
        )
        for ending in endings
    )
    counts = OutboundField(
        f"{name}_patients", (task,), "counts", f"patients or volumes behind {name}", length=length, follows_model=True
    )
    return (*numbers, counts)


def sent(name: str, estimates: Sequence[Estimate], *, calibrated: bool) -> dict[str, Any]:
    """Return estimates of a parameter as the fields that :func:`estimate_fields` declares; they leave the site."""
    leaving = [estimate.outbound() for estimate in estimates]
    fields: dict[str, Any] = {
        name: [one.value for one in leaving],
        f"{name}_low": [one.low for one in leaving],
        f"{name}_high": [one.high for one in leaving],
        f"{name}_patients": [one.patients for one in leaving],
    }
    if calibrated:
        fields |= {f"{name}_slope": [one.slope for one in leaving], f"{name}_auroc": [one.auroc for one in leaving]}
    return fields


def received(name: str, fields: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """Read estimates of a parameter from fields that the guard has checked."""
    nothing = [float("nan")] * len(fields[name])
    columns = (
        fields[f"{name}_patients"],
        fields[name],
        fields[f"{name}_low"],
        fields[f"{name}_high"],
        fields.get(f"{name}_slope", nothing),
        fields.get(f"{name}_auroc", nothing),
    )
    return tuple(Estimate(*values) for values in zip(*columns, strict=True))
