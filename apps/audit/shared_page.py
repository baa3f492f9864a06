"""A copy of a site's page that can be given away: numbers in place of names, and nothing that a person has written.

Nothing is searched for names. The copy is made of what cannot hold one: numbers, kinds of problems, classes and, if
they are wanted, the pixels of images and masks. What is a sentence, a name, a path, a time or a hash stays away.
"""

from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from ...custom.audit.case_list import listed_cases
from ...custom.audit.decisions import Decision, Decisions, read_decisions
from ...custom.audit.findings import AuditedCase, Conclusion, Finding, ReferenceModelKind, SiteAudit
from ...custom.data.whole_files import replaced
from .case_files import CaseReader
from .case_pictures import CaseContent, FindingContent, UnreadableCase, content_and_crop
from .found import FoundAudit
from .pages import page_environment
from .site_page import MAX_CONTENT_CHARACTERS, embedded_json, page_values

SHARED_FILE = "shared.html"

# In place of the id of a drawn mask, which a shared copy does not hold.
_NO_MASK = 32 * "0"
_UNREADABLE: UnreadableCase = {"problem": "it cannot be read any more."}


def write_shared_page(found: FoundAudit, file: Path, *, with_images: bool = True) -> Path:
    """Write a copy of a site's page without names, paths, reviewers, comments and times; others may read the file.

    Cases are numbered as the page shows them, and nothing can be decided. Images show patients nevertheless: what is
    burnt into their pixels, or a face in a scan of a head, is not taken out.

    Args:
        found: the audit.
        file: the copy.
        with_images: whether it shows images and masks; else no file of the site's data is read.

    Raises:
        DataError: if the site's description or datalist, or the decisions, cannot be read.
    """
    reader = CaseReader(found)
    audit, numbers = without_names(found.audit)
    decisions = _without_reviewers(read_decisions(found.folder, found.site), numbers)
    values = page_values(audit, decisions, None, is_shared=True, has_images=with_images)
    template = page_environment().get_template("site_page.html")
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced(file, shared=True) as temporary, temporary.open("wb") as stream:
        contents = _contents(reader, with_images=with_images)
        template.stream(**values, contents=contents).dump(stream, encoding="utf-8")
    return file


def without_names(audit: SiteAudit) -> tuple[SiteAudit, dict[str, str]]:
    """Return an audit with numbers in place of names, and the new ids of its findings by the old ones.

    An id is a hash of a file's name, which who guesses the name can compute.
    """
    cases, numbers = [], {}
    for number, case in enumerate(listed_cases(audit), start=1):
        findings = []
        for index, finding in enumerate(case.findings, start=1):
            numbers[finding.id] = f"{number}-{index}"
            findings.append(_numbered(finding, numbers[finding.id], audit))
        cases.append(_case(case, f"Case {number}", tuple(findings), audit))
    shared = SiteAudit(
        site="shared",
        data="",
        method="",
        made="",
        model_sha256="",
        predicted_by=ReferenceModelKind(folds=1),
        task=audit.task,
        classes=audit.classes,
        unit=audit.unit,
        num_cases=audit.num_cases,
        num_patients=audit.num_patients,
        conclusions=tuple(_in_figures(conclusion, audit) for conclusion in audit.conclusions),
        kinds=tuple(kind.model_copy(update={"shows": ()}) for kind in audit.kinds),
        cases=tuple(cases),
    )
    return shared, numbers


def _case(case: AuditedCase, name: str, findings: tuple[Finding, ...], audit: SiteAudit) -> AuditedCase:
    is_class = audit.task == "classification" and case.label in audit.classes
    return AuditedCase(
        image=name,
        label=case.label if is_class else "",
        unit=name,
        disagreement=case.disagreement,
        uncertainty=case.uncertainty,
        findings=findings,
    )


def _numbered(finding: Finding, number: str, audit: SiteAudit) -> Finding:
    classes = tuple(name for name in finding.classes if name in audit.classes)
    return finding.model_copy(update={"id": number, "classes": classes, "figures": {}, "text": ""})


def _in_figures(one: Conclusion, audit: SiteAudit) -> Conclusion:
    """A conclusion with its figures, without what it rests on."""
    class_name = one.class_name if one.class_name in audit.classes else ""
    return one.model_copy(update={"class_name": class_name, "evidence": ()})


def _without_reviewers(decisions: Decisions, numbers: dict[str, str]) -> Decisions:
    """What was decided of the findings, without by whom, when and why."""
    kept = [
        Decision(finding=numbers[name], choice=decision.choice, reviewer="", time="", mask=decision.mask and _NO_MASK)
        for name, decision in decisions.counting.items()
        if name in numbers
    ]
    return Decisions(site="shared", decisions=tuple(kept))


def _contents(reader: CaseReader, *, with_images: bool) -> Iterator[tuple[int, Markup, Markup]]:
    """Number, content and crop of one case after the other; no images of cases without findings are given away."""
    left = MAX_CONTENT_CHARACTERS
    for number, case in enumerate(listed_cases(reader.audit)):
        if with_images and not case.has_problem:
            continue
        content, crop = content_and_crop(reader, case) if with_images else (_no_images(case), "")
        texts = embedded_json(_without_hash(content)), embedded_json(crop)
        left -= sum(map(len, texts))
        if left < 0 and number:
            return
        yield number, *texts


def _without_hash(content: CaseContent | UnreadableCase) -> CaseContent | UnreadableCase:
    """The content without the hash of the annotation's file; what says why a case cannot be read names the file."""
    return _UNREADABLE if "problem" in content else {**content, "shown": ""}


def _no_images(case: AuditedCase) -> CaseContent:
    nowhere: FindingContent = {"plane": 0, "box": None, "suggested": None}
    return {
        "shown": "",
        "width": 0,
        "height": 0,
        "aspect": 1.0,
        "images": [],
        "given": None,
        "predicted": None,
        "findings": [nowhere] * len(case.findings),
        "excludes": {},
    }
