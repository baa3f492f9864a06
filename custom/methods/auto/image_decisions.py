"""What images say before the first round, and besides the model: boundary biases on one scale, decisions on them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...annotation_bias.estimate import INTERVAL_DEVIATIONS, Estimate
from ...annotation_bias.fedavg_boundary import FedAvgBoundary, tolerated_boundary
from ...annotation_bias.parameters import ParameterKey, ParameterKind
from ...annotation_bias.profile.decision import (
    ProfileEstimate,
    claimed_samples,
    image_boundary_level,
    is_shown,
    profile_reference_level,
)
from ...annotation_bias.profile.fusion import FusedBiases, fused_biases
from ...annotation_bias.significance import Criterion, effect_tests
from ...annotation_bias.statuses import Evidence, EvidenceCode, ReferenceLevel, TestResult
from ...corrections.kinds import Correction, server_corrections
from .answers import BiasReport
from .criteria import minimum_effect_of
from .server_reference import ServerReference
from .settings import BiasSettings

# Of each class by site what images say.
Profiles = Sequence[Mapping[str, ProfileEstimate]]

NOT_SHOWN = Evidence(EvidenceCode.BOUNDARY_NOT_SHOWN)


@dataclass(frozen=True)
class ImageDecisions:
    """The server's conclusions from images alone.

    Attributes:
        reference_levels: by class, as distances from the image boundary; None where images do not show it.
        tested: by site and parameter the tested estimate.
        findings: the results of the tests, in the same way.
        corrections: what each site is asked to correct; sites that correct nothing are there, too.
        tolerated: by class the FedAvg boundary, where it is so near the reference level that confirmed boundary biases
            are not corrected.
    """

    reference_levels: tuple[ReferenceLevel | None, ...]
    tested: dict[str, dict[ParameterKey, Estimate]]
    findings: dict[str, dict[ParameterKey, TestResult]]
    corrections: dict[str, tuple[Correction, ...]]
    tolerated: dict[int, FedAvgBoundary]


def image_level(profile: Mapping[str, ProfileEstimate], settings: BiasSettings) -> ReferenceLevel | None:
    """Return the reference level of a class that images give; None where they do not, or another one is asked for."""
    if not is_shown(profile):
        return None
    if settings.reference_level == "image_boundary":
        return image_boundary_level(profile, is_asked=True)
    return profile_reference_level(profile) if settings.reference_level == "auto" else None


def decide_by_images(profiles: Profiles, settings: BiasSettings) -> ImageDecisions:
    """Decide what each site is asked to correct before the first round; no model is asked.

    Args:
        profiles: of each class.
        settings: the job's.
    """
    levels = [image_level(profile, settings) for profile in profiles]
    sites = sorted({site for profile in profiles for site in profile})
    tested: dict[str, dict[ParameterKey, Estimate]] = {site: {} for site in sites}
    criteria: dict[str, dict[ParameterKey, Criterion]] = {site: {} for site in sites}
    for label, (profile, level) in enumerate(zip(profiles, levels, strict=True), start=1):
        key = ParameterKey(ParameterKind.OFFSET, label)
        for site in sites:
            found = profile.get(site, ProfileEstimate.absent())
            tested[site][key] = found.as_follower() if _only_follows(found, level) else found.as_estimate()
            criteria[site][key] = _criterion(found, level, settings, is_shown=is_shown(profile))
    findings = effect_tests(tested, criteria, level=settings.level)
    tolerated = _tolerated(profiles, levels, findings)
    corrects = ParameterKind.OFFSET in settings.corrected_kinds
    corrections = {
        site: server_corrections(
            bias={
                key.label: one.effect
                for key, one in results.items()
                if one.is_confirmed and corrects and key.label not in tolerated
            },
            missed={},
            ignored={},
            relabelled=0.0,
        )
        for site, results in findings.items()
    }
    return ImageDecisions(tuple(levels), tested, findings, corrections, tolerated)


def _tolerated(
    profiles: Profiles,
    levels: Sequence[ReferenceLevel | None],
    findings: Mapping[str, Mapping[ParameterKey, TestResult]],
) -> dict[int, FedAvgBoundary]:
    """By class the FedAvg boundary in the sites' unit, if a bias is confirmed and it is near enough to the level."""
    result = {}
    for label, (profile, level) in enumerate(zip(profiles, levels, strict=True), start=1):
        key = ParameterKey(ParameterKind.OFFSET, label)
        averaged = tolerated_boundary(
            level,
            {site: findings[site][key] for site in profile},
            claimed_samples({site: one for site, one in profile.items() if one.is_known}),
            {site: one.unit for site, one in profile.items()},
            distance=0.0 if level is None else level.tolerated,
            votes={site: one.votes for site, one in profile.items()},
        )
        if averaged is not None:
            result[label] = averaged
    return result


