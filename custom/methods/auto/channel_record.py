"""One estimate of all sites as the record of a run has it."""

from ....transforms.natural_order import natural_order
from ...channel.estimate_record import plain_estimate
from ...corrections.kinds import BoundaryShift, of_kind
from ...records.plain_values import finite
from .decisions import Decisions
from .records import ChannelRecord, ParameterRecord, SiteChannelRecord


def channel_record(decisions: Decisions, number: int) -> ChannelRecord:
    """Return what was concluded of all sites.

    Args:
        decisions: the server's.
        number: the round before whose training they were made.
    """
    sites = {
        site: SiteChannelRecord(
            parameters={name: _parameter_record(decisions, site, name) for name in decisions.findings[site]},
            corrections=corrections,
            corrected_before_round=None,
        )
        for site, corrections in decisions.corrections.items()
    }
    zero = {
        str(label): "No site has an estimate that tells where zero is."
        if anchor is None
        else anchor.sentence_with_sites
        for label, anchor in enumerate(decisions.anchors, start=1)
    }
    inferred = {
        str(label): anchor
        for label, anchor in enumerate(decisions.anchors, start=1)
        if anchor is not None and anchor.is_inferred and anchor.is_sure
    }
    return ChannelRecord(
        before_round=number,
        zero=zero,
        inferred_zero=tuple(inferred),
        balanced_zero=tuple(label for label, anchor in inferred.items() if anchor.kind == "balanced"),
        decision=_decision(decisions),
        sites=sites,
    )


def _parameter_record(decisions: Decisions, site: str, name: str) -> ParameterRecord:
    estimate, finding = decisions.judged[site][name], decisions.findings[site][name]
    return ParameterRecord(
        **plain_estimate(estimate),
        **finite({"deviation": finding.deviation, "p_value": finding.p_value}),
        established=finding.established,
        reason=finding.reason,
    )


def _decision(decisions: Decisions) -> str:
    corrected = sorted((site for site, asked in decisions.corrections.items() if asked), key=natural_order)
    if corrected:
        shifts = [of_kind(asked, BoundaryShift) for asked in decisions.corrections.values()]
        moved = {label for shift in shifts if shift is not None for label in shift.model_bias}
        further = (decisions.overshoots[label].sentence(str(label)) for label in sorted(moved))
        sites = f"{len(corrected)} of {len(decisions.corrections)} sites: {', '.join(corrected)}"
        return " ".join([f"Corrected at {sites}.", *further])
    if decisions.harmless:
        return why_left(decisions)
    if decisions.anything_established:
        # Contours that are treated otherwise, or kinds that are not in the setting `undo`.
        return "What is established is measured and not corrected, as the settings ask."
    return f"Nothing is established at any of {len(decisions.corrections)} sites: federated averaging."


def why_left(decisions: Decisions) -> str:
    """Return why established offsets stay, in a sentence."""
    sites = sorted(
        (site for site, found in decisions.findings.items() if any(one.established for one in found.values())),
        key=natural_order,
    )
    where = "; ".join(
        f"class {label}: {averaged.low:+.2f} to {averaged.high:+.2f}" for label, averaged in decisions.harmless.items()
    )
    return (
        f"Established at {', '.join(sites)} and left as it is: federated averaging follows the middle of all sites, "
        f"which lies near zero ({where})."
    )
