"""What `auto` of version 1 left in summaries and states, as this version has it: its decisions were sentences."""

from collections.abc import Mapping
from typing import Any

from ....transforms.strict_files import JsonObject
from ...annotation_bias.version_1 import text_evidence

# Parts of the reasons why nothing was compared.
_NOT_COMPARED = {
    "site has reviewed or held-out": "no_patients",
    "site has enough reviewed": "too_few_patients",
    "few sites have other weights": "single_sites",
}
_BY_QUANTITY, _BEFORE = "weights by numbers of samples", "the model of before round "


def bias_of_version_1(values: Mapping[str, Any]) -> JsonObject:
    """Return the fields of an estimate of all sites; its sentences are shown as they are."""
    kept = dict(values)
    zero, decision = kept.pop("zero"), kept.pop("decision", "")
    inferred, balanced = kept.pop("inferred_zero", ()), kept.pop("balanced_zero", ())
    kinds = {label: "balanced" if label in balanced else "median" for label in inferred}
    levels = {
        label: {
            "kind": kinds.get(label),
            "value": None,
            "standard_error": None,
            "is_sure": label in kinds,
            "unit": None,
            "reasons": (text_evidence(sentence),),
        }
        for label, sentence in zero.items()
    }
    return kept | {"reference_levels": levels, "decision": {"outcome": "text", "text": decision}}


def rollback_of_version_1(values: Mapping[str, Any]) -> JsonObject:
    """Return the fields of a shadow check; its sentence is shown as it is."""
    kept = dict(values)
    text, rounds = kept.pop("sentence", ""), kept.get("rounds", ())
    return (
        kept
        | rollback_of(kept.pop("shadow_is"))
        | {
            "wanted_rounds": None,
            "not_compared": None if rounds else "text",
            "text": text,
        }
    )


def rollback_of(text: str) -> JsonObject:
    """Return what the second model was, by the words of version 1; nothing of an empty text."""
    if text.startswith(_BEFORE):
        return {"shadow_of": "model_before", "before_round": int(text.removeprefix(_BEFORE))}
    return {"shadow_of": "weights_by_samples"} if text == _BY_QUANTITY else {}


def state_of_version_1(state: Mapping[str, Any]) -> JsonObject:
    """Return the state of a shadow check as this version keeps it."""
    kept = dict(state)
    said, reason = kept.pop("shadow_is"), kept.pop("reason")
    code = next((code for begin, code in _NOT_COMPARED.items() if begin in reason), None)
    return {"shadow_of": None, "before_round": None} | kept | rollback_of(said) | {"not_compared": code}
