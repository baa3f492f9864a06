"""The rollback check at the server: what is compared, who is asked, when it vetoes, and what it says."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from support.rounds import round_of

from fedannot.apps.wording.decisions import rollback_in_words
from fedannot.custom.aggregation.influence import InfluenceBounds, deployed_influence
from fedannot.custom.aggregation.settings import AggregationSettings, InfluenceSettings
from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.annotation_bias.estimate import Estimate, sent
from fedannot.custom.interface.views import Round
from fedannot.custom.methods.auto import rollback_check
from fedannot.custom.methods.auto.outbound import HELD_OUT_GAIN, OUTBOUND_FIELDS, REVIEWED_GAIN
from fedannot.custom.methods.auto.records import NotCompared, RollbackOf
from fedannot.custom.methods.auto.rollback_check import RollbackCheck
from fedannot.custom.methods.auto.rollback_gains import fewest_found, pooled_gain, pooled_gains
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.task_names import COMPARE_SCORES, KEEP_SCORES

SETTINGS = AutoSettings(rounds=9, warmup_rounds=3)
SITES = tuple("abcdefg")
HONEST = frozenset("defg")
ROLLBACK = {"w": torch.ones(1)}


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

    def __init__(self, check: RollbackCheck, answers: Mapping[str, dict[str, Any]]) -> None:
        self.check, self.answers = check, answers
        self.asked: list[tuple[int, str, bool, dict[str, Any]]] = []
        self.number = 0

    def __call__(
        self, task: str, sites: Collection[str] | None = None, params: Any = None
    ) -> dict[str, dict[str, Any]]:
        assert sites is None
        self.asked.append((self.number, task, params is ROLLBACK, self.check.message))
        if task == KEEP_SCORES:
            return {site: {"has_scored": site in self.answers} for site in SITES}
        assert task == COMPARE_SCORES
        return {site: self.answers.get(site, answer()) for site in SITES}


def round_at(number: int, sites: Sites) -> Round:
    sites.number = number
    made = round_of(number, ask=sites, reports={site: {"num_samples": 10} for site in SITES})
    made.weighed = weights_of({site: index + 1.0 for index, site in enumerate(SITES)})
    return made


def checked(
    answers: Mapping[str, dict[str, Any]],
    rounds: int = 3,
    may_be_asked: Collection[str] = HONEST,
    *,
    weighs: bool = False,
) -> tuple[RollbackCheck, Sites]:
    """After so many rounds in which sites correct something, or weigh otherwise."""
    check = RollbackCheck(SETTINGS, rounds)
    sites = Sites(check, answers)
    for number in range(6, 6 + rounds):
        this_round = round_at(number, sites)
        check.begin(this_round, corrects=not weighs, weighs=weighs)
        this_round.second_average = ROLLBACK if weighs else None
        check.compare(this_round, may_be_asked)
    return check, sites


def of_all(value: float) -> dict[str, dict[str, Any]]:
    return {site: answer(held_out=gain(value)) for site in HONEST}


def test_the_answers_are_what_is_declared() -> None:
    registry = OutboundRegistry(OUTBOUND_FIELDS)
    given = answer(gain(0.02), gain(-0.5))
    registry.check(COMPARE_SCORES, given)
    assert registry.refusal(COMPARE_SCORES, given, 2) is None
    assert registry.refusal(COMPARE_SCORES, answer(gain(2.0)), 2) is not None


def test_where_sites_correct_something_the_model_is_compared_with_that_of_before() -> None:
    """The scores of before are kept once; no site gets any model that it would not get anyway."""
    _, sites = checked(of_all(0.01))
    assert sites.asked == [(6, KEEP_SCORES, False, {"kept_round": 6})] + [
        (number, COMPARE_SCORES, False, {"kept_round": 6}) for number in (6, 7, 8)
    ]


def test_other_weights_are_compared_with_those_by_quantity_of_the_same_updates() -> None:
    _, sites = checked(of_all(0.01), rounds=2, weighs=True)
    assert sites.asked == [
        (number, task, task == COMPARE_SCORES, {"kept_round": number})
        for number in (6, 7)
        for task in (KEEP_SCORES, COMPARE_SCORES)
    ]


def test_a_second_average_is_made_for_other_weights_alone() -> None:
    check = RollbackCheck(SETTINGS, 1)
    sites = Sites(check, of_all(0.0))
    assert not check.begin(round_at(5, sites), corrects=False, weighs=False)
    assert check.record is None
    assert check.begin(round_at(6, sites), corrects=True, weighs=True)
    assert not sites.asked
    # Once a model of before is kept it stays the one to compare with.
    check = RollbackCheck(SETTINGS, 2)
    sites = Sites(check, of_all(0.0))
    assert not check.begin(round_at(6, sites), corrects=True, weighs=False)
    assert not check.begin(round_at(7, sites), corrects=True, weighs=True)
    assert not RollbackCheck(SETTINGS, 0).begin(round_at(6, sites), corrects=True, weighs=True)


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize(("better", "vetoes"), [(0.005, False), (0.0051, True), (-0.1, False)])
def test_a_shadow_that_is_better_by_more_than_its_interval_vetoes(better: float, vetoes: bool, weighs: bool) -> None:
    """Four sites with intervals of ±0.01 and as many patients: together ±0.005.

    Sites say by how much the model that came last is better: the shadow, or the one in use beside that of before.
    """
    check, _ = checked(of_all(better if weighs else -better), weighs=weighs)
    assert check.has_vetoed == vetoes
    assert not check.is_open
    assert check.record is not None
    assert check.record.has_vetoed == vetoes
    assert [item.estimate for item in check.record.rounds] == [pytest.approx(better)] * 3
    assert ("everything is rolled back" in rollback_in_words(check.record)) == vetoes


def test_it_decides_after_all_rounds_alone() -> None:
    check, _ = checked(of_all(-0.2))
    assert check.has_vetoed
    early = RollbackCheck(SETTINGS, 3)
    early.restore(check.state() | {"rounds": check.state()["rounds"][:2]})
    assert not early.has_vetoed
    assert early.is_open
    assert early.record is not None
    assert (len(early.record.rounds), early.record.wanted_rounds) == (2, 3)
    assert "Not decided: 2 of 3 rounds" in rollback_in_words(early.record)


def test_it_says_evidence_threshold_decision_and_what_would_have_changed_it() -> None:
    check, _ = checked(of_all(-0.02))
    assert check.record is not None
    assert rollback_in_words(check.record) == (
        "Rollback check of rounds 6 to 8: with the model of before round 6 the Dice of 40 patients differs by +2.0 "
        "points (90 % interval +1.5 to +2.5). Threshold: all of the interval above 0. Decision: everything is rolled "
        "back, and the rest is federated averaging. A difference lower by 1.5 points would have left it."
    )
    check, _ = checked(of_all(0.0), weighs=True)
    assert check.record is not None
    assert check.record.rollback_of is RollbackOf.WEIGHTS_BY_SAMPLES
    assert rollback_in_words(check.record).endswith(
        "Decision: it stays. A difference higher by 0.5 points would have rolled it back."
    )


def test_given_annotations_count_at_sites_that_do_not_deviate_and_reviewed_ones_everywhere() -> None:
    worse, better = gain(-0.1), gain(0.1)
    answers = {"a": answer(held_out=better), "d": answer(held_out=worse), "e": answer(better, worse)}
    check, _ = checked(answers, rounds=1, may_be_asked={"d", "e"}, weighs=True)
    assert check.record is not None
    (only,) = check.record.rounds
    # d by its given annotations, e by its reviewed ones, a not at all.
    assert (only.sites, only.patients, only.estimate) == (2, 20, pytest.approx(0.0))
    check, _ = checked({"a": answer(better, worse)}, rounds=1, weighs=True)
    assert check.has_vetoed


def test_without_patients_to_score_it_is_closed_after_one_question() -> None:
    check, sites = checked({})
    assert [task for _, task, *_ in sites.asked] == [KEEP_SCORES]
    assert check.record is not None
    assert check.record.not_compared is NotCompared.NO_PATIENTS
    check, sites = checked({"a": answer(held_out=gain(0.1))})
    assert len(sites.asked) == 2
    assert check.record is not None
    assert check.record.not_compared is NotCompared.TOO_FEW_PATIENTS


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
    check = RollbackCheck(SETTINGS, 1)
    sites = Sites(check, of_all(0.1))
    this_round = round_at(6, sites)
    this_round.weighed, this_round.second_average = (
        weights_of({site: 2.0 if site == "a" else 1.0 for site in SITES}),
        ROLLBACK,
    )
    check.begin(this_round, corrects=False, weighs=True)
    check.compare(this_round, HONEST)
    assert not sites.asked
    assert check.record is not None
    assert check.record.not_compared is NotCompared.SINGLE_SITES


@pytest.mark.parametrize(("rule", "asks"), [("mean", True), ("trimmed_mean", False)])
def test_of_two_trimmed_means_those_that_differ_may_be_the_ones_that_are_dropped(rule: str, asks: bool) -> None:
    """Three of the sites have other weights than the rest; a trimmed mean lacks two sites in each coordinate."""
    settings = SETTINGS.model_copy(update={"aggregation": AggregationSettings(rule=rule), "min_sites": 3})
    check = RollbackCheck(settings, 1)
    sites = Sites(check, of_all(0.1))
    this_round = round_at(6, sites)
    other = dict(zip(SITES[:3], (2.0, 3.0, 4.0), strict=True))
    this_round.weighed, this_round.second_average = weights_of(dict.fromkeys(SITES, 1.0) | other), ROLLBACK
    check.begin(this_round, corrects=False, weighs=True)
    check.compare(this_round, HONEST)
    assert bool(sites.asked) is asks


def at_server(monkeypatch: pytest.MonkeyPatch, *dice: float, patients: int = 8) -> Any:
    """What the server's reviewed patients say, one model after the other."""
    scores = iter(dice)
    monkeypatch.setattr(
        rollback_check,
        "patient_dice",
        lambda *_: {f"{index}": value for value in [next(scores)] for index in range(patients)},
    )
    return lambda params=None: ("network", "data")


