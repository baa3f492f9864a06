"""What a site is told of its own labels, in words that a clinician understands."""

from collections.abc import Mapping
from typing import Any

from ...audit.findings import Conclusion, SiteAudit
from ..auto.records import ParameterRecord

WRONG_LABELS = "wrong labels"

# Above this share "one in n" says too little.
_HALF = 0.5


def with_conclusion(audit: SiteAudit, told: Mapping[str, Any], level: float) -> SiteAudit:
    """Return an audit with what the federation concludes of the site's labels.

    Args:
        audit: of the site.
        told: by the server: ``wrong_labels``, the fields of a :class:`ParameterRecord`.
        level: of the server's test.

    Raises:
        ValueError: if the server told something else.
    """
    record = ParameterRecord.model_validate(told["wrong_labels"])
    verdict = record.verdict(level)
    conclusion = Conclusion(
        parameter=WRONG_LABELS,
        verdict=verdict,
        sentence=_sentence(record, verdict),
        **record.model_dump(exclude={"established", "p_value"}),
    )
    return audit.model_copy(update={"conclusions": (conclusion,)})


def _sentence(record: ParameterRecord, verdict: str) -> str:
    share = record.estimate
    if verdict == "cannot tell" or share is None:
        return "It cannot be told how many labels are wrong."
    low, high = (share if end is None else end for end in (record.low, record.high))
    ends = f"{100 * low:.0f} to {100 * high:.0f} %"
    if verdict == "established" and share <= _HALF:
        number = round(1 / share)
        return f"About 1 in {number} labels is wrong ({ends}), sure."
    if verdict == "established":
        return f"About {100 * share:.0f} % of the labels are wrong ({ends}), sure."
    shown = f"{100 * share:.0f} % look wrong ({ends})"
    if verdict == "small":
        return f"Labels are about right: {shown}, which is too little to act on."
    return f"Labels are about right: {shown}."