def _criterion(
    found: ProfileEstimate, level: ReferenceLevel | None, settings: BiasSettings, *, is_shown: bool
) -> Criterion:
    if not is_shown or not (found.is_known or _only_follows(found, level)):
        return Criterion.of_offsets(0.0, 0.0, untestable_because=NOT_SHOWN)
    if level is None:
        return Criterion.of_offsets(0.0, 0.0, untestable_because=Evidence(EvidenceCode.NO_REFERENCE_LEVEL))
    criterion = Criterion.of_reference_level(level, minimum_effect_of(level, settings) * found.unit)
    return criterion if found.is_known else replace(criterion, untestable_because=NOT_SHOWN)


def _only_follows(found: ProfileEstimate, level: ReferenceLevel | None) -> bool:
    """Whether a site may be corrected where others are, though its bias is not known."""
    return level is not None and level.all_follow and found.may_follow and not found.is_known


@dataclass(frozen=True)
class FusedReports:
    """Reports of sites whose boundary biases are those of images and model, as distances from the image boundary.

    Attributes:
        answers: by site.
        server: the server's reviewed cases on the same scale.
        fused: by class, for those that images show.
    """

    answers: dict[str, BiasReport]
    server: ServerReference | None
    fused: dict[int, FusedBiases]


def with_images(
    answers: Mapping[str, BiasReport],
    server: ServerReference | None,
    profiles: Profiles,
    predictable: Mapping[str, BiasReport],
    *,
    uses_model: bool,
) -> FusedReports:
    """Bring the sites' reports onto the scale of the image boundary, where images show it, and fuse both estimates.

    Args:
        answers: by site.
        server: what is known of the server's reviewed cases.
        profiles: of each class; empty for none.
        predictable: those of the answers whose biases the model can tell.
        uses_model: whether it may count.
    """
    result, fused = dict(answers), {}
    for label, profile in enumerate(profiles, start=1):
        if not is_shown(profile):
            continue
        of_model = {site: answer.offset[label - 1] for site, answer in predictable.items()}
        images = {site: profile.get(site, ProfileEstimate.absent()) for site in answers}
        own = fused_biases(images, of_model, uses_model=uses_model)
        fused[label] = own
        result = {
            site: _moved(answer, label, own.estimates[site], own if site in predictable else None)
            for site, answer in result.items()
        }
        if server is not None:
            server = replace(server, offsets=_on_image_scale(server.offsets, label, own))
    return FusedReports(result, server, fused)


def _moved(answer: BiasReport, label: int, offset: Estimate, scale: FusedBiases | None) -> BiasReport:
    index = label - 1
    return replace(
        answer,
        offset=(*answer.offset[:index], offset, *answer.offset[label:]),
        reviewed_from_model=_on_image_scale(answer.reviewed_from_model, label, scale),
        edges=_on_image_scale(answer.edges, label, scale),
    )


def _on_image_scale(estimates: tuple[Estimate, ...], label: int, scale: FusedBiases | None) -> tuple[Estimate, ...]:
    """Estimates with that of a class moved to the image boundary, with the error of the model's scale in its interval.

    It is unknown where that scale is.
    """
    one = estimates[label - 1]
    moved = Estimate.unknown(one.patients)
    if scale is not None and one.is_known and math.isfinite(scale.constant):
        half = math.hypot((one.high - one.low) / 2, INTERVAL_DEVIATIONS * scale.constant_error)
        value = one.value + scale.constant
        moved = replace(one, value=value, low=value - half, high=value + half)
    return (*estimates[: label - 1], moved, *estimates[label:])
