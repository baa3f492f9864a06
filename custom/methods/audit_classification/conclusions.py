"""What a site is told of its own labels, in words that a clinician understands."""

from collections.abc import Mapping
from typing import Any

from ...audit.findings import Conclusion, SiteAudit
from ...channel.thresholds import THRESHOLDS
from ..auto.records import ParameterRecord

WRONG_LABELS = "wrong labels"

# Above this share "one in n" says too little; between one in three and one in two it is too coarse.
_HALF = 0.5
_THIRD, _NEARLY_HALF = 0.367, 0.45


def with_conclusion(audit: SiteAudit, told: Mapping[str, Any], floor: float) -> SiteAudit:
    """Return an audit with what the federation concludes of the site's labels.

    Args:
        audit: of the site.
        told: by the server: ``wrong_labels``, the fields of a :class:`ParameterRecord`.
        floor: smaller noise levels count as right labels.

    Raises:
        ValueError: if the server told something else.
    """
    record = ParameterRecord.model_validate(told["wrong_labels"])
    verdict = record.verdict(THRESHOLDS.test_level)
    conclusion = Conclusion(
        parameter=WRONG_LABELS,
        verdict=verdict,
        sentence=_sentence(record, verdict, floor),
        **record.model_dump(exclude={"established", "p_value"}),
    )
    return audit.model_copy(update={"conclusions": (conclusion,)})


def _sentence(record: ParameterRecord, verdict: str, floor: float) -> str:
    share = record.estimate
    if verdict == "cannot tell" or share is None:
        return "It cannot be told how many labels are wrong."
    low, high = (share if end is None else max(end, 0.0) for end in (record.low, record.high))
    ends = f"{100 * low:.0f} to {100 * high:.0f} %"
    if verdict == "established":
        return f"About {_amount(share)} wrong ({ends}), sure."
    shown = f"{100 * share:.0f} % look wrong ({ends})"
    if verdict == "small":
        return f"Labels are about right: {shown}, which is too little to act on."
    if low > 0 and share >= floor:
        return f"Some labels may be wrong, {100 * share:.0f} % ({ends}); not sure."
    return f"Labels are about right: {shown}."


def _amount(share: float) -> str:
    """One in n where that is close to the share, two in five between a third and a half, else a percentage."""
    if share > _HALF:
        return f"{100 * share:.0f} % of the labels are"
    if _THIRD < share < _NEARLY_HALF:
        return "2 in 5 labels are"
    return f"1 in {round(1 / share)} labels is"
