"""What images and model say together, in words."""

import pytest

from fedannot.apps.wording.decisions import witness_in_words
from fedannot.custom.methods.auto.records import ImageBiasRecord, WitnessRecord


def site(is_known: bool) -> ImageBiasRecord:
    numbers = dict.fromkeys(("estimate", "low", "high", "slope", "auroc", "prominence", "correlation"))
    return ImageBiasRecord(**numbers, patients=8, is_known=is_known)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"is_shown": False}, "which are too few to count"),
        ({"is_shown": True}, "and count alone"),
        ({"is_shown": True, "spread": 1.74}, "differs by 1.7 px, and does not count"),
        ({"is_shown": True, "spread": 0.4}, "says otherwise at single sites, and does not count"),
        ({"is_shown": True, "spread": 0.36, "is_model_used": True}, "differs by 0.4 px, and counts by its precision"),
    ],
)
def test_it_says_which_of_both_counts(values: dict[str, object], sentence: str) -> None:
    witness = WitnessRecord.model_validate({**values, "sites": {"a": site(True), "b": site(True), "c": site(False)}})
    text = witness_in_words(witness)
    assert text.startswith("Images show the boundary bias of 2 of 3 sites")
    assert sentence in text
