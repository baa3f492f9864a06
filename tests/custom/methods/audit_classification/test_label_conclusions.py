"""What a site learns of its own labels, as a part of its audit."""

import pytest

from fedannot.custom.annotation_bias.parameters import WRONG_LABELS
from fedannot.custom.audit.findings import SiteAudit
from fedannot.custom.methods.audit_classification.conclusions import with_conclusion

AUDIT = SiteAudit.model_validate({
    "site": "site-1", "data": "data", "method": "audit_classification", "made": "2026-01-01T00:00:00+00:00",
    "model_sha256": "0", "predicted_by": {"folds": 1}, "task": "classification", "classes": ("a", "b"), "unit": None,
    "num_cases": 9, "num_patients": 9,
})  # fmt: skip
REPORTED = {
    "estimate": 0.2, "low": 0.11, "high": 0.29, "patients": 9, "slope": 1.0, "auroc": 0.9, "effect": 0.2,
    "standard_error": 0.05, "p_value": 0.001, "status": "confirmed",
    "evidence": [{"code": "thresholds", "numbers": {"level": 0.05, "minimum_effect": 0.05}, "names": {}}],
}  # fmt: skip


def test_the_conclusion_has_the_figures_that_the_server_tells() -> None:
    (result,) = with_conclusion(AUDIT, {"wrong_labels": REPORTED}).conclusions
    assert (result.parameter, result.unit, result.class_name) == (WRONG_LABELS, None, "")
    plain = result.model_dump(mode="json")
    assert {name: plain[name] for name in REPORTED} == REPORTED


def test_a_server_that_tells_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="estimate"):
        with_conclusion(AUDIT, {"wrong_labels": {"estimate": "<script>"}})
