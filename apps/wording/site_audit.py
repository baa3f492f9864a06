"""What is concluded of a site and the figures of its findings, as its page shows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...custom.annotation_bias.parameters import ParameterKind
from ...custom.annotation_bias.statuses import Status
from ...custom.audit.findings import QUESTIONS, Conclusion, Finding, SiteAudit
from ..checking.finding import plural
from .evidence import evidence_in_words, reason_in_words, reference_level_in_words
from .parameters import (
    STATUS_ORDER,
    conclusion_in_words,
    status_in_words,
)
from .phrases import begun, signed, size_in_words

_WHY_LIKELY = (
    "Counted at this site alone: what the model sees and nobody has annotated, each object by how probably it is real. "
    "The interval is that of the patients; the probabilities are rather too low."
)
_PARAMETERS = {
    ParameterKind.OFFSET: "Contours",
    ParameterKind.MISSING: "Missed objects",
    ParameterKind.CONFUSED: "Classes of objects",
    ParameterKind.LABELS: "Labels",
}


@dataclass(frozen=True)
class ShownConclusion:
    """A conclusion as the page shows it.

    Attributes:
        style: its status, or ``likely``, as the style sheet names it.
        words: its status.
        sentence: what is concluded.
        figures: estimate, interval and patients; empty where there is no estimate.
        reason: evidence, threshold and decision.
    """

    style: str
    words: str
    sentence: str
    figures: str
    reason: str


def shown_conclusions(audit: SiteAudit, *, is_shared: bool = False) -> list[ShownConclusion]:
    """Return the conclusions, those first of which something follows, with what the site's own cases make likely.

    Args:
        audit: of the site.
        is_shared: whether they are for a copy that can be given away: figures, and what they are of.
    """
    ordered = sorted(audit.conclusions, key=lambda one: STATUS_ORDER.index(one.status))
    reported = [
        ShownConclusion(
            style_of(item.status),
            status_in_words(item),
            _what_of(item) if is_shared else conclusion_in_words(item),
            _figures(item, audit),
            "" if is_shared else reason_in_words(item),
        )
        for item in ordered
    ]
    confirmed = sum(item.is_confirmed for item in ordered)
    return [*reported[:confirmed], *_likely(audit), *reported[confirmed:]]


def style_of(status: Status) -> str:
    """Return what the style sheet calls a status."""
    return status.value.replace("_", "-")


def _what_of(one: Conclusion) -> str:
    """What a conclusion is of."""
    what = _PARAMETERS[one.parameter.kind]
    return f"{what} of {one.class_name}" if one.class_name else what


def _likely(audit: SiteAudit) -> list[ShownConclusion]:
    """What the site's own cases show together, which no other site's do."""
    return [
        ShownConclusion("likely", "Likely", begun(" ".join(map(evidence_in_words, kind.shows))), "", _WHY_LIKELY)
        for kind in audit.kinds
        if kind.shows
    ]


def pixels_sentence(audit: SiteAudit, size: Sequence[int]) -> str:
    """Return of which images the pixels of amounts and sizes are; empty where lengths are in millimetres.

    Args:
        audit: of the site.
        size: of the images as the model sees them.
    """
    if audit.unit != "px" or not size:
        return ""
    return f"Amounts and sizes in px: of images as the model sees them, {' × '.join(map(str, size))} pixels."


def finding_facts(finding: Finding) -> list[tuple[str, str]]:
    """Return the figures of a finding, each with its name."""
    facts = []
    if finding.kind in QUESTIONS:
        return []
    if finding.probability is not None:
        facts.append(("Needs a change", f"{100 * finding.probability:z.0f} %"))
    else:
        facts.append(("Suspicion", f"{finding.score:z.2f}"))
    if finding.amount is not None:
        unit = f" {finding.amount_unit}" if finding.amount_unit else ""
        facts.append(("Amount", f"{signed(finding.amount)}{unit}"))
    if finding.size is not None:
        facts.append(("Size", size_in_words(finding.size, finding.size_unit)))
    if finding.classes:
        facts.append(("Class", " → ".join(finding.classes)))
    return facts


def _figures(one: Conclusion, audit: SiteAudit) -> str:
    """The effect of a parameter, on the scale of its sentence."""
    if one.from_reference is None:
        return ""
    effect, low, high = one.from_reference
    interval = f"90 % interval {_number_of(low, one)} to {_value(high, one)}"
    # What is absolute, such as a fraction, needs no reference level.
    level = audit.reference_levels.get(one.class_name) if one.parameter.kind is ParameterKind.OFFSET else None
    shown = f"{_value(effect, one)} ({interval}), {plural(one.patients, 'patient')}"
    return f"{shown}{f'. {reference_level_in_words(level)}' if level else ''}"


def _value(value: float, one: Conclusion) -> str:
    return f"{_number_of(value, one)} {one.unit or '%'}"


def _number_of(value: float, one: Conclusion) -> str:
    # Chance may put the end of an interval below a fraction of nothing.
    return f"{100 * max(value, 0.0):z.0f}" if one.unit is None else signed(value)
