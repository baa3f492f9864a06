"""Each reason of a refusal has a sentence, which names the values that go with it."""

import re
import string

import pytest

from fedannot.apps.wording.refusals import _CLAUSES, refusal_in_words
from fedannot.custom.former_names import FORMER_REFUSALS
from fedannot.custom.refusals import RefusalCode, RefusalReason

# Their descriptions say that they have the same values as the code before them.
_AS_BEFORE = {
    RefusalCode.NO_ANSWER_AFTER_OTHERS: {"task", "seconds"},
    RefusalCode.ENTRIES_UNEXPECTED: {"number", "entry"},
}


@pytest.mark.parametrize("code", RefusalCode)
def test_a_sentence_names_the_values_of_its_code(code: RefusalCode) -> None:
    described = re.search(rf"^ +{code.name}: ((?:.|\n)*?)(?=^ +[A-Z_]+: |\Z)", RefusalCode.__doc__ or "", re.M)
    assert described is not None
    named = _AS_BEFORE.get(code) or set(re.findall(r"``(\w+)``", described[1]))
    assert {name for _, name, _, _ in string.Formatter().parse(_CLAUSES[code]) if name} == named


@pytest.mark.parametrize(("text", "code"), FORMER_REFUSALS.items())
def test_a_reported_reason_reads_as_in_earlier_versions(text: str, code: str) -> None:
    assert refusal_in_words(RefusalReason.of(RefusalCode(code))) == text


def test_numbers_are_written_as_a_sentence_has_them() -> None:
    reason = RefusalReason.of(RefusalCode.WEIGHT_TOO_LARGE, weight=0.80123, largest=0.5)
    assert refusal_in_words(reason).startswith("it would be 0.80 of a layer block")
