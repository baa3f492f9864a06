"""What reviewers decided of an audit's findings: one file next to the findings, for pages and commands alike."""

from collections.abc import Iterable, Sequence
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
        finding: its id; of a case without a finding that of the question about it, see
            :func:`fedannot.custom.audit.case_list.question`; empty of a record that undoes others.
        choice: ``accept`` the suggestion, ``keep`` the given annotation, decide ``later``, take the mask that was
            drawn in the page (``edit``), or ``undo`` earlier records.
        reviewer: who decided.
        time: when, ISO 8601 with the time zone.
        reason: a comment, may be empty.
        shown: what the reviewer saw: hash of the annotation's file, so that a later change of it is noticed.
        is_blind: whether the reviewer did not see the decisions of others.
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
    is_blind: bool = False
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

    A blind decision overrules nobody: where it differs from another reviewer's, the finding stays open until somebody
    who sees both decides. Nothing is removed from it: what is undone stays, and a further record
    says so.

    Args:
        version: of this form; 1 has no blind decisions and none of cases without a finding.
        site: the site's name.
        decisions: of its findings.
    """

    version: Literal[1, 2] = 2
    site: str
    decisions: tuple[Decision, ...] = ()

    @property
    def valid(self) -> tuple[Decision, ...]:
        """The decisions that their reviewer has not undone, in their order; an undone undo undoes nothing."""
        undone: set[tuple[str, str]] = set()
        result = []
        for decision in reversed(self.decisions):
            if decision.action and (decision.action, decision.reviewer) in undone:
                continue
            if decision.choice == "undo":
                undone.add((decision.undoes, decision.reviewer))
            else:
                result.append(decision)
        return tuple(reversed(result))

    @property
    def counting(self) -> dict[str, Decision]:
        """The decision of every finding that counts, by its id; none of a finding on which reviewers differ."""
        chosen = {name: _counts(of_finding) for name, of_finding in self._by_finding().items()}
        return {name: decision for name, decision in chosen.items() if decision is not None}

    @property
    def contested(self) -> dict[str, tuple[Decision, ...]]:
        """By id the findings on which reviewers differ, one of them blind: the last decision of each reviewer."""
        return {
            name: tuple(_settled(of_finding))
            for name, of_finding in self._by_finding().items()
            if _counts(of_finding) is None
        }

    def of_reviewer(self, reviewer: str) -> "Decisions":
        """Return one reviewer's decisions alone: what somebody sees who decides blind."""
        kept = tuple(decision for decision in self.decisions if decision.reviewer == reviewer)
        return self.model_copy(update={"decisions": kept})

    def _by_finding(self) -> dict[str, list[Decision]]:
        result: dict[str, list[Decision]] = {}
        for decision in self.valid:
            result.setdefault(decision.finding, []).append(decision)
        return result

    def with_decision(self, decision: Decision) -> "Decisions":
        """Return the decisions with one more."""
        return self.with_decisions((decision,))

    def with_decisions(self, decisions: Iterable[Decision]) -> "Decisions":
        """Return the decisions with further ones."""
        return self.model_copy(update={"version": 2, "decisions": (*self.decisions, *decisions)})


def _settled(of_finding: Sequence[Decision]) -> list[Decision]:
    """The last decision of each reviewer, but for those of ``later``."""
    latest = {decision.reviewer: decision for decision in of_finding}
    return [decision for decision in latest.values() if decision.choice != "later"]


def _counts(of_finding: Sequence[Decision]) -> Decision | None:
    """The decision of a finding that counts; None where a blind one differs from another reviewer's."""
    last = of_finding[-1]
    if not last.is_blind:
        return last
    settled = _settled(of_finding)
    if not settled:
        return last
    return settled[-1] if len({(decision.choice, decision.mask) for decision in settled}) == 1 else None


def read_decisions(folder: Path, site: str) -> Decisions:
    """Read the decisions in the folder of an audit; none were made where there is no file.

    Raises:
        DataError: if the file cannot be read.
    """
    return read_record(folder / DECISIONS_FILE, Decisions) or Decisions(site=site)


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Write the decisions in one step."""
    write_record(folder / DECISIONS_FILE, decisions)
