"""What a site learns of its own annotations, as a part of its audit."""

import pytest

from fedannot.custom.annotation_bias.parameters import ParameterKey
from fedannot.custom.annotation_bias.statuses import Status
from fedannot.custom.audit.findings import KindResult, SiteAudit
from fedannot.custom.methods.audit.conclusions import with_conclusions

AUDIT = SiteAudit.model_validate({
    "site": "site-1", "data": "data", "method": "audit", "made": "2026-01-01T00:00:00+00:00", "model_sha256": "0",
    "predicted_by": {"folds": 1}, "task": "segmentation", "classes": ("lesion", "organ"), "unit": "mm", "num_cases": 9,
    "num_patients": 9,
})  # fmt: skip
LEVEL = {
    "kind": "median", "value": 0.1, "standard_error": 0.1, "is_sure": True, "unit": "mm",
    "reasons": [{"code": "median", "numbers": {"sites": 5, "agreeing": 4}, "names": {}}],
}  # fmt: skip


def parameter(estimate, effect, half=0.5, *, status="not_significant"):
    known = estimate is not None
    return {
        "estimate": estimate, "low": estimate - half if known else None, "high": estimate + half if known else None,
        "patients": 9, "slope": 1.0, "auroc": 0.9, "effect": effect, "standard_error": 0.3, "p_value": 0.01,
        "status": status, "evidence": [],
    }  # fmt: skip


def concluded(name, values):
    message = {"reference_levels": {"1": LEVEL}, "parameters": {name: values}}
    (conclusion,) = with_conclusions(AUDIT, message).conclusions
    return conclusion


@pytest.mark.parametrize(
    ("name", "class_name", "unit"),
    [("offset 1", "lesion", "mm"), ("missing 2", "organ", None), ("swapped 0", "", None)],
)
def test_a_conclusion_has_the_figures_that_the_server_tells(name, class_name, unit):
    values = parameter(3.1, 2.1, status="confirmed")
    result = concluded(name, values)
    assert (str(result.parameter), result.class_name, result.unit) == (name, class_name, unit)
    plain = result.model_dump(mode="json")
    assert {key: plain[key] for key in values} == values
    assert result.from_reference == (2.1, pytest.approx(1.6), pytest.approx(2.6))


@pytest.mark.parametrize(("share", "auroc"), [(0.3, 0.2), (0.9, None)])
def test_where_most_classes_are_confused_injected_errors_say_nothing(share, auroc):
    """They make wrong classes right."""
    kinds = [
        KindResult(kind=name, auroc=0.2, patients=9, num_cases=1, num_findings=1) for name in ("swapped", "missing")
    ]
    confused = parameter(share, share, half=0.05, status="confirmed")
    message = {"reference_levels": {}, "parameters": {"swapped 0": confused}}
    result = with_conclusions(AUDIT.model_copy(update={"kinds": tuple(kinds)}), message)
    assert [kind.auroc for kind in result.kinds] == [auroc, 0.2]


def test_what_is_confirmed_comes_first_and_reference_levels_are_named_by_class():
    message = {
        "reference_levels": {"1": LEVEL, "2": LEVEL | {"kind": "edges"}},
        "parameters": {
            "missing 1": parameter(0.1, 0.1),
            "offset 1": parameter(1.0, 1.0, status="unknown"),
            "offset 2": parameter(3.0, 3.0, status="confirmed"),
        },
    }
    result = with_conclusions(AUDIT, message)
    assert [str(conclusion.parameter) for conclusion in result.conclusions] == ["offset 2", "offset 1", "missing 1"]
    assert [conclusion.status for conclusion in result.conclusions] == [
        Status.CONFIRMED,
        Status.UNKNOWN,
        Status.NOT_SIGNIFICANT,
    ]
    assert {name: level.kind for name, level in result.reference_levels.items()} == {
        "lesion": "median",
        "organ": "edges",
    }


@pytest.mark.parametrize("name", ["offset 3", "offset 0", "swapped 1", "labels 0"])
def test_what_is_of_no_class_or_kind_is_refused(name):
    with pytest.raises(ValueError, match="Expected conclusions of offsets and missing objects by class"):
        concluded(name, parameter(1.0, 1.0))


@pytest.mark.parametrize("name", ["rm -rf 1", "offset", "offset -1", "offset 1 ", "offset ²"])
def test_what_is_no_parameter_is_refused(name):
    with pytest.raises(ValueError, match="Expected one of offset, missing, swapped, labels, a space and a class"):
        ParameterKey.parse(name)
    with pytest.raises(ValueError, match="Expected one of offset"):
        concluded(name, parameter(1.0, 1.0))


def test_a_server_that_tells_something_else_is_refused():
    with pytest.raises(ValueError, match="estimate"):
        concluded("offset 1", {"estimate": "<script>"})
