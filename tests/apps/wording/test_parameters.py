"""What is concluded of a site's contours, missing objects and classes, in words."""

import pytest

from fedannot.apps.wording.parameters import conclusion_in_words
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status
from fedannot.custom.audit.findings import Conclusion

CONFIRMED, SMALL, NONE, UNKNOWN = Status.CONFIRMED, Status.SMALL, Status.NOT_SIGNIFICANT, Status.UNKNOWN
UNSURE = (Evidence(EvidenceCode.REFERENCE_UNSURE),)


def conclusion(name, estimate, effect, status, half=0.5, evidence=()):
    is_known = estimate is not None
    return Conclusion.model_validate({
        "parameter": name, "class_name": {"offset 1": "lesion", "missing 2": "organ"}.get(name, ""),
        "unit": "mm" if name.startswith("offset") else None, "estimate": estimate,
        "low": estimate - half if is_known else None, "high": estimate + half if is_known else None, "patients": 9,
        "slope": 1.0, "auroc": 0.9, "effect": effect, "status": status, "evidence": evidence,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        pytest.param(
            (3.1, 2.1, CONFIRMED), "Contours of lesion are 2.1 mm too large (1.6 to 2.6 mm), confirmed.", id="too large"
        ),
        pytest.param(
            (-3.0, -4.0, CONFIRMED),
            "Contours of lesion are 4.0 mm too small (3.5 to 4.5 mm), confirmed.",
            id="too small",
        ),
        pytest.param(
            (0.3, 0.3, SMALL, 0.1),
            "Contours of lesion are about right: +0.3 mm (+0.2 to +0.4 mm) is too little to act on.",
            id="small",
        ),
        pytest.param((0.1, 0.1, NONE), "Contours of lesion are about right: +0.1 mm (−0.4 to +0.6 mm).", id="right"),
        pytest.param(
            (1.0, 0.9, NONE),
            "Contours of lesion may be too large, +0.9 mm (+0.4 to +1.4 mm); not confirmed.",
            id="not confirmed",
        ),
        pytest.param(
            (1.0, 1.0, UNKNOWN),
            "It is unknown whether contours of lesion are too large or too small.",
            id="cannot tell",
        ),
        pytest.param(
            (3.0, 3.0, UNKNOWN, 0.5, UNSURE),
            "Contours of lesion lie 3.0 mm farther outside than in the middle of all sites (2.5 to 3.5 mm); which of "
            "them are right cannot be known.",
            id="unlike the others",
        ),
        pytest.param(
            (0.9, 0.9, UNKNOWN, 0.5, UNSURE),
            "It is unknown whether contours of lesion are too large or too small.",
            id="much like the others",
        ),
        pytest.param(
            (None, None, UNKNOWN),
            "It is unknown whether contours of lesion are too large or too small.",
            id="nothing known",
        ),
    ],
)
def test_contours(values, sentence):
    assert conclusion_in_words(conclusion("offset 1", *values)) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((0.2, 0.2, CONFIRMED, 0.1), "About 1 in 5 of organ is missing (10 to 30 %), confirmed."),
        ((0.75, 0.75, CONFIRMED, 0.1), "About 75 % of organ is missing (65 to 85 %), confirmed."),
        ((0.2, 0.2, NONE, 0.1), "Some of organ may be missing, 20 % (10 to 30 %); not confirmed."),
        ((0.1, 0.1, NONE, 0.2), "Organ is about as complete as at the most complete site."),
        ((0.1, 0.1, UNKNOWN), "It is unknown whether any organ is missing."),
    ],
)
def test_missing_objects(values, sentence):
    assert conclusion_in_words(conclusion("missing 2", *values)) == sentence


OTHER = "Objects look like another class than the one that they are given: about"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((0.25, 0.25, CONFIRMED, 0.1), f"{OTHER} 1 in 4 (15 to 35 %), confirmed."),
        ((0.9, 0.9, CONFIRMED, 0.1), f"{OTHER} 90 % (80 to 100 %), confirmed."),
        ((0.2, 0.2, NONE, 0.1), "Some objects may have the wrong class, 20 % (10 to 30 %); not confirmed."),
        ((0.1, 0.1, NONE, 0.2), "Classes of objects are about as right as at the site where they agree best."),
        (
            (0.3, 0.3, SMALL, 0.1),
            f"{OTHER} 1 in 3 (20 to 40 %). The model may be what errs; training leaves them.",
        ),
        ((0.1, 0.1, UNKNOWN), "It is unknown whether objects have the wrong class."),
    ],
)
def test_confused_classes(values, sentence):
    assert conclusion_in_words(conclusion("swapped 0", *values)) == sentence
