"""What a check found: how bad it is, in which files, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One thing that a check found; names files and so stays at the site.

    Attributes:
        severity: ``error``: the case, or the site, cannot be used; ``warning``: look at it; ``note``: good to know.
        kind: short name of the kind of problem; findings of a kind are shown together.
        files: the files concerned, relative to the site's folder.
        found: what was found, and what was expected.
        remedy: what to do about it.
        scope: ``case`` where it says something about its files one by one, ``site`` about the site as a whole.
        blocks_training: the site cannot train, or the test set cannot be used, until it is mended.
    """

    severity: Severity
    kind: str
    files: tuple[str, ...]
    found: str
    remedy: str
    scope: str = "case"
    blocks_training: bool = False


def site_finding(
    severity: Severity, kind: str, found: str, remedy: str, *, files: Sequence[str] = (), blocks_training: bool = False
) -> Finding:
    """Make a finding about the site as a whole."""
    return Finding(severity, kind, tuple(files), found, remedy, scope="site", blocks_training=blocks_training)


def plural(count: int, word: str) -> str:
    """Write a count with its word: ``1 image``, ``2 images``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
