"""The shadow check at the server: what is compared, who is asked, when it vetoes, and what it says."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from support.rounds import round_of

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.channel.estimate import Estimate
from fedannot.custom.channel.estimate_fields import sent
from fedannot.custom.methods.auto import shadow_check
from fedannot.custom.methods.auto.outbound import COMPARE_SHADOW, HELD_OUT_GAIN, LEAVES, REVIEWED_GAIN, SCORE_IN_USE
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.shadow_check import BY_QUANTITY, WITHOUT_UNDOING, ShadowCheck
from fedannot.custom.methods.auto.shadow_gains import fewest_found, pooled_gain
from fedannot.custom.methods.views import Round
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.plain_values import check_restorable

SETTINGS = AutoSettings(rounds=9, warmup_rounds=3)
UNDOING, OTHERS = frozenset({"a", "b", "c"}), frozenset({"d", "e", "f", "g"})
SHADOW = {"w": torch.ones(1)}


def gain(value: float, half: float = 0.01, patients: int = 10) -> Estimate:
    return Estimate(patients, value, value - half, value + half)


def answer(reviewed: Estimate | None = None, held_out: Estimate | None = None) -> dict[str, Any]:
    unknown = Estimate.unknown()
    return sent(REVIEWED_GAIN, [reviewed or unknown], calibrated=False) | sent(
        HELD_OUT_GAIN, [held_out or unknown], calibrated=False
    )


def weights_of(shares: Mapping[str, float]) -> LayerWeights:
    total = sum(shares.values())
    return LayerWeights.same_in_all_blocks({site: share / total for site, share in shares.items()}, ("stem", "head"))


class Sites:
    """Answer what the check asks, and note the messages that came along."""

    def __init__(self, check: ShadowCheck, answers: Mapping[str, dict[str, Any]]) -> None:
        self.check, self.answers = check, answers
        self.asked: list[tuple[str, Any, bool, dict[str, Any]]] = []

    def __call__(
        self, task: str, sites: Collection[str] | None = None, params: Any = None
    ) -> dict[str, dict[str, Any]]:
        self.asked.append((task, None if sites is None else sorted(sites), params is SHADOW, self.check.message))
        if task == SCORE_IN_USE:
            return {site: {"has_scored": site in self.answers} for site in sorted(UNDOING | OTHERS)}
        assert task == COMPARE_SHADOW
        return {site: self.answers[site] for site in sites or ()}


def trained(number: int, sites: Sites, **reports: Mapping[str, Any]) -> Round:
    usual = {site: {"num_samples": 10, "has_undone": True} for site in UNDOING}
    usual |= {site: {"num_samples": 5} for site in OTHERS}
    made = round_of(number, ask=sites, reports=usual | reports)
    made.shadow, made.weighed = SHADOW, weights_of({site: index + 1.0 for index, site in enumerate(made.reports)})
    return made


def checked(
    answers: Mapping[str, dict[str, Any]],
    rounds: int = 3,
    may_be_asked: Collection[str] = OTHERS,
    *,
    weighs: bool = False,
) -> tuple[ShadowCheck, Sites]:
    check = ShadowCheck(rounds)
    sites = Sites(check, answers)
    for number in range(6, 6 + rounds):
        check.plan(UNDOING, OTHERS, weighs=weighs)
        check.compare(trained(number, sites), may_be_asked, SETTINGS)
    return check, sites


def test_the_answers_are_what_is_declared() -> None:
    registry = OutboundRegistry(LEAVES)
    given = answer(gain(0.02), gain(-0.5))
    registry.check(COMPARE_SHADOW, given)
    assert registry.refusal(COMPARE_SHADOW, given, 2) is None
    assert registry.refusal(COMPARE_SHADOW, answer(gain(2.0)), 2) is not None


def test_the_other_sites_average_is_the_shadow_of_what_is_undone() -> None:
    check = ShadowCheck(1)
    assert check.plan(UNDOING, OTHERS, weighs=False) == UNDOING
    assert check.message == {"is_checked": True}
    assert check.plan(frozenset(), UNDOING | OTHERS, weighs=False) is None
    assert check.message == {}
    # Other weights are compared with those by quantity.
    assert check.plan(UNDOING, OTHERS, weighs=True) == frozenset()
    assert ShadowCheck(0).plan(UNDOING, OTHERS, weighs=True) is None


@pytest.mark.parametrize(("undoing", "others"), [(2, 8), (8, 2), (10, 0)])
def test_no_site_learns_the_update_of_another_one(undoing: int, others: int) -> None:
    check = ShadowCheck(3)
    names = [f"site-{index}" for index in range(10)]
    assert check.plan(frozenset(names[:undoing]), frozenset(names[undoing:]), weighs=False) is None
    assert check.record is not None
    assert f"{undoing} sites undo something and {others} do not" in check.record.sentence
    # Nor in a round in which sites are missing.
    answers = {site: answer(gain(0.1)) for site in OTHERS}
    check = ShadowCheck(1)
    sites = Sites(check, answers)
    assert check.plan(UNDOING, OTHERS, weighs=False) == UNDOING
    some = trained(6, sites)
    some.reports = {site: report for site, report in some.reports.items() if site not in {"a", "b"}}
    check.compare(some, OTHERS, SETTINGS)
    assert not sites.asked


def test_of_how_few_sites_a_combination_of_two_averages_can_be() -> None:
    samples = {"a": 10, "b": 10, "c": 20, "d": 20}
    # All have their own ratio: one site vanishes at a time.
    assert fewest_found(weights_of({"a": 1, "b": 2, "c": 1, "d": 3}), samples) == 3
    # Three have that of their samples, and the fourth would be found alone.
    assert fewest_found(weights_of({"a": 1, "b": 1, "c": 2, "d": 3}), samples) == 1
    assert fewest_found(weights_of({"a": 1, "b": 1, "c": 2, "d": 2}), samples) == 0
    # The layer block decides in which they are fewest.
    values = np.array([[0.1, 1 / 6], [0.2, 1 / 6], [0.3, 2 / 6], [0.4, 2 / 6]])
    assert fewest_found(LayerWeights(tuple("abcd"), ("stem", "head"), values), samples) == 0


def test_weights_that_single_out_a_site_are_not_compared_at_sites() -> None:
    check = ShadowCheck(1)
    sites = Sites(check, {site: answer(gain(0.1)) for site in OTHERS})
    this_round = trained(6, sites)
    shares = {site: float(report.num_samples) for site, report in this_round.reports.items()}
    this_round.weighed = weights_of(shares | {"a": 1.0})
    check.plan(UNDOING, OTHERS, weighs=True)
    check.compare(this_round, OTHERS, SETTINGS)
    assert not sites.asked
    assert check.record is not None
    assert "would learn the updates of single sites" in check.record.sentence


def test_both_averages_are_scored_and_sites_can_take_their_share_out() -> None:
    _, sites = checked({site: answer(held_out=gain(-0.01)) for site in OTHERS}, rounds=1)
    assert sites.asked == [
        (SCORE_IN_USE, None, False, {"samples_of_model": 3 * 10 + 4 * 5}),
        (COMPARE_SHADOW, sorted(OTHERS), True, {"samples_of_model": 4 * 5}),
    ]
    # In averages by other weights a site cannot.
    _, sites = checked({site: answer(held_out=gain(-0.01)) for site in OTHERS}, rounds=1, weighs=True)
    assert [message for *_, message in sites.asked] == [{}, {}]


@pytest.mark.parametrize(("value", "vetoes"), [(0.005, False), (0.0051, True), (-0.1, False)])
def test_a_shadow_that_is_better_by_more_than_its_interval_vetoes(value: float, vetoes: bool) -> None:
    """Four sites with intervals of ±0.01 and as many patients: together ±0.005."""
    check, _ = checked({site: answer(held_out=gain(value)) for site in OTHERS})
    assert check.has_vetoed == vetoes
    assert not check.is_open
    assert check.record is not None
    assert check.record.has_vetoed == vetoes
    assert len(check.record.rounds) == 3
    assert ("everything is taken back" in check.record.sentence) == vetoes


def test_it_decides_after_all_rounds_alone() -> None:
    check, _ = checked({site: answer(held_out=gain(0.2)) for site in OTHERS}, rounds=3)
    early = ShadowCheck(3)
    early.restore(check.state() | {"rounds": check.state()["rounds"][:2]})
    assert not early.has_vetoed
    assert early.is_open
    assert early.record is not None
    assert "Not decided: 2 of 3 rounds" in early.record.sentence


def test_it_says_evidence_threshold_decision_and_what_would_have_changed_it() -> None:
    check, _ = checked({site: answer(held_out=gain(0.02)) for site in OTHERS})
    assert check.record is not None
    assert check.record.shadow_is == WITHOUT_UNDOING
    assert check.record.sentence == (
        "Shadow check of rounds 6 to 8: with the updates of the sites that undo nothing the Dice of 40 patients "
        "differs by +2.0 points (90 % interval +1.5 to +2.5). Threshold: all of the interval above 0. Decision: "
        "everything is taken back, and the rest is federated averaging. A difference lower by 1.5 points would have "
        "left it."
    )
    check, _ = checked({site: answer(held_out=gain(0.0)) for site in OTHERS}, weighs=True)
    assert check.record is not None
    assert check.record.shadow_is == BY_QUANTITY
    assert check.record.sentence.endswith(
        "Decision: it stays. A difference higher by 0.5 points would have taken it back."
    )


def test_given_annotations_count_at_sites_that_do_not_deviate_and_reviewed_ones_everywhere() -> None:
    worse, better = gain(-0.1), gain(0.1)
    answers = {"a": answer(held_out=better), "d": answer(held_out=worse), "e": answer(better, worse)}
    check, _ = checked(answers, rounds=1, may_be_asked={"d", "e"})
    assert check.record is not None
    (only,) = check.record.rounds
    # d by its given annotations, e by its reviewed ones, a not at all.
    assert (only.sites, only.patients, only.estimate) == (2, 20, pytest.approx(0.0))
    check, _ = checked({"a": answer(better, worse)}, rounds=1)
    assert check.has_vetoed


def test_without_patients_to_score_it_is_closed_after_one_question() -> None:
    check, sites = checked({})
    assert [task for task, *_ in sites.asked] == [SCORE_IN_USE]
    assert check.record is not None
    assert check.record.sentence == ("No shadow check: no site has reviewed or held-out patients to score models on.")
    check, sites = checked({"a": answer(held_out=gain(0.1))})
    assert len(sites.asked) == 2
    assert check.record is not None
    assert "annotations may be asked" in check.record.sentence


def test_a_round_in_which_a_site_had_lost_what_it_undid_is_not_compared() -> None:
    check = ShadowCheck(1)
    sites = Sites(check, {site: answer(gain(0.1)) for site in OTHERS})
    check.plan(UNDOING, OTHERS, weighs=False)
    check.compare(trained(6, sites, a={"num_samples": 10}), OTHERS, SETTINGS)
    assert not sites.asked
    assert check.is_open


def at_server(monkeypatch: pytest.MonkeyPatch, number: int, sites: Sites, better: float, patients: int = 8) -> Round:
    """A round whose server has reviewed patients, on which the shadow has more Dice."""
    made = trained(number, sites)
    made.reviewed = lambda params=None: ("network", "shadow" if params is SHADOW else "in use")  # type: ignore[assignment,return-value]
    scores = {"in use": 0.5, "shadow": 0.5 + better}
    monkeypatch.setattr(
        shadow_check, "patient_dice", lambda _, data, *__: {f"{index}": scores[data] for index in range(patients)}
    )
    return made


def test_the_server_scores_its_reviewed_cases_itself_and_needs_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sites but one have undone something; none of them gets both averages."""
    check, (alone, undoing) = ShadowCheck(2), (frozenset("g"), (UNDOING | OTHERS) - {"g"})
    assert check.plan(undoing, alone, weighs=False) is None
    sites = Sites(check, {})
    for number in (6, 7):
        assert check.plan(undoing, alone, weighs=False, is_reviewed=True) == undoing
        this_round = at_server(monkeypatch, number, sites, better=0.02)
        this_round.reports = trained(
            number, sites, **{site: {"num_samples": 5, "has_undone": True} for site in "def"}
        ).reports
        check.compare(this_round, OTHERS, SETTINGS)
    assert not sites.asked
    assert check.has_vetoed
    assert check.record is not None
    assert [(one.sites, one.patients, one.estimate) for one in check.record.rounds] == [(0, 8, pytest.approx(0.02))] * 2