def test_the_server_scores_its_reviewed_cases_itself_and_needs_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    check = RollbackCheck(SETTINGS, 2)
    sites, reviewed = Sites(check, {}), at_server(monkeypatch, 0.5, 0.49, 0.47)
    for number in (6, 7):
        this_round = round_at(number, sites)
        this_round.reviewed = reviewed
        check.begin(this_round, corrects=True, weighs=False)
        check.compare(this_round, HONEST)
    assert [task for _, task, *_ in sites.asked] == [KEEP_SCORES]
    assert check.has_vetoed
    assert check.record is not None
    assert [(item.sites, item.patients, item.estimate) for item in check.record.rounds] == [
        (0, 8, pytest.approx(0.01)),
        (0, 8, pytest.approx(0.03)),
    ]


def test_patients_of_sites_and_of_the_server_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    check = RollbackCheck(SETTINGS, 1)
    this_round = round_at(6, Sites(check, of_all(-0.01)))
    this_round.reviewed, this_round.second_average = at_server(monkeypatch, 0.5, 0.59, patients=10), ROLLBACK
    check.begin(this_round, corrects=False, weighs=True)
    check.compare(this_round, HONEST)
    assert check.record is not None
    assert check.record.rounds[0].estimate == pytest.approx((40 * -0.01 + 10 * 0.09) / 50)
    assert check.record.rounds[0].patients == 50


