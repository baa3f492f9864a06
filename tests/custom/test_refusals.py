"""Reasons of refusals come back from files of this version and of earlier ones, and a site reports codes alone."""

from typing import Any

import pytest

from fedannot.custom.former_names import FORMER_REFUSALS
from fedannot.custom.refusals import REPORTED, RefusalCode, RefusalReason


def test_a_reason_comes_back_from_json_as_it_was() -> None:
    reason = RefusalReason.of(RefusalCode.DIVERGED, entry="head.bias", largest=5000.0, limit=4096)
    again = RefusalReason.model_validate_json(reason.model_dump_json())
    assert again == reason
    assert {name: type(value) for name, value in again.values.items()} == {"entry": str, "largest": float, "limit": int}


def test_texts_of_earlier_versions_are_read() -> None:
    """Those that sites reported as their codes, others as they are."""
    for text, code in FORMER_REFUSALS.items():
        assert RefusalReason.model_validate(text) == RefusalReason(code=RefusalCode(code))
    assert RefusalReason.model_validate("it has no model").values == {"text": "it has no model"}
    assert str(RefusalReason.model_validate("it has no model")) == "it has no model"


@pytest.mark.parametrize("code", REPORTED)
def test_a_site_reports_one_of_the_codes_or_what_earlier_versions_said(code: RefusalCode) -> None:
    assert RefusalReason.reported(code.value) == RefusalReason(code=code)
    (former,) = [text for text, known in FORMER_REFUSALS.items() if known == code]
    assert RefusalReason.reported(former) == RefusalReason(code=code)


@pytest.mark.parametrize("code", ["text", "no_model", "patient 0815", "", None, 7, b"held_back", ["held_back"], {}])
def test_a_site_reports_nothing_else(code: Any) -> None:
    assert RefusalReason.reported(code) is None


def test_a_log_has_code_and_values() -> None:
    reason = RefusalReason.of(RefusalCode.OTHER_ROUND, round="7", expected=1)
    assert str(reason) == "other round (round 7, expected 1)"
    assert str(RefusalReason.of(RefusalCode.HELD_BACK)) == "held back"
