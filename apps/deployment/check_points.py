"""How a point of the check before joining came out."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a point of the check came out."""

    READY = "ready"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Point:
    """What was found at one point of the check, also where nothing is wrong, of which there is no finding.

    Attributes:
        what: the point, ``certificate``.
        state: how it came out; a problem keeps the participant from joining.
        found: what was found.
        remedy: what to do about it; empty where nothing is wrong.
    """

    what: str
    state: State
    found: str
    remedy: str = ""
