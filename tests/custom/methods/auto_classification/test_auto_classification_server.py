"""`auto` for classification at the server: when it estimates, whom it tells what, and what it remembers."""

from collections.abc import Collection
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.custom.annotation_bias.estimate import Estimate, sent
from fedannot.custom.methods.auto_classification.outbound import CORRECTS_LABELS, NOISE_LEVEL, SUPPORT
from fedannot.custom.methods.auto_classification.server import AutoClassificationServer
from fedannot.custom.methods.auto_classification.settings import AutoClassificationSettings
from fedannot.custom.task_names import CORRECT_LABELS, ESTIMATE_CONFUSION, USE_GIVEN_LABELS

NETWORK = {"in_channels": 1, "num_classes": 3}


def settings(**changes: Any) -> AutoClassificationSettings:
    return AutoClassificationSettings.model_validate({"rounds": 10, "warmup_rounds": 2, "network": NETWORK} | changes)


class Sites:
    """Answer with noise levels, and do what they are reported unless they are deaf."""

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
