"""An audit's findings in the terminal, the worst first: a short way where there is no browser."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from ...custom.audit.decisions import Decisions, read_decisions
from ...custom.audit.findings import REFERENCE, AuditedCase, Finding
from ...transforms.errors import DataError
from ..terminal import Terminal
from ..wording.findings import finding_in_words, kind_title
from ..wording.headline import headline
from ..wording.shell_words import shell_word
from ..wording.site_audit import finding_facts
from .found import FoundAudit, find_audits, has_audits

_HEADINGS = ("image", "what is wrong", "needs a change", "decision")


def print_audit(found: FoundAudit, console: Terminal, *, kinds: Sequence[str] = (), limit: int = 24) -> None:
    """Print what an audit says of a site, and its findings.

    Args:
        found: the audit.
        console: where it is printed.
        kinds: only findings of these kinds; all where there are none.
        limit: at most so many.

    Raises:
        DataError: if there is no such kind, or the decisions cannot be read.
    """
    audit = found.audit
    titles = {kind.kind: kind_title(kind.kind) for kind in audit.kinds}
    if unknown := sorted(set(kinds) - set(titles)):
        raise DataError(f"{found.folder}: found no kind {unknown[0]!r}; expected one of: {', '.join(titles)}.")
    console.print_named(audit.site, f": {headline(audit)}")
    console.print(f"  images: {audit.data}", soft_wrap=True)
    listed = [
        (case, finding)
        for case in audit.cases
        for finding in case.findings
        if finding.kind != REFERENCE and (not kinds or finding.kind in kinds)
    ]
    if not listed:
        console.print("  no finding" + (f" of {', '.join(titles[kind] for kind in kinds)}" if kinds else ""))
        return
    decisions = read_decisions(found.folder, audit.site)
    table = Table(box=None)
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold", justify="right" if heading == _HEADINGS[2] else "left")
    for case, finding in listed[:limit]:
        table.add_row(*_cells(case, finding, decisions))
    console.print(table)
    if len(listed) > limit:
        console.print(f"  … and {len(listed) - limit} more (--limit)")


def print_audits(folder: Path, console: Terminal, *, site: str | None = None, limit: int = 24) -> bool:
    """Print the findings of the audits in a folder; return whether there is any.

    Raises:
        DataError: if one cannot be read, or there is none of the site.
    """
    if not has_audits(folder):
        return False
    for result in find_audits(folder, site):
        print_audit(result, console, limit=limit)
    return True


def hint_of_audit(folder: Path) -> str:
    """Return how a site sees what looks wrong in its annotations where a run recorded nothing of it."""
    return (
        f"What looks wrong in a site's annotations is what an audit finds: fedannot audit list {shell_word(folder)}, "
        "where jobs/audit has run there, else fedannot audit --data DIR with the site's own data."
    )


def _cells(case: AuditedCase, finding: Finding, decisions: Decisions) -> list[str]:
    decision = decisions.counting.get(finding.id)
    return [
        case.image,
        finding_in_words(finding),
        finding_facts(finding)[0][1],
        "" if decision is None else decision.choice,
    ]
