import pytest
from support.audits import conclusion
from support.reported_audits import audit, case, case_for_reference, finding

from fedannot.apps.checking.finding import Severity, site_finding
from fedannot.apps.checking.report import SiteReport
from fedannot.apps.wording.steps import next_steps
from fedannot.custom.annotation_bias.statuses import EvidenceCode, Status
from fedannot.custom.audit.findings import KindResult

COMPARE_CODES = (
    "First compare the codes of the classes in your files with those of the other sites. If they differ, correct "
    "them, and ask for another audit."
)
ASKED = "reviewed cases are what this audit lacks"


def test_steps_begin_with_files_and_name_how_many_cases_to_review():
    files = SiteReport("a", "site", None, (site_finding(Severity.ERROR, "broken", "found", "mend"),))
    cases = (case(finding("a", probability=0.9)), case(finding("b", probability=0.6)), case(finding("c")))
    steps = next_steps(audit(conclusion("confirmed"), cases=cases), files)
    assert steps[0].startswith("Mend what cannot be read: 1 error")
    assert steps[1].startswith("Review the first 2 cases below: they probably need a change.")
    assert steps[2].startswith("Agree with your annotators")


def test_where_nothing_is_known_of_the_probability_a_tenth_is_reviewed():
    cases = tuple(case(finding(str(number))) for number in range(15))
    (step,) = next_steps(audit(cases=cases), None)
    assert step == "Review the first 2 cases below. The worst come first."
    (step,) = next_steps(audit(cases=cases[:1]), None)
    assert step == "Review the first case below. The worst come first."


def test_who_cannot_tell_asks_for_reviewed_cases():
    (step,) = next_steps(audit(conclusion("unknown")), None)
    assert step.startswith("Review 10 to 20 cases of different patients")


def test_who_has_few_patients_is_asked_for_all_of_them():
    few = audit(conclusion("unknown")).model_copy(update={"num_cases": 6, "num_patients": 6})
    assert next_steps(few, None) == ["Review all 6 cases: reviewed cases are what this audit lacks to tell."]


def test_where_nothing_is_wrong_there_is_nothing_to_do():
    assert next_steps(audit(conclusion("not_significant")), None) == ["Nothing."]


def confused(status, **values):
    return conclusion(status, parameter="swapped 0", class_name="", unit=None, **values)


def of_another_class(name, **changes):
    return case(finding(name, kind="swapped", classes=("head", "tail"), **changes))


OTHER_CLASS = KindResult(kind="swapped", auroc=0.9, patients=9, num_cases=2, num_findings=2)
MISLABELLED_OFFSET = conclusion("unknown", EvidenceCode.MISLABELLED)


@pytest.mark.parametrize(
    "conclusions",
    [
        pytest.param((confused("confirmed", effect=0.51),), id="classes alone"),
        pytest.param((confused("confirmed", effect=0.9), MISLABELLED_OFFSET), id="contours for that reason"),
        pytest.param((MISLABELLED_OFFSET,), id="contours alone"),
    ],
)
def test_where_most_objects_have_another_class_the_codes_come_first(conclusions):
    """No case is asked for: whoever accepts classes, and then corrects the codes, exchanges them twice."""
    cases = (of_another_class("a", probability=0.9), case(finding("b")), case_for_reference("c"))
    steps = next_steps(audit(*conclusions, cases=cases, kinds=(OTHER_CLASS,)), None)
    assert steps[0] == COMPARE_CODES
    assert steps[1].startswith("If the codes are the same, agree with your annotators on what tells the classes apart")
    assert not any(step.startswith("Review") or ASKED in step for step in steps)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(confused("confirmed", effect=0.2), id="few"),
        pytest.param(confused("confirmed", effect=0.5), id="half"),
        pytest.param(confused("small", effect=0.3), id="too few to act on"),
    ],
)
def test_up_to_half_of_the_objects_are_reviewed_for_their_class(found):
    """Confirmed ones may be of classes whose codes are exchanged, so that these come first all the same."""
    cases = (of_another_class("a", probability=0.9), of_another_class("b"), case(finding("c")))
    codes = [COMPARE_CODES] if found.status is Status.CONFIRMED else []
    steps = next_steps(audit(found, cases=cases, kinds=(OTHER_CLASS,)), None)
    assert steps[: len(codes)] == codes
    steps = steps[len(codes) :]
    assert steps[:2] == [
        "Review the classes of objects in the 2 cases of the kind “Objects of another class” below. "
        "The worst come first.",
        "Review the first case below: it probably needs a change. The worst come first.",
    ]
    assert not any("codes" in step for step in steps)
    one = next_steps(audit(found, cases=cases[1:], kinds=(OTHER_CLASS,)), None)[len(codes)]
    assert one.startswith("Review the classes of objects in the case of the kind “Objects of another class” below.")


