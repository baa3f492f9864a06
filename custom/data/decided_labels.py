"""Which label of a case counts by a rule for several annotations; known without PyTorch."""

from dataclasses import replace

from ...transforms.errors import DataError, shown
from ..consensus_rule import CHOICES, ConsensusKind, ConsensusRule
from .annotations import UNDECIDED
from .datalist import TRAINING, VALIDATION, Case

# How a label is made of the annotations of each case, which are kept next to it.
LABEL_MADE = "`fedannot data annotators DIR --scenario clean --keep-annotations --out NEW`"


class OtherAnnotatorError(DataError):
    """A case has no annotation by the annotator whose annotations count."""


class RuleNeededError(DataError):
    """A job names no rule, and a case has several annotations and no label; annotators are not named, as it may leave.

    Args:
        case: the case.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(
            f"{case.image}: found {len(case.annotations)} annotations and no 'label'; expected a rule that makes one, "
            f"--set training.consensus=RULE, where RULE is {CHOICES}. Audits and methods that correct annotations take "
            f"no rule; {LABEL_MADE} makes data with a label of each case for them."
        )


def with_rule(case: Case, rule: ConsensusRule | None, section: str) -> Case:
    """Return a case as a rule has it: with the label that counts, or one that the rule has to make.

    A reviewed label counts as it is, changed or kept, and so does the label of a test or reference case. A rule that
    names an annotator leaves out training and validation cases that somebody else, or nobody by name, has annotated.

    Args:
        case: as the datalist has it.
        rule: None where a job names none.
        section: the list that the case is in.

    Raises:
        OtherAnnotatorError: if a case has no annotation by the rule's annotator.
        RuleNeededError: if there is none, and the case needs one.
    """
    if rule is None:
        if not case.is_undecided:
            return case
        raise RuleNeededError(case)
    is_trained_on = section in (TRAINING, VALIDATION)
    if case.is_reviewed or not (is_trained_on or case.is_undecided):
        return case
    if rule.kind is not ConsensusKind.ONE:
        return replace(case, label=UNDECIDED, annotator=None) if case.annotations else case
    by_name = {annotation.annotator: annotation.file for annotation in case.annotations}
    if not case.annotations and case.annotator is not None:
        by_name = {case.annotator: case.label}
    assert rule.annotator is not None
    if rule.annotator not in by_name:
        known = ", ".join(shown(name) for name in sorted(by_name)) or "nobody by name"
        raise OtherAnnotatorError(f"{case.image}: has no annotation by {shown(rule.annotator)}, but by {known}.")
    return replace(case, label=by_name[rule.annotator], annotator=rule.annotator)