def test_patients_of_sites_and_of_the_server_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ShadowCheck(1)
    sites = Sites(check, {site: answer(held_out=gain(-0.01, 0.0)) for site in OTHERS})
    check.plan(UNDOING, OTHERS, weighs=False, is_reviewed=True)
    check.compare(at_server(monkeypatch, 6, sites, better=0.09, patients=10), OTHERS, SETTINGS)
    assert check.record is not None
    assert check.record.rounds[0].estimate == pytest.approx((40 * -0.01 + 10 * 0.09) / 50)
    assert check.record.rounds[0].patients == 50


def test_sites_that_cannot_score_are_asked_once_while_the_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ShadowCheck(2)
    sites = Sites(check, {})
    for number in (6, 7):
        check.plan(UNDOING, OTHERS, weighs=False, is_reviewed=True)
        check.compare(at_server(monkeypatch, number, sites, better=0.0), OTHERS, SETTINGS)
    assert [task for task, *_ in sites.asked] == [SCORE_IN_USE]
    assert check.record is not None
    assert len(check.record.rounds) == 2


def test_too_few_reviewed_patients_at_the_server_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ShadowCheck(2)
    check.plan(UNDOING, OTHERS, weighs=False, is_reviewed=True)
    check.compare(at_server(monkeypatch, 6, Sites(check, {}), better=0.1, patients=2), OTHERS, SETTINGS)
    assert not check.is_open


def test_pooled_gains_by_hand() -> None:
    pooled = pooled_gain({"a": gain(0.1, 0.02, 5), "b": gain(-0.2, 0.04, 15)}, {"a": 5.0, "b": 15.0})
    half = math.hypot(0.25 * 0.02, 0.75 * 0.04)
    assert pooled.value == pytest.approx(0.25 * 0.1 - 0.75 * 0.2)
    assert (pooled.low, pooled.high) == (pytest.approx(pooled.value - half), pytest.approx(pooled.value + half))
    assert pooled.patients == 20


def test_its_state_is_plain_and_comes_back() -> None:
    check, _ = checked({site: answer(held_out=gain(0.02)) for site in OTHERS})
    state = check.state()
    check_restorable(state, "the state")
    other = ShadowCheck(3)
    other.restore(json.loads(json.dumps(state)))
    assert (other.state(), other.record, other.has_vetoed) == (state, check.record, True)
    assert ShadowCheck(3).record is None
