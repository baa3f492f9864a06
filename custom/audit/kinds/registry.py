"""All kinds of problems that an audit looks for, in the order of a page; a new one is a file and a line here."""

from typing import Any

from .kind import Kind
from .specks import Specks

KINDS: tuple[Kind[Any], ...] = (Specks(),)