def test_where_classes_are_about_right_objects_of_another_one_are_reviewed_as_other_findings_are():
    steps = next_steps(audit(confused("not_significant"), cases=(of_another_class("a"),), kinds=(OTHER_CLASS,)), None)
    assert steps == ["Review the first case below. The worst come first."]


def test_reviewed_cases_are_not_asked_for_where_only_missing_objects_are_unknown():
    """Those are counted by the model alone; whoever reviews cases for their contours looks at the rest, too."""
    missing = conclusion("unknown", parameter="missing 1", unit=None)
    (look,) = next_steps(audit(missing), None)
    assert look == "Look for missed objects in some cases: this audit cannot tell whether there are any."
    (review,) = next_steps(audit(missing, conclusion("unknown")), None)
    assert ASKED in review


def test_reviewed_cases_are_not_asked_for_where_only_classes_are_unknown():
    """They tell this audit where contours lie, and nothing of classes."""
    of_objects = "Review the classes of objects in some cases: this audit cannot tell whether they are right."
    assert next_steps(audit(confused("unknown")), None) == [of_objects]
    reference, classes = next_steps(audit(confused("unknown"), conclusion("unknown")), None)
    assert reference.startswith("Review 10 to 20 cases of different patients")
    assert classes == of_objects
    unknown = conclusion("unknown", parameter="labels 0", class_name="", unit=None)
    labels = audit(unknown).model_copy(update={"task": "classification"})
    assert next_steps(labels, None) == [of_objects.replace("objects in ", "")]


@pytest.mark.parametrize(
    ("found", "question"),
    [
        ((confused("confirmed"),), "on what tells the classes apart, by"),
        ((conclusion("confirmed"),), "on where the contour lies and what counts, by"),
        (
            (conclusion("confirmed"), confused("confirmed")),
            "on where the contour lies, what counts and what tells the classes apart, by",
        ),
    ],
)
def test_annotators_agree_on_what_is_wrong(found, question):
    (agree,) = [step for step in next_steps(audit(*found), None) if step.startswith("Agree")]
    assert question in agree


def test_annotators_of_classified_images_agree_on_classes_alone():
    wrong = conclusion("confirmed", parameter="labels 0", class_name="", unit=None)
    labels = audit(wrong).model_copy(update={"task": "classification"})
    assert next_steps(labels, None) == [
        "Agree with your annotators on what tells the classes apart, by means of these cases."
    ]


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_till_classes_are_right_training_corrects_them(share):
    steps = next_steps(audit(confused("confirmed", effect=share)), None)
    assert steps[-1].startswith("Until then jobs/auto trains with the classes that objects look like")


def test_who_cannot_tell_asks_for_the_cases_of_the_reference_by_their_mark():
    cases = (case(finding("a", probability=0.9)), case_for_reference("b"), case_for_reference("c"))
    steps = next_steps(audit(conclusion("unknown"), cases=cases), None)
    assert steps[0].startswith("Review the first case below")
    assert "Review the 2 cases of the kind “For the reference” below" in steps[1]


def test_cases_for_the_reference_alone_are_nothing_to_do():
    assert next_steps(audit(cases=(case_for_reference("a"),)), None) == ["Nothing."]
