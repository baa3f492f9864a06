from support.reported_audits import audit, case, case_for_reference, finding

from fedannot.custom.audit.case_list import listed_cases, question
from fedannot.custom.audit.findings import NOTHING_FOUND, REFERENCE


def named(name, made):
    return made.model_copy(update={"image": name, "label": f"{name} label"})


CASES = (
    named("1", case()),
    named("2", case(finding("a", score=0.3))),
    named("3", case_for_reference("r")),
    named("4", case(finding("b", score=0.9))),
    named("5", case()),
)


def test_every_case_is_listed_those_with_findings_first_and_the_others_in_the_stored_order():
    listed = listed_cases(audit(cases=CASES))
    assert [one.image for one in listed] == ["2", "4", "1", "3", "5"]
    assert [one.findings[0].kind for one in listed[2:]] == [NOTHING_FOUND, REFERENCE, NOTHING_FOUND]
    # What is asked is no finding, and the list of it is the same list.
    assert not any(one.has_problem for one in listed[2:])
    assert listed_cases(audit(cases=listed)) == listed


def test_a_question_has_one_id_whoever_asks_and_another_one_for_every_annotation():
    of_one, of_other = question(CASES[0]), question(CASES[0].model_copy(update={"label": "another reader"}))
    assert of_one.id == question(CASES[0], REFERENCE).id
    assert of_one.id != of_other.id
