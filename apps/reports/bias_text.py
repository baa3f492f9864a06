"""What is printed of how sites annotate: what `auto` has measured, what follows from it, and why."""

from ...custom.annotation_bias.estimate_record import ParameterRecord
from ...custom.annotation_bias.parameters import ParameterKind
from ...custom.annotation_bias.statuses import Status
from ...custom.methods.auto.records import BiasFindings, BiasRecord, RollbackFindings, SiteBiasRecord
from ...transforms.natural_order import natural_order
from ..terminal import Terminal
from ..wording.decisions import decision_in_words, moved_masks_in_words, rollback_in_words, unit_noun, witness_in_words
from ..wording.evidence import reason_in_words, reference_level_in_words

LEGEND = (
    "contours: boundary bias from the reference level, too large (+) or too small (-); missing: fraction of missed "
    "objects; confused: fraction of the annotated ones that look like another class; in brackets: not "
    "confirmed; ?: cannot tell; corrected before: the rounds before whose training it was corrected"
)


def bias_entries(found: BiasFindings | None, site: str) -> dict[str, str]:
    """Return what the last estimate says of a site, and when it was corrected, for the table of sites."""
    channels = () if found is None else found.channels
    record = channels[-1].sites.get(site) if channels else None
    rounds = [channel.sites[site].corrected_before_round for channel in channels if site in channel.sites]
    return {
        "contours": _entries(record, ParameterKind.OFFSET, 1, 1),
        "missing, %": _entries(record, ParameterKind.MISSING, 100, 0),
        "confused, %": _entries(record, ParameterKind.CONFUSED, 100, 0),
        "corrected before": ", ".join(str(number) for number in rounds if number is not None) or "-",
    }


def print_channels(found: BiasFindings | None, rounds: int, console: Terminal) -> None:
    """Print where the reference level is, what was decided, and why sites cannot be assessed.

    Args:
        found: by the run; None where it measured nothing.
        rounds: that were finished.
        console: where it is printed.
    """
    if found is None or not found.channels:
        return
    last = found.channels[-1]
    for label, level in last.reference_levels.items():
        begin = "" if len(last.reference_levels) == 1 else f"Class {label}: "
        console.print(f"{begin}{reference_level_in_words(level)}")
        if label in last.witnesses:
            console.print(f"{begin}{witness_in_words(last.witnesses[label], unit_noun(last))}")
    before = [record.before_round for record in found.channels]
    numbers = ", ".join(map(str, before))
    when = "after the last round" if before[0] > rounds else f"before round{'s' if len(before) > 1 else ''} {numbers}"
    console.print(f"Estimated {when}. {decision_in_words(last)}")
    for name in sorted(last.groups, key=natural_order):
        if name in last.sites:
            unit = last.decision.unit or "px"
            console.print(f"{name}: contours {_entries(last.sites[name], ParameterKind.OFFSET, 1, 1)} {unit}")
    for site in sorted(last.moved_masks, key=natural_order):
        console.print(f"{site}: {moved_masks_in_words(last.moved_masks[site])}")
    for site in sorted(last.sites, key=natural_order):
        for text in _instructions(last, site):
            console.print(f"{site}: {text}")


def print_rollback(found: RollbackFindings | None, console: Terminal) -> None:
    """Print what the rollback check has found, in the style of a warning where everything was rolled back."""
    if found is not None and found.rollback is not None:
        console.print(rollback_in_words(found.rollback), style="yellow" if found.rollback.has_vetoed else None)


def _instructions(record: BiasRecord, site: str) -> list[str]:
    """Why contours cannot be assessed at a site; the table says the rest."""
    return [
        f"{key}: {reason_in_words(parameter)}"
        for key, parameter in record.sites[site].parameters.items()
        if key.kind is ParameterKind.OFFSET and parameter.status is Status.UNKNOWN
    ]


def _entries(record: SiteBiasRecord | None, kind: ParameterKind, scale: float, decimals: int) -> str:
    of_kind = {} if record is None else record.parameters
    texts = [_entry(one, scale, decimals) for key, one in of_kind.items() if key.kind is kind]
    return " ".join(texts) if any(text != "?" for text in texts) else "-"


def _entry(parameter: ParameterRecord, scale: float, decimals: int) -> str:
    if parameter.effect is None or parameter.status is Status.UNKNOWN:
        return "?"
    text = f"{scale * parameter.effect:{'+' if scale == 1 else ''}.{decimals}f}"
    return text if parameter.is_confirmed else f"({text})"
