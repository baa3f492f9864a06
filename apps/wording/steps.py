"""The steps of the site page: what to do now, of what helps there."""

from collections.abc import Sequence

from ...custom.annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKind
from ...custom.annotation_bias.statuses import EvidenceCode, Status
from ...custom.audit.findings import Conclusion, SiteAudit
from ...custom.methods.audit.conclusions import are_most_confused
from ..checking.finding import Severity, plural
from ..checking.report import SiteReport
from .detection import FEW_PATIENTS
from .findings import REFERENCE_TITLE, kind_title
from .headline import is_unfit
from .phrases import listed

# A case that more likely than not needs a change.
_LIKELY = 0.5
_WORST_FIRST = "The worst come first."
_COMPARE_CODES = (
    "First compare the codes of the classes in your files with those of the other sites. If they differ, correct "
    "them, and ask for another audit."
)
_IF_CODES_ARE_THE_SAME = (
    "If the codes are the same, agree with your annotators on what tells the classes apart, by means of the cases "
    "below."
)


def next_steps(audit: SiteAudit, files: SiteReport | None) -> list[str]:
    """Return what to do now, the first thing first.

    Where most objects have the wrong class, none is reviewed before the codes are right: who accepts the suggested
    classes and then corrects the codes has permuted them twice.

    Args:
        audit: of the site.
        files: what the check of the site's files found; None where they were not checked.
    """
    confirmed = [conclusion for conclusion in audit.conclusions if conclusion.is_confirmed]
    if any(map(_are_most_of_another_class, audit.conclusions)):
        advice = [_COMPARE_CODES, _IF_CODES_ARE_THE_SAME]
    else:
        # They may be those of some classes alone.
        codes = [_COMPARE_CODES] if any(item.parameter == CONFUSED_OBJECTS for item in confirmed) else []
        advice = [*codes, *_review(audit), *_find_out(audit), *_agree(audit, confirmed)]
    return [*_mend(files), *advice, *_until_then(confirmed)] or ["Nothing."]


def _are_most_of_another_class(one: Conclusion) -> bool:
    """Whether a conclusion says that most objects have the wrong class, or could not be drawn because of that."""
    return are_most_confused(one) or one.has(EvidenceCode.MISLABELLED)


def _mend(files: SiteReport | None) -> list[str]:
    errors = 0 if files is None else files.count(Severity.ERROR)
    return [f"Mend what cannot be read: {plural(errors, 'error')} under Files, each with its remedy."] if errors else []


def _review(audit: SiteAudit) -> list[str]:
    """Which cases to review: first those of another class, where the site as a whole has such objects."""
    with_findings = [case for case in audit.cases if case.has_problem]
    of_classes = sum(any(finding.kind == ParameterKind.CONFUSED for finding in case.findings) for case in with_findings)
    steps = []
    if of_classes and any(map(_are_some_of_another_class, audit.conclusions)):
        title = kind_title(ParameterKind.CONFUSED)
        cases = "case" if of_classes == 1 else f"{of_classes} cases"
        steps.append(f"Review the classes of objects in the {cases} of the kind “{title}” below. {_WORST_FIRST}")
    likely = sum(case.score >= _LIKELY for case in with_findings)
    if likely:
        whose = "it probably needs" if likely == 1 else "they probably need"
        steps.append(f"Review the {_first(likely)} below: {whose} a change. {_WORST_FIRST}")
    elif with_findings:
        count = min(max(1, round(0.1 * audit.num_cases)), len(with_findings))
        steps.append(f"Review the {_first(count)} below. {_WORST_FIRST}")
    return steps


def _are_some_of_another_class(one: Conclusion) -> bool:
    return one.parameter == CONFUSED_OBJECTS and one.status in (Status.CONFIRMED, Status.SMALL)


def _first(count: int) -> str:
    return "first case" if count == 1 else f"first {count} cases"


def _find_out(audit: SiteAudit) -> list[str]:
    """How to learn what this audit cannot tell: reviewed cases show it where contours lie, and nothing else."""
    if is_unfit(audit):
        return ["Ask for another audit whose model trains longer: rounds, or training.local_epochs, twice as many."]
    unknown = [conclusion for conclusion in audit.conclusions if conclusion.status is Status.UNKNOWN]
    steps = []
    if any(item.parameter.kind is ParameterKind.OFFSET for item in unknown):
        steps.append(_ask_for_reference(audit))
    elif any(item.parameter.kind is ParameterKind.MISSING for item in unknown):
        steps.append("Look for missed objects in some cases: this audit cannot tell whether there are any.")
    if any(_is_of_classes(audit, item) for item in unknown):
        classes = "classes of some cases" if audit.task == "classification" else "classes of objects in some cases"
        steps.append(f"Review the {classes}: this audit cannot tell whether they are right.")
    return steps


def _is_of_classes(audit: SiteAudit, one: Conclusion) -> bool:
    return audit.task == "classification" or one.parameter == CONFUSED_OBJECTS


def _ask_for_reference(audit: SiteAudit) -> str:
    asked = sum(bool(case.findings) and not case.has_problem for case in audit.cases)
    why = "reviewed cases are what this audit lacks to tell"
    if not asked and audit.num_patients < FEW_PATIENTS:
        return f"Review all {plural(audit.num_cases, 'case')}: {why}."
    if not asked:
        return f"Review 10 to 20 cases of different patients: {why}."
    return f"Review the {plural(asked, 'case')} of the kind “{REFERENCE_TITLE}” below: {why}."


def _agree(audit: SiteAudit, confirmed: Sequence[Conclusion]) -> list[str]:
    """What to ask annotators: of a class which it is, of a contour where it lies."""
    if not confirmed:
        return []
    of_classes = {_is_of_classes(audit, item) for item in confirmed}
    questions = ["where the contour lies", "what counts"] if False in of_classes else []
    if True in of_classes:
        questions.append("what tells the classes apart")
    return [f"Agree with your annotators on {listed(questions)}, by means of these cases."]


def _until_then(confirmed: Sequence[Conclusion]) -> list[str]:
    """What training does for the time being."""
    steps = []
    if any(item.parameter.kind is ParameterKind.OFFSET for item in confirmed):
        steps.append("Until then jobs/auto trains with contours that are moved back in memory; no file changes.")
    if any(item.parameter == CONFUSED_OBJECTS for item in confirmed):
        steps.append("Until then jobs/auto trains with the classes that objects look like, in memory; no file changes.")
    return steps
