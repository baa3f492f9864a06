"""The reference level of all sites for a class, from this estimate and the one before."""

import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from ...annotation_bias.estimate import Estimate
from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.parameters import ParameterKey, ParameterKind
from ...annotation_bias.reference_level import beside_edges, choose_reference_level, half_way
from ...annotation_bias.reviewed_cases import pooled_reference
from ...annotation_bias.statuses import EvidenceCode, ReferenceKind, ReferenceLevel
from .answers import BiasReport
from .records import BiasRecord
from .server_reference import ServerReference
from .settings import BiasSettings

Estimates = Mapping[str, Estimate]


def reference_level_of(
    answers: Mapping[str, BiasReport],
    label: int,
    settings: BiasSettings,
    *,
    seed: int,
    server: ServerReference | None = None,
    before: BiasRecord | None = None,
    of_images: ReferenceLevel | None = None,
) -> ReferenceLevel | None:
    """Return the reference level of a class, None without any estimate.

    Reviewed cases at the server count before those of all sites together, if their images are in the sites' domain. If
    the sites alone give the level, as in an earlier estimate, and it moves by more than the minimum effect, it is
    chosen again from the sites' means of both estimates: one of them may have taken a site into the wrong group. If
    these give no sure level, there is none.

    Two groups of an earlier estimate are kept if this one has only the median, the image boundary lies clearly between
    them, and it is not nearer to the median by more than half of `image_boundary_error`.

    Args:
        answers: of the sites whose images are alike.
        label: the class.
        settings: the job's.
        seed: decides the draws.
        server: what is known of the server's reviewed cases.
        before: the earlier estimate.
        of_images: the level that images give, of offsets on the scale of the image boundary; it counts where no case is
            reviewed, or where the settings ask for it.
    """
    if not answers:
        return of_images
    offsets = {site: answer.offset[label - 1] for site, answer in answers.items()}
    reference = pooled_reference([answer.reviewed_from_model[label - 1] for answer in answers.values()])
    at_server, is_other = False, False
    if server is not None and server.offsets[label - 1].is_known:
        images = {site: answer.images for site, answer in answers.items()}
        is_other = not server.is_like(images, unknown_is_like=settings.unknown_images == "in_domain")
        if not is_other:
            reference, at_server = server.offsets[label - 1], True
    if of_images is not None and (reference is None or settings.reference_level == "image_boundary"):
        return of_images.because(EvidenceCode.REVIEWED_DIFFER) if is_other else of_images
    pixel_size = statistics.median(answer.pixel_size for answer in answers.values())
    floor = settings.min_boundary_bias * pixel_size
    edges, image_boundary_error = (
        middle([answer.edges[label - 1] for answer in answers.values()]),
        settings.image_boundary_error * pixel_size,
    )
    choose = partial(
        choose_reference_level,
        seed=seed,
        floor=floor,
        choice=settings.reference_level,
        reference=reference,
        at_server=at_server,
        edges=edges,
        image_boundary_error=image_boundary_error,
        level=settings.group_level,
    )
    reference_level = choose(offsets)
    if reference_level is None:
        return None
    if before is not None and reference_level.is_confident and reference_level.is_inferred:
        reference_level = _of_both_estimates(reference_level, offsets, _earlier(before, label), choose, floor)
    if before is not None and reference_level.kind is ReferenceKind.MEDIAN and settings.reference_level == "auto":
        kept = _still_half_way(before, label, offsets, edges, image_boundary_error)
        if kept is not None and _is_as_near(kept, reference_level, edges, image_boundary_error / 2):
            reference_level = beside_edges(kept, edges)
    return reference_level.because(EvidenceCode.REVIEWED_DIFFER) if is_other else reference_level


def middle(estimates: Collection[Estimate]) -> Estimate | None:
    """Return the median of several sites' estimates, each counting once whatever it claims; None without any.

    The interval is that of a median site, at most as wide as theirs.
    """
    known = [estimate for estimate in estimates if estimate.is_known]
    if not known:
        return None
    value = statistics.median(item.value for item in known)
    half = statistics.median((item.high - item.low) / 2 for item in known)
    return Estimate(sum(item.patients for item in known), value, value - half, value + half)


def _earlier(before: BiasRecord, label: int) -> dict[str, ParameterRecord]:
    """By site the earlier offsets of a class that lay at a known distance from an inferred zero.

    Not those whose effect is of an estimate still earlier.
    """
    level = before.reference_levels.get(label)
    if level is None or not level.is_inferred:
        return {}
    result = {
        site: record.parameters.get(ParameterKey(ParameterKind.OFFSET, label)) for site, record in before.sites.items()
    }
    return {
        site: one
        for site, one in result.items()
        if one is not None and one.p_value is not None and not one.has(EvidenceCode.EARLIER_AGREES)
    }


def _of_both_estimates(
    reference_level: ReferenceLevel,
    offsets: Estimates,
    earlier: Mapping[str, ParameterRecord],
    choose: Callable[[Estimates], ReferenceLevel | None],
    floor: float,
) -> ReferenceLevel:
    """The reference level of the means of two estimates where they contradict each other by more than the floor.

    The model has changed, and with it the scale: by the median difference of the sites.
    """
    old = {site: earlier[site].as_estimate() for site in offsets if site in earlier and offsets[site].is_known}
    effects = {site: one.effect for site in old if (one := earlier[site]).effect is not None}
    if not effects:
        return reference_level
    change = statistics.median(offsets[site].value - old[site].value for site in effects)
    zero = change + statistics.median(old[site].value - effect for site, effect in effects.items())
    if abs(reference_level.value - zero) <= floor:
        return reference_level
    means = {
        site: _shifted(estimate, (old[site].value + change - estimate.value) / 2 if site in effects else 0.0)
        for site, estimate in offsets.items()
    }
    both = choose(means) or replace(reference_level, is_confident=False)
    return both.because(EvidenceCode.MEAN_OF_ESTIMATES, difference=reference_level.value - zero)


def _still_half_way(
    before: BiasRecord, label: int, offsets: Estimates, edges: Estimate | None, image_boundary_error: float
) -> ReferenceLevel | None:
    """The level between the two groups of the earlier estimate; None where it had none, or edges speak against it."""
    level = before.reference_levels.get(label)
    if level is None or not level.is_balanced:
        return None
    # Groups are of all offsets, whether injected errors could be distinguished from them or not.
    result = {
        site: record.parameters.get(ParameterKey(ParameterKind.OFFSET, label)) for site, record in before.sites.items()
    }
    effects = {
        site: one.effect
        for site, one in result.items()
        if one is not None and site in offsets and offsets[site].is_known
    }
    upper, lower = ([site for site, of in effects.items() if of and of * side > 0] for side in (1, -1))
    if not upper or not lower:
        return None
    reference_level = half_way(offsets, upper, lower, edges=edges, image_boundary_error=image_boundary_error)
    return None if reference_level is None else reference_level.because(EvidenceCode.GROUPS_OF_EARLIER)


def _is_as_near(kept: ReferenceLevel, median: ReferenceLevel, edges: Estimate | None, margin: float) -> bool:
    """Whether the median is not nearer to the images' edges by more than a margin."""
    return edges is None or abs(kept.value - edges.value) - abs(median.value - edges.value) <= margin


def _shifted(estimate: Estimate, by: float) -> Estimate:
    return replace(estimate, value=estimate.value + by, low=estimate.low + by, high=estimate.high + by)
