import pytest
from sklearn.metrics import cohen_kappa_score
from support.reported_audits import audit, case, finding

from fedannot.apps.wording.agreement import agreement_in_words, differing_findings
from fedannot.custom.audit.decisions import Decision, Decisions
from fedannot.custom.audit.reader_agreement import agreements, cohen_kappa


def decided(reader, choices, *, is_blind=False):
    """Decisions by letters: a(ccept), k(eep) or l(ater) of the findings 0, 1, …; a point leaves one out."""
    words = {"a": "accept", "k": "keep", "l": "later"}
    return tuple(
        Decision(finding=str(number), choice=words[letter], reviewer=reader, time="", is_blind=is_blind)
        for number, letter in enumerate(choices)
        if letter != "."
    )


def both(first, second):
    return Decisions(site="a", decisions=(*decided("Ada", first), *decided("Bo", second, is_blind=True)))


def test_kappa_of_a_table_worked_by_hand():
    # 20 and 15 alike, 5 and 10 not: p_o = 0.7; Ada accepts 25 of 50 and Bo 30: p_e = 0.5; kappa = 0.4.
    pairs = [("a", "a")] * 20 + [("a", "k")] * 5 + [("k", "a")] * 10 + [("k", "k")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)
    assert cohen_kappa([("a", "k"), ("k", "a")]) == pytest.approx(-1)
    assert cohen_kappa([("a", "a")] * 3) is None


def test_only_what_both_decided_counts_and_only_what_could_be_accepted():
    (one,) = agreements(both("aakkal.k", "akkkalkl"), [str(number) for number in range(7)])
    # Of 0 to 6 both accepted or kept 0 to 4: a-a, a-k, k-k, k-k, a-a.
    assert (one.readers, one.findings, one.agreeing, one.is_blind) == (("Ada", "Bo"), 5, 4, True)
    assert one.kappa == pytest.approx(cohen_kappa_score([*"aakka"], [*"akkka"]))
    # Wilson's interval of 4 of 5 at 90 %, worked by hand: (0.8 + z²/10 ± z √(0.032 + z²/100)) / (1 + z²/5).
    assert one.interval == pytest.approx((0.4353, 0.9540), abs=1e-4)
    assert agreements(both("aa", ".."), ["0", "1"]) == ()


def test_the_last_decision_of_each_reader_counts():
    changed = both("a", "k").with_decision(decided("Bo", "a", is_blind=True)[0])
    (one,) = agreements(changed, ["0"])
    assert (one.findings, one.agreeing) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [("a", "a", "accept"), ("k", "l", "keep"), ("l", "k", "keep"), ("l", "l", "later"), ("a", "k", None)],
)
def test_a_blind_decision_overrules_nobody(first, second, counts):
    decisions = both(first, second)
    counting = decisions.counting.get("0")
    assert (None if counting is None else counting.choice) == counts
    assert set(decisions.contested) == ({"0"} if counts is None else set())
    # Who sees both decides; and a blind reader who changes the mind agrees again.
    for resolved in (decided("Cy", "k"), decided("Bo", first.replace("l", "k"), is_blind=True)):
        assert "0" in decisions.with_decision(resolved[0]).counting


def test_a_blind_reader_gets_the_own_decisions_alone():
    assert both("aa", "k.").of_reviewer("Bo").decisions == decided("Bo", "k", is_blind=True)


def test_agreement_is_a_sentence_with_count_interval_and_what_differs():
    cases = tuple(case(finding(str(number), has_suggestion=True)) for number in range(5))
    made = audit(cases=cases)
    agreed, left = agreement_in_words(made, both("aakka", "akkka"))
    assert agreed == (
        "Ada and Bo agree on 4 of 5 findings (80 %, 90 % interval 44 to 95 %; Cohen’s kappa 0.62), one of them blind."
    )
    assert left == "1 finding left open: the readers differ, and one of them was blind."
    (line,) = differing_findings(made, both("aakka", "akkka"))
    assert line.startswith("a.png: ")
    assert line.endswith("Readers differ: Ada accepts the suggestion and Bo keeps the annotation")
    # Where nothing can be accepted there is nothing to agree on.
    assert agreement_in_words(audit(cases=(case(finding("0")),)), both("k", "k")) == []
