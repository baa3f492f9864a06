"""The same image, or the same patient, more than once at a site: in a list, with two labels, in two lists."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...custom.data.datalist import REFERENCE, SECTIONS
from .facts import CaseFacts, SiteFacts
from .finding import Finding, Severity

_SHOWN_NAMES = 5


def check_duplicates(site: SiteFacts) -> Iterator[Finding]:
    """Find images of exactly the same pixels, by what differs: their labels, their lists, or nothing.

    Constant images are passed over: they are alike whatever they were taken of. So are reviewed cases: they are images
    of other lists by design, with another annotation, and nobody trains on them.
    """
    groups: dict[str, list[CaseFacts]] = defaultdict(list)
    for case, image in site.images:
        if not image.is_constant and case.section != REFERENCE:
            groups[image.digest].append(case)
    for cases in groups.values():
        if len(cases) > 1:
            yield from _duplicate(site, cases)


def check_shared_groups(site: SiteFacts) -> Iterator[Finding]:
    """Find volumes or patients whose cases stand in more than one list, by source and group."""
    groups: dict[tuple[str | None, str], list[CaseFacts]] = defaultdict(list)
    for case in site.cases:
        if case.group is not None and case.section != REFERENCE:
            groups[case.group].append(case)
    for (_, group), cases in groups.items():
        if len({case.section for case in cases}) > 1:
            yield Finding(
                Severity.WARNING,
                "group-leakage",
                tuple(case.name for case in cases),
                f"found cases of the group {group!r} in several lists: {_by_list(cases)}.",
                "Keep all cases of a volume or patient in one list, else the scores are too good.",
            )


def _duplicate(site: SiteFacts, cases: Sequence[CaseFacts]) -> Iterator[Finding]:
    files = tuple(case.name for case in cases)
    labels = {case.annotation.digest for case in cases if case.annotation is not None}
    if len(labels) > 1:
        shown = ", ".join(f"{case.name}: {_label(site, case)}" for case in cases[:_SHOWN_NAMES])
        yield Finding(
            Severity.WARNING,
            "conflicting-labels",
            files,
            f"found the same image with different labels: {shown}. Several people annotated it, or a label is wrong.",
            "Ask who annotated it. Choose one annotator for all images, or the right label, and take the others out of "
            "the datalist; at import --include or --label-include chooses. Or import them again with --annotators, "
            "which keeps all; a rule (training.consensus) then makes the label.",
        )
    if len({case.section for case in cases}) > 1:
        yield Finding(
            Severity.WARNING,
            "leakage",
            files,
            f"found the same image in several lists: {_by_list(cases)}.",
            "Keep it in one list, else the scores are too good.",
        )
    elif len(labels) <= 1:
        yield Finding(
            Severity.WARNING,
            "duplicate",
            files,
            f"found the same image {len(cases)} times in the list {cases[0].section!r}.",
            "Keep one of them: repeated images count more than others.",
        )


def _label(site: SiteFacts, case: CaseFacts) -> str:
    if site.is_classification:
        return site.class_names.get(case.case.label, "-") if isinstance(case.case.label, int) else "-"
    return case.label or "-"


def _by_list(cases: Sequence[CaseFacts]) -> str:
    parts = []
    for section in SECTIONS:
        names = [case.name for case in cases if case.section == section]
        if names:
            more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
            parts.append(f"{section} ({', '.join(names[:_SHOWN_NAMES])}{more})")
    return ", ".join(parts)
