"""The console of the command: what names in a text would make a terminal do is escaped."""

from typing import Any

from rich.console import Console
from rich.text import Text

from ..transforms.printable import printable


class Terminal(Console):
    """A console that prints texts as they are: no markup, no emoji codes, control characters as visible escapes.

    Styles are given beside the text (``style=``), not in it.

    Args:
        options: of rich's console.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False} | options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make rich's text of a plain one, in lines and in cells of tables; each stays one line."""
        return super().render_str(printable(text), **options)

    def print_named(self, name: str, text: str, *, style: str = "bold") -> None:
        """Print a line whose first words stand out."""
        self.print(Text.assemble((printable(name), style), printable(text)))
