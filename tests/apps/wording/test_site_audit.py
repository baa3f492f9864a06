import pytest
from support.audits import conclusion
from support.reported_audits import audit, case_for_reference, finding, kind

from fedannot.apps.wording.site_audit import (
    Leading,
    detection_in_words,
    detection_sentence,
    finding_facts,
    headline,
    kinds_in_words,
    leading,
    shown_conclusions,
)
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.audit.findings import REFERENCE, KindResult

TOO_LARGE = "Contours of lesion are 0.3 px too large (0.2 to 0.8 px), confirmed."


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "0 cases of 20 have findings. The federation has not concluded anything of this site."),
        (["confirmed"], TOO_LARGE),
        (["not_significant", "confirmed", "confirmed"], f"{TOO_LARGE} One more below."),
        (
            ["not_significant", "unknown"],
            "This audit cannot tell whether contours of lesion are too large or too small. Nothing else is wrong; "
            "0 cases of 20 have findings.",
        ),
        (
            ["not_significant", "small"],
            "This site annotates like the others, as far as this audit can tell; 0 cases of 20 have findings.",
        ),
    ],
)
def test_the_headline_says_the_worst(verdicts, expected):
    assert headline(audit(*map(conclusion, verdicts))) == expected


def test_a_fraction_of_other_classes_that_is_left_is_no_site_like_the_others():
    share = {"estimate": 0.3, "low": 0.2, "high": 0.4, "effect": 0.3, "unit": None}
    small = conclusion("small", parameter="swapped 0", class_name="", **share)
    shown = "Objects look like another class than the one that they are given: about 1 in 3 (20 to 40 %)."
    assert headline(audit(conclusion("not_significant"), small)).startswith(shown)
    assert headline(audit(conclusion("unknown"), small)).startswith(shown)


def test_what_cannot_be_determined_of_several_classes_is_one_phrase_for_each_parameter():
    unknown = [
        conclusion("unknown", parameter="missing 1", class_name="head", unit=None),
        conclusion("unknown", parameter="missing 2", class_name="tail", unit=None),
        conclusion("unknown", parameter="offset 2", class_name="tail"),
    ]
    assert headline(audit(*unknown)).startswith(
        "This audit cannot tell whether any head or tail is missing or contours of tail are too large or too small. "
        "Nothing is confirmed;"
    )


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


def test_what_is_not_known_of_classes_is_said():
    unknown = conclusion("unknown", parameter="swapped 0", class_name="", unit=None)
    assert "cannot tell whether objects have the wrong class" in headline(audit(unknown))


@pytest.mark.parametrize(
    ("auroc", "words"),
    [(0.97, "Very well"), (0.95, "Very well"), (0.92, "Well"), (0.8, "Fairly well"), (0.65, "Poorly"), (0.5, "Hardly")],
)
def test_detection_in_words(auroc, words):
    assert detection_in_words(kind(auroc)).startswith(f"{words} ")


def test_few_patients_are_named():
    assert "7 patients, which are few" in detection_in_words(kind(0.9, patients=7))
    assert detection_in_words(kind(None)).startswith("Not known")


def test_the_sentence_of_detection_has_all_kinds():
    kinds = (kind(0.8, "misaligned"), kind(0.97), kind(None, "wrong_label"))
    assert detection_sentence(audit(kinds=kinds)) == (
        "On these data it finds missed objects very well; annotations shifted or mirrored fairly well. "
        "How well it finds wrong labels is not known."
    )


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
    assert headline(audit(cases=(case_for_reference("a"),))).startswith("0 cases of 20 have findings")
    assert finding_facts(finding(kind=REFERENCE)) == []


def test_kinds_that_cannot_occur_are_not_listed_and_rules_need_no_trial():
    kinds = (
        KindResult(kind="swapped", auroc=None, patients=0, num_cases=0, num_findings=0),
        KindResult(kind="specks", auroc=None, patients=0, num_cases=0, num_findings=0),
        KindResult(kind="missing", auroc=None, patients=0, num_cases=1, num_findings=1),
    )
    shown = [(one.kind, words) for one, words in kinds_in_words(audit(kinds=kinds))]
    assert [name for name, _ in shown] == ["specks", "missing"]
    assert shown[0][1] == "By a rule, without a model."
    assert shown[1][1].startswith("Not known")


def test_what_the_cases_of_the_site_show_is_reported_as_likely_after_what_is_confirmed():
    numbers = {"share": 0.2, "low": 0.1, "high": 0.3}
    shows = Evidence(EvidenceCode.OBJECTS_LEFT_OUT, numbers, {"class": "lesion"})
    kinds = (kind(0.9).model_copy(update={"shows": (shows,)}),)
    shown = shown_conclusions(audit(conclusion("not_significant"), conclusion("confirmed"), kinds=kinds))
    assert [item.words for item in shown] == ["Confirmed", "Likely", "About right"]
    assert shown[1].sentence == "Lesion: at least about 1 in 5 (10 to 30 %) may have been missed."


def test_a_site_unlike_the_others_is_reported_so_although_the_reference_level_is_unknown():
    values = {"estimate": 3.0, "low": 2.5, "high": 3.5, "effect": 3.0}
    apart = conclusion("unknown", EvidenceCode.REFERENCE_UNSURE, **values)
    assert headline(audit(apart)).startswith(
        "Contours of lesion lie 3.0 px farther outside than in the middle of all sites (2.5 to 3.5 px)"
    )
    assert leading(audit(apart)) == (Leading.UNLIKE_OTHERS, (apart,))
    # Of what is unknown for another reason nobody says so.
    assert leading(audit(conclusion("unknown", EvidenceCode.AUROC_LOW, **values)))[0] is Leading.UNKNOWN


def test_where_the_model_is_unfit_nothing_is_reported():
    unfit = conclusion("unknown", EvidenceCode.MODEL_UNFIT)
    assert leading(audit(unfit, unfit))[0] is Leading.UNFIT
    assert leading(audit(unfit, conclusion("unknown")))[0] is Leading.UNKNOWN


def test_a_copy_for_others_says_what_figures_are_of():
    (shown,) = shown_conclusions(audit(conclusion("confirmed", EvidenceCode.THRESHOLDS)), is_shared=True)
    assert (shown.sentence, shown.reason) == ("Contours of lesion", "")
