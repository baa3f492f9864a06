"""Whether the sites' offsets lie at two levels: the widest gap, guarded against evenly spread ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...transforms.array_types import Floats, Indices
from .thresholds import THRESHOLDS


class OneLevel(StrEnum):
    """Why sites do not lie at two levels: too few, all alike, or one level explains them as well."""

    TOO_FEW_SITES = "too_few_sites"
    EQUAL = "equal"
    ONE_IS_ENOUGH = "one_is_enough"


@dataclass(frozen=True)
class TwoLevels:
    """The sites divided by the level of their offsets, or the reason why they are not.

    Attributes:
        upper: sites of the larger offsets, sorted; empty where there is one level.
        lower: the others; as above.
        reason: why there are no two levels; None where there are.
        p_value: fraction of evenly spread or normal offsets that two levels explain as well; None if not tested.
    """

    upper: tuple[str, ...] = ()
    lower: tuple[str, ...] = ()
    reason: OneLevel | None = None
    p_value: float | None = None

    @property
    def found(self) -> bool:
        """Whether there are two levels."""
        return self.reason is None


def find_two_levels(offsets: Mapping[str, float], *, seed: int, level: float = THRESHOLDS.group_level) -> TwoLevels:
    """Divide sites into those of larger and those of smaller offsets, if they lie at two levels.

    The widest gap between neighbours has to be a larger fraction of the range than in as many offsets drawn from a
    normal *and* from an even distribution: sites that all err in one direction by evenly spread strengths are no two
    groups.

    Args:
        offsets: by site, finite.
        seed: decides the draws; the same seed gives the same result.
        level: p-value up to which there are two levels.

    Raises:
        ValueError: when an offset is not finite.
    """
    sites = sorted(offsets, key=lambda site: (offsets[site], site))
    values = np.array([offsets[site] for site in sites], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"Expected finite offsets, found {dict(offsets)}; leave out sites without an estimate.")
    if len(sites) < THRESHOLDS.min_sites_of_groups:
        return TwoLevels(reason=OneLevel.TOO_FEW_SITES)
    if values[-1] - values[0] <= 1e-9 * np.abs(values).max():
        return TwoLevels(reason=OneLevel.EQUAL)
    below, share = _widest_gap(values[None])
    generator = np.random.default_rng(seed)
    shape = (THRESHOLDS.null_draws, len(sites))
    p_value = max(
        (1 + int(np.count_nonzero(_widest_gap(np.sort(drawn, axis=1))[1] >= share[0]))) / (THRESHOLDS.null_draws + 1)
        for drawn in (generator.standard_normal(shape), generator.random(shape))
    )
    if p_value > level:
        return TwoLevels(reason=OneLevel.ONE_IS_ENOUGH, p_value=p_value)
    first = int(below[0])
    return TwoLevels(tuple(sorted(sites[first:])), tuple(sorted(sites[:first])), None, p_value)


def _widest_gap(ordered: Floats) -> tuple[Indices, Floats]:
    """Return how many of the ordered offsets ``(N, K)`` lie below the widest gap, and its fraction of the range."""
    gaps = np.diff(ordered, axis=1)
    return gaps.argmax(axis=1) + 1, gaps.max(axis=1) / (ordered[:, -1] - ordered[:, 0])
