"""Numbers as sentences have them: what rounds to zero has no sign, wherever it is shown."""

import re
from pathlib import Path

import pytest

import fedannot.apps
from fedannot.apps.wording.annotator_classes import fraction_in_words
from fedannot.apps.wording.case_tests import interval_in_words
from fedannot.apps.wording.phrases import percent, percent_range, signed
from fedannot.custom.annotation_bias.annotators.records import Figure

APPS = Path(fedannot.apps.__path__[0])


@pytest.mark.parametrize("in_percent", [True, False])
def test_a_fraction_and_its_interval_have_no_negative_zero(in_percent: bool) -> None:
    figure = Figure(value=-0.0, low=-0.004, high=1.0, patients=6)
    expected = "0 % (0 to 100 %)" if in_percent else "0.00 (0.00 to 1.00)"
    assert fraction_in_words(figure, in_percent=in_percent) == expected


def test_what_does_not_round_to_zero_keeps_its_sign() -> None:
    assert (percent(-0.006), percent_range(-0.126, -0.004), signed(-0.06)) == ("-1 %", "-13 to 0 %", "−0.1")
    assert interval_in_words("dice", -0.0004, 0.02) == "+0.0 to +2.0"


def test_every_number_that_is_written_with_digits_says_so_of_zero() -> None:
    """By the option ``z`` of format specifications; in pages and reports of any number, elsewhere of signed ones."""
    without = [
        f"{file.relative_to(APPS)}: {spec}"
        for file in sorted(APPS.rglob("*.py"))
        for spec in re.findall(r":[+]?[.][0-9]f[}]", file.read_text(encoding="utf-8"))
        if "+" in spec or file.parent.name in ("wording", "reports")
    ]
    assert without == []
