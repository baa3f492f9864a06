import json
import threading

import pytest

from fedannot.apps.audit.stored_decisions import (
    check_decisions,
    new_decision,
    read_given_decisions,
    store_decision,
    undoable_actions,
    undone,
)
from fedannot.custom.audit.decisions import Decisions, read_decisions
from fedannot.transforms.errors import DataError


def decision(finding, choice="keep"):
    return new_decision(finding, choice, reviewer="Dr Ada", reason="", shown="ab")


def test_a_decision_is_in_the_file_and_the_last_one_counts(audit_of):
    result = audit_of("images")
    name = result.audit.cases[0].findings[0].id
    store_decision(result.folder, result.audit, decision(name, "later"))
    store_decision(result.folder, result.audit, decision(name, "accept"))
    stored = read_decisions(result.folder, result.site)
    assert [item.choice for item in stored.decisions] == ["later", "accept"]
    assert stored.counting[name].choice == "accept"


def test_decisions_of_several_reviewers_at_the_same_time_are_all_kept(audit_of):
    found = audit_of("images")
    names = [case.findings[0].id for case in found.audit.cases]

    def decide(name):
        for _ in range(10):
            store_decision(found.folder, found.audit, decision(name))

    threads = [threading.Thread(target=decide, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_decisions(found.folder, found.site).decisions) == 10 * len(names)


def test_what_a_reader_can_undo_ends_where_another_reader_decided():
    def one(finding, action, reviewer="Dr Ada", choice="keep", undoes=""):
        return new_decision(
            finding,
            choice,
            reviewer=reviewer,
            reason="",
            shown="ab",
            action=action.zfill(32),
            undoes=undoes and undoes.zfill(32),
        )

    log = [one("a", "1"), one("a", "2", choice="accept"), one("b", "3", "Dr Bo"), one("b", "4")]
    # One action of two findings, one of which is Dr Bo's since; and one that is undone.
    log += [
        one("c", "5"),
        one("d", "5"),
        one("d", "6", "Dr Bo"),
        one("e", "7"),
        one("", "8", choice="undo", undoes="7"),
    ]
    decisions = Decisions(site="site-1", decisions=tuple(log))
    assert [int(action) for action in undoable_actions(decisions, "Dr Ada")] == [1, 2, 4]
    assert [int(action) for action in undoable_actions(decisions, "Dr Bo")] == [6]
    assert undoable_actions(decisions, "Dr Cy") == []
    # What another action of hers decides again, which she cannot undo, she cannot undo either.
    decisions = Decisions(
        site="site-1", decisions=(one("a", "1"), one("a", "2"), one("b", "2"), one("b", "3", "Dr Bo"))
    )
    assert undoable_actions(decisions, "Dr Ada") == []
    decisions = Decisions(site="site-1", decisions=(one("a", "1"), one("a", "2"), one("a", "2"), one("b", "2")))
    for action in reversed(undoable_actions(decisions, "Dr Ada")):
        decisions = decisions.with_decisions(undone(decisions, action, "Dr Ada"))
    assert decisions.counting == {}


def test_nobody_undoes_what_another_reader_has_decided():
    """As a file that is given to the command may say; and a reader undoes the own undo."""
    action, undo = "1".zfill(32), "2".zfill(32)

    def log(*entries):
        return Decisions(site="site-1", decisions=entries).counting

    kept = new_decision("a", "keep", reviewer="Dr Ada", reason="", shown="ab", action=action)
    undoing = {
        reader: new_decision("", "undo", reviewer=reader, reason="", shown="", action=undo, undoes=action)
        for reader in ("Dr Ada", "Dr Bo")
    }
    again = new_decision("", "undo", reviewer="Dr Ada", reason="", shown="", undoes=undo)
    assert log(kept, undoing["Dr Bo"]) == {"a": kept}
    assert log(kept, undoing["Dr Ada"]) == {}
    assert log(kept, undoing["Dr Ada"], again) == {"a": kept}


def test_what_is_no_finding_of_the_audit_is_refused_and_not_stored(audit_of):
    result = audit_of("images")
    with pytest.raises(DataError, match="1 finding that this audit does not have, such as 'unknown'"):
        store_decision(result.folder, result.audit, decision("unknown"))
    assert read_decisions(result.folder, result.site).decisions == ()


def test_nothing_can_be_accepted_where_nothing_is_suggested(made_audits):
    audit = made_audits["images"].audit
    case = audit.cases[0]
    bare = case.model_copy(update={"findings": (case.findings[0].model_copy(update={"has_suggestion": False}),)})
    audit = audit.model_copy(update={"cases": (bare,)})
    decisions = Decisions(site=audit.site, decisions=(decision(case.findings[0].id, "accept"),))
    with pytest.raises(DataError, match="is accepted, but nothing is suggested for it"):
        check_decisions(decisions, audit, "the decisions")


def test_decisions_of_another_site_are_refused(made_audits):
    with pytest.raises(DataError, match="decisions of site 'site-2'; expected those of 'site-1'"):
        check_decisions(Decisions(site="site-2"), made_audits["images"].audit, "decisions.json")


def test_a_file_of_decisions_that_is_not_there_is_an_error(made_audits, tmp_path):
    with pytest.raises(DataError, match="found no such file"):
        read_given_decisions(tmp_path / "absent.json", made_audits["images"].audit)


GIVEN = {"finding": "boundary-0-0-1", "choice": "keep", "reviewer": "Dr Bo", "time": "", "reason": "", "shown": ""}
FILE = {"version": 1, "site": "site-1", "decisions": [GIVEN]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (FILE | {"site": "../../site-1"}, "found decisions of site '../../site-1'"),
        (FILE | {"decisions": [GIVEN | {"finding": "../../etc/passwd"}]}, "1 finding that this audit does not have"),
        (FILE | {"decisions": [GIVEN | {"choice": "delete"}]}, "key 'decisions.0.choice' is 'delete'"),
        (FILE | {"version": 3}, "key 'version' is 3"),
        (FILE | {"data": "/etc"}, "unknown key 'data'"),
        ('{"site": "site-1", "site": "site-2"}', "found the key 'site' twice"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "valid dictionary"),
        ("", "is not JSON"),
    ],
)
def test_a_file_of_decisions_that_means_something_else_is_refused_by_name(made_audits, tmp_path, content, problem):
    file = tmp_path / "decisions.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError) as caught:
        read_given_decisions(file, made_audits["images"].audit)
    assert str(file) in str(caught.value)
    assert problem in str(caught.value)
