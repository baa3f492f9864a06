"""One estimate of all sites as the record of a run has it."""

import math
import statistics
from collections.abc import Mapping, Sequence

from ...annotation_bias.estimate import Estimate
from ...annotation_bias.estimate_record import EstimateRecord, ParameterRecord, ReferenceLevelRecord, plain_estimate
from ...annotation_bias.fedavg_boundary import FedAvgBoundary
from ...annotation_bias.profile.decision import ProfileEstimate, is_shown
from ...annotation_bias.profile.fusion import FusedBiases
from ...annotation_bias.statuses import ReferenceLevel, Unit
from ...records.plain_values import finite
from .answers import unit_of
from .decisions import Decisions
from .image_decisions import ImageDecisions, Profiles
from .records import (
    BiasRecord,
    DecisionRecord,
    ImageBiasRecord,
    Outcome,
    SiteBiasRecord,
    WitnessRecord,
    names_where,
)


def bias_record(decisions: Decisions, number: int, *, is_applied: bool = True, profiles: Profiles = ()) -> BiasRecord:
    """Return what was concluded of all sites.

    Args:
        decisions: the server's.
        number: the round before whose training they were made.
        is_applied: whether sites act on them; an audit only says what `auto` would do.
        profiles: of each class what images say; empty where they were not asked.
    """
    sites = _site_records(decisions)
    return BiasRecord(
        before_round=number,
        reference_levels=_level_records(decisions.reference_levels, decisions.unit),
        decision=_decision(decisions, sites, is_applied=is_applied),
        sites=sites,
        witnesses=witness_records(profiles, decisions.fused),
    )


def image_bias_record(decisions: ImageDecisions, profiles: Profiles, number: int) -> BiasRecord:
    """Return what was concluded of all sites from images alone.

    Args:
        decisions: the server's.
        profiles: of each class.
        number: the round before whose training it was.
    """
    unit, sites = unit_of_profiles(profiles), _site_records(decisions)
    return BiasRecord(
        before_round=number,
        reference_levels=_level_records(decisions.reference_levels, unit),
        decision=DecisionRecord(
            outcome=_image_outcome(decisions, sites),
            is_applied=True,
            corrected=names_where(sites, lambda of: bool(of.corrections)),
            confirmed=names_where(sites, lambda of: of.deviates),
            tolerated=_ranges(decisions.tolerated),
            unit=unit,
        ),
        sites=sites,
        is_of_images=True,
        witnesses=witness_records(profiles, {}),
    )


def _site_records(decisions: Decisions | ImageDecisions) -> dict[str, SiteBiasRecord]:
    return {
        site: SiteBiasRecord(
            parameters={
                key: ParameterRecord.of(decisions.tested[site][key], result)
                for key, result in decisions.findings[site].items()
            },
            corrections=corrections,
            corrected_before_round=None,
        )
        for site, corrections in decisions.corrections.items()
    }


def _image_outcome(decisions: ImageDecisions, sites: Mapping[str, SiteBiasRecord]) -> Outcome:
    if any(of.corrections for of in sites.values()):
        return Outcome.CORRECTED
    if decisions.tolerated:
        return Outcome.TOLERATED
    return Outcome.MEASURED if any(of.deviates for of in sites.values()) else Outcome.NOTHING


def _ranges(tolerated: Mapping[int, FedAvgBoundary]) -> dict[int, tuple[float, float]]:
    return {label: (averaged.low, averaged.high) for label, averaged in tolerated.items()}


def unit_of_profiles(profiles: Profiles) -> Unit:
    """Return the unit of biases from images, that of most sites."""
    units = [one.unit for profile in profiles for one in profile.values() if math.isfinite(one.bias)]
    return unit_of(statistics.median_low(units)) if units else "px"


def witness_records(profiles: Profiles, fused: Mapping[int, FusedBiases]) -> dict[int, WitnessRecord]:
    """Return what images and model say of each class.

    Args:
        profiles: of each class.
        fused: by class, where both were put together.
    """
    result = {}
    for label, profile in enumerate(profiles, start=1):
        both = fused.get(label)
        model = {} if both is None else both.model
        numbers = {} if both is None else {name: getattr(both, name) for name in ("constant", "spread", "chi_square")}
        result[label] = WitnessRecord(
            is_shown=is_shown(profile),
            is_model_used=both is not None and both.is_model_used,
            **finite(numbers),
            sites={site: _image_record(one, model.get(site)) for site, one in profile.items()},
        )
    return result


def _image_record(image: ProfileEstimate, model: Estimate | None) -> ImageBiasRecord:
    interval = Estimate(image.patients, image.bias, image.bias - image.half_width, image.bias + image.half_width)
    return ImageBiasRecord(
        **plain_estimate(interval),
        is_known=image.is_known,
        **finite({"prominence": image.prominence, "correlation": image.correlation}),
        from_model=EstimateRecord(**plain_estimate(model)) if model is not None and model.is_known else None,
    )


def _level_records(levels: Sequence[ReferenceLevel | None], unit: Unit) -> dict[int, ReferenceLevelRecord | None]:
    return {
        label: None if level is None else ReferenceLevelRecord.of(level, unit)
        for label, level in enumerate(levels, start=1)
    }


def _decision(decisions: Decisions, sites: Mapping[str, SiteBiasRecord], *, is_applied: bool) -> DecisionRecord:
    numbers = {} if decisions.unfit is None else decisions.unfit.numbers
    return DecisionRecord(
        outcome=_outcome(decisions, is_applied=is_applied),
        is_applied=is_applied,
        corrected=names_where(sites, lambda of: bool(of.corrections)),
        confirmed=names_where(sites, lambda of: of.deviates),
        tolerated=_ranges(decisions.tolerated),
        found_share=numbers.get("found"),
        expected_share=numbers.get("expected"),
        unit=decisions.unit,
    )


def _outcome(decisions: Decisions, *, is_applied: bool) -> Outcome:
    if decisions.unfit is not None and not is_applied:
        return Outcome.UNFIT
    if any(decisions.corrections.values()):
        return Outcome.CORRECTED
    if decisions.tolerated:
        return Outcome.TOLERATED
    # Offsets that are treated otherwise, or kinds that are not corrected.
    return Outcome.MEASURED if is_applied and decisions.anything_confirmed else Outcome.NOTHING
