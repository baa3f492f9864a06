"""The words of the site page: how sure something is, how well errors are found."""

from dataclasses import dataclass

from ...custom.audit.findings import REFERENCE, Conclusion, Finding, KindResult, SiteAudit
from ...custom.audit.kinds.registry import KINDS
from ...custom.channel.established import UNKNOWN_ZERO
from ...custom.methods.audit.conclusions import is_apart
from ...custom.methods.auto.decisions import UNFIT
from ...custom.methods.auto.records import SWAPPED, SWAPPED_OBJECTS
from ..checking.finding import plural

# Fewer patients say little.
FEW_PATIENTS = 10
_ROUNDS_TO_ZERO = 0.05
_VERDICTS = {
    "established": "Sure",
    "cannot tell": "Cannot tell",
    "small": "Too small to act on",
    "none": "About right",
}
_VERDICT_ORDER = tuple(_VERDICTS)
_WHY_LIKELY = (
    "Counted at this site alone: what the model sees and nobody has annotated, each object by how probably it is real. "
    "The interval is that of the patients; the probabilities are rather too low."
)
REFERENCE_TITLE = "For the reference"
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


@dataclass(frozen=True)
class ToldConclusion:
    """A conclusion as the page tells it.

    Attributes:
        verdict: short, for its style: ``established``, ``likely``, ``small``, ``none`` or ``cannot-tell``.
        words: how sure it is.
        sentence: what is concluded.
        figures: estimate, interval and patients; empty where there is no estimate.
        reason: evidence, threshold and decision.
    """

    verdict: str
    words: str
    sentence: str
    figures: str
    reason: str


def told_conclusions(audit: SiteAudit) -> list[ToldConclusion]:
    """Return the conclusions, those first of which something follows, with what the site's own cases make likely."""
    ordered = sorted(audit.conclusions, key=lambda one: _VERDICT_ORDER.index(one.verdict))
    told = [
        ToldConclusion(
            one.verdict.replace(" ", "-"), _VERDICTS[one.verdict], one.sentence, _figures(one, audit), one.reason
        )
        for one in ordered
    ]
    established = sum(one.verdict == "established" for one in ordered)
    return [*told[:established], *_likely(audit), *told[established:]]


def _likely(audit: SiteAudit) -> list[ToldConclusion]:
    """What the site's own cases show together, which no other site's do."""
    return [
        ToldConclusion("likely", "Likely", kind.sentence[0].upper() + kind.sentence[1:], "", _WHY_LIKELY)
        for kind in audit.kinds
        if kind.sentence
    ]


def headline(audit: SiteAudit) -> str:
    """Return in a sentence what is wrong with the site as a whole, else what that is not known of."""
    verdicts = [one.verdict for one in audit.conclusions]
    suspected = cases_in_words(audit)
    if not verdicts:
        return f"{suspected}. The federation has not concluded anything of this site."
    if established := [one.sentence for one in audit.conclusions if one.verdict == "established"]:
        more = len(established) - 1
        return f"{established[0]} {_number(more)} more below." if more else established[0]
    if is_unjudged(audit):
        return f"The model of this audit found too little of what is annotated to judge it; {suspected}."
    unknown = [one for one in audit.conclusions if one.verdict == "cannot tell"]
    if apart := [one.sentence for one in unknown if _is_apart(one)]:
        return apart[0]
    if swapped := [one for one in audit.conclusions if one.parameter == SWAPPED_OBJECTS and one.verdict == "small"]:
        return swapped[0].sentence
    if unknown:
        known = "Nothing is established" if len(unknown) == len(verdicts) else "Nothing else is wrong"
        return f"This audit cannot tell whether {_whether(unknown)}. {known}; {suspected}."
    return f"This site annotates like the others, as far as this audit can tell; {suspected}."


def cases_in_words(audit: SiteAudit) -> str:
    """Return how many cases have findings."""
    num_cases = sum(case.has_problem for case in audit.cases)
    return f"{plural(num_cases, 'case')} of {audit.num_cases} {'has' if num_cases == 1 else 'have'} findings"


def detection_in_words(kind: KindResult) -> str:
    """Return how well an audit finds problems of a kind at this site."""
    if kind.kind in _RULES:
        return "By a rule, without a model."
    if kind.auroc is None:
        return "Not known: known errors of this kind could not be tried here."
    words = next(words for least, words in _DETECTION if kind.auroc >= least)
    tried = f"tried with known errors in {plural(kind.patients, 'patient')}"
    few = ", which are few" if kind.patients < FEW_PATIENTS else ""
    return f"{words[0].upper()}{words[1:]} (AUROC {kind.auroc:.2f}, {tried}{few})."


