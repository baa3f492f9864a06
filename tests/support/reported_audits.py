"""Audits of no files, for what learns of them."""

from fedannot.custom.annotation_bias.estimate_record import ReferenceLevelRecord
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, ReferenceKind
from fedannot.custom.audit.findings import REFERENCE, AuditedCase, Finding, KindResult, SiteAudit

EDGES = ReferenceLevelRecord(
    kind=ReferenceKind.EDGES,
    value=0.9,
    standard_error=0.1,
    is_confident=True,
    unit="mm",
    reasons=(Evidence(EvidenceCode.EDGES),),
)


def finding(name="a", **changes):
    values = {"id": name, "kind": "missing", "classes": ("lesion",), "score": 0.4}
    return Finding.model_validate(values | changes)


def audit(*conclusions, cases=(), kinds=()):
    values = {"site": "a", "data": "/data", "method": "audit", "made": "2026-01-01T00:00:00+00:00"}
    values |= {"model_sha256": "ab", "predicted_by": {"folds": 1}, "task": "segmentation", "classes": ("lesion",)}
    values |= {"unit": "mm", "num_cases": 20, "num_patients": 20, "reference_levels": {"lesion": EDGES}}
    return SiteAudit.model_validate(values | {"conclusions": conclusions, "cases": cases, "kinds": kinds})


def case(*findings):
    return AuditedCase(image="a.png", label="b.png", unit="a", findings=findings)


def case_for_reference(name):
    return case(finding(name, kind=REFERENCE, score=0.0, classes=()))


def kind(auroc, name="missing", patients=24):
    return KindResult(kind=name, auroc=auroc, patients=patients, num_cases=1, num_findings=1)
