"""One estimate of all sites as the record of a run has it."""

from ....transforms.natural_order import natural_order
from ...annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from .decisions import Decisions
from .records import BiasRecord, DecisionRecord, Outcome, SiteBiasRecord


def bias_record(decisions: Decisions, number: int, *, is_applied: bool = True) -> BiasRecord:
    """Return what was concluded of all sites.

    Args:
        decisions: the server's.
        number: the round before whose training they were made.
        is_applied: whether sites act on them; an audit only says what `auto` would do.
    """
    sites = {
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
    return BiasRecord(
        before_round=number,
        reference_levels={
            label: None if level is None else ReferenceLevelRecord.of(level, decisions.unit)
            for label, level in enumerate(decisions.reference_levels, start=1)
        },
        decision=_decision(decisions, is_applied=is_applied),
        sites=sites,
    )


def _decision(decisions: Decisions, *, is_applied: bool) -> DecisionRecord:
    confirmed = (
        site for site, found in decisions.findings.items() if any(item.is_confirmed for item in found.values())
    )
    numbers = {} if decisions.unfit is None else decisions.unfit.numbers
    return DecisionRecord(
        outcome=_outcome(decisions, is_applied=is_applied),
        is_applied=is_applied,
        corrected=tuple(sorted((site for site, asked in decisions.corrections.items() if asked), key=natural_order)),
        confirmed=tuple(sorted(confirmed, key=natural_order)),
        tolerated={label: (averaged.low, averaged.high) for label, averaged in decisions.tolerated.items()},
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
