"""The page of a site's audit: one file without any request to elsewhere, or the same page served for a review."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from markupsafe import Markup

from ...custom.audit.case_list import listed_cases
from ...custom.audit.decisions import Decision, Decisions, read_decisions
from ...custom.audit.findings import NOTHING_FOUND, REFERENCE, AuditedCase, Finding, KindResult, SiteAudit
from ...custom.data.description import ImageDescription
from ...custom.data.whole_files import private_folder, replaced
from ...transforms.printable import printable
from ..checking.checking import check_site
from ..checking.report import SiteReport
from ..wording.agreement import agreement_in_words, differing_facts
from ..wording.annotators import ShownAnnotators, shown_annotators
from ..wording.detection import detection_sentence, kinds_in_words, looked_for_sentence
from ..wording.evidence import reference_level_in_words
from ..wording.findings import (
    NOTHING_FOUND_TITLE,
    REFERENCE_TITLE,
    finding_in_words,
    kind_title,
    reference_model_in_words,
)
from ..wording.headline import cases_in_words, single_in_words, systematic_in_words
from ..wording.phrases import size_in_words
from ..wording.site_audit import ShownConclusion, finding_facts, pixels_sentence, shown_conclusions
from ..wording.steps import next_steps
from .case_files import CaseReader, can_be_accepted
from .case_pictures import content_and_crop
from .found import FoundAudit
from .pages import content_policy, page_environment, page_source, site_program
from .stored_decisions import undoable_actions

PAGE_FILE = "page.html"
# Of the cases' images and masks in a page that is one file: what a browser opens at once. The worst cases come first.
MAX_CONTENT_CHARACTERS = 2**25

# What would end a script, or a line of it, wherever a text comes from.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class FindingSummary(TypedDict):
    """What the page's program knows of a finding, by the names that it has there."""

    id: str
    kind: str
    title: str
    classes: list[str]
    sentence: str
    probability: float | None
    size: float | None
    sizeUnit: str | None
    sizeText: str
    facts: list[list[str]]
    canAccept: bool
    newClass: str | None


class CaseSummary(TypedDict):
    """What the page's program knows of a case; ``unit`` is its patient, None without groups."""

    image: str
    label: str
    unit: str | None
    annotators: list[str]
    disagreement: float
    uncertainty: float
    score: float
    findings: list[FindingSummary]


class PageState(TypedDict):
    """What the page's program works on: all cases, those with findings first.

    ``actions`` are those that this reader can undo, in their order; ``differing`` are ids of findings.
    """

    site: str
    audit: str
    reviewer: str | None
    kinds: dict[str, str]
    cases: list[CaseSummary]
    decisions: dict[str, dict[str, str]]
    actions: list[str]
    differing: list[str]
    shared: bool
    blind: bool


class PageValues(TypedDict):
    """What the page's template takes."""

    audit: SiteAudit
    is_shared: bool
    has_images: bool
    headline: str
    conclusions: list[ShownConclusion]
    steps: list[str]
    helps: str
    single: str
    looked_for: str
    detection: str
    pixels: str
    agreement: list[str]
    kinds: list[tuple[KindResult, str, str]]
    predicted_by: str
    reference_levels: dict[str, str]
    annotators: ShownAnnotators | None
    files: SiteReport | None
    style: Markup
    script: Markup
    policy: str
    state: Markup
    embedded_json: Callable[[Any], Markup]
    printable: Callable[[str], str]


def write_site_page(found: FoundAudit, file: Path, *, check_files: bool = True) -> Path:
    """Write the page of a site's audit as one file, which shows patients' images and stays at the site.

    Args:
        found: the audit.
        file: the page.
        check_files: whether the site's files are checked, too; reads all of them once more.

    Raises:
        DataError: if the site's description or datalist, or the decisions, cannot be read.
    """
    reader = CaseReader(found)
    template = page_environment().get_template("site_page.html")
    decisions = read_decisions(reader.folder, reader.audit.site)
    values = page_values(
        reader.audit, decisions, checked_files(reader) if check_files else None, size=_size_seen(reader)
    )
    private_folder(file.parent)
    with replaced(file) as temporary, temporary.open("wb") as stream:
        template.stream(**values, contents=_contents(reader)).dump(stream, encoding="utf-8")
    return file


