"""How many objects of a class a site seems to leave out, the small ones apart."""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from ....transforms.array_types import Indices
from ...annotation_bias.bootstrap import Interval, bootstrap_interval
from ...annotation_bias.statuses import Evidence, EvidenceCode
from ..thresholds import THRESHOLDS
from .kind import Measured

# An object, the probability that it is missing, and whether it is annotated.
Counted = tuple[Measured, float, bool]

_SEED = 0


def left_out(counted: Sequence[Counted], name: str) -> Evidence | None:
    """Return how many objects are missing: those below the median size where they are missing more than the others.

    The share is that of the expected number of missing objects, Σu, among those and the annotated ones. It is rather
    too low, as u is.

    Args:
        counted: all predicted objects of a class.
        name: of the class.

    Returns:
        None where too little is annotated, or little seems to be missing.
    """
    annotated = [one.size for one, _, is_annotated in counted if is_annotated]
    patients = {one.unit for one, _, _ in counted}
    if (
        len(annotated) < THRESHOLDS.min_annotated_of_missing_fraction
        or len(patients) < THRESHOLDS.min_patients_of_missing_fraction
    ):
        return None
    limit = float(np.median(annotated))
    of_small = missing_share([item for item in counted if item[0].size < limit])
    of_large = missing_share([item for item in counted if item[0].size >= limit])
    if _is_likely(of_small) and (of_large is None or of_small.low > of_large.value):
        larger = {} if of_large is None else {"larger": of_large.value}
        return _evidence(of_small, {"limit": limit} | larger, {"class": name, "unit": counted[0][0].size_unit})
    of_all = missing_share(counted)
    return _evidence(of_all, {}, {"class": name}) if _is_likely(of_all) else None


def missing_share(counted: Sequence[Counted]) -> Interval | None:
    """Return the fraction of missing objects with its interval over patients; None without objects."""
    if not counted:
        return None
    missing = np.array([probability for _, probability, _ in counted])
    annotated = np.array([is_annotated for _, _, is_annotated in counted], dtype=np.float64)

    def share(chosen: Indices) -> float:
        expected, given = float(missing[chosen].sum()), float(annotated[chosen].sum())
        return expected / (expected + given) if expected + given > 0 else float("nan")

    return bootstrap_interval([one.unit for one, _, _ in counted], share, seed=_SEED)


def _is_likely(share: Interval | None) -> TypeGuard[Interval]:
    return (
        share is not None
        and share.value >= THRESHOLDS.min_missing_fraction
        and share.low >= THRESHOLDS.min_missing_fraction_low
    )


def _evidence(share: Interval, numbers: dict[str, float], names: dict[str, str]) -> Evidence:
    shares = {"share": share.value, "low": share.low, "high": share.high}
    return Evidence(EvidenceCode.OBJECTS_LEFT_OUT, shares | numbers, names)
