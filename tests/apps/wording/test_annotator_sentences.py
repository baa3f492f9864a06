"""Sentences about annotators say what was measured, of whom, and what nobody can tell."""

import pytest
from support.annotators import annotator, annotators_audit, parameter, some_annotators

from fedannot.apps.wording.annotators import reported_rows, shown_annotators
from fedannot.custom.methods.audit.records import ReportedAnnotator


def test_each_has_a_row_with_figures_intervals_and_counts():
    shown = shown_annotators(some_annotators(), ("lesion",))
    ann, cem, zoe = shown.annotators
    assert [one.name for one in shown.annotators] == ["Ann", "Cem", "Zoe"]
    assert (ann.words, cem.words, zoe.words) == ("Deviates", "Cannot tell", "No deviation found")
    assert ann.majority == ("+3.9 px (+3.7 to +4.1), 12 patients",)
    assert ann.predictions == ("+5.1 px (+4.9 to +5.3), 12 patients",)
    assert ann.missed == ("32 % (12 to 52 %), 12 patients",)
    assert (ann.cases, ann.number, cem.majority) == ("14 cases of 12 patients", "4", ("–",))
    assert zoe.sentences == ()


def test_who_deviates_has_a_sentence_for_each_deviation():
    ann = shown_annotators(some_annotators(), ("lesion",)).annotators[0]
    assert ann.sentences == (
        "Misses 32 % of the lesion objects that most others have annotated; for the median annotator it is 5 % "
        "(12 patients).",
        "Contours of lesion are 3.9 px larger than the majority’s in the same cases (90 % interval +3.7 to +4.1 px, "
        "12 patients).",
    )


@pytest.mark.parametrize(
    ("code", "numbers", "reason"),
    [
        ("few_patients", {"patients": 3, "needed": 5}, "there are too few patients (3; 5 are needed)"),
        (
            "two_annotators",
            {},
            "fewer than three annotators can be compared, so that nobody knows which of them deviates",
        ),
    ],
)
def test_what_cannot_be_told_has_its_reason(code, numbers, reason):
    unknown = parameter(4.0, 2.0, "unknown", 3, **{code: numbers})
    (one,) = shown_annotators(annotators_audit(annotator("Ann", consensus={"offset 1": unknown})), ("a",)).annotators
    assert (one.words, one.sentences) == ("Cannot tell", (f"Not known whether contours of a deviate: {reason}.",))


def test_of_two_in_each_case_the_median_annotator_is_named():
    found = annotator("Ann", consensus={"offset 1": parameter(3.0, 3.0, "confirmed", pairs={})})
    shown = shown_annotators(annotators_audit(found), ("a",))
    assert (
        shown.annotators[0]
        .sentences[0]
        .startswith(
            "Contours of a are 3.0 px larger than the median annotator’s, by the differences of pairs in the same cases"
        )
    )
    assert any("two of the annotators" in note for note in shown.notes)


def test_by_predictions_alone_it_is_said_that_the_cases_differ():
    found = annotator("Ann", predictions={"offset 1": parameter(5.1, -3.0, "confirmed")})
    (one,) = shown_annotators(annotators_audit(found), ("a",)).annotators
    assert one.sentences[0].startswith(
        "Contours of a are 3.0 px smaller than the median annotator’s in other cases, by the model’s predictions"
    )


def test_several_classes_are_named_in_every_line():
    both = {"offset 1": parameter(1.0, 1.0, "small"), "offset 2": parameter(2.0, 2.0, "small")}
    both["swapped 0"] = parameter(0.25, 0.2, "confirmed")
    (one,) = shown_annotators(annotators_audit(annotator("Ann", consensus=both)), ("a", "b")).annotators
    assert [line.split(":")[0] for line in one.majority] == ["a", "b"]
    assert one.sentences == (
        "Gives 25 % of the objects another class than most others; for the median annotator it is 5 % (12 patients).",
    )


def test_the_federation_sees_numbers_and_what_was_withheld_is_a_dash():
    figure = {"value": 2.0, "low": 1.5, "high": 2.5, "patients": 6}
    one = ReportedAnnotator.model_validate({"number": 7, "parameters": {"offset 1": figure}})
    (row,) = reported_rows({"site-1": (one,)}, {"site-1": "mm"})
    assert (row.site, row.number, row.label) == ("site-1", 7, "")
    assert (row.predictions, row.majority, row.missed) == ("+2.0 mm (+1.5 to +2.5), 6 patients", "–", "–")
