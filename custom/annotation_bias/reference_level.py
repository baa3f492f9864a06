"""The reference level: the model's own bias is common to all sites and cannot be told from a bias of all sites."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .estimate import INTERVAL_DEVIATIONS, Estimate
from .statuses import Evidence, EvidenceCode, ReferenceKind, ReferenceLevel
from .thresholds import THRESHOLDS
from .two_levels import find_two_levels


def choose_reference_level(
    estimates: Mapping[str, Estimate],
    *,
    seed: int,
    floor: float,
    choice: str = "auto",
    reference: Estimate | None = None,
    at_server: bool = False,
    edges: Estimate | None = None,
    image_boundary_error: float = 2.0,
    level: float = THRESHOLDS.group_level,
) -> ReferenceLevel | None:
    """Choose the reference level for the offsets of a class.

    The image boundary is a control, not a reference level: annotators need not follow it. Two groups are accepted only
    if it lies clearly between them, and then on less proof that they are two. The level between them is clipped to it,
    and must be at least as near to it as the median. A median or reviewed level far from it is not sure. So a site that
    lies about its boundary bias moves the reference level of the others only little.

    Args:
        estimates: of every site; unknown ones do not count.
        seed: decides the draws of the test of two levels.
        floor: sites that differ by less, beyond the error of their estimates, agree; what is not acted on.
        choice: ``reference``, ``balanced``, ``median``, ``image_boundary``, ``site:<name>``, or ``auto``: the
            reference where there is one, else balanced where the sites lie at two levels, else the median.
        reference: offset of reviewed annotations against the same model.
        at_server: whether these are the server's; else the sites'.
        edges: of the images' edges against the same model; None where they are not known.
        image_boundary_error: annotators may draw so far from the edges.
        level: fraction of federations at one level that may pass for two where edges say nothing.

    Returns:
        None where there is nothing to choose from: no estimate, or no two levels for ``balanced``. What is asked for
        and is not there is a reference level that is not sure.

    Raises:
        ValueError: when the choice is unknown.
    """
    known = {site: estimates[site] for site in sorted(estimates) if estimates[site].is_known}
    seen = edges if edges is not None and edges.is_known else None
    if choice == "reference" or (choice == "auto" and reference is not None):
        return _with_edges(_reference(reference, at_server=at_server), seen, 2 * image_boundary_error)
    if choice.startswith("site:"):
        return _site(choice.removeprefix("site:"), known)
    if choice == "image_boundary":
        return _edges(edges)
    if choice not in ("auto", "balanced", "median"):
        raise ValueError(
            "Expected a reference level among 'auto', 'reference', 'balanced', 'median', 'image_boundary' and "
            f"'site:<name>', but got {choice=}."
        )
    if not known:
        return None
    median = _median(known, seed, floor)
    if choice == "median":
        return _with_edges(median, seen, image_boundary_error)
    balanced = _balanced(known, seed, level, seen, image_boundary_error)
    if choice == "balanced" or (balanced is not None and _edges_favour(balanced, median, seen, image_boundary_error)):
        return None if balanced is None else beside_edges(balanced, seen)
    return _with_edges(median, seen, image_boundary_error)


def standard_error_of(estimate: Estimate) -> float:
    """Return the standard deviation that a 90 % interval of a normal distribution stands for."""
    return (estimate.high - estimate.low) / (2 * INTERVAL_DEVIATIONS)


def _absent(kind: ReferenceKind, reason: Evidence) -> ReferenceLevel:
    return ReferenceLevel(kind, 0.0, 0.0, (reason,), is_confident=False)


def _of_estimate(kind: ReferenceKind, estimate: Estimate, reason: Evidence) -> ReferenceLevel:
    return ReferenceLevel(kind, estimate.value, standard_error_of(estimate), (reason,))


def _reference(reference: Estimate | None, *, at_server: bool) -> ReferenceLevel:
    if reference is None or not reference.is_known:
        return _absent(ReferenceKind.REFERENCE, Evidence(EvidenceCode.REVIEWED_ABSENT))
    numbers = {"patients": reference.patients, "at_server": int(at_server)}
    return _of_estimate(ReferenceKind.REFERENCE, reference, Evidence(EvidenceCode.REVIEWED, numbers))


def _site(name: str, known: Mapping[str, Estimate]) -> ReferenceLevel:
    names = {"site": name}
    if name not in known:
        return _absent(ReferenceKind.SITE, Evidence(EvidenceCode.SITE_ABSENT, names=names))
    return _of_estimate(ReferenceKind.SITE, known[name], Evidence(EvidenceCode.SITE, names=names))


def _edges(edges: Estimate | None) -> ReferenceLevel:
    if edges is None or not edges.is_known:
        return _absent(ReferenceKind.EDGES, Evidence(EvidenceCode.EDGES_ABSENT))
    return _of_estimate(ReferenceKind.EDGES, edges, Evidence(EvidenceCode.EDGES))


def _balanced(
    known: Mapping[str, Estimate], seed: int, level: float, edges: Estimate | None, image_boundary_error: float
) -> ReferenceLevel | None:
    level = level if edges is None else max(level, THRESHOLDS.group_level_with_edges)
    levels = find_two_levels({site: estimate.value for site, estimate in known.items()}, seed=seed, level=level)
    if not levels.found:
        return None
    return half_way(known, levels.upper, levels.lower, edges=edges, image_boundary_error=image_boundary_error)


def half_way(
    estimates: Mapping[str, Estimate],
    upper: Sequence[str],
    lower: Sequence[str],
    *,
    edges: Estimate | None,
    image_boundary_error: float,
) -> ReferenceLevel | None:
    """Return the reference level between two groups of sites; None where the images' edges are not clearly between.

    Args:
        estimates: known ones of all sites of the groups, of which neither is empty.
        upper: the sites that draw larger.
        lower: the others.
        edges: as :func:`choose_reference_level`; also below.
        image_boundary_error: the reference level is no farther from the edges.
    """
    means, squares = [], []
    for group in (upper, lower):
        means.append(float(np.mean([estimates[site].value for site in group])))
        squares.append(sum(standard_error_of(estimates[site]) ** 2 for site in group) / len(group) ** 2)
    value, margin = sum(means) / 2, image_boundary_error / 2
    if edges is not None and not means[1] + margin <= edges.value <= means[0] - margin:
        return None
    reasons = [Evidence(EvidenceCode.HALF_WAY)]
    if edges is not None and abs(value - edges.value) > image_boundary_error:
        value = min(max(value, edges.value - image_boundary_error), edges.value + image_boundary_error)
        reasons.append(Evidence(EvidenceCode.MOVED_TO_EDGES, {"distance": image_boundary_error}))
    standard_error = float(np.sqrt(sum(squares))) / 2
    groups = (tuple(upper), tuple(lower))
    return ReferenceLevel(ReferenceKind.BALANCED, value, standard_error, tuple(reasons), groups=groups)


def _edges_favour(
    balanced: ReferenceLevel, median: ReferenceLevel, edges: Estimate | None, image_boundary_error: float
) -> bool:
    """Whether half-way between two groups is nearer to the images' edges than the median is.

    Where a group is a single site, it has to be so by a margin: one that errs far need not be a second direction.
    """
    is_alone = min(map(len, balanced.groups)) == 1
    if edges is None:
        return not is_alone
    nearer = abs(median.value - edges.value) - abs(balanced.value - edges.value)
    return nearer >= (THRESHOLDS.single_site_margin * image_boundary_error if is_alone else 0.0)


def _with_edges(level: ReferenceLevel, edges: Estimate | None, image_boundary_error: float) -> ReferenceLevel:
    """A level is not sure where the images have their edges far from it: all sites may err alike, or one lies."""
    if edges is None or not level.is_confident:
        return level
    is_near = abs(level.value - edges.value) <= image_boundary_error
    return replace(beside_edges(level, edges, is_near=is_near), is_confident=is_near)


def beside_edges(level: ReferenceLevel, edges: Estimate | None, *, is_near: bool = True) -> ReferenceLevel:
    """Add how far the images' edges are from it, which is part of the evidence."""
    if edges is None:
        return level
    code = EvidenceCode.EDGES_NEAR if is_near else EvidenceCode.EDGES_FAR
    return level.because(code, difference=edges.value - level.value)


def _median(known: Mapping[str, Estimate], seed: int, floor: float) -> ReferenceLevel:
    values = np.array([estimate.value for estimate in known.values()])
    errors = np.array([standard_error_of(estimate) for estimate in known.values()])
    drawn = values + errors * np.random.default_rng(seed).standard_normal((THRESHOLDS.median_draws, len(values)))
    middle = float(np.median(values))
    agreeing = int(np.count_nonzero(np.abs(values - middle) <= floor + INTERVAL_DEVIATIONS * errors))
    # Most sites may err in one direction, each by another strength; then the median is as wrong as they are. One or two
    # sites always lie at their own median, or as far from it as each other.
    is_confident = len(values) >= THRESHOLDS.min_sites_of_median and 2 * agreeing > len(values)
    code = EvidenceCode.MEDIAN if is_confident else EvidenceCode.MEDIAN_UNSURE
    reason = Evidence(code, {"sites": len(values), "agreeing": agreeing})
    standard_error = float(np.median(drawn, axis=1).std())
    return ReferenceLevel(ReferenceKind.MEDIAN, middle, standard_error, (reason,), is_confident)
