"""What is printed of how sites annotate: what `auto` has measured, what follows from it, and why."""

from ...custom.methods.auto.records import (
    MISSING,
    OFFSET,
    SWAPPED,
    ChannelFindings,
    ChannelRecord,
    ParameterRecord,
    ShadowFindings,
    SiteChannelRecord,
)
from ...transforms.natural_order import natural_order
from ..terminal import Terminal

LEGEND = (
    "contours: by how far they lie outside (+) or inside (-) of zero; missing: share of the objects that is left out; "
    "swapped: share of those that look like another class; in brackets: not established; ?: cannot tell; "
    "corrected before: the rounds before whose training it was corrected"
)


def channel_entries(found: ChannelFindings | None, site: str) -> dict[str, str]:
    """Return what the last estimate says of a site, and when it was corrected, for the table of sites."""
    channels = () if found is None else found.channels
    record = channels[-1].sites.get(site) if channels else None
    rounds = [one.sites[site].corrected_before_round for one in channels if site in one.sites]
    return {
        "contours": _entries(record, OFFSET, 1, 1),
        "missing, %": _entries(record, MISSING, 100, 0),
        "swapped, %": _entries(record, SWAPPED, 100, 0),
        "corrected before": ", ".join(str(number) for number in rounds if number is not None) or "-",
    }


def print_channels(found: ChannelFindings | None, rounds: int, console: Terminal) -> None:
    """Print where zero lies, what was decided, and why sites cannot be judged.

    Args:
        found: by the run; None where it measured nothing.
        rounds: that were finished.
        console: where it is printed.
    """
    if found is None or not found.channels:
        return
    last = found.channels[-1]
    for label, sentence in last.zero.items():
        console.print(f"{'' if len(last.zero) == 1 else f'Class {label}: '}{sentence}")
    before = [record.before_round for record in found.channels]
    numbers = ", ".join(map(str, before))
    when = "after the last round" if before[0] > rounds else f"before round{'s' if len(before) > 1 else ''} {numbers}"
    console.print(f"Estimated {when}. {last.decision}")
    for site in sorted(last.sites, key=natural_order):
        for text in _told(last, site):
            console.print(f"{site}: {text}")


def print_shadow(found: ShadowFindings | None, console: Terminal) -> None:
    """Print what the shadow check has found, in the style of a warning where everything was taken back."""
    if found is not None and found.shadow is not None:
        console.print(found.shadow.sentence, style="yellow" if found.shadow.has_vetoed else None)


def _told(record: ChannelRecord, site: str) -> list[str]:
    """Why contours cannot be judged at a site; the table says the rest."""
    return [
        f"{name}: {parameter.reason}"
        for name, parameter in record.sites[site].parameters.items()
        if name.startswith(OFFSET) and parameter.p_value is None
    ]


def _entries(record: SiteChannelRecord | None, kind: str, scale: float, decimals: int) -> str:
    of_kind = {} if record is None else record.parameters
    texts = [_entry(one, scale, decimals) for name, one in of_kind.items() if name.startswith(f"{kind} ")]
    return " ".join(texts) if any(text != "?" for text in texts) else "-"


def _entry(parameter: ParameterRecord, scale: float, decimals: int) -> str:
    if parameter.deviation is None or parameter.p_value is None:
        return "?"
    text = f"{scale * parameter.deviation:{'+' if scale == 1 else ''}.{decimals}f}"
    return text if parameter.established else f"({text})"
