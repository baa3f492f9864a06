"""What reviewers decided of an audit's findings: one file beside the findings, for pages and commands alike."""

from pathlib import Path
from typing import Literal

from ..data.json_record import JsonRecord, read_record, write_record

DECISIONS_FILE = "decisions.json"

Choice = Literal["accept", "keep", "later"]


class Decision(JsonRecord):
    """What a person decided of one finding.

    Args:
        finding: its id.
        choice: ``accept`` the suggestion, ``keep`` the given annotation, or decide ``later``.
        reviewer: who decided.
        time: when, ISO 8601 with the time zone.
        reason: a comment, may be empty.
        shown: what the reviewer saw: hash of the annotation's file, so that a later change of it is noticed.
    """

    finding: str
    choice: Choice
    reviewer: str
    time: str
    reason: str = ""
    shown: str = ""


class Decisions(JsonRecord):
    """The content of ``decisions.json``: the decisions in the order in which they were made; the last one counts.

    Args:
        version: of this form.
        site: the site's name.
        decisions: of its findings.
    """

    version: Literal[1] = 1
    site: str
    decisions: tuple[Decision, ...] = ()

    @property
    def counting(self) -> dict[str, Decision]:
        """The last decision of every finding, by its id."""
        return {decision.finding: decision for decision in self.decisions}

    def with_decision(self, decision: Decision) -> "Decisions":
        """Return the decisions with one more."""
        return self.model_copy(update={"decisions": (*self.decisions, decision)})


def read_decisions(folder: Path, site: str) -> Decisions:
    """Read the decisions in the folder of an audit; none were made where there is no file.

    Raises:
        DataError: if the file cannot be read.
    """
    return read_record(folder / DECISIONS_FILE, Decisions) or Decisions(site=site)


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Write the decisions in one step."""
    write_record(folder / DECISIONS_FILE, decisions)
