"""Parts of Markdown pages: tables, lists whose lines are short, and figures in words."""

from collections.abc import Sequence
from textwrap import wrap

_LONGEST_LINE = 118


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(cell(text) for text in cells)} |" for cells in rows)


def cell(text: str) -> str:
    """Return a text as the content of a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def paragraph(text: str) -> str:
    """Return a text in lines that are short."""
    return "\n".join(wrap(text, _LONGEST_LINE, break_long_words=False, break_on_hyphens=False))


def bullet(text: str) -> str:
    """Return an item of a list."""
    lines = wrap(f"- {text}", _LONGEST_LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def signed(value: float | None, decimals: int = 1) -> str:
    """Return a difference with its sign; a dash for none."""
    return "–" if value is None else f"{value:+.{decimals}f}".replace("-", "−")


def number(value: float | None, decimals: int = 1) -> str:
    """Return a number; a dash for none."""
    return "–" if value is None else f"{value:.{decimals}f}".replace("-", "−")


def p_value(value: float | None) -> str:
    """Return a p-value; a dash for none."""
    return "–" if value is None else "< 0.001" if value < 0.0005 else f"{value:.3f}"
