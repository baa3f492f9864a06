"""What reviewers decided of an audit's findings: one file beside the findings, for pages and commands alike."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..data.json_record import JsonRecord, read_record, write_record

DECISIONS_FILE = "decisions.json"

Choice = Literal["accept", "keep", "later"]


class Decision(JsonRecord):
    """What a person decided of one finding.

    Args:
        finding: its id; of a case without a finding that of the question about it, see
            :func:`fedannot.custom.audit.case_list.question`.
        choice: ``accept`` the suggestion, ``keep`` the given annotation, or decide ``later``.
        reviewer: who decided.
        time: when, ISO 8601 with the time zone.
        reason: a comment, may be empty.
        shown: what the reviewer saw: hash of the annotation's file, so that a later change of it is noticed.
        is_blind: whether the reviewer did not see the decisions of others.
    """

    finding: str
    choice: Choice
    reviewer: str
    time: str
    reason: str = ""
    shown: str = ""
    is_blind: bool = False


class Decisions(JsonRecord):
    """The content of ``decisions.json``: the decisions in the order in which they were made; the last one counts.

    A blind decision overrules nobody: where it differs from another reviewer's, the finding stays open until somebody
    who sees both decides.

    Args:
        version: of this form; 1 has no blind decisions and none of cases without a finding.
        site: the site's name.
        decisions: of its findings.
    """

    version: Literal[1, 2] = 2
    site: str
    decisions: tuple[Decision, ...] = ()

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
        for decision in self.decisions:
            result.setdefault(decision.finding, []).append(decision)
        return result

    def with_decision(self, decision: Decision) -> "Decisions":
        """Return the decisions with one more."""
        return self.model_copy(update={"version": 2, "decisions": (*self.decisions, decision)})


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
    return settled[-1] if len({decision.choice for decision in settled}) == 1 else None


def read_decisions(folder: Path, site: str) -> Decisions:
    """Read the decisions in the folder of an audit; none were made where there is no file.

    Raises:
        DataError: if the file cannot be read.
    """
    return read_record(folder / DECISIONS_FILE, Decisions) or Decisions(site=site)


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Write the decisions in one step."""
    write_record(folder / DECISIONS_FILE, decisions)
