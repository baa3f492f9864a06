"""What audits of version 1 wrote into ``findings.json``, as this version has it: their findings were sentences."""

from collections.abc import Mapping
from typing import Any

from ..annotation_bias.version_1 import text_evidence


def finding_of_version_1(values: Any) -> Any:
    """Return the fields of a finding; its sentence is kept as a text."""
    if not (isinstance(values, Mapping) and "sentence" in values):
        return values
    kept = dict(values)
    return kept | {"text": kept.pop("sentence")}


def kind_of_version_1(values: Any) -> Any:
    """Return the fields of what was found of a kind; its title is made of its name."""
    if not (isinstance(values, Mapping) and ("title" in values or "sentence" in values)):
        return values
    kept = dict(values)
    kept.pop("title", None)
    sentence = kept.pop("sentence", "")
    return kept | ({"shows": (text_evidence(sentence),)} if sentence else {})


def audit_of_version_1(values: Any) -> Any:
    """Return the fields of a site's audit."""
    if not (isinstance(values, Mapping) and values.get("version") == 1):
        return values
    kept = dict(values)
    zero = kept.pop("zero", {})
    predicted_by = {"folds": 1, "text": kept.pop("judged_by", "")}
    return kept | {"version": 2, "judged_by": predicted_by, "reference_levels": zero}
