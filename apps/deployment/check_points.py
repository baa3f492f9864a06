"""How a point of the check before joining came out."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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


GIB = 2**30
# Prepared tensors, the models of a few rounds, logs: with less a participant cannot go on.
_LEAST_SPACE = 1 * GIB


def disk_point(folder: Path, *, enough: int = 0) -> Point:
    """Return whether there is room in a folder that this user may write to.

    Args:
        folder: the kit.
        enough: bytes below which there is a warning.
    """
    free = shutil.disk_usage(folder).free
    result = f"{free / GIB:.1f} GiB free at {folder}"
    if not os.access(folder, os.W_OK):
        return Point("disk", State.PROBLEM, f"{folder} cannot be written to", "Use the account that owns the kit.")
    if free < _LEAST_SPACE:
        return Point("disk", State.PROBLEM, result, "Prepared images, models and logs go there: make room.")
    if free < enough:
        return Point("disk", State.WARNING, result, "Prepared images, models and logs go there.")
    return Point("disk", State.READY, result)


_COLOURS = {State.READY: "green", State.WARNING: "yellow", State.PROBLEM: "red"}


def show_points(points: Iterable[Point]) -> None:
    """Print how points came out, each with what to do about it."""
    console = Terminal(soft_wrap=True)
    for point in points:
        console.print(f"{point.state:<8}", style=_COLOURS[point.state], end=" ")
        console.print(f"{point.what}: {point.found}")
        if point.remedy:
            console.print(f"         → {point.remedy}")
