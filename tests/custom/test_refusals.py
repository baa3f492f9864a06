"""Reasons of refusals come back from files of this version and of earlier ones, and a site reports codes alone."""

from typing import Any

import pytest

from fedannot.custom.former_names import FORMER_REFUSALS
from fedannot.custom.refusals import REPORTED, RefusalCode, RefusalReason, error_fields


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


def test_an_error_is_kept_with_type_text_and_last_line_beside_the_code() -> None:
    with pytest.raises(ValueError, match="one") as caught:
        int("one\ntwo")
    reason = RefusalReason.reported("task_failed", error_fields(caught.value))
    assert reason is not None
    kind, frame, line = reason.error_lines
    assert kind == r"ValueError: invalid literal for int() with base 10: 'one\ntwo'"
    assert frame.startswith(f'File "{__file__}", line ')
    assert line.strip() == r'int("one\ntwo")'
    assert str(reason) == "task failed"
    assert reason.without_error == RefusalReason.of(RefusalCode.TASK_FAILED)
    assert reason.without_error.model_dump(exclude_unset=True) == {"code": "task_failed"}


def test_what_is_no_error_is_no_part_of_a_reason() -> None:
    for error in ("text", {"other": "x"}, {"error": 7}, ["error"]):
        assert RefusalReason.reported("task_failed", error) == RefusalReason.of(RefusalCode.TASK_FAILED)


def test_a_log_has_code_and_values() -> None:
    reason = RefusalReason.of(RefusalCode.OTHER_ROUND, round="7", expected=1)
    assert str(reason) == "other round (round 7, expected 1)"
    assert str(RefusalReason.of(RefusalCode.HELD_BACK)) == "held back"
