"""Text that others chose, such as file names, made fit for a terminal, a log or a picture."""

import logging
import re

# Control characters, lines that are none, what turns the direction of writing around, and halves of characters, which
# stand for bytes of a file name that are no text.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

# With these a spreadsheet begins a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def printable(text: str) -> str:
    r"""Return a text with everything that a terminal would obey, or could not show, as a visible escape.

    A name with a line break stays one line, and can neither pass for a line of its own nor clear the screen.

    >>> printable("a\x1b[2J\n.png")
    'a\\x1b[2J\\n.png'
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def printable_lines(text: str) -> str:
    """Return a text of several lines as above; lines after the first are indented, so that none passes for a first."""
    return "\n    ".join(printable(line) for line in text.split("\n"))


def spreadsheet_safe(text: str) -> str:
    """Return a text that a spreadsheet shows and does not compute: an apostrophe comes before what begins a formula.

    >>> spreadsheet_safe("=HYPERLINK(1)")
    "'=HYPERLINK(1)"
    """
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_FORMULA_STARTS) else text


def drawable(text: str) -> str:
    """Return a text as Matplotlib draws it letter by letter: it would read what is between dollars as a formula."""
    return printable(text).replace("$", r"\$")


def printable_logger(name: str) -> logging.Logger:
    """Return a logger whose own messages are printable, whichever handlers they reach."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_printable)
    return logger


def _make_printable(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    if (text := printable(message)) != message:
        record.msg, record.args = text, None
    return True
