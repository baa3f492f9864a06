import pytest
from support.annotators import some_annotators
from support.audits import conclusion
from support.reported_audits import EDGES, audit, case, case_for_reference, finding, kind

from fedannot.apps.wording.detection import detection_in_words, detection_sentence, kinds_in_words, looked_for_sentence
from fedannot.apps.wording.headline import Leading, headline, leading, single_in_words, systematic_in_words
from fedannot.apps.wording.site_audit import finding_facts, shown_conclusions
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.audit.findings import REFERENCE, KindResult

TOO_LARGE = "Contours of lesion are 0.3 px too large (0.2 to 0.8 px), confirmed."


NO_CASE = "0 cases of 20 have findings: no kind of error could be looked for."


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "The federation has not concluded anything of this site as a whole."),
        (["confirmed"], TOO_LARGE),
        (["not_significant", "confirmed", "confirmed"], f"{TOO_LARGE} One more below."),
        (
            ["not_significant", "unknown"],
            "This audit cannot tell whether contours of lesion are too large or too small. No bias is confirmed in "
            "what was tested: 1 parameter. Ten to twenty reviewed cases of different patients would help.",
        ),
        (
            ["not_significant", "small"],
            "This site annotates like the others, as far as this audit can tell: no bias is confirmed in 2 tested "
            "parameters.",
        ),
    ],
)
def test_the_headline_says_the_worst_of_the_site_then_how_many_cases(verdicts, expected):
    made = audit(*map(conclusion, verdicts))
    assert " ".join(filter(None, systematic_in_words(made))) == expected
    assert headline(made) == f"{expected} {NO_CASE}"


@pytest.mark.parametrize(
    ("code", "sites", "patients", "begin", "end"),
    [
        (
            EvidenceCode.REFERENCE_UNSURE,
            2,
            34,
            "Nobody knows which of two sites is right: this audit cannot",
            "reviewed",
        ),
        (EvidenceCode.REFERENCE_UNSURE, 1, 34, "One site alone has no reference level: this audit", "reviewed"),
        (EvidenceCode.REFERENCE_UNSURE, 6, 34, "It is not known where the reference level is: this", "reviewed"),
        (EvidenceCode.NO_REFERENCE_LEVEL, 2, 34, "No site has an estimate that could be the reference", "reviewed"),
        (EvidenceCode.REFERENCE_UNSURE, 6, 7, "7 patients are too few: this audit cannot tell", "More patients"),
        # More patients would not tell which of two sites is right.
        (EvidenceCode.REFERENCE_UNSURE, 2, 7, "Nobody knows which of two sites is right: this", "More sites"),
        (EvidenceCode.IMAGES_ALONE, 6, 7, "One site alone has no reference level: this", "More sites"),
        (EvidenceCode.NO_ESTIMATE, 6, 34, "There is no estimate: this audit cannot tell", "More rounds"),
    ],
)
def test_what_cannot_be_told_says_why_first_and_what_would_help(code, sites, patients, begin, end):
    level = EDGES.model_copy(
        update={"reasons": (Evidence(EvidenceCode.MEDIAN_UNSURE, {"sites": sites, "agreeing": 1}),)}
    )
    changes = {"reference_levels": {"lesion": level}, "num_patients": patients}
    why, helps = systematic_in_words(audit(conclusion("unknown", code)).model_copy(update=changes))
    assert why.startswith(begin)
    assert end in helps


def test_what_was_looked_for_is_said_with_the_number_of_cases():
    made = audit(kinds=(kind(0.97), kind(0.8, "misaligned")), cases=(case(finding()), case()))
    assert single_in_words(made) == "1 case of 20 has findings: 2 kinds of errors were looked for in every case."
    assert looked_for_sentence(made) == (
        "Looked for in 20 cases: missed objects and annotations shifted or mirrored. Other errors are not looked for."
    )
    assert looked_for_sentence(audit()) == "Nothing was looked for in single cases."


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
        "Ten to twenty"
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
    ("auroc", "patients", "words"),
    [
        # The ends of the interval decide: of many patients one word, of few a range.
        (0.96, 200, "Well to very well (AUROC 0.96, 90 % interval 0.94 to 0.97, 200 patients)."),
        (0.99, 400, "Very well (AUROC 0.99, 90 % interval 0.98 to 0.99, 400 patients)."),
        (0.97, 24, "Fairly well to very well (AUROC 0.97, 90 % interval 0.89 to 0.99, 24 patients)."),
        (0.5, 400, "Hardly better than chance (AUROC 0.50, 90 % interval 0.47 to 0.53, 400 patients)."),
        (1.0, 5, "Poorly to very well (AUROC 1.00, 90 % interval 0.72 to 1.00, 5 patients, which are few)."),
        (1.0, 1, "Not known: too few patients could be tried (AUROC 1.00, 90 % interval 0.27 to 1.00, 1 patient)."),
        (None, 0, "Not known: injected errors of this kind could not be tried here."),
    ],
)
def test_how_well_errors_are_found_has_an_interval_and_a_count(auroc, patients, words):
    assert detection_in_words(kind(auroc, patients=patients)) == words


def test_the_sentence_of_detection_has_all_kinds():
    kinds = (kind(0.8, "misaligned"), kind(0.97), kind(1.0, "spurious", patients=2), kind(None, "wrong_label"))
    assert detection_sentence(audit(kinds=kinds)) == (
        "On these data it finds missed objects fairly well to very well (AUROC 0.97, 90 % interval 0.89 to 0.99, 24 "
        "patients); annotations shifted or mirrored poorly to fairly well (AUROC 0.80, 90 % interval 0.67 to 0.88, 24 "
        "patients). How well it finds objects where none is (AUROC 1.00, 90 % interval 0.47 to 1.00, 2 patients) and "
        "wrong labels is not known."
    )
    assert detection_sentence(audit(kinds=(kind(1.0, patients=1),))).startswith(
        "How well this audit finds errors here is not known: too few patients could be tried."
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
    assert single_in_words(audit(cases=(case_for_reference("a"),))).startswith("0 cases of 20 have findings")
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


THRESHOLDS = {"evidence": (Evidence(EvidenceCode.THRESHOLDS, {"level": 0.05, "minimum_effect": 0.5}),)}


@pytest.mark.parametrize(
    ("ends", "kind", "word", "begin"),
    [
        # Relative to the reference level: less than the smallest effect that anything follows from, or more.
        ((1.5, 2.2), Leading.ALIKE, "About right", "This site annotates like the others, as far as"),
        (
            (-1.0, 4.0),
            Leading.OPEN,
            "Not confirmed",
            "No bias is confirmed in 1 tested parameter, and none is",
        ),
        ((1.9, 4.0), Leading.SUSPECTED, "Not confirmed", "Contours of lesion may be too large, +0.3 px"),
    ],
)
def test_what_the_interval_does_not_exclude_is_not_said_to_be_right(ends, kind, word, begin):
    low, high = ends
    made = audit(conclusion("not_significant", low=low, high=high, **THRESHOLDS))
    (shown,) = shown_conclusions(made)
    assert (leading(made)[0], shown.words) == (kind, word)
    assert headline(made).startswith(begin)
    assert ("are about right" in shown.sentence) == (kind is Leading.ALIKE)


def test_a_site_with_a_deviating_annotator_is_not_said_to_annotate_like_the_others():
    made = audit(conclusion("not_significant")).model_copy(update={"annotators": some_annotators()})
    assert leading(made) == (Leading.ANNOTATORS, ())
    assert headline(made).startswith(
        "1 annotator of this site deviates from its others. No bias of the site as a whole is confirmed in 1 tested "
        "parameter."
    )
