"""The headline of a site's page: what is wrong with the site as a whole, and in how many cases something is."""

from collections.abc import Sequence
from enum import StrEnum

from ...custom.annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKind
from ...custom.annotation_bias.statuses import EvidenceCode, Status
from ...custom.audit.findings import Conclusion, SiteAudit
from ..checking.finding import plural
from .annotators import Verdict, verdict
from .detection import FEW_PATIENTS, kinds_in_words
from .evidence import evidence_in_words
from .parameters import (
    conclusion_in_words,
    is_open,
    is_suspected,
    is_unlike_others,
)
from .phrases import begun, listed, number_in_words

_UNKNOWN = {
    ParameterKind.OFFSET: "contours of {named} are too large or too small",
    ParameterKind.MISSING: "any {named} is missing",
    ParameterKind.CONFUSED: "objects have the wrong class",
    ParameterKind.LABELS: "labels of {named} are wrong",
}

_TWO_SITES = 2
# Where these are why something is unknown, reviewed cases do not help.
_MORE_TRAINING_HELPS = (
    EvidenceCode.AUROC_LOW,
    EvidenceCode.INJECTED_ERRORS_UNTRIED,
    EvidenceCode.NO_ESTIMATE,
    EvidenceCode.NO_SUPPORT,
    EvidenceCode.SLOPE_OFF,
)


class Leading(StrEnum):
    """What the headline of a site's page is of, the worst first.

    Attributes:
        NOTHING_CONCLUDED: the federation has concluded nothing.
        CONFIRMED: something is confirmed.
        UNFIT: the model has not learnt enough.
        UNLIKE_OTHERS: contours are unlike the others', though nobody knows who is right.
        CLASSES_LEFT: objects look like another class, less than is acted on.
        UNKNOWN: something could not be tested.
        ANNOTATORS: the site as a whole annotates like the others, and single annotators of it deviate.
        SUSPECTED: a bias is likely and not confirmed.
        OPEN: nothing is confirmed, and intervals have room for a bias.
        ALIKE: the site annotates like the others.
    """

    NOTHING_CONCLUDED = "nothing_concluded"
    CONFIRMED = "confirmed"
    UNFIT = "unfit"
    UNLIKE_OTHERS = "unlike_others"
    CLASSES_LEFT = "classes_left"
    UNKNOWN = "unknown"
    ANNOTATORS = "annotators"
    SUSPECTED = "suspected"
    OPEN = "open"
    ALIKE = "alike"


def leading(audit: SiteAudit) -> tuple[Leading, tuple[Conclusion, ...]]:
    """Return what the headline is of, and the conclusions that it rests on; no sentence decides it."""
    conclusions = audit.conclusions
    if not conclusions:
        return Leading.NOTHING_CONCLUDED, ()
    if confirmed := tuple(conclusion for conclusion in conclusions if conclusion.is_confirmed):
        return Leading.CONFIRMED, confirmed
    if is_unfit(audit):
        return Leading.UNFIT, ()
    unknown = tuple(conclusion for conclusion in conclusions if conclusion.status is Status.UNKNOWN)
    if unlike := tuple(item for item in unknown if is_unlike_others(item)):
        return Leading.UNLIKE_OTHERS, unlike
    if left := tuple(
        conclusion
        for conclusion in conclusions
        if conclusion.parameter == CONFUSED_OBJECTS and conclusion.status is Status.SMALL
    ):
        return Leading.CLASSES_LEFT, left
    if unknown:
        return Leading.UNKNOWN, unknown
    if _num_deviating(audit):
        return Leading.ANNOTATORS, ()
    if suspected := tuple(conclusion for conclusion in conclusions if is_suspected(conclusion)):
        return Leading.SUSPECTED, suspected
    wide = tuple(conclusion for conclusion in conclusions if is_open(conclusion))
    return (Leading.OPEN if wide else Leading.ALIKE), wide


def _num_deviating(audit: SiteAudit) -> int:
    """How many annotators of the site deviate."""
    annotators = () if audit.annotators is None else audit.annotators.annotators
    return sum(verdict(one) is Verdict.DEVIATES for one in annotators)


def headline(audit: SiteAudit) -> str:
    """Return what is wrong with the site as a whole, then in how many single cases something is."""
    return " ".join(part for part in (*systematic_in_words(audit), single_in_words(audit)) if part)


def systematic_in_words(audit: SiteAudit) -> tuple[str, str]:
    """Return what is wrong with the site as a whole; where that is not known, why first.

    Returns:
        One sentence; then what was tested besides and what would help, empty where nothing is unknown.
    """
    kind, of = leading(audit)
    if kind is not Leading.UNKNOWN:
        return _known_in_words(audit, kind, of), ""
    others = len(audit.conclusions) - len(of)
    tested = f"No bias is confirmed in what was tested: {plural(others, 'parameter')}. " if others else ""
    return (
        f"{_why_unknown(audit, of)}his audit cannot tell whether {_whether(of)}.",
        f"{tested}{_what_helps(audit, of)}",
    )


