"""What `auto` for classification of version 1 left, as this version has it: its decisions were sentences."""

from collections.abc import Mapping
from typing import Any

from ...annotation_bias.version_1 import evidence_of_reason, parameter_of_version_1, text_evidence


def with_right_labels(values: Any) -> Any:
    """Return fields with what right labels are in place of a sentence."""
    if not (isinstance(values, Mapping) and "neutral_is" in values):
        return values
    kept = dict(values)
    said = kept.pop("neutral_is")
    return kept | {"right_labels": text_evidence(said) if said else None}


def noise_level_of_version_1(values: Any) -> Any:
    """Return the fields of a site's noise level."""
    if not (isinstance(values, Mapping) and "reason" in values):
        return values
    kept = dict(values)
    confirmed, decision = kept.pop("is_established"), kept.pop("decision", "")
    status = parameter_of_version_1({**kept, "established": confirmed, "effect": kept["estimate"]})["status"]
    reason = kept.pop("reason")
    return kept | {
        "effect": None,
        "status": status,
        "evidence": evidence_of_reason(reason),
        "follows": "text",
        "text": decision,
    }
