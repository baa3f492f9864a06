"""Audits of phantom sites, made by hand: the clean annotation is what the model predicts and what is suggested."""

from pathlib import Path
from typing import Any

import numpy as np

from fedannot.apps.audit.found import FoundAudit
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.audit.case_arrays import CaseArrays, write_case_arrays
from fedannot.custom.audit.findings import (
    AUDIT_FOLDER,
    CASES_FOLDER,
    AuditedCase,
    Conclusion,
    Finding,
    KindResult,
    Place,
    SiteAudit,
    write_audit,
)
from fedannot.custom.data.datalist import TRAINING, Case, read_datalist
from fedannot.custom.data.description import read_site_description, write_site_description
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.drawing import Drawing
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.preparation import CLEAN_LABEL, LABEL, build_preparation
from fedannot.transforms.connected_lesions import label_lesions

SITE = "site-1"
KINDS = (
    KindResult(kind="boundary", auroc=0.93, patients=24, num_cases=8, num_findings=8),
    KindResult(kind="missing", auroc=0.97, patients=24, num_cases=3, num_findings=5),
    KindResult(kind="wrong_label", auroc=None, patients=0, num_cases=0, num_findings=0),
)


def audited_images(folder: Path, count: int = 6, **changes: Any) -> FoundAudit:
    """Images with one lesion whose contours are noisy."""
    return _audited(folder, LesionImages(noise="M(25,-25,10,1)"), count, "boundary", changes)


def audited_slices(folder: Path, count: int = 3, **changes: Any) -> FoundAudit:
    """Volumes, read slice by slice, in which lesions are missing."""
    return _audited(folder, LesionVolumes(completeness=(0.5, 0.5)), count, "missing", changes)


def audited_volumes(folder: Path, count: int = 2, **changes: Any) -> FoundAudit:
    """The same volumes, read as a whole."""
    return _audited(folder, LesionVolumes(completeness=(0.5, 0.5)), count, "missing", changes, pipeline="volume")


def audited_classes(folder: Path, count: int = 30, **changes: Any) -> FoundAudit:
    """Classified images, some of which have a wrong class."""
    return _audited(folder, Cells(label_noise="S40"), count, "wrong_label", changes)


def conclusion(status: str, *codes: EvidenceCode, **changes: Any) -> Conclusion:
    """A conclusion, by default an offset of one class."""
    values: dict[str, Any] = {"parameter": "offset 1", "class_name": "lesion", "unit": "px", "estimate": 2.1}
    values |= {"low": 1.6, "high": 2.6, "patients": 34, "slope": 0.9, "auroc": 0.93, "effect": 0.3}
    values |= {"status": status, "evidence": tuple(map(Evidence, codes)), "p_value": 0.001}
    return Conclusion.model_validate(values | changes)


def _audited(
    folder: Path, drawing: Drawing, count: int, kind: str, changes: dict[str, Any], pipeline: str | None = None
) -> FoundAudit:
    write_phantom_federation(folder / "data", drawing, num_sites=2, images_per_site=count, test_images=1)
    data = folder / "data" / SITE
    if pipeline is not None:
        _read_as(data, pipeline)
    description = read_site_description(data)
    files = read_datalist(data / description.datalist).section(TRAINING)
    audit = folder / "run" / SITE / AUDIT_FOLDER
    (audit / CASES_FOLDER).mkdir(parents=True)
    prepare = build_preparation(description)
    is_class = description.pipeline == "classification"
    cases = [
        _classified(case, data, prepare, description.classes)
        if is_class
        else _segmented(case, data, prepare, audit, number, kind)
        for number, case in enumerate(files)
    ]
    cases.sort(key=lambda case: -case.score)
    values: dict[str, Any] = {
        "site": SITE,
        "data": str(data),
        "method": "audit",
        "made": "2026-01-01T00:00:00+00:00",
        "model_sha256": "ab" * 32,
        "predicted_by": {"folds": 2},
        "task": "classification" if is_class else "segmentation",
        "classes": description.classes,
        "unit": None if is_class else "px" if description.pipeline == "image2d" else "mm",
        "num_cases": len(cases),
        "num_patients": len(cases),
        "kinds": KINDS,
        "cases": tuple(cases),
    }
    record = SiteAudit.model_validate(values | changes)
    write_audit(audit, record)
    return FoundAudit(audit, record)


