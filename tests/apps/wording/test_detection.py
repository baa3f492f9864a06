import pytest
from support.reported_audits import audit, kind

from fedannot.apps.wording.detection import detection_in_words, detection_sentence, kinds_in_words
from fedannot.custom.audit.findings import KindResult


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
