"""What statuses and reference levels rest on, in words."""

import pytest

from fedannot.apps.wording.evidence import evidence_in_words, reason_in_words, reference_level_in_words
from fedannot.custom.annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, ReferenceKind, Status

THRESHOLDS = Evidence(EvidenceCode.THRESHOLDS, {"level": 0.05, "minimum_effect": 0.5})


def parameter(status, *evidence, effect=0.3, p_value=0.021):
    known = {"estimate": 1.0, "low": 0.5, "high": 1.5, "patients": 9, "slope": 1.0, "auroc": 0.9}
    return ParameterRecord(**known, effect=effect, p_value=p_value, status=status, evidence=evidence)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            parameter(Status.CONFIRMED, THRESHOLDS, effect=3.0),
            "Confirmed: +3.00 from the reference level, corrected p = 0.021, at least 0.5.",
        ),
        (
            parameter(Status.SMALL, THRESHOLDS),
            "Too small to act on: +0.30 from the reference level, corrected p = 0.021, below the minimum effect 0.5.",
        ),
        (
            parameter(Status.NOT_SIGNIFICANT, THRESHOLDS, p_value=0.3),
            "Not confirmed: +0.30 from the reference level, corrected p = 0.300, above 0.05.",
        ),
        (
            parameter(Status.UNKNOWN, Evidence(EvidenceCode.AUROC_LOW, {"auroc": 0.6}), p_value=None),
            "Cannot tell: an injected error is distinguished from none with an AUROC of 0.60 only (+0.30).",
        ),
        (
            parameter(Status.UNKNOWN, Evidence(EvidenceCode.NO_ESTIMATE), effect=None, p_value=None),
            "Cannot tell: there is no estimate.",
        ),
        (
            parameter(
                Status.CONFIRMED,
                Evidence(EvidenceCode.SLOPE_OFF, {"slope": 0.5}),
                Evidence(EvidenceCode.EARLIER_AGREES, {"effect": 0.5}),
                effect=0.5,
            ),
            "Cannot tell: the estimate shows 0.50 times the injected error (+0.50). What was confirmed "
            "before stays (+0.50): this estimate does not contradict it.",
        ),
        (
            parameter(
                Status.CONFIRMED, THRESHOLDS, Evidence(EvidenceCode.EARLIER_AGREES, {"effect": 0.5}), p_value=0.08
            ),
            "Not confirmed by this estimate alone: corrected p = 0.080, level 0.05, minimum effect 0.5. What was "
            "confirmed before stays (+0.50): this estimate does not contradict it.",
        ),
        (
            parameter(
                Status.CONFIRMED, THRESHOLDS, Evidence(EvidenceCode.REVIEWED_AGREE, {"effect": 4.5}), p_value=0.08
            ),
            "Not confirmed by this estimate alone: corrected p = 0.080, level 0.05, minimum effect 0.5. Without the "
            "reviewed cases it is confirmed, and stays (+4.50): they do not contradict it.",
        ),
        (
            parameter(Status.UNKNOWN, Evidence(EvidenceCode.MISLABELLED), p_value=None),
            "Cannot tell: most of the site's objects have the label of another class.",
        ),
    ],
)
def test_a_reason_has_evidence_threshold_and_decision(record, sentence):
    assert reason_in_words(record) == sentence


def test_a_reference_level_says_how_it_came_about_and_names_its_groups_by_number():
    level = ReferenceLevelRecord(
        kind=ReferenceKind.BALANCED,
        value=0.1,
        standard_error=0.1,
        is_confident=True,
        unit="mm",
        reasons=(
            Evidence(EvidenceCode.HALF_WAY),
            Evidence(EvidenceCode.MOVED_TO_EDGES, {"distance": 2.0}),
            Evidence(EvidenceCode.EDGES_NEAR, {"difference": -1.0}),
        ),
        groups=(("site-10", "site-2"), ("site-1",)),
    )
    assert reference_level_in_words(level) == (
        "The reference level is half-way between two groups of sites: this assumes that they err equally far in the "
        "two directions. It is moved to 2 mm from the image boundary. The image boundary is -1.00 mm from it. The "
        "groups: site-2, site-10; site-1."
    )
    assert "site" not in reference_level_in_words(level.without_names()).replace("groups of sites", "")
    assert reference_level_in_words(None) == "No site has an estimate that could be the reference level."


@pytest.mark.parametrize("code", EvidenceCode)
def test_every_code_has_words_and_asks_for_no_number_that_a_record_may_lack(code):
    assert evidence_in_words(Evidence(code))


def test_objects_left_out_are_reported_with_their_size():
    numbers = {"share": 0.2, "low": 0.1, "high": 0.34, "limit": 0.123, "larger": 0.05}
    left_out = Evidence(EvidenceCode.OBJECTS_LEFT_OUT, numbers, {"class": "lesion", "unit": "ml"})
    assert evidence_in_words(left_out) == (
        "Lesion under 0.12 ml: at least about 1 in 5 (10 to 34 %) may have been missed, of larger ones 5 %."
    )


def test_a_name_is_no_template():
    assert evidence_in_words(Evidence(EvidenceCode.SITE, names={"site": "{0.x} %s"})) == (
        "The reference level is the boundary bias of {0.x} %s."
    )
