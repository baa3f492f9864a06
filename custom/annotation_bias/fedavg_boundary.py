"""Where a model's contours lie that federated averaging trains on sites which annotate differently."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from .statuses import ReferenceLevel, TestResult
from .thresholds import THRESHOLDS
from .votes import middles


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


def boundary_of_claims(
    offsets: Mapping[str, float], samples: Mapping[str, float], votes: Mapping[str, float] | None = None
) -> FedAvgBoundary | None:
    """Return the same by the numbers of samples that sites claim; a claim counts three times the middle one at most.

    Of two sites the smaller claim is the middle one. So one site that lies does not decide what is tolerated of many.
    Nor do its groups, however many, and however few samples each of them claims: what is in the middle is a claim per
    vote, and each counts no more than its part of what a whole site may claim.

    Args:
        offsets: as above.
        samples: by site; not below 0.
        votes: by site or group of a site, those of a site 1 together; None where each counts once.

    Example:
        >>> offsets = {"a": 4.0, "b": 4.0, "c": 5.0, "d": 5.0, "e": 0.0}
        >>> boundary_of_claims(offsets, dict.fromkeys("abcd", 9) | {"e": 1e9})
        FedAvgBoundary(low=0.0, high=4.0)
    """
    claims = {site: samples[site] for site in offsets if samples.get(site, 0) > 0}
    if not claims:
        return None
    own = {site: 1.0 if votes is None else votes[site] for site in claims}
    lower, _ = middles([claim / own[site] for site, claim in claims.items()], list(own.values()))
    most = THRESHOLDS.max_claim_of_samples * lower
    return fedavg_boundary(offsets, {site: min(claim, most * own[site]) for site, claim in claims.items()})


def tolerated_boundary(
    level: ReferenceLevel | None,
    results: Mapping[str, TestResult],
    samples: Mapping[str, float],
    pixel_sizes: Mapping[str, float],
    *,
    distance: float,
    votes: Mapping[str, float] | None = None,
) -> FedAvgBoundary | None:
    """Return where federated averaging's contours lie, if boundary biases stay for that.

    They stay if one is confirmed, and all of the range is nearer to the reference level than the distance.

    Args:
        level: of a class.
        results: of the tests of that class, by site.
        samples: of these sites, see :func:`boundary_of_claims`.
        pixel_sizes: of these sites, in the unit of the results.
        distance: that is tolerated, in pixels.
        votes: of these sites, see there.

    Returns:
        The range in the unit of the results, a pixel being that of the middle site; None where biases do not stay.
    """
    is_any_confirmed = any(found.is_confirmed for found in results.values())
    if level is None or not level.is_confident or not is_any_confirmed:
        return None
    offsets = {
        site: found.effect / pixel_sizes[site] for site, found in results.items() if not math.isnan(found.effect)
    }
    averaged = boundary_of_claims(offsets, samples, votes)
    if averaged is None or not averaged.is_within(distance):
        return None
    unit = statistics.median(pixel_sizes[site] for site in offsets)
    return FedAvgBoundary(averaged.low * unit, averaged.high * unit)


def _quantile(ascending: list[tuple[float, float]], weight: float) -> float:
    """The first value up to which at least so much weight lies."""
    reached = 0.0
    for value, own in ascending:
        reached += own
        if reached >= weight:
            return value
    return ascending[-1][0]
