"""What is said of findings are sentences, whatever a class is called."""

import pytest

from fedannot.apps.wording.findings import KIND_TITLES, finding_in_words, kind_title, reference_model_in_words
from fedannot.custom.audit.findings import REFERENCE, Finding, ReferenceModelKind
from fedannot.custom.audit.kind_names import CLASSIFICATION_KINDS, SEGMENTATION_KINDS
from fedannot.custom.audit.kinds.registry import KINDS


def finding(kind, *classes, **values):
    return Finding(id="a", kind=kind, classes=classes, score=0.5, **values)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            finding("missing", "mRNA spot", figures={"probability": 0.774}),
            "Here mRNA spot may have been missed: the model sees it with a probability of 77 %, and nothing is "
            "annotated.",
        ),
        (
            finding("missing_slice", "mRNA spot"),
            "In the slices on both sides mRNA spot is annotated, and in this one it is not.",
        ),
        (
            finding("boundary", "tumour", amount=-3.0, amount_unit="px"),
            "The contour of tumour lies 3.0 px farther inside than this site's contours typically do.",
        ),
        (finding("swapped", "posterior", "anterior"), "What is annotated as posterior looks like anterior."),
        (finding("specks", "cyst", figures={"pixels": 1}), "A speck of 1 pixel is annotated as cyst."),
        (
            finding("misaligned", figures={"shift": 4, "mirrored": 1}),
            "The annotation would fit the image better if it were mirrored and shifted by 4 pixels.",
        ),
        (
            finding("empty", figures={"annotated_share": 0.96}),
            "Nothing is annotated, while 96 % of this site's cases have an annotation.",
        ),
        (
            finding("equal_images", figures={"other_case": 7}),
            "Case 7 of the list has the same image and another annotation.",
        ),
        (
            finding("spurious", "cyst", figures={"probability": 0.02}),
            "The model sees nothing where cyst is annotated: a probability of 2 % on average.",
        ),
        (
            finding("wrong_label", "a", "b", figures={"given_probability": 0.1, "other_probability": 0.8}),
            "Labelled a, looks like b: the model gives b 80 % and a 10 %.",
        ),
    ],
)
def test_a_finding_is_a_sentence_of_its_numbers(found, sentence):
    assert finding_in_words(found) == sentence


def test_every_kind_has_a_title_and_a_sentence():
    kinds = {*(kind.name for kind in KINDS), *SEGMENTATION_KINDS, *CLASSIFICATION_KINDS}
    assert kinds <= set(KIND_TITLES)
    for kind in (*kinds, REFERENCE, "of_another_version"):
        sentence = finding_in_words(finding(kind, "one", "other"))
        assert sentence.endswith(".")
    assert kind_title("of_another_version") == "of another version"


def test_a_sentence_of_version_1_is_shown_as_it_is():
    assert finding_in_words(finding("missing", "cyst", text="Here a cyst is missing.")) == "Here a cyst is missing."


def test_which_model_predicted_is_said():
    assert reference_model_in_words(ReferenceModelKind(folds=1)).startswith("an early model of all sites")
    assert reference_model_in_words(ReferenceModelKind(folds=2, num_absent=1)).endswith(
        "each of which predicts the patients that it has not learnt; of 1 the model was not kept here, and the last "
        "one predicts in its place"
    )
