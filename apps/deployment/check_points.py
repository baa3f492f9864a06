"""How a point of the check before joining came out."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ..terminal import Terminal


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


_COLOURS = {State.READY: "green", State.WARNING: "yellow", State.PROBLEM: "red"}


def show_points(points: Iterable[Point]) -> None:
    """Print how points came out, each with what to do about it."""
    console = Terminal(soft_wrap=True)
    for point in points:
        console.print(f"{point.state:<8}", style=_COLOURS[point.state], end=" ")
        console.print(f"{point.what}: {point.found}")
        if point.remedy:
            console.print(f"         → {point.remedy}")