def served_page(reader: CaseReader, files: SiteReport | None, reviewer: str, *, is_blind: bool = False) -> str:
    """Return the page for a review on this machine, with the decisions as they are now; it asks its server for cases.

    Args:
        reader: of the audit.
        files: what the check of the site's files found; None where they were not checked.
        reviewer: who reviews.
        is_blind: whether the reviewer sees the own decisions alone.

    Raises:
        DataError: if the decisions cannot be read.
    """
    decisions = read_decisions(reader.folder, reader.audit.site)
    values = page_values(reader.audit, decisions, files, reviewer=reviewer, is_blind=is_blind, size=_size_seen(reader))
    return page_environment().get_template("site_page.html").render(**values, contents=())


def review_frame() -> str:
    """Return the page that opens a review: it exchanges the code in its address, then holds :func:`served_page`.

    It has nothing of the audit in it, since whoever asks gets it.
    """
    style, page, frame = page_source("site_page.css"), site_program(), page_source("review_frame.js")
    return (
        page_environment()
        .get_template("review_frame.html")
        .render(style=Markup(style), script=Markup(frame), policy=content_policy(style, frame, page, is_served=True))
    )


def _size_seen(reader: CaseReader) -> tuple[int, ...]:
    """The size of images as the model sees them; empty where it is not that of all."""
    return reader.description.size if isinstance(reader.description, ImageDescription) else ()


def checked_files(reader: CaseReader) -> SiteReport:
    """Check the site's files, which needs no model; reads all of them."""
    return check_site(reader.data, reader.audit.site)


def embedded_json(value: Any) -> Markup:
    """Return JSON that can stand in a script element: nothing in it ends the element or a line.

    >>> print(embedded_json({"name": "</script><script>alert(1)</script>"}))
    {"name":"\\u003c/script\\u003e\\u003cscript\\u003ealert(1)\\u003c/script\\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    # Halves of characters, which stand for bytes of a name that are no text, cannot be written as UTF-8.
    return Markup(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def page_values(
    audit: SiteAudit,
    decisions: Decisions,
    files: SiteReport | None,
    *,
    reviewer: str | None = None,
    is_blind: bool = False,
    is_shared: bool = False,
    has_images: bool = True,
    size: tuple[int, ...] = (),
) -> PageValues:
    """Return what the page's template needs, but for the contents of the cases.

    Args:
        audit: of the site.
        decisions: of its findings.
        files: what the check of the site's files found; None where they were not checked.
        reviewer: who reviews, where the page is served; else None.
        is_blind: whether the reviewer sees the own decisions alone.
        is_shared: whether the page is a copy for others, in which nothing can be decided.
        has_images: whether the page shows images.
        size: of images as the model sees them; empty where it is not to be said.
    """
    style, script = page_source("site_page.css"), site_program()
    systematic, helps = systematic_in_words(audit)
    shown = decisions.of_reviewer(reviewer) if is_blind and reviewer is not None else decisions
    return {
        "audit": audit,
        "is_shared": is_shared,
        "has_images": has_images,
        "headline": cases_in_words(audit) if is_shared else systematic,
        "helps": "" if is_shared else helps,
        "single": "" if is_shared else single_in_words(audit),
        "looked_for": looked_for_sentence(audit),
        "conclusions": shown_conclusions(audit, is_shared=is_shared),
        "steps": next_steps(audit, files),
        "detection": detection_sentence(audit),
        "pixels": pixels_sentence(audit, size),
        "agreement": [] if is_shared or is_blind else agreement_in_words(audit, decisions),
        "kinds": [(kind, kind_title(kind.kind), words) for kind, words in kinds_in_words(audit)],
        "predicted_by": reference_model_in_words(audit.predicted_by),
        "reference_levels": {name: reference_level_in_words(level) for name, level in audit.reference_levels.items()},
        "annotators": None if audit.annotators is None else shown_annotators(audit.annotators, audit.classes),
        "files": files,
        "style": Markup(style),
        "script": Markup(script),
        "policy": content_policy(style, script, is_served=reviewer is not None),
        "state": embedded_json(_state(audit, shown, reviewer, is_blind=is_blind, is_shared=is_shared)),
        "embedded_json": embedded_json,
        "printable": printable,
    }


def _state(
    audit: SiteAudit, decisions: Decisions, reviewer: str | None, *, is_blind: bool, is_shared: bool
) -> PageState:
    """What the page's program works on."""
    titles = {kind.kind: kind_title(kind.kind) for kind in audit.kinds}
    titles |= {REFERENCE: REFERENCE_TITLE, NOTHING_FOUND: NOTHING_FOUND_TITLE}
    differing = decisions.contested
    return {
        "site": audit.site,
        "audit": f"{audit.made} {audit.model_sha256}",
        "reviewer": None if reviewer is None else printable(reviewer),
        "kinds": titles,
        "cases": [_case_summary(case, audit, titles, differing, is_shared=is_shared) for case in listed_cases(audit)],
        "decisions": {name: decision_values(decision) for name, decision in decisions.counting.items()},
        "actions": [] if reviewer is None else undoable_actions(decisions, reviewer),
        "differing": sorted(differing),
        "shared": is_shared,
        "blind": is_blind,
    }