def test_too_few_reviewed_patients_at_the_server_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    check = RollbackCheck(SETTINGS, 2)
    this_round = round_at(6, Sites(check, {}))
    this_round.reviewed = at_server(monkeypatch, 0.5, 0.1, patients=2)
    check.begin(this_round, corrects=True, weighs=False)
    check.compare(this_round, HONEST)
    assert not check.is_open


def test_pooled_gains_by_hand() -> None:
    pooled = pooled_gain({"a": gain(0.1, 0.02, 5), "b": gain(-0.2, 0.04, 15)}, {"a": 5.0, "b": 15.0})
    half = math.hypot(0.25 * 0.02, 0.75 * 0.04)
    assert pooled.value == pytest.approx(0.25 * 0.1 - 0.75 * 0.2)
    assert (pooled.low, pooled.high) == (pytest.approx(pooled.value - half), pytest.approx(pooled.value + half))
    assert pooled.patients == 20


def test_its_state_is_plain_and_a_run_goes_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    check = RollbackCheck(SETTINGS, 2)
    reviewed = at_server(monkeypatch, 0.5, 0.49, 0.47)
    this_round = round_at(6, Sites(check, of_all(-0.02)))
    this_round.reviewed = reviewed
    check.begin(this_round, corrects=True, weighs=False)
    check.compare(this_round, HONEST)
    state = check.state()
    check_restorable(state, "the state")
    other = RollbackCheck(SETTINGS, 2)
    other.restore(json.loads(json.dumps(state)))
    assert (other.state(), other.record) == (state, check.record)
    sites = Sites(other, of_all(-0.02))
    this_round = round_at(7, sites)
    this_round.reviewed = reviewed
    other.begin(this_round, corrects=True, weighs=False)
    other.compare(this_round, HONEST)
    assert sites.asked == [(7, COMPARE_SCORES, False, {"kept_round": 6})]
    assert other.has_vetoed
    assert RollbackCheck(SETTINGS, 3).record is None


