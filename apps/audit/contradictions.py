"""Decisions of one case that cannot both count: two suggestions that differ, a suggestion and a drawn mask."""

from collections.abc import Collection, Mapping

from ...custom.audit.decisions import Decision, FindingChoice
from ...custom.audit.findings import AuditedCase, Finding
from ...transforms.errors import DataError
from .case_files import CaseReader, ReadCase, can_be_accepted


class ContradictionError(DataError):
    """A decision contradicts others of its case that its reader has not agreed to replace.

    Attributes:
        findings: ids of the findings that these are of.
    """

    def __init__(self, case: AuditedCase, findings: Collection[str]) -> None:
        self.findings = sorted(findings)
        super().__init__(
            f"{case.image}: this contradicts the decision on {len(self.findings)} of its findings; confirm that it "
            "takes their place."
        )


def contradicted(
    reader: CaseReader,
    case: AuditedCase,
    finding: Finding,
    choice: FindingChoice,
    reviewer: str,
    counting: Mapping[str, Decision],
) -> frozenset[str]:
    """Return the findings of a case whose decisions cannot count together with a further one.

    A drawn mask is of the whole case: it takes the place of every accepted suggestion, and of another reviewer's drawn
    mask. Of two accepted suggestions neither may change a pixel that the other one gives another class.

    Args:
        reader: of the audit.
        case: which case.
        finding: what is decided now.
        choice: what was decided.
        reviewer: who decides.
        counting: the decisions that count, by finding.

    Raises:
        DataError: if the case's suggestions have to be compared, and cannot be read.
    """
    decided = {one.id: counting[one.id] for one in case.findings if one.id in counting}
    accepted = {name for name, other in decided.items() if other.choice == "accept"}
    drawn = {name for name, other in decided.items() if other.choice == "edit"}
    if choice == "edit":
        others = {name for name in drawn if decided[name].reviewer != reviewer}
        return frozenset(accepted | others)
    if choice == "accept":
        return frozenset(drawn | _differing(reader, case, finding, accepted - {finding.id}))
    return frozenset(drawn) if finding.id in drawn else frozenset()


def excluding_suggestions(case: AuditedCase, read: ReadCase, *, is_class: bool) -> dict[str, list[str]]:
    """Return of every finding whose suggestion others of its case exclude the ids of these; of others nothing.

    Args:
        case: which case.
        read: the case.
        is_class: whether classes are suggested, not masks.
    """
    suggested = [finding for finding in case.findings if can_be_accepted(finding, is_class=is_class)]
    result = {}
    for finding in suggested:
        if is_class:
            others = {one.id for one in suggested if one.classes[1:] != finding.classes[1:]}
        else:
            others = _differing_masks(read, finding, {one.id for one in suggested} - {finding.id})
        if others:
            result[finding.id] = sorted(others)
    return result


def check_accepted(reader: CaseReader, case: AuditedCase, accepted: Collection[str]) -> None:
    """Check that the accepted suggestions of a case can all count: no two change a pixel to different classes.

    Args:
        reader: of the audit.
        case: which case.
        accepted: ids of its findings whose suggestion is accepted.

    Raises:
        DataError: with both findings if two differ; or if the suggestions cannot be read.
    """
    findings = [finding for finding in case.findings if finding.id in accepted]
    for number, finding in enumerate(findings):
        others = _differing(reader, case, finding, {other.id for other in findings[:number]})
        if others:
            raise DataError(
                f"{case.image}: found two accepted suggestions that differ, of the findings {min(others)!r} and "
                f"{finding.id!r}; expected at most one of them. Nothing was written; decide again about one of them."
            )


def _differing(reader: CaseReader, case: AuditedCase, finding: Finding, accepted: set[str]) -> set[str]:
    """The accepted findings whose suggestion differs from another one where both change the annotation."""
    if not accepted:
        return set()
    if reader.audit.task == "classification":
        return {one.id for one in case.findings if one.id in accepted and one.classes[1:] != finding.classes[1:]}
    return _differing_masks(reader.read(case), finding, accepted)


def _differing_masks(read: ReadCase, finding: Finding, accepted: set[str]) -> set[str]:
    """As above, of a case that has been read."""
    new = read.suggestions.get(finding.id)
    result: set[str] = set()
    if new is None:
        return result
    for name in accepted & read.suggestions.keys():
        other = read.suggestions[name]
        if ((new != other) & (new != read.given) & (other != read.given)).any():
            result.add(name)
    return result
