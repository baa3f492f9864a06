"""What reviewers decided of an audit's findings: one file beside the findings, for pages and commands alike."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..data.json_record import JsonRecord, read_record, write_record

DECISIONS_FILE = "decisions.json"

# What a person decides of a finding; a record of the log may also undo an earlier one.
FindingChoice = Literal["accept", "keep", "later", "edit"]
Choice = Literal["accept", "keep", "later", "edit", "undo"]
HexName = Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]


class Decision(JsonRecord):
    """What a person decided of one finding.

    Args:
        finding: its id; of a case without findings that of the case; empty of a record that undoes others.
        choice: ``accept`` the suggestion, ``keep`` the given annotation, decide ``later``, take the mask that was
            drawn in the page (``edit``), or ``undo`` earlier records.
        reviewer: who decided.
        time: when, ISO 8601 with the time zone.
        reason: a comment, may be empty.
        shown: what the reviewer saw: hash of the annotation's file, so that a later change of it is noticed.
        mask: of ``edit`` the id of the stored mask, else empty.
        action: names the records that one press of a button has made; empty in records of earlier versions.
        undoes: of ``undo`` the action whose records no longer count, else empty.
    """

    finding: str
    choice: Choice
    reviewer: str
    time: str
    reason: str = ""
    shown: str = ""
    mask: HexName = ""
    action: HexName = ""
    undoes: HexName = ""

    @model_validator(mode="after")
    def _is_complete(self) -> "Decision":
        if (self.choice == "edit") != bool(self.mask):
            raise ValueError(f"expected the id of a mask with the choice 'edit' alone, but got {self.mask!r}")
        if (self.choice == "undo") != bool(self.undoes):
            raise ValueError(f"expected an undone action with the choice 'undo' alone, but got {self.undoes!r}")
        return self


class Decisions(JsonRecord):
    """The content of ``decisions.json``: the decisions in the order in which they were made; the last one counts.

    Nothing is removed from it: what is undone stays, and a further record says so.

    Args:
        version: of this form.
        site: the site's name.
        decisions: of its findings.
    """

    version: Literal[1] = 1
    site: str
    decisions: tuple[Decision, ...] = ()

    @property
    def valid(self) -> tuple[Decision, ...]:
        """The decisions that nobody has undone, in their order; an undo that is undone itself undoes nothing."""
        undone: set[str] = set()
        result = []
        for decision in reversed(self.decisions):
            if decision.action and decision.action in undone:
                continue
            if decision.choice == "undo":
                undone.add(decision.undoes)
            else:
                result.append(decision)
        return tuple(reversed(result))

    @property
    def counting(self) -> dict[str, Decision]:
        """The last valid decision of every finding, by its id."""
        return {decision.finding: decision for decision in self.valid}

    def with_decision(self, decision: Decision) -> "Decisions":
        """Return the decisions with one more."""
        return self.with_decisions((decision,))

    def with_decisions(self, decisions: Iterable[Decision]) -> "Decisions":
        """Return the decisions with further ones."""
        return self.model_copy(update={"decisions": (*self.decisions, *decisions)})


def read_decisions(folder: Path, site: str) -> Decisions:
    """Read the decisions in the folder of an audit; none were made where there is no file.

    Raises:
        DataError: if the file cannot be read.
    """
    return read_record(folder / DECISIONS_FILE, Decisions) or Decisions(site=site)


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Write the decisions in one step."""
    write_record(folder / DECISIONS_FILE, decisions)