def _known_in_words(audit: SiteAudit, kind: Leading, of: Sequence[Conclusion]) -> str:
    if kind is Leading.NOTHING_CONCLUDED:
        return "The federation has not concluded anything of this site as a whole."
    if kind is Leading.CONFIRMED:
        first, more = conclusion_in_words(of[0]), len(of) - 1
        return f"{first} {number_in_words(more)} more below." if more else first
    if kind is Leading.UNFIT:
        return "The model of this audit found too few of the annotated objects to be a reference."
    if kind in (Leading.UNLIKE_OTHERS, Leading.CLASSES_LEFT, Leading.SUSPECTED):
        return conclusion_in_words(of[0])
    if kind is Leading.ANNOTATORS:
        count = _num_deviating(audit)
        return (
            f"{begun(plural(count, 'annotator'))} of this site {'deviates' if count == 1 else 'deviate'} from its "
            "others. No bias of the site as a whole is confirmed in "
            f"{plural(len(audit.conclusions), 'tested parameter')}."
        )
    if kind is Leading.OPEN:
        tested = plural(len(audit.conclusions), "tested parameter")
        return f"No bias is confirmed in {tested}, and none is excluded in {len(of)} of them."
    return (
        "This site annotates like the others, as far as this audit can tell: no bias is confirmed in "
        f"{plural(len(audit.conclusions), 'tested parameter')}."
    )


def single_in_words(audit: SiteAudit) -> str:
    """Return how many cases have findings, and of how many kinds of errors that is."""
    count = len(kinds_in_words(audit))
    looked = f"{plural(count, 'kind')} of error{' was' if count == 1 else 's were'} looked for in every case"
    return f"{cases_in_words(audit)}: {looked if count else 'no kind of error could be looked for'}."


def _why_unknown(audit: SiteAudit, unknown: Sequence[Conclusion]) -> str:
    """Why something cannot be told, up to the sentence that says so, of which it ends with the first letter."""
    if (num_sites := _without_reference(audit, unknown)) is not None:
        why = "nobody knows which of two sites is right" if num_sites > 1 else "one site alone has no reference level"
    elif audit.num_patients < FEW_PATIENTS:
        why = f"{plural(audit.num_patients, 'patient')} {'is' if audit.num_patients == 1 else 'are'} too few"
    elif unknown[0].evidence and unknown[0].evidence[0].code is not EvidenceCode.TEXT:
        why = evidence_in_words(unknown[0].evidence[0], unknown[0].unit)
    else:
        return "T"
    return f"{begun(why.rstrip('.'))}: t"


def _without_reference(audit: SiteAudit, unknown: Sequence[Conclusion]) -> int | None:
    """How many sites there are, where that is too few for a reference level, whatever the number of patients."""
    for one in unknown:
        level = audit.reference_levels.get(one.class_name)
        sites = [reason.numbers["sites"] for reason in (level.reasons if level else ()) if "sites" in reason.numbers]
        if one.has(EvidenceCode.IMAGES_ALONE):
            return 1
        if one.has(EvidenceCode.REFERENCE_UNSURE) and sites and min(sites) <= _TWO_SITES:
            return int(min(sites))
    return None


def _what_helps(audit: SiteAudit, unknown: Sequence[Conclusion]) -> str:
    """What would make it known."""
    if audit.num_patients < FEW_PATIENTS:
        more = "More patients" if _without_reference(audit, unknown) is None else "More sites"
        return f"{more} would help, and a review of all cases."
    if any(one.has(code) for one in unknown for code in _MORE_TRAINING_HELPS):
        return "More rounds, or more annotated patients, would help."
    if any(one.parameter.kind is ParameterKind.OFFSET for one in unknown):
        return "Ten to twenty reviewed cases of different patients would help."
    return "A look through some cases would help."


def cases_in_words(audit: SiteAudit) -> str:
    """Return how many cases have findings."""
    num_cases = sum(case.has_problem for case in audit.cases)
    return f"{plural(num_cases, 'case')} of {audit.num_cases} {'has' if num_cases == 1 else 'have'} findings"


def is_unfit(audit: SiteAudit) -> bool:
    """Return whether nothing is reported because the model has not learnt enough."""
    return bool(audit.conclusions) and all(conclusion.has(EvidenceCode.MODEL_UNFIT) for conclusion in audit.conclusions)


def _whether(unknown: Sequence[Conclusion]) -> str:
    """What is not known, after "whether": the classes of each parameter together."""
    classes: dict[ParameterKind, list[str]] = {}
    for one in unknown:
        classes.setdefault(one.parameter.kind, []).append(one.class_name)
    return listed([_what(kind, names) for kind, names in classes.items()], "or")


def _what(kind: ParameterKind, names: list[str]) -> str:
    named = listed([name for name in names if name] or ["any class"], "or")
    return _UNKNOWN[kind].format(named=named)
