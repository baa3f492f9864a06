"""How far readers of an audit agree, in words."""

from collections.abc import Sequence

from ...custom.audit.decisions import Decision, Decisions
from ...custom.audit.findings import SiteAudit
from ...custom.audit.reader_agreement import Agreement, agreements
from ..audit.case_files import can_be_accepted
from ..checking.finding import plural
from .findings import finding_in_words
from .phrases import listed, percent, percent_range

_CHOICES = {"accept": "accepts the suggestion", "keep": "keeps the annotation"}


def agreement_in_words(audit: SiteAudit, decisions: Decisions) -> list[str]:
    """Return a sentence for every two readers, and how many findings are open because readers differ."""
    is_class = audit.task == "classification"
    can_differ = {
        finding.id for case in audit.cases for finding in case.findings if can_be_accepted(finding, is_class=is_class)
    }
    sentences = [_sentence(one) for one in agreements(decisions, can_differ)]
    if differing := len(decisions.contested):
        sentences.append(f"{plural(differing, 'finding')} left open: the readers differ, and one of them was blind.")
    return sentences


def differing_facts(differing: Sequence[Decision]) -> list[tuple[str, str]]:
    """Return who decided how about a finding on which readers differ, as a fact with its name; none else."""
    if not differing:
        return []
    who = listed([f"{decision.reviewer} {_CHOICES.get(decision.choice, decision.choice)}" for decision in differing])
    return [("Readers differ:", who)]


def differing_findings(audit: SiteAudit, decisions: Decisions) -> list[str]:
    """Return a line for each finding on which readers differ: the image, what is wrong, and who decided how."""
    contested = decisions.contested
    return [
        f"{case.image}: {finding_in_words(finding)} {name} {who}"
        for case in audit.cases
        for finding in case.findings
        for name, who in differing_facts(contested.get(finding.id, ()))
    ]


def _sentence(one: Agreement) -> str:
    low, high = one.interval
    share = f"{percent(one.agreeing / one.findings)}, 90 % interval {percent_range(low, high)}"
    kappa = "Cohen’s kappa cannot be computed" if one.kappa is None else f"Cohen’s kappa {one.kappa:z.2f}"
    kappa = kappa.replace("-", "−")
    seen = "one of them blind" if one.is_blind else "neither of them blind, so that it may be too high"
    count = f"{one.agreeing} of {plural(one.findings, 'finding')}"
    return f"{listed(one.readers)} agree on {count} ({share}; {kappa}), {seen}."
