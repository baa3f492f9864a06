"""The words of the site page: what is confirmed, how well errors are found."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...custom.annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKind
from ...custom.annotation_bias.statuses import EvidenceCode, Status
from ...custom.audit.calibration import auroc_interval
from ...custom.audit.findings import QUESTIONS, Conclusion, Finding, KindResult, SiteAudit
from ...custom.audit.kinds.registry import KINDS
from ...custom.audit.thresholds import THRESHOLDS
from ..checking.finding import plural
from .annotators import Verdict, verdict
from .evidence import evidence_in_words, reason_in_words, reference_level_in_words
from .findings import kind_title
from .parameters import (
    STATUS_ORDER,
    conclusion_in_words,
    is_open,
    is_suspected,
    is_unlike_others,
    status_in_words,
)
from .phrases import begun, continued, listed, number_in_words, signed, size_in_words

# Fewer patients say little.
FEW_PATIENTS = 10
_WHY_LIKELY = (
    "Counted at this site alone: what the model sees and nobody has annotated, each object by how probably it is real. "
    "The interval is that of the patients; the probabilities are rather too low."
)
_PARAMETERS = {
    ParameterKind.OFFSET: "Contours",
    ParameterKind.MISSING: "Missed objects",
    ParameterKind.CONFUSED: "Classes of objects",
    ParameterKind.LABELS: "Labels",
}
_UNKNOWN = {
    ParameterKind.OFFSET: "contours of {named} are too large or too small",
    ParameterKind.MISSING: "any {named} is missing",
    ParameterKind.CONFUSED: "objects have the wrong class",
    ParameterKind.LABELS: "labels of {named} are wrong",
}
# Kinds that need no model are found where they are.
_RULES = frozenset(kind.name for kind in KINDS if kind.error is None)
# From which AUROC on which words hold.
_DETECTION = (
    (0.95, "very well"),
    (0.9, "well"),
    (0.75, "fairly well"),
    (0.6, "poorly"),
    (0.0, "hardly better than chance"),
)


_TWO_SITES = 2
# Where these are why something is unknown, reviewed cases do not help.
_MORE_TRAINING_HELPS = (
    EvidenceCode.AUROC_LOW,
    EvidenceCode.INJECTED_ERRORS_UNTRIED,
    EvidenceCode.NO_ESTIMATE,
    EvidenceCode.NO_SUPPORT,
    EvidenceCode.SLOPE_OFF,
)


@dataclass(frozen=True)
class ShownConclusion:
    """A conclusion as the page shows it.

    Attributes:
        style: its status, or ``likely``, as the style sheet names it.
        words: its status.
        sentence: what is concluded.
        figures: estimate, interval and patients; empty where there is no estimate.
        reason: evidence, threshold and decision.
    """

    style: str
    words: str
    sentence: str
    figures: str
    reason: str


def shown_conclusions(audit: SiteAudit, *, is_shared: bool = False) -> list[ShownConclusion]:
    """Return the conclusions, those first of which something follows, with what the site's own cases make likely.

    Args:
        audit: of the site.
        is_shared: whether they are for a copy that can be given away: figures, and what they are of.
    """
    ordered = sorted(audit.conclusions, key=lambda one: STATUS_ORDER.index(one.status))
    reported = [
        ShownConclusion(
            style_of(item.status),
            status_in_words(item),
            _what_of(item) if is_shared else conclusion_in_words(item),
            _figures(item, audit),
            "" if is_shared else reason_in_words(item),
        )
        for item in ordered
    ]
    confirmed = sum(item.is_confirmed for item in ordered)
    return [*reported[:confirmed], *_likely(audit), *reported[confirmed:]]


def style_of(status: Status) -> str:
    """Return what the style sheet calls a status."""
    return status.value.replace("_", "-")


def _what_of(one: Conclusion) -> str:
    """What a conclusion is of."""
    what = _PARAMETERS[one.parameter.kind]
    return f"{what} of {one.class_name}" if one.class_name else what


def _likely(audit: SiteAudit) -> list[ShownConclusion]:
    """What the site's own cases show together, which no other site's do."""
    return [
        ShownConclusion("likely", "Likely", begun(" ".join(map(evidence_in_words, kind.shows))), "", _WHY_LIKELY)
        for kind in audit.kinds
        if kind.shows
    ]


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


def looked_for_sentence(audit: SiteAudit) -> str:
    """Return what was looked for in how many cases; what has no finding is not said to be right."""
    titles = [continued(kind_title(kind.kind)) for kind, _ in kinds_in_words(audit)]
    if not titles:
        return "Nothing was looked for in single cases."
    return f"Looked for in {plural(audit.num_cases, 'case')}: {listed(titles)}. Other errors are not looked for."


def pixels_sentence(audit: SiteAudit, size: Sequence[int]) -> str:
    """Return of which images the pixels of amounts and sizes are; empty where lengths are in millimetres.

    Args:
        audit: of the site.
        size: of the images as the model sees them.
    """
    if audit.unit != "px" or not size:
        return ""
    return f"Amounts and sizes in px: of images as the model sees them, {' × '.join(map(str, size))} pixels."


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


def detection_in_words(kind: KindResult) -> str:
    """Return how well an audit finds problems of a kind at this site: the words are those of its interval."""
    if kind.kind in _RULES:
        return "By a rule, without a model."
    if kind.auroc is None or not kind.patients:
        return "Not known: injected errors of this kind could not be tried here."
    if kind.patients < THRESHOLDS.min_calibrated_patients:
        return f"Not known: too few patients could be tried ({_auroc_in_words(kind)})."
    few = ", which are few" if kind.patients < FEW_PATIENTS else ""
    return f"{begun(_found(kind))} ({_auroc_in_words(kind)}{few})."


def detection_sentence(audit: SiteAudit) -> str:
    """Return in a sentence how well this audit finds errors on these data."""
    tried = [kind for kind in audit.kinds if kind.auroc is not None and kind.patients and kind.kind not in _RULES]
    known = [kind for kind in tried if kind.patients >= THRESHOLDS.min_calibrated_patients]
    unknown = [
        f"{continued(kind_title(kind.kind))}{f' ({_auroc_in_words(kind)})' if kind in tried else ''}"
        for kind in audit.kinds
        if kind not in known and kind.kind not in _RULES and (kind in tried or kind.num_findings)
    ]
    rest = f" How well it finds {listed(unknown)} is not known." if unknown else ""
    if not known:
        why = "too few patients could be tried" if tried else "injected errors could not be tried"
        return f"How well this audit finds errors here is not known: {why}.{rest if tried else ''}"
    groups: dict[str, list[str]] = {}
    for kind in sorted(known, key=lambda one: -_least_auroc(one)):
        groups.setdefault(f"{_found(kind)} ({_auroc_in_words(kind)})", []).append(continued(kind_title(kind.kind)))
    parts = [f"{listed(titles)} {words}" for words, titles in groups.items()]
    return f"On these data it finds {'; '.join(parts)}.{rest}"


def _found(kind: KindResult) -> str:
    """How well problems of a kind are found, from the low to the high end of the interval."""
    ends = auroc_interval(kind.auroc or 0.0, kind.patients, kind.patients)
    low, high = (next(words for least, words in _DETECTION if end >= least) for end in ends)
    return low if low == high else f"{low} to {high}"


def _least_auroc(kind: KindResult) -> float:
    return auroc_interval(kind.auroc or 0.0, kind.patients, kind.patients)[0]


def _auroc_in_words(kind: KindResult) -> str:
    """The AUROC of injected errors with its interval and count; each patient is compared with and without one."""
    auroc = kind.auroc or 0.0
    low, high = auroc_interval(auroc, kind.patients, kind.patients)
    return f"AUROC {auroc:z.2f}, 90 % interval {low:z.2f} to {high:z.2f}, {plural(kind.patients, 'patient')}"


def kinds_in_words(audit: SiteAudit) -> list[tuple[KindResult, str]]:
    """Return the kinds that can occur in these data, each with how well its problems are found.

    What could not be tried and was found nowhere, such as slices missed in images, is none of them.
    """
    shown = [kind for kind in audit.kinds if kind.auroc is not None or kind.num_findings or kind.kind in _RULES]
    return [(kind, detection_in_words(kind)) for kind in shown]


def finding_facts(finding: Finding) -> list[tuple[str, str]]:
    """Return the figures of a finding, each with its name."""
    facts = []
    if finding.kind in QUESTIONS:
        return []
    if finding.probability is not None:
        facts.append(("Needs a change", f"{100 * finding.probability:z.0f} %"))
    else:
        facts.append(("Suspicion", f"{finding.score:z.2f}"))
    if finding.amount is not None:
        unit = f" {finding.amount_unit}" if finding.amount_unit else ""
        facts.append(("Amount", f"{signed(finding.amount)}{unit}"))
    if finding.size is not None:
        facts.append(("Size", size_in_words(finding.size, finding.size_unit)))
    if finding.classes:
        facts.append(("Class", " → ".join(finding.classes)))
    return facts


def _figures(one: Conclusion, audit: SiteAudit) -> str:
    """The effect of a parameter, on the scale of its sentence."""
    if one.from_reference is None:
        return ""
    effect, low, high = one.from_reference
    interval = f"90 % interval {_number_of(low, one)} to {_value(high, one)}"
    # What is absolute, such as a fraction, needs no reference level.
    level = audit.reference_levels.get(one.class_name) if one.parameter.kind is ParameterKind.OFFSET else None
    shown = f"{_value(effect, one)} ({interval}), {plural(one.patients, 'patient')}"
    return f"{shown}{f'. {reference_level_in_words(level)}' if level else ''}"


def _value(value: float, one: Conclusion) -> str:
    return f"{_number_of(value, one)} {one.unit or '%'}"


def _number_of(value: float, one: Conclusion) -> str:
    # Chance may put the end of an interval below a fraction of nothing.
    return f"{100 * max(value, 0.0):z.0f}" if one.unit is None else signed(value)


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
