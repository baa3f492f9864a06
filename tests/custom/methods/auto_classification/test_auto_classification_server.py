"""`auto` for classification at the server: when it estimates, whom it tells what, and what it remembers."""

import json
from collections.abc import Collection
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.apps.wording.decisions import rollback_in_words
from fedannot.custom.annotation_bias.estimate import Estimate, sent
from fedannot.custom.methods.auto.outbound import HELD_OUT_GAIN, REVIEWED_GAIN
from fedannot.custom.methods.auto.records import RollbackRecord
from fedannot.custom.methods.auto_classification.outbound import CORRECTS_LABELS, NOISE_LEVEL, SUPPORT
from fedannot.custom.methods.auto_classification.server import AutoClassificationServer
from fedannot.custom.methods.auto_classification.settings import AutoClassificationSettings
from fedannot.custom.task_names import (
    COMPARE_SCORES,
    CORRECT_LABELS,
    ESTIMATE_CONFUSION,
    KEEP_SCORES,
    USE_GIVEN_LABELS,
)

NETWORK = {"in_channels": 1, "num_classes": 3}


def settings(**changes: Any) -> AutoClassificationSettings:
    return AutoClassificationSettings.model_validate({"rounds": 10, "warmup_rounds": 2, "network": NETWORK} | changes)


