"""What runs and audits of version 1 left, as this version has it: their reasons were sentences.

Only here is a text searched, and only one that an earlier version has written: its wording does not change any more.
"""

from collections.abc import Mapping
from typing import Any

from ...transforms.strict_files import JsonObject
from .statuses import Evidence, EvidenceCode, Status

# Beginnings of reasons, by what they say.
_STATUSES = {
    "Confirmed": Status.CONFIRMED,
    "Not established": Status.NOT_SIGNIFICANT,
    "Too small to act on": Status.SMALL,
    "Cannot tell": Status.UNKNOWN,
}
_CODES = {
    "not known where neutral lies": EvidenceCode.REFERENCE_UNSURE,
    "is annotated to judge it": EvidenceCode.MODEL_UNFIT,
    "the label of another class": EvidenceCode.MISLABELLED,
}
_VERDICTS = {
    "established": Status.CONFIRMED,
    "small": Status.SMALL,
    "none": Status.NOT_SIGNIFICANT,
    "cannot tell": Status.UNKNOWN,
}
_LEVEL = 0.05


def text_evidence(text: str) -> Evidence:
    """Return a sentence as evidence, to be shown as it is."""
    return Evidence(EvidenceCode.TEXT, names={"text": text})


def evidence_of_reason(reason: str) -> tuple[Evidence, ...]:
    """Return the codes that a reason stands for, and the reason itself."""
    codes = tuple(Evidence(code) for phrase, code in _CODES.items() if phrase in reason)
    return (*codes, text_evidence(reason)) if reason else codes


def is_parameter(values: Any) -> bool:
    """Return whether plain values are of a parameter of version 1."""
    return isinstance(values, Mapping) and "reason" in values


def parameter_of_version_1(values: Mapping[str, Any]) -> JsonObject:
    """Return the fields of a parameter of this version."""
    kept = dict(values)
    reason, confirmed = str(kept.pop("reason")), kept.pop("established", None)
    verdict = kept.pop("verdict", None)
    kept.pop("sentence", None)
    if kept.get("parameter") == "wrong labels":
        kept["parameter"] = "labels 0"
    if "deviation" in kept:
        kept["effect"] = kept.pop("deviation")
    kept.setdefault("p_value", None)
    status = _VERDICTS.get(verdict) if verdict is not None else _status(kept, reason, is_confirmed=bool(confirmed))
    return kept | {"status": status or Status.UNKNOWN, "evidence": evidence_of_reason(reason)}


def _status(values: Mapping[str, Any], reason: str, *, is_confirmed: bool) -> Status:
    if is_confirmed:
        return Status.CONFIRMED
    p_value = values["p_value"]
    if p_value is None or values.get("effect") is None:
        return Status.UNKNOWN
    said = next((status for begin, status in _STATUSES.items() if reason.startswith(begin)), None)
    if said is not None and said is not Status.CONFIRMED:
        return said
    return Status.SMALL if p_value <= _LEVEL else Status.NOT_SIGNIFICANT