def _read_as(data: Path, pipeline: str) -> None:
    from fedannot.custom.data.description import VolumeDescription

    description = read_site_description(data)
    assert pipeline == "volume"
    write_site_description(data, VolumeDescription(labels=description.labels, classes=description.classes))


def _segmented(case: Case, data: Path, prepare: Any, audit: Path, number: int, kind: str) -> AuditedCase:
    tensors = prepare(case).tensors
    given, clean = tensors[LABEL].numpy(), tensors[CLEAN_LABEL].numpy()
    findings, suggestions = [], {}
    # Objects of a volume that is read slice by slice span its slices.
    spans = kind != "boundary" and given.ndim == 3 and len(given) > 1
    for sample in [None] if spans else range(len(given)):
        chosen = slice(None) if sample is None else sample
        different, count = label_lesions(given[chosen] != clean[chosen])
        if kind == "boundary":
            different, count = (different > 0).astype(np.int32), min(count, 1)
        for index in range(1, count + 1):
            where = np.argwhere(different == index)
            start, stop = where.min(0).tolist(), (where.max(0) + 1).tolist()
            first, last = (start.pop(0), stop.pop(0)) if sample is None else (sample, sample + 1)
            place = Place(sample=first, start=tuple(start), stop=tuple(stop), samples=last - first)
            name = f"{kind}-{number}-{place.sample}-{index}"
            suggestions[name] = place.of(clean)
            findings.append(_finding(name, kind, place, len(where)))
    findings.sort(key=lambda finding: -finding.score)
    arrays = f"{CASES_FOLDER}/{number:04d}.npz"
    write_case_arrays(audit / arrays, CaseArrays(clean, suggestions))
    score = max((finding.score for finding in findings), default=0.0)
    return AuditedCase(
        image=str(case.image.relative_to(data)),
        label=str(case.label.relative_to(data)),  # type: ignore[union-attr]
        unit=str(case.image),
        annotator="reader 2" if number % 2 else "reader 1",
        disagreement=round(score, 3),
        uncertainty=round(0.1 + 0.5 * ((7 * number) % 10) / 10, 3),
        arrays=arrays,
        findings=tuple(findings),
    )


def _finding(name: str, kind: str, place: Place, size: int) -> Finding:
    score = min(0.99, 0.2 + size / 400)
    return Finding(
        id=name,
        kind=kind,
        classes=("lesion",),
        score=round(score, 3),
        probability=round(score * 0.9, 3),
        disagreement=round(score, 3),
        uncertainty=0.2,
        amount=round(size / 100, 2) if kind == "boundary" else None,
        amount_unit="px" if kind == "boundary" else None,
        size=float(size),
        size_unit="px",
        place=place,
        has_suggestion=True,
        figures={"probability": 0.9} if kind == "missing" else {},
    )


def _classified(case: Case, data: Path, prepare: Any, classes: tuple[str, ...]) -> AuditedCase:
    tensors = prepare(case).tensors
    given, clean = int(tensors[LABEL]), int(tensors[CLEAN_LABEL])
    findings = ()
    if given != clean:
        names = (classes[given], classes[clean])
        findings = (Finding(id=f"label-{case.image.stem}", kind="wrong_label", classes=names, score=0.9),)
    return AuditedCase(
        image=str(case.image.relative_to(data)),
        label=classes[given],
        unit=str(case.image),
        disagreement=0.9 if findings else 0.1,
        uncertainty=0.3,
        findings=findings,
    )
