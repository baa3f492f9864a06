from support.audits import conclusion
from support.reported_audits import audit, case, case_for_reference, finding, kind

from fedannot.apps.wording.detection import looked_for_sentence
from fedannot.apps.wording.headline import single_in_words
from fedannot.apps.wording.site_audit import finding_facts, shown_conclusions
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.audit.findings import REFERENCE


def test_what_was_looked_for_is_said_with_the_number_of_cases():
    made = audit(kinds=(kind(0.97), kind(0.8, "misaligned")), cases=(case(finding()), case()))
    assert single_in_words(made) == "1 case of 20 has findings: 2 kinds of errors were looked for in every case."
    assert looked_for_sentence(made) == (
        "Looked for in 20 cases: missed objects and annotations shifted or mirrored. Other errors are not looked for."
    )
    assert looked_for_sentence(audit()) == "Nothing was looked for in single cases."


def test_what_needs_something_done_comes_first():
    statuses = ("not_significant", "small", "unknown", "confirmed")
    shown = shown_conclusions(audit(*map(conclusion, statuses)))
    assert [item.words for item in shown] == ["Confirmed", "Cannot tell", "Too small to act on", "About right"]


def test_figures_have_sign_unit_interval_patients_and_where_the_reference_level_is():
    # The reference level is at +0.9 on the model's scale.
    values = {"estimate": -1.2, "low": -1.7, "high": -0.7, "effect": -2.1, "unit": "mm"}
    (shown,) = shown_conclusions(audit(conclusion("confirmed", **values)))
    assert shown.figures == (
        "−2.1 mm (90 % interval −2.6 to −1.6 mm), 34 patients. The reference level is the image boundary: this "
        "assumes that correct annotations follow it."
    )


def test_a_fraction_has_no_reference_level():
    (shown,) = shown_conclusions(
        audit(conclusion("small", parameter="missing 1", estimate=0.8, low=0.7, high=0.9, effect=0.8, unit=None))
    )
    assert shown.figures == "80 % (90 % interval 70 to 90 %), 34 patients"


def test_no_share_is_below_nothing():
    values = {"estimate": 0.01, "low": -0.14, "high": 0.18, "effect": 0.01, "unit": None}
    (shown,) = shown_conclusions(audit(conclusion("unknown", parameter="missing 1", **values)))
    assert shown.figures == "1 % (90 % interval 0 to 18 %), 34 patients"


def test_what_has_no_estimate_has_no_figures():
    (shown,) = shown_conclusions(audit(conclusion("unknown", estimate=None, low=None, high=None)))
    assert shown.figures == ""


def test_facts_of_a_finding_have_sign_and_unit():
    one = finding(probability=0.82, amount=-1.25, amount_unit="mm", size=0.1234, size_unit="ml")
    assert finding_facts(one) == [
        ("Needs a change", "82 %"),
        ("Amount", "−1.2 mm"),
        ("Size", "0.123 ml"),
        ("Class", "lesion"),
    ]
    assert finding_facts(finding())[0] == ("Suspicion", "0.40")


def test_what_is_asked_for_a_reference_is_no_finding():
    assert single_in_words(audit(cases=(case_for_reference("a"),))).startswith("0 cases of 20 have findings")
    assert finding_facts(finding(kind=REFERENCE)) == []


def test_what_the_cases_of_the_site_show_is_reported_as_likely_after_what_is_confirmed():
    numbers = {"share": 0.2, "low": 0.1, "high": 0.3}
    shows = Evidence(EvidenceCode.OBJECTS_LEFT_OUT, numbers, {"class": "lesion"})
    kinds = (kind(0.9).model_copy(update={"shows": (shows,)}),)
    shown = shown_conclusions(audit(conclusion("not_significant"), conclusion("confirmed"), kinds=kinds))
    assert [item.words for item in shown] == ["Confirmed", "Likely", "About right"]
    assert shown[1].sentence == "Lesion: at least about 1 in 5 (10 to 30 %) may have been missed."


def test_a_copy_for_others_says_what_figures_are_of():
    (shown,) = shown_conclusions(audit(conclusion("confirmed", EvidenceCode.THRESHOLDS)), is_shared=True)
    assert (shown.sentence, shown.reason) == ("Contours of lesion", "")