def decision_values(decision: Decision) -> dict[str, str]:
    """Return what the page knows of a decision."""
    values = decision.model_dump(exclude={"is_blind"})
    return {key: printable(value) if key != "finding" else value for key, value in values.items()}


def _case_summary(
    case: AuditedCase,
    audit: SiteAudit,
    titles: dict[str, str],
    differing: Mapping[str, Sequence[Decision]],
    *,
    is_shared: bool,
) -> CaseSummary:
    is_class = audit.task == "classification"
    return {
        "image": printable(case.image),
        "label": printable(case.label),
        # Without groups an image stands for a patient.
        "unit": None if case.unit.endswith(case.image) else printable(case.unit),
        "annotators": [printable(name) for name in case.annotators],
        "disagreement": case.disagreement,
        "uncertainty": case.uncertainty,
        "score": case.score,
        "findings": [
            _finding_summary(
                finding,
                titles,
                () if is_shared else differing.get(finding.id, ()),
                is_class=is_class,
                is_shared=is_shared,
            )
            for finding in case.findings
        ],
    }


def _finding_summary(
    finding: Finding, titles: dict[str, str], differing: Sequence[Decision], *, is_class: bool, is_shared: bool
) -> FindingSummary:
    return {
        "id": finding.id,
        "kind": finding.kind,
        "title": printable(titles.get(finding.kind, finding.kind)),
        "classes": [printable(name) for name in finding.classes],
        "sentence": "" if is_shared else printable(finding_in_words(finding)),
        "probability": finding.probability,
        "size": finding.size,
        "sizeUnit": finding.size_unit,
        "sizeText": "" if finding.size is None else size_in_words(finding.size, finding.size_unit),
        "facts": [[name, printable(value)] for name, value in (*finding_facts(finding), *differing_facts(differing))],
        "canAccept": can_be_accepted(finding, is_class=is_class),
        "newClass": printable(finding.classes[1]) if is_class and len(finding.classes) > 1 else None,
    }


def _contents(reader: CaseReader) -> Iterator[tuple[int, Markup, Markup]]:
    """Number, content and crop of one case after the other, as many as one file holds: all may be more than memory."""
    left = MAX_CONTENT_CHARACTERS
    for number, case in enumerate(listed_cases(reader.audit)):
        content, crop = (embedded_json(value) for value in content_and_crop(reader, case))
        left -= len(content) + len(crop)
        if left < 0 and number:
            return
        yield number, content, crop
