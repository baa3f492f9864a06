"""Findings of a measured site: what is suspect enough for a reader, with suggestions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...transforms.array_types import Classes
from ..annotation_bias.statuses import Evidence, Unit
from ..data.site_data import LoadedCase, SiteData
from .case_arrays import CaseArrays, write_case_arrays
from .case_list import with_question
from .examined import size_in_units, spacing_of_whole
from .findings import CASES_FOLDER, REFERENCE, AuditedCase, Finding, KindResult
from .kinds.kind import CaseMasks, Measured, Suspicion
from .measuring import MeasuredKind, MeasuredSite
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class _Found:
    """A suspicion that is a finding."""

    measured: MeasuredKind
    suspicion: Suspicion
    score: float

    @property
    def probability(self) -> float | None:
        return self.measured.calibration.probability(self.score)


def audited_cases(site: MeasuredSite, data: SiteData, data_folder: Path, out: Path) -> tuple[AuditedCase, ...]:
    """Return all cases with their findings, the worst first, and write the arrays of those with findings.

    Ten patients without a finding have a case about which the reviewer is asked (:data:`REFERENCE`). No prediction is
    kept of these: what a reviewer decides of them must not follow the model.

    Args:
        site: what was measured.
        data: the site's data.
        data_folder: the folder of the site's data.
        out: the folder of the audit, with a folder for arrays.
    """
    scores = site.case_scores()
    worst_first = sorted(range(len(data.cases)), key=lambda index: (-scores[index], -site.cases[index].disagreement))
    cases = [_audited(site, index, data, data_folder, out) for index in worst_first]
    asked = for_reference(cases)
    return tuple(with_question(case, REFERENCE) if position in asked else case for position, case in enumerate(cases))


def for_reference(cases: Sequence[AuditedCase]) -> frozenset[int]:
    """Return the places of cases of ten patients in which nothing was found.

    They show what an audit overlooks, and where the reference level is once they are reviewed. The patients' hashes
    choose them, so that a repeated audit asks of the same.
    """
    first_of: dict[str, int] = {}
    troubled = {case.unit for case in cases if case.has_problem}
    for place, case in sorted(enumerate(cases), key=lambda item: item[1].image):
        if case.unit not in troubled:
            first_of.setdefault(case.unit, place)
    units = sorted(first_of, key=lambda unit: hashlib.sha256(unit.encode("utf-8", "surrogateescape")).digest())
    return frozenset(first_of[unit] for unit in units[: THRESHOLDS.reference_patients])


def kind_results(site: MeasuredSite, data: SiteData) -> tuple[KindResult, ...]:
    """Return what was found of each kind, how well it finds injected errors, and what all cases show together."""
    result = [_of_one_case(site, index) for index in range(len(site.cases))]
    results = []
    for measured in site.kinds:
        counts = [sum(item.measured is measured for item in of_case) for of_case in result]
        results.append(
            KindResult(
                kind=measured.kind.name,
                auroc=measured.calibration.auroc,
                patients=measured.calibration.patients,
                num_cases=sum(count > 0 for count in counts),
                num_findings=sum(counts),
                shows=_shown_by_site(measured, data),
            )
        )
    return tuple(results)


def _of_one_case(site: MeasuredSite, index: int) -> list[_Found]:
    """The findings of a case, without those that another finding explains; the worst first."""
    result = []
    for measured in site.kinds:
        for suspicion in measured.given[index]:
            score = measured.score(suspicion)
            if measured.is_finding(score):
                result.append(_Found(measured, suspicion, score))
    explained = {name for item in result for name in item.measured.kind.explains}
    kept = [item for item in result if item.measured.kind.name not in explained]
    return sorted(kept, key=lambda one: -(one.score if one.probability is None else one.probability))


def _shown_by_site(measured: MeasuredKind, data: SiteData) -> tuple[Evidence, ...]:
    """What a kind says of all cases together; nothing where injected errors of it are not detected at the site."""
    if not measured.calibration.tells:
        return ()
    result = []
    for case, suspicions in zip(data.cases, measured.given, strict=True):
        spacing = spacing_of_whole(len(case.label), case.spacing, case.slice_spacing)
        result += [
            Measured(suspicion, case.unit, *size_in_units(suspicion.pixels or 0.0, spacing)) for suspicion in suspicions
        ]
    return measured.kind.of_site(result, measured.typical, ("background", *data.classes))


def _audited(site: MeasuredSite, index: int, data: SiteData, data_folder: Path, out: Path) -> AuditedCase:
    case, measured = data.cases[index], site.cases[index]
    image = case.image_name(data_folder)
    findings: list[Finding] = []
    suggestions: dict[str, Classes] = {}
    masks = CaseMasks(case.label.numpy(), measured.predicted, case.spacing)
    for one in _of_one_case(site, index):
        name = _new_id(one, image, {finding.id for finding in findings})
        suggestion = one.measured.kind.suggestion(one.suspicion, one.measured.typical, masks)
        if suggestion is not None:
            suggestions[name] = suggestion
        findings.append(_finding(one, name, case, data, has_suggestion=suggestion is not None))
    arrays = ""
    if findings:
        arrays = f"{CASES_FOLDER}/{index:04}.npz"
        write_case_arrays(out / arrays, CaseArrays(measured.predicted, suggestions))
    files = case.files
    return AuditedCase(
        image=image,
        label=case.label_name(data_folder),
        unit=case.unit,
        annotator=None if files is None else files.annotator,
        several_annotators=() if files is None else tuple(one.annotator for one in files.annotations),
        disagreement=measured.disagreement,
        uncertainty=measured.uncertainty,
        arrays=arrays,
        findings=tuple(findings),
    )


def _finding(one: _Found, name: str, case: LoadedCase, data: SiteData, *, has_suggestion: bool) -> Finding:
    kind, suspicion, typical = one.measured.kind, one.suspicion, one.measured.typical
    spacing = spacing_of_whole(len(case.label), case.spacing, case.slice_spacing)
    unit: Unit = "px" if spacing is None else "mm"
    names = ("background", *data.classes)
    amount = kind.amount(suspicion, typical)
    size = None if suspicion.pixels is None else size_in_units(suspicion.pixels, spacing)
    return Finding(
        id=name,
        kind=kind.name,
        classes=tuple(names[label] for label in suspicion.labels),
        score=one.score,
        probability=one.probability,
        disagreement=suspicion.disagreement,
        uncertainty=suspicion.uncertainty,
        amount=amount,
        amount_unit=None if amount is None else unit,
        size=None if size is None else size[0],
        size_unit=None if size is None else size[1],
        place=suspicion.place,
        has_suggestion=has_suggestion,
        figures=kind.figures(suspicion, typical),
    )


def _new_id(one: _Found, image: str, taken: set[str]) -> str:
    """Hash of kind, image and place; objects of one place are numbered."""
    text = "/".join(map(str, (one.measured.kind.name, image, *one.suspicion.reference_level)))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    number = 2
    while name in taken:
        name = hashlib.sha256(f"{text}/{number}".encode()).hexdigest()[:16]
        number += 1
    return name
