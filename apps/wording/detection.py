"""How well an audit finds errors of each kind at a site, in words."""

from ...custom.audit.calibration import auroc_interval
from ...custom.audit.findings import KindResult, SiteAudit
from ...custom.audit.kinds.registry import KINDS
from ...custom.audit.thresholds import THRESHOLDS
from ..checking.finding import plural
from .findings import kind_title
from .phrases import begun, continued, listed

# Fewer patients say little.
FEW_PATIENTS = 10

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


def looked_for_sentence(audit: SiteAudit) -> str:
    """Return what was looked for in how many cases; what has no finding is not said to be right."""
    titles = [continued(kind_title(kind.kind)) for kind, _ in kinds_in_words(audit)]
    if not titles:
        return "Nothing was looked for in single cases."
    return f"Looked for in {plural(audit.num_cases, 'case')}: {listed(titles)}. Other errors are not looked for."


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
