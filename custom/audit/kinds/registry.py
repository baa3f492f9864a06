"""All kinds of problems of contours and objects, in the order of a page; a new one is a file and a line here."""

from typing import Any

from .boundary import Boundary
from .confused_class import Confused
from .empty import Empty
from .equal_images import EqualImages
from .kind import Kind
from .misaligned import Misaligned
from .missing import Missing
from .missing_slice import MissingSlice
from .specks import Specks
from .spurious import Spurious
from .wrong_pair import WrongPair

KINDS: tuple[Kind[Any], ...] = (
    WrongPair(),
    Misaligned(),
    Boundary(),
    Missing(),
    Spurious(),
    Confused(),
    EqualImages(),
    Empty(),
    MissingSlice(),
    Specks(),
)
