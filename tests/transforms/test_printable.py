"""Names that others chose are shown letter by letter and change nothing where they are shown."""

import logging
import os
import sys
import unicodedata

import pytest

from fedannot.transforms.printable import drawable, printable, printable_lines, printable_logger


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[2J\x1b]8;;http://x\x07.png", r"a\x1b[2J\x1b]8;;http://x\x07.png"),
        ("a\nWARNING b", r"a\nWARNING b"),
        ("a\r\tb\x7f\x9b31m", r"a\r\tb\x7f\x9b31m"),
        ("gnp.\u202egpj.exe\u2066", r"gnp.\u202egpj.exe\u2066"),
        (os.fsdecode(b"m\xe4dchen"), r"m\udce4dchen"),
        ("äöü 病変 μ ∑ \\n", "äöü 病変 μ ∑ \\n"),
    ],
)
def test_what_a_terminal_would_obey_is_a_visible_escape(text, expected):
    assert printable(text) == expected
    assert printable(text).encode("utf-8")


def test_no_control_character_direction_or_half_character_is_left():
    left = [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in ("RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI")
        if printable(character) == character
    ]
    assert left == []


def test_lines_after_the_first_are_indented():
    assert printable_lines("a.yaml: wrong\nError: b\x1b[31m") == "a.yaml: wrong\n    Error: b\\x1b[31m"


def test_messages_of_a_logger_stay_one_line(caplog):
    logger = printable_logger("fedannot.test_printable")
    assert printable_logger("fedannot.test_printable") is logger
    with caplog.at_level(logging.INFO, logger.name):
        logger.info("case %s is left out", "a\n2026-01-01 INFO all is well\x1b[2K")
        logger.info("case %s is read", "b")
    assert caplog.messages == [r"case a\n2026-01-01 INFO all is well\x1b[2K is left out", "case b is read"]
    assert caplog.records[1].args == ("b",)


def test_dollars_are_drawn_as_dollars():
    from matplotlib.figure import Figure

    figure = Figure()
    figure.text(0, 0, drawable("a $\\nosuch{ b $ c"))
    figure.savefig(os.devnull, format="png")
