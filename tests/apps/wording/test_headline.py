import pytest
from support.annotators import some_annotators
from support.audits import conclusion
from support.reported_audits import EDGES, audit

from fedannot.apps.wording.headline import Leading, headline, leading, systematic_in_words
from fedannot.apps.wording.site_audit import shown_conclusions
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode

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


def test_what_is_not_known_of_classes_is_said():
    unknown = conclusion("unknown", parameter="swapped 0", class_name="", unit=None)
    assert "cannot tell whether objects have the wrong class" in headline(audit(unknown))


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