def test_the_state_of_version_1_is_read() -> None:
    check, _ = checked(of_all(-0.02))
    state = check.state()
    earlier = {
        name: value for name, value in state.items() if name not in ("shadow_of", "before_round", "not_compared")
    }
    again = RollbackCheck(SETTINGS, 3)
    again.restore(earlier | {"shadow_is": "the model of before round 6", "reason": ""})
    assert again.record == check.record
    reason = "no site has reviewed or held-out patients to score models on"
    again.restore(earlier | {"rounds": [], "shadow_is": "weights by numbers of samples", "reason": reason})
    assert again.record is not None
    assert (again.record.rollback_of, again.record.not_compared) == ("weights_by_samples", "no_patients")


@pytest.mark.parametrize("number", [3, 4, 8, 20])
def test_within_bounds_of_shares_one_site_decides_nothing(number: int) -> None:
    """The others agree on 0.05 ± 0.02; a liar claims the smallest gain there is, of a million patients."""
    honest = {f"site-{index}": gain(0.05, 0.02, patients=12) for index in range(number - 1)}
    bounds = InfluenceBounds(InfluenceSettings(**deployed_influence(number)), lambda _: None)
    pooled = pooled_gains(honest | {"liar": Estimate(10**6, -1.0, -1.0, -1.0)}, None, bounds)
    assert pooled.value == pytest.approx(0.05)
    assert pooled.high > 0
    # Without bounds, and of two sites, it is the weighted mean.
    free = InfluenceBounds(InfluenceSettings(), lambda _: None)
    two = {"a": gain(0.1, patients=10), "b": gain(0.4, patients=20)}
    assert pooled_gains(two | {"c": gain(0.0, patients=30)}, None, free).value == pytest.approx(0.15)
    assert pooled_gains({"a": gain(0.1), "b": gain(0.4)}, None, bounds).value == pytest.approx(0.25)


def test_the_median_of_gains_has_the_wider_interval_of_medians() -> None:
    gains = {site: gain(value, 0.03) for site, value in zip("abc", (0.1, 0.3, 0.2), strict=True)}
    bounds = InfluenceBounds(InfluenceSettings(**deployed_influence(3)), lambda _: None)
    pooled = pooled_gains(gains, None, bounds)
    assert pooled.value == pytest.approx(0.2)
    # Of three sites that count alike: 0.03 / √3 · √(π / 2).
    assert pooled.high - pooled.value == pytest.approx(0.03 / math.sqrt(3) * math.sqrt(math.pi / 2), rel=1e-3)
