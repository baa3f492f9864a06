"""Where the zero of all sites' offsets of a class lies."""

import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from ...channel.anchor import Anchor, beside_edges, choose_anchor, half_way
from ...channel.estimate import Estimate
from .answers import ChannelAnswer, unit_of
from .records import OFFSET, ChannelRecord, ParameterRecord, parameter
from .server_reference import OTHER_IMAGES as OTHER_IMAGES_AT_SERVER
from .server_reference import ServerReference
from .settings import JudgingSettings

Estimates = Mapping[str, Estimate]


def zero_of_offsets(
    answers: Mapping[str, ChannelAnswer],
    label: int,
    settings: JudgingSettings,
    *,
    seed: int,
    server: ServerReference | None = None,
    before: ChannelRecord | None = None,
) -> Anchor | None:
    """Return the anchor of a class, None without any estimate.

    Reviewed cases at the server count before those of sites, if their images are like the sites'. Where zero is
    inferred from the sites, as it was by an earlier estimate, and lies elsewhere, it is that of the means of both
    estimates: one of them may have taken a site into the wrong group. If those tell no sure zero, none is.

    Two groups that an earlier estimate has believed stay two where this one has the median alone, which is where zero
    lies if nothing else is known: as long as the images' edges lie clearly between them, and are not nearer to the
    median by more than half of `edge_error`.

    Args:
        answers: of the sites whose images are alike.
        label: the class.
        settings: the job's.
        seed: decides the draws.
        server: what is known of the server's reviewed cases.
        before: the earlier estimate.
    """
    if not answers:
        return None
    offsets = {site: answer.offset[label - 1] for site, answer in answers.items()}
    reference, where, is_other = middle([answer.reference[label - 1] for answer in answers.values()]), "", False
    if server is not None and server.offsets[label - 1].is_known:
        images = {site: answer.images for site, answer in answers.items()}
        is_other = not server.is_like(images, unknown_is_like=settings.unknown_images == "in_domain")
        if not is_other:
            reference, where = server.offsets[label - 1], " at the server"
    pixel_size = statistics.median(answer.pixel_size for answer in answers.values())
    floor, unit = settings.offset_floor * pixel_size, unit_of(pixel_size)
    edges, edge_error = (
        middle([answer.edges[label - 1] for answer in answers.values()]),
        settings.edge_error * pixel_size,
    )
    choose = partial(
        choose_anchor,
        seed=seed,
        floor=floor,
        choice=settings.anchor,
        reference=reference,
        reference_at=where,
        edges=edges,
        edge_error=edge_error,
        level=settings.group_level,
        unit=unit,
    )
    anchor = choose(offsets)
    if anchor is None:
        return None
    if before is not None and anchor.is_sure and anchor.is_inferred:
        anchor = _of_both_estimates(anchor, offsets, _earlier(before, label), choose, floor, unit)
    if before is not None and anchor.kind == "median" and settings.anchor == "auto":
        kept = _still_half_way(before, label, offsets, edges, edge_error, unit)
        if kept is not None and _is_as_near(kept, anchor, edges, edge_error / 2):
            anchor = kept if edges is None else beside_edges(kept, edges, unit)
    return replace(anchor, sentence=f"{anchor.sentence} {OTHER_IMAGES_AT_SERVER}") if is_other else anchor


def middle(estimates: Collection[Estimate]) -> Estimate | None:
    """Return the median of several sites' estimates, each counting once whatever it claims; None without any.

    The interval is that of a median site, at most as wide as theirs.
    """
    known = [one for one in estimates if one.is_known]
    if not known:
        return None
    value = statistics.median(one.value for one in known)
    half = statistics.median((one.high - one.low) / 2 for one in known)
    return Estimate(sum(one.patients for one in known), value, value - half, value + half)


def _earlier(before: ChannelRecord, label: int) -> dict[str, ParameterRecord]:
    """By site the earlier offsets of a class that lay at a known distance from an inferred zero."""
    if str(label) not in before.inferred_zero:
        return {}
    found = {site: record.parameters.get(parameter(OFFSET, label)) for site, record in before.sites.items()}
    return {site: one for site, one in found.items() if one is not None and one.p_value is not None}


def _of_both_estimates(
    anchor: Anchor,
    offsets: Estimates,
    earlier: Mapping[str, ParameterRecord],
    choose: Callable[[Estimates], Anchor | None],
    floor: float,
    unit: str,
) -> Anchor:
    """The anchor of the means of two estimates where they contradict each other by more than the floor.

    The model has changed, and with it the scale: by the median difference of the sites.
    """
    old = {site: earlier[site].as_estimate() for site in offsets if site in earlier and offsets[site].is_known}
    deviations = {site: one.deviation for site in old if (one := earlier[site]).deviation is not None}
    if not deviations:
        return anchor
    change = statistics.median(offsets[site].value - old[site].value for site in deviations)
    zero = change + statistics.median(old[site].value - deviation for site, deviation in deviations.items())
    if abs(anchor.value - zero) <= floor:
        return anchor
    means = {
        site: _shifted(estimate, (old[site].value + change - estimate.value) / 2 if site in deviations else 0.0)
        for site, estimate in offsets.items()
    }
    both = choose(means) or replace(anchor, is_sure=False)
    apart = f"{anchor.value - zero:+.2f} {unit}"
    why = f"It is of the means of two estimates: by the last one alone it would be {apart} from where it was before."
    return replace(both, sentence=f"{both.sentence} {why}")


def _still_half_way(
    before: ChannelRecord, label: int, offsets: Estimates, edges: Estimate | None, edge_error: float, unit: str
) -> Anchor | None:
    """The anchor between the two groups of the earlier estimate; None where it had none, or edges speak against it."""
    if str(label) not in before.balanced_zero:
        return None
    # Groups are of all offsets, whether known errors could be told from them or not.
    found = {site: record.parameters.get(parameter(OFFSET, label)) for site, record in before.sites.items()}
    deviations = {
        site: one.deviation
        for site, one in found.items()
        if one is not None and site in offsets and offsets[site].is_known
    }
    upper, lower = ([site for site, of in deviations.items() if of and of * side > 0] for side in (1, -1))
    if not upper or not lower:
        return None
    anchor = half_way(offsets, upper, lower, edges=edges, edge_error=edge_error, unit=unit)
    if anchor is None:
        return None
    return replace(anchor, sentence=f"{anchor.sentence} They are the groups of the estimate before.")


def _is_as_near(kept: Anchor, median: Anchor, edges: Estimate | None, margin: float) -> bool:
    """Whether the median is not nearer to the images' edges by more than a margin."""
    return edges is None or abs(kept.value - edges.value) - abs(median.value - edges.value) <= margin


def _shifted(estimate: Estimate, by: float) -> Estimate:
    return replace(estimate, value=estimate.value + by, low=estimate.low + by, high=estimate.high + by)
