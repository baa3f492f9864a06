"""All cases of an audit as a reader goes through them: those with findings first, then all others."""

import hashlib
from collections.abc import Sequence

from .findings import NOTHING_FOUND, REFERENCE, AuditedCase, Finding, SiteAudit


def listed_cases(audit: SiteAudit) -> tuple[AuditedCase, ...]:
    """Return every audited case of a site in the order in which pages and reviews show them."""
    return in_list_order(audit.cases)


def in_list_order(cases: Sequence[AuditedCase]) -> tuple[AuditedCase, ...]:
    """Return the cases with findings, then the others, each part in the stored order, worst first.

    A case without a finding has the question whether it is right (:func:`question`), so that it can be decided on like
    a finding: ``keep`` says that somebody has seen it and that nothing is wrong.
    """
    with_problem = [case for case in cases if case.has_problem]
    others = [case if case.findings else with_question(case) for case in cases if not case.has_problem]
    return (*with_problem, *others)


def with_question(case: AuditedCase, kind: str = NOTHING_FOUND) -> AuditedCase:
    """Return a case with :func:`question` as its only finding."""
    return case.model_copy(update={"findings": (question(case, kind),)})


def question(case: AuditedCase, kind: str = NOTHING_FOUND) -> Finding:
    """Return the question whether a case in which nothing was found is as it should be.

    Its id is the same for both kinds: a decision counts, too, once the case is asked about as a reference.

    Args:
        case: the case.
        kind: :data:`REFERENCE` or :data:`NOTHING_FOUND`.
    """
    name = hashlib.sha256(f"{REFERENCE}/{case.image}/{case.label}".encode(errors="surrogateescape")).hexdigest()[:16]
    return Finding(id=name, kind=kind, classes=(), score=0.0)