class Sites:
    """Answer with noise levels, and do what they are instructed to unless they are deaf."""

    def __init__(self, **levels: float) -> None:
        self.levels, self.deaf, self.half = levels, set[str](), 0.03
        self.asked: list[tuple[str, list[str] | None]] = []

    def __call__(self, task: str, sites: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        self.asked.append((task, None if sites is None else sorted(sites)))
        if task == ESTIMATE_CONFUSION:
            return {
                site: sent(NOISE_LEVEL, [Estimate(90, v, v - self.half, v + self.half, 1.0, 0.9)], calibrated=True)
                | sent(SUPPORT, [Estimate(30, 0.9, 0.8, 1.0)], calibrated=False)
                for site, v in self.levels.items()
            }
        return {site: {CORRECTS_LABELS: task == CORRECT_LABELS} for site in sites or () if site not in self.deaf}


class Run:
    """The rounds of a run as its server half sees them; every site reports whether it corrects."""

    def __init__(self, sites: Sites, **changes: Any) -> None:
        self.server, self.sites, self.said = AutoClassificationServer(settings(**changes)), sites, list[str]()
        self.history: list[dict[str, Any]] = []

    def before(self, number: int, correcting: Collection[str] = ()) -> list[tuple[str, list[str] | None]]:
        """Begin a round after one in which some sites corrected; return what was asked in it."""
        reports = {site: {"num_samples": 9, CORRECTS_LABELS: site in correcting} for site in self.sites.levels}
        self.history.append({"round": number - 1, "sites": reports})
        self.sites.asked.clear()
        counts = dict.fromkeys(self.sites.levels, 9)
        self.server.before_round(
            round_of(number, history=self.history, num_samples=counts, ask=self.sites, said=self.said)
        )
        return list(self.sites.asked)

    def described(self) -> dict[str, Any]:
        return self.server.describe(round_of(10))


def test_the_warm_up_asks_nothing_and_the_estimate_follows_it() -> None:
    run = Run(Sites(a=0.4, b=0.0))
    assert run.before(2) == []
    assert run.before(3) == [(ESTIMATE_CONFUSION, None), (CORRECT_LABELS, ["a"])]
    assert run.before(4, ["a"]) == []


@pytest.mark.parametrize(
    ("rounds", "warmup", "share", "expected"),
    [(20, 9, 0.5, (10, 16)), (10, 2, 0.5, (3, 7)), (10, 2, None, (3,)), (3, 2, 0.5, (3,))],
)
def test_rounds_with_an_estimate(rounds: int, warmup: int, share: float | None, expected: tuple[int, ...]) -> None:
    assert settings(rounds=rounds, warmup_rounds=warmup, second_estimate=share).estimate_rounds == expected


def test_right_labels_lead_to_no_further_task_and_no_message() -> None:
    run = Run(Sites(a=0.03, b=0.04))
    assert run.before(3) == [(ESTIMATE_CONFUSION, None)]
    assert run.server.stage(round_of(3)) == "federated averaging"
    assert run.server.message(round_of(3)) == {}
    assert run.server.weights(round_of(3)) is None


def test_a_level_that_falls_does_not_end_a_correction() -> None:
    """From 0.49 to 0.12 ± 0.13: not significant, and no contradiction."""
    sites = Sites(a=0.49, b=0.0)
    run = Run(sites)
    run.before(3)
    sites.levels, sites.half = {"a": 0.12, "b": 0.0}, 0.13
    assert run.before(7, ["a"]) == [(ESTIMATE_CONFUSION, None), (CORRECT_LABELS, ["a"])]
    assert run.described()["corrected_from_round"] == {"a": 3}
    found = run.described()["noise_levels"][1]["sites"]["a"]
    assert (found["status"], found["follows"], found["estimate"]) == ("confirmed", "both", 0.12)
    assert [one["code"] for one in found["evidence"]] == ["thresholds", "earlier_agrees"]
    again = Run(sites)
    again.server.restore(run.server.state(), [])
    assert again.described() == run.described()


def test_the_second_estimate_ends_what_is_contradicted_and_begins_what_is_confirmed() -> None:
    sites = Sites(a=0.4, b=0.0, c=0.3)
    run = Run(sites)
    run.before(3)
    sites.levels = {"a": 0.41, "b": 0.3, "c": 0.01}
    assert run.before(7, ["a", "c"]) == [
        (ESTIMATE_CONFUSION, None), (CORRECT_LABELS, ["a", "b"]), (USE_GIVEN_LABELS, ["c"])
    ]  # fmt: skip
    assert run.described()["corrected_from_round"] == {"a": 3, "b": 7}
    assert any("noise level of c moved by more than its interval" in text for text in run.said)


def test_a_site_that_does_not_answer_is_asked_again_and_so_is_one_that_lost_what_it_corrects() -> None:
    sites = Sites(a=0.4, b=0.3)
    sites.deaf = {"a"}
    run = Run(sites)
    run.before(3)
    sites.deaf = set()
    assert run.before(4, ["b"]) == [(CORRECT_LABELS, ["a"])]
    assert run.before(5, ["a"]) == [(CORRECT_LABELS, ["b"])]
    assert any("b no longer has what it corrects" in text for text in run.said)


def test_treatment_none_estimates_and_tells_nobody() -> None:
    run = Run(Sites(a=0.4), treatment="none")
    assert run.before(3) == [(ESTIMATE_CONFUSION, None)]
    assert run.described()["noise_levels"][0]["sites"]["a"]["follows"] == "none"


def test_a_restart_gives_the_same_summary_and_the_same_questions() -> None:
    sites = Sites(a=0.4, b=0.3)
    sites.deaf = {"a"}
    run = Run(sites)
    run.before(3)
    again = Run(sites)
    again.server.restore(run.server.state(), [])
    assert again.described() == run.described()
    sites.deaf = set()
    assert again.before(4, ["b"]) == [(CORRECT_LABELS, ["a"])]


def test_the_summary_has_status_evidence_and_what_follows() -> None:
    run = Run(Sites(a=0.4, b=0.0))
    run.before(3)
    (estimate,) = run.described()["noise_levels"]
    assert (estimate["before_round"], estimate["threshold"]) == (3, 0.05)
    assert estimate["right_labels"]["code"] == "right_labels_zero"
    a, b = estimate["sites"]["a"], estimate["sites"]["b"]
    assert (a["estimate"], a["low"], a["high"], a["status"]) == (0.4, 0.37, 0.43, "confirmed")
    assert (a["effect"], a["follows"]) == (0.4, "both")
    assert a["evidence"][0]["numbers"] == {"level": 0.05, "minimum_effect": 0.05}
    assert (b["status"], b["follows"]) == ("not_significant", "given")


class ScoringSites(Sites):
    """Sites that also score models; the one that comes last is better by a gain on held-out patients everywhere."""

    def __init__(self, gain: float, **levels: float) -> None:
        super().__init__(**levels)
        self.gain = gain

    def __call__(
        self, task: str, sites: Collection[str] | None = None, params: Any = None
    ) -> dict[str, dict[str, Any]]:
        if task not in (KEEP_SCORES, COMPARE_SCORES):
            return super().__call__(task, sites)
        assert (sites, params) == (None, None)
        self.asked.append((task, None))
        if task == KEEP_SCORES:
            return {site: {"has_scored": True} for site in self.levels}
        held_out = Estimate(9, self.gain, self.gain - 0.01, self.gain + 0.01)
        unknown = sent(REVIEWED_GAIN, [Estimate.unknown()], calibrated=False)
        return {site: unknown | sent(HELD_OUT_GAIN, [held_out], calibrated=False) for site in self.levels}


def checked(gain: float, rounds: int = 6, **changes: Any) -> tuple[Run, dict[int, list[str]]]:
    """Rounds from the first estimate on, and the tasks of each."""
    sites = ScoringSites(gain, a=0.4, b=0.0, c=0.01)
    run, tasks = Run(sites, **changes), {}
    for number in range(3, 3 + rounds):
        asked = run.before(number, set(run.server.state()["corrected"]))
        this_round = round_of(number, ask=sites, said=run.said, num_samples=dict.fromkeys(sites.levels, 9))
        assert run.server.second_average_without(this_round) is None
        run.server.after_training(this_round)
        tasks[number] = [task for task, _ in (asked + sites.asked[len(asked) :])]
    return run, tasks


def test_a_model_that_gets_worse_by_the_correction_takes_it_back_for_good() -> None:
    """Sites b and c are not noisy, so their held-out labels count. After three rounds site a uses its given labels."""
    run, tasks = checked(-0.05)
    assert tasks == {
        3: [ESTIMATE_CONFUSION, CORRECT_LABELS, KEEP_SCORES, COMPARE_SCORES],
        4: [COMPARE_SCORES],
        5: [COMPARE_SCORES],
        6: [USE_GIVEN_LABELS],
        7: [],  # there is no second estimate
        8: [],
    }
    found = run.described()
    assert (found["rollback"]["has_vetoed"], found["rollback"]["score"]) == (True, "balanced_accuracy")
    assert found["rollback"]["rounds"][0]["sites"] == 2
    assert found["corrected_from_round"] == {}
    assert run.server.stage(round_of(8)) == "federated averaging"
    assert "balanced accuracy of 18 patients differs by +5.0 points" in rollback_in_words(
        RollbackRecord.model_validate(found["rollback"])
    )


def test_a_model_that_does_not_get_worse_keeps_what_it_corrects() -> None:
    run, tasks = checked(-0.005)
    assert tasks[6] == []
    assert tasks[7] == [ESTIMATE_CONFUSION, CORRECT_LABELS]
    assert not run.described()["rollback"]["has_vetoed"]
    assert run.described()["corrected_from_round"] == {"a": 3}


def test_a_veto_survives_a_restart_and_a_state_without_a_check_is_read() -> None:
    run, _ = checked(-0.05, rounds=3)
    again = Run(run.sites)
    again.server.restore(json.loads(json.dumps(run.server.state())), [])
    assert again.described() == run.described()
    assert again.before(6, ["a"]) == [(USE_GIVEN_LABELS, ["a"])]
    earlier = {key: value for key, value in run.server.state().items() if key not in ("rollback", "has_taken_back")}
    again = Run(run.sites)
    again.server.restore(earlier, [])
    assert again.before(6, ["a"]) == []
    assert again.described()["rollback"] is None


def test_without_rounds_to_check_no_scores_are_asked_for() -> None:
    _, tasks = checked(-0.05, rollback_rounds=0)
    assert not {task for of_round in tasks.values() for task in of_round} & {KEEP_SCORES, COMPARE_SCORES}


def test_a_site_that_lost_its_correction_after_a_veto_does_not_get_it_again() -> None:
    run, _ = checked(-0.05, rounds=3)
    run.sites.deaf = {"a"}
    assert run.before(6) == [(USE_GIVEN_LABELS, ["a"])]
    assert run.before(7) == [(USE_GIVEN_LABELS, ["a"])]
