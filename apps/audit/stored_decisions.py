"""Decisions of reviewers, stored at once; several reviewers may decide at the same time."""

import fcntl
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ...custom.audit.case_list import listed_cases
from ...custom.audit.decisions import Choice, Decision, Decisions, read_decisions, write_decisions
from ...custom.audit.findings import AuditedCase, Finding, SiteAudit
from ...custom.data.json_record import read_record
from ...custom.data.whole_files import private_file
from ...transforms.errors import DataError
from ..checking.finding import plural
from .case_files import can_be_accepted

_LOCK_FILE = ".decisions.lock"


def store_decision(folder: Path, audit: SiteAudit, decision: Decision) -> Decisions:
    """Add a decision to those in the folder of an audit, durably and in one step; return all of them.

    Raises:
        DataError: if the file cannot be read, or it is that of another site.
        OSError: if it cannot be written.
    """
    return store_decisions(folder, audit, lambda _: (decision,))


def store_decisions(folder: Path, audit: SiteAudit, decide: Callable[[Decisions], Sequence[Decision]]) -> Decisions:
    """Add decisions that depend on those in the folder of an audit, durably and in one step; return all of them.

    Args:
        folder: of the audit.
        audit: they are of its findings.
        decide: returns the further decisions from those before; nobody changes these meanwhile.

    Raises:
        DataError: if the file cannot be read, or it is that of another site; or as `decide` raises.
        OSError: if it cannot be written.
    """
    with _alone(folder):
        before = read_decisions(folder, audit.site)
        decisions = before.with_decisions(decide(before))
        check_decisions(decisions, audit, str(folder))
        write_decisions(folder, decisions)
    return decisions


def new_decision(
    finding: str,
    choice: Choice,
    *,
    reviewer: str,
    reason: str,
    shown: str,
    is_blind: bool = False,
    mask: str = "",
    action: str = "",
    undoes: str = "",
) -> Decision:
    """Make a decision of this moment; see :class:`Decision`."""
    return Decision(
        finding=finding,
        choice=choice,
        reviewer=reviewer,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=reason,
        shown=shown,
        is_blind=is_blind,
        mask=mask,
        action=action or new_action(),
        undoes=undoes,
    )


def new_action() -> str:
    """Return a name for the decisions that are made at once, and can be undone together."""
    return secrets.token_hex(16)


def with_consequences(
    case: AuditedCase, first: Decision, counting: Mapping[str, Decision], gone: Collection[str]
) -> tuple[Decision, ...]:
    """Return a decision with the further ones of its case that it entails, all of one action.

    A drawn mask decides about all findings of the case, but for those that were kept. What another choice contradicts
    is to be decided later.

    Args:
        case: the case.
        first: the decision.
        counting: the decisions that counted before, by finding.
        gone: findings whose decisions cannot count together with it.
    """
    others = [finding.id for finding in case.findings if finding.id != first.finding]
    if first.choice == "edit":
        kept = {name for name, one in counting.items() if one.choice == "keep"}
        changes = {name: {"finding": name, "reason": ""} for name in others if name not in kept}
    else:
        changes = {name: {"finding": name, "reason": "", "choice": "later"} for name in others if name in gone}
    return (first, *(first.model_copy(update=change) for change in changes.values()))


def undone(decisions: Decisions, action: str, reviewer: str) -> tuple[Decision, ...]:
    """Return the record that undoes an action of a reviewer.

    Raises:
        DataError: if the reviewer has made none of this name, it is undone already, or somebody has decided about the
            same findings since.
    """
    own = [decision for decision in decisions.valid if decision.action == action and decision.reviewer == reviewer]
    if not own:
        raise DataError(f"{reviewer} has made no such decision, or has undone it; load the page again.")
    latest = {decision.finding: decision for decision in decisions.valid}
    if any(latest[decision.finding].action != action for decision in own):
        raise DataError("Somebody has decided about the same finding since; load the page again.")
    return (new_decision("", "undo", reviewer=reviewer, reason="", shown="", undoes=action),)


def undoable_actions(decisions: Decisions, reviewer: str) -> list[str]:
    """Return the actions of a reviewer that can be undone, from the last one back, in the order they were made in.

    Those about a finding of which another reviewer has decided since cannot, nor can what came before such a one of the
    same finding.
    """
    own: dict[str, set[str]] = {}
    held: set[str] = set()
    result = []
    valid = decisions.valid
    for decision in valid:
        if decision.reviewer == reviewer and decision.action:
            own.setdefault(decision.action, set()).add(decision.finding)
    for decision in reversed(valid):
        findings = own.pop(decision.action, set()) if decision.reviewer == reviewer else set()
        if findings and findings.isdisjoint(held):
            result.append(decision.action)
        elif findings or decision.reviewer != reviewer or not decision.action:
            held |= findings | {decision.finding}
    return result[::-1]


def read_given_decisions(file: Path, audit: SiteAudit) -> Decisions:
    """Read decisions that a page without a server has exported.

    Raises:
        DataError: if there is no such file, or it cannot be read; or as :func:`check_decisions`.
    """
    decisions = read_record(file, Decisions)
    if decisions is None:
        raise DataError(f"{file}: found no such file; expected decisions that the page of an audit has exported.")
    check_decisions(decisions, audit, str(file))
    return decisions


def check_decisions(decisions: Decisions, audit: SiteAudit, source: str) -> None:
    """Check that decisions are of this audit.

    Raises:
        DataError: if they are of another site, of findings that the audit does not have, or accept what is not
            suggested.
    """
    if decisions.site != audit.site:
        raise DataError(f"{source}: found decisions of site {decisions.site!r}; expected those of {audit.site!r}.")
    known = findings_by_id(audit)
    if unknown := sorted({decision.finding for decision in decisions.valid} - set(known)):
        raise DataError(
            f"{source}: found decisions of {plural(len(unknown), 'finding')} that this audit does not have, such as "
            f"{unknown[0]!r}; expected those of the audit of {audit.made}."
        )
    is_class = audit.task == "classification"
    for name, decision in decisions.counting.items():
        if decision.choice == "accept" and not can_be_accepted(known[name][1], is_class=is_class):
            raise DataError(f"{source}: the finding {name!r} is accepted, but nothing is suggested for it.")


def findings_by_id(audit: SiteAudit) -> dict[str, tuple[AuditedCase, Finding]]:
    """Return every finding with its case, by its id; of cases without one the question about them."""
    return {finding.id: (case, finding) for case in listed_cases(audit) for finding in case.findings}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process, and one thread of it, change the decisions at a time."""
    with private_file(folder / _LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
