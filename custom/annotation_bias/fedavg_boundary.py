"""Where a model's contours lie that federated averaging trains on sites which annotate differently."""

from collections.abc import Mapping
from dataclasses import dataclass

from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class FedAvgBoundary:
    """Where federated averaging's contours lie, less zero: a range, since where half of the weight lies is not exact.

    Attributes:
        low: the weighted 40 % quantile of the sites' offsets.
        high: the weighted 60 % quantile.
    """

    low: float
    high: float

    def is_within(self, distance: float) -> bool:
        """Whether all of the range is closer to zero than a distance."""
        return max(abs(self.low), abs(self.high)) < distance


def fedavg_boundary(offsets: Mapping[str, float], weights: Mapping[str, float]) -> FedAvgBoundary | None:
    """Return where the contours of federated averaging's model lie; None where no site has an offset and a weight.

    A model that is trained pixel by pixel on images of one kind calls foreground what more than half of the weight
    annotates. So its contour is the weighted median of the sites' contours: a minority moves it little however far its
    own contours lie off, and a majority moves it as far as its own.

    Args:
        offsets: of the sites' contours from zero, positive outside, in the sites' unit.
        weights: of the sites' models, such as their numbers of samples; not below 0.

    Example:
        >>> fedavg_boundary({"a": 0.0, "b": 0.1, "c": -0.2, "d": 5.0}, {"a": 1, "b": 1, "c": 1, "d": 1})
        FedAvgBoundary(low=0.0, high=0.1)
    """
    known = sorted((offsets[site], weights[site]) for site in offsets if weights.get(site, 0) > 0)
    if not known:
        return None
    total = sum(weight for _, weight in known)
    low, high = (_quantile(known, quantile * total) for quantile in THRESHOLDS.fedavg_quantiles)
    return FedAvgBoundary(low, high)


def _quantile(ascending: list[tuple[float, float]], weight: float) -> float:
    """The first value up to which at least so much weight lies."""
    reached = 0.0
    for value, own in ascending:
        reached += own
        if reached >= weight:
            return value
    return ascending[-1][0]
