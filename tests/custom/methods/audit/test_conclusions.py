"""What a site is told of its own annotations, in words."""

import pytest

from fedannot.custom.audit.findings import KindResult, SiteAudit
from fedannot.custom.methods.audit.conclusions import with_conclusions

AUDIT = SiteAudit(
    site="site-1", data="data", method="audit", made="2026-01-01T00:00:00+00:00", model_sha256="0", judged_by="a model",
    task="segmentation", classes=("lesion", "organ"), unit="mm", num_cases=9, num_patients=9,
)  # fmt: skip


def parameter(estimate, deviation, half=0.5, *, p_value=0.001, established=False, reason="because"):
    known = estimate is not None
    return {
        "estimate": estimate, "low": estimate - half if known else None, "high": estimate + half if known else None,
        "patients": 9, "slope": 1.0, "auroc": 0.9, "deviation": deviation, "p_value": p_value,
        "established": established, "reason": reason,
    }  # fmt: skip


def told(name, values, zero="Zero is a median."):
    message = {"zero": {"1": zero, "2": "Another."}, "parameters": {name: values}}
    (conclusion,) = with_conclusions(AUDIT, message, 0.05).conclusions
    return conclusion


@pytest.mark.parametrize(
    ("values", "verdict", "sentence"),
    [
        pytest.param(
            parameter(3.1, 2.1, established=True), "established",
            "Contours of lesion are 2.1 mm too large (1.6 to 2.6 mm), sure.", id="too large",
        ),
        pytest.param(
            parameter(-3.0, -4.0, established=True), "established",
            "Contours of lesion are 4.0 mm too small (3.5 to 4.5 mm), sure.", id="too small",
        ),
        pytest.param(
            parameter(0.3, 0.3, half=0.1), "small",
            "Contours of lesion are about right: +0.3 mm (+0.2 to +0.4 mm) is too little to act on.", id="small",
        ),
        pytest.param(
            parameter(0.1, 0.1, p_value=0.8), "none",
            "Contours of lesion are about right: +0.1 mm (−0.4 to +0.6 mm).", id="right",
        ),
        pytest.param(
            parameter(1.0, 0.9, p_value=0.2), "none",
            "Contours of lesion may be too large, +0.9 mm (+0.4 to +1.4 mm); not sure.", id="not sure",
        ),
        pytest.param(
            parameter(1.0, 1.0, p_value=None), "cannot tell",
            "It cannot be told whether contours of lesion are too large or too small.", id="cannot tell",
        ),
        pytest.param(
            parameter(3.0, 3.0, p_value=None, reason="Cannot tell: it is not known where neutral lies (+3.00)."),
            "cannot tell",
            "Contours of lesion lie 3.0 mm farther outside than in the middle of all sites (2.5 to 3.5 mm); which of "
            "them are right cannot be told.", id="unlike the others",
        ),
        pytest.param(
            parameter(0.9, 0.9, p_value=None, reason="Cannot tell: it is not known where neutral lies (+0.90)."),
            "cannot tell",
            "It cannot be told whether contours of lesion are too large or too small.", id="much like the others",
        ),
        pytest.param(
            parameter(None, None, p_value=None), "cannot tell",
            "It cannot be told whether contours of lesion are too large or too small.", id="nothing known",
        ),
    ],
)  # fmt: skip
def test_contours(values, verdict, sentence):
    found = told("offset 1", values)
    assert (found.verdict, found.sentence, found.unit, found.class_name) == (verdict, sentence, "mm", "lesion")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (parameter(0.2, 0.2, half=0.1, established=True), "About 1 in 5 of organ is missing (10 to 30 %), sure."),
        (parameter(0.75, 0.75, half=0.1, established=True), "About 75 % of organ is missing (65 to 85 %), sure."),
        (parameter(0.2, 0.2, half=0.1, p_value=0.2), "Some of organ may be missing, 20 % (10 to 30 %); not sure."),
        (parameter(0.1, 0.1, half=0.2, p_value=0.9), "Organ is about as complete as at the most complete site."),
        (parameter(0.1, 0.1, p_value=None), "It cannot be told whether any organ is missing."),
    ],
)
def test_missing_objects(values, sentence):
    found = told("missing 2", values)
    assert (found.sentence, found.unit) == (sentence, None)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            parameter(0.25, 0.25, half=0.1, established=True),
            "Objects look like another class than the one that they are given: about 1 in 4 (15 to 35 %), sure.",
        ),
        (
            parameter(0.9, 0.9, half=0.1, established=True),
            "Objects look like another class than the one that they are given: about 90 % (80 to 100 %), sure.",
        ),
        (
            parameter(0.2, 0.2, half=0.1, p_value=0.2),
            "Some objects may have the wrong class, 20 % (10 to 30 %); not sure.",
        ),
        (
            parameter(0.1, 0.1, half=0.2, p_value=0.9),
            "Classes of objects are about as right as at the site where they agree best.",
        ),
        (
            parameter(0.3, 0.3, half=0.1, p_value=0.01),
            "Objects look like another class than the one that they are given: about 1 in 3 (20 to 40 %). The model "
            "may be what errs; training leaves them.",
        ),
        (parameter(0.1, 0.1, p_value=None), "It cannot be told whether objects have the wrong class."),
    ],
)
def test_swapped_classes(values, sentence):
    found = told("swapped 0", values)
    assert (found.sentence, found.unit, found.class_name) == (sentence, None, "")


@pytest.mark.parametrize(("share", "auroc"), [(0.3, 0.2), (0.9, None)])
def test_where_most_classes_are_swapped_known_errors_say_nothing(share, auroc):
    """They make wrong classes right."""
    kinds = [
        KindResult(kind=name, title=name, auroc=0.2, patients=9, num_cases=1, num_findings=1)
        for name in ("swapped", "missing")
    ]
    message = {"zero": {}, "parameters": {"swapped 0": parameter(share, share, half=0.05, established=True)}}
    found = with_conclusions(AUDIT.model_copy(update={"kinds": tuple(kinds)}), message, 0.05)
    assert [kind.auroc for kind in found.kinds] == [auroc, 0.2]


def test_what_is_sure_comes_first_and_zero_is_named_by_class():
    message = {
        "zero": {"1": "Here.", "2": "There."},
        "parameters": {
            "missing 1": parameter(0.1, 0.1, p_value=0.9),
            "offset 1": parameter(1.0, 1.0, p_value=None),
            "offset 2": parameter(3.0, 3.0, established=True),
        },
    }
    found = with_conclusions(AUDIT, message, 0.05)
    assert [one.parameter for one in found.conclusions] == ["offset 2", "offset 1", "missing 1"]
    assert found.zero == {"lesion": "Here.", "organ": "There."}


@pytest.mark.parametrize("name", ["offset 3", "rm -rf 1", "offset", "offset 0", "swapped 1"])
def test_what_is_of_no_class_or_kind_is_refused(name):
    with pytest.raises(ValueError, match="Expected conclusions of offsets and missing objects by class"):
        told(name, parameter(1.0, 1.0))


def test_a_server_that_tells_something_else_is_refused():
    with pytest.raises(ValueError, match="estimate"):
        told("offset 1", {"estimate": "<script>"})