def detection_sentence(audit: SiteAudit) -> str:
    """Return in a sentence how well this audit finds errors on these data."""
    known = [kind for kind in audit.kinds if kind.auroc is not None]
    if not known:
        return "How well this audit finds errors here is not known: known errors could not be tried."
    groups: dict[str, list[str]] = {}
    for kind in sorted(known, key=lambda one: -(one.auroc or 0)):
        words = next(words for least, words in _DETECTION if (kind.auroc or 0) >= least)
        groups.setdefault(words, []).append(f"{kind.title[0].lower()}{kind.title[1:]}")
    parts = [f"{listed(titles)} {words}" for words, titles in groups.items()]
    unknown = [
        f"{kind.title[0].lower()}{kind.title[1:]}"
        for kind in audit.kinds
        if kind.auroc is None and kind.kind not in _RULES and kind.num_findings
    ]
    rest = f" How well it finds {listed(unknown)} is not known." if unknown else ""
    return f"On these data it finds {'; '.join(parts)}.{rest}"


def kinds_in_words(audit: SiteAudit) -> list[tuple[KindResult, str]]:
    """Return the kinds that can occur in these data, each with how well its problems are found.

    What could not be tried and was found nowhere, such as slices left out of images, is none of them.
    """
    shown = [kind for kind in audit.kinds if kind.auroc is not None or kind.num_findings or kind.kind in _RULES]
    return [(kind, detection_in_words(kind)) for kind in shown]


def finding_facts(finding: Finding) -> list[tuple[str, str]]:
    """Return the figures of a finding, each with its name."""
    facts = []
    if finding.kind == REFERENCE:
        return []
    if finding.probability is not None:
        facts.append(("Needs a change", f"{100 * finding.probability:.0f} %"))
    else:
        facts.append(("Suspicion", f"{finding.score:.2f}"))
    if finding.amount is not None:
        unit = f" {finding.amount_unit}" if finding.amount_unit else ""
        facts.append(("Amount", f"{_signed(finding.amount)}{unit}"))
    if finding.size is not None:
        facts.append(("Size", size_in_words(finding.size, finding.size_unit)))
    if finding.classes:
        facts.append(("Class", " → ".join(finding.classes)))
    return facts


def size_in_words(size: float, unit: str | None) -> str:
    """Return a size with its unit, in three digits at most."""
    number = f"{size:.0f}" if size >= 100 else f"{size:.3g}"
    return f"{number} {unit}" if unit else number


def _figures(one: Conclusion, audit: SiteAudit) -> str:
    """How far from zero a parameter lies, on the scale of the sentence beside it."""
    if one.from_zero is None:
        return ""
    deviation, low, high = one.from_zero
    interval = f"90 % interval {_number_of(low, one)} to {_value(high, one)}"
    # Of what is absolute, such as a share, there is no zero to be found.
    zero = audit.zero.get(one.class_name, "") if one.parameter.startswith("offset") else ""
    shown = f"{_value(deviation, one)} ({interval}), {plural(one.patients, 'patient')}"
    return f"{shown}{f'. {zero}' if zero else ''}"


def _value(value: float, one: Conclusion) -> str:
    return f"{_number_of(value, one)} {one.unit or '%'}"


def _number_of(value: float, one: Conclusion) -> str:
    # Chance may put the end of an interval below a share of nothing.
    return f"{100 * max(value, 0.0):.0f}" if one.unit is None else _signed(value)


def _signed(value: float) -> str:
    """A signed number with a true minus, which is not taken for a hyphen; none where it rounds to zero."""
    return "0.0" if abs(value) < _ROUNDS_TO_ZERO else f"{value:+.1f}".replace("-", "−")


def _is_apart(one: Conclusion) -> bool:
    """Whether a site is unlike the others, though nobody knows who is right."""
    return UNKNOWN_ZERO in one.reason and one.from_zero is not None and is_apart(one.from_zero)


def is_unjudged(audit: SiteAudit) -> bool:
    """Return whether nothing is told because the model has not learnt enough."""
    return bool(audit.conclusions) and all(UNFIT in one.reason for one in audit.conclusions)


def _whether(unknown: list[Conclusion]) -> str:
    """What is not known, after "whether": the classes of each parameter together."""
    classes: dict[str, list[str]] = {}
    for one in unknown:
        kind = "".join(character for character in one.parameter if character.isalpha())
        classes.setdefault(kind, []).append(one.class_name)
    return listed([_what(kind, names) for kind, names in classes.items()], "or")


def _what(kind: str, names: list[str]) -> str:
    named = listed([name for name in names if name] or ["any class"], "or")
    if kind == "offset":
        return f"contours of {named} are too large or too small"
    if kind == SWAPPED:
        return "objects have the wrong class"
    return f"any {named} is missing" if kind == "missing" else f"labels of {named} are wrong"


def _number(count: int) -> str:
    names = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
    return names[count] if count < len(names) else str(count)


def listed(words: list[str], last: str = "and") -> str:
    """Return words as a sentence has them: ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
