"""FedCorr at the server: who is noisy after each round, who trains in which stage, and a restart."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.custom.methods.fedcorr.server import SHARE_OF_NOISE, TRAINED_ROUND, FedCorrServer
from fedannot.custom.methods.fedcorr.settings import FedCorrClassificationSettings, FedCorrSettings
from fedannot.custom.settings import RunSettings
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, ESTIMATE_NOISE_SHARE, ESTIMATE_SITE_NOISE

SITES = ("a", "b", "c", "d")
STATISTICS = {"a": 1.0, "b": 1.2, "c": 3.0, "d": float("nan")}
SHARES = {"c": 0.4}


class Federation:
    """Sites that answer, and what they were asked."""

    def __init__(self, **settings: Any) -> None:
        values = {"rounds": 20, "preprocessing_rounds": 2, "finetuning_rounds": 3} | settings
        self.server = FedCorrServer(FedCorrClassificationSettings.model_validate(values))
        self.asked: list[tuple[int, str, list[str]]] = []
        self.said: list[str] = []
        self.statistics: dict[str, float | None] = dict(STATISTICS)
        self.silent: set[str] = set()
        self.number = 0

    def ask(
        self, task: str, sites: Collection[str] | None = None, own_messages: Mapping[str, Any] | None = None
    ) -> dict[str, dict[str, Any]]:
        assert sites
        self.asked.append((self.number, task, sorted(sites)))
        if task == CORRECT_ANNOTATIONS:
            return {site: {"has_corrected": True} for site in sites}
        assert own_messages is not None
        assert all(own_messages[site] == {TRAINED_ROUND: self.number - 1} for site in sites)
        if task == ESTIMATE_SITE_NOISE:
            return {site: {"local_dimensionality": self.statistics[site]} for site in sites}
        assert task == ESTIMATE_NOISE_SHARE
        return {site: {"noise_share": SHARES.get(site, 0.05)} for site in sites if site not in self.silent}

    def until(self, last: int) -> list[str]:
        """Play rounds; returns who trains in the last one."""
        chosen: list[str] = []
        for number in range(self.number + 1, last + 1):
            self.number = number
            this_round = round_of(number, ask=self.ask, said=self.said)
            self.server.before_round(this_round)
            chosen = list(self.server.sites_to_train(this_round, SITES))
            self.server.after_training(round_of(number, reports=self.reports(chosen), said=self.said))
        return chosen

    def reports(self, sites: Collection[str]) -> dict[str, dict[str, Any]]:
        return {site: {"num_samples": 9, "has_corrected": site == "c"} for site in sites}


def test_the_stages_and_who_is_asked_in_them() -> None:
    run = Federation()
    assert [run.until(number) for number in range(1, 8)] == [[*SITES]] * 2 + [["a", "b", "d"]] * 3 + [[*SITES]] * 2
    assert run.asked == [
        (2, ESTIMATE_SITE_NOISE, [*SITES]),
        (2, ESTIMATE_NOISE_SHARE, ["c"]),
        (3, ESTIMATE_SITE_NOISE, [*SITES]),
        (3, ESTIMATE_NOISE_SHARE, ["c"]),
        (6, CORRECT_ANNOTATIONS, ["c"]),
    ]
    stages = [run.server.stage(round_of(number)) for number in (1, 2, 3, 5, 6)]
    assert stages == ["pre-processing"] * 2 + ["fine-tuning"] * 2 + ["usual training"]
    described = run.server.describe(round_of(7))
    assert (described["noisy_sites"], described["noise_shares"]) == (["c"], SHARES)
    assert described["corrected_before_round"] == {"c": 6}


def test_a_site_alone_learns_its_share_and_only_in_the_first_stage() -> None:
    run = Federation()
    run.until(1)
    run.number = 2
    this_round = round_of(2, ask=run.ask)
    run.server.before_round(this_round)
    told = run.server.own_messages(this_round)
    assert told["c"] == {TRAINED_ROUND: 1, SHARE_OF_NOISE: 0.4}
    assert {site: told[site] for site in "abd"} == {site: {TRAINED_ROUND: 1} for site in "abd"}
    assert run.server.message(this_round) == {}
    assert run.server.own_messages(round_of(3)) == {}


def test_statistics_add_up_over_the_rounds() -> None:
    """In the second round a is the largest, over both c is."""
    run = Federation()
    run.until(2)
    run.statistics |= {"a": 3.1, "c": 3.0}
    run.until(3)
    assert run.server.noisy == ("c",)
    assert run.server.describe(round_of(3))["site_statistics"] == {"a": 2.05, "b": 1.2, "c": 3.0}


@pytest.mark.parametrize("answers_once", [True, False])
def test_a_noisy_site_that_says_no_share_is_not_clean(answers_once: bool) -> None:
    run = Federation()
    run.until(2 if answers_once else 1)
    run.silent = {"c"}
    assert run.until(3) == ["a", "b", "d"]
    assert run.server.shares == (SHARES if answers_once else {})


def test_a_statistic_that_hides_other_noisy_sites_is_said() -> None:
    run = Federation()
    run.statistics["d"] = 1e6
    run.until(2)
    assert run.server.noisy == ("d",)
    assert any(text.startswith("{'d': 1000000.0}: more than 10 times the middle statistic, 2.1.") for text in run.said)
    assert not any("more than 10 times" in text for text in played_until(3).said)


def test_another_statistic_than_the_job_names_says_nothing() -> None:
    run = Federation(statistic="loss")
    assert run.until(3) == [*SITES]
    assert run.server.describe(round_of(3))["site_statistics"] == {}


def played_until(last: int) -> Federation:
    run = Federation()
    run.until(last)
    return run


def test_at_least_two_sites_train_those_with_the_smallest_shares() -> None:
    run = Federation(clean_share=0.0)
    run.until(2)
    run.server.shares = {"a": 0.5, "b": 0.2, "c": 0.4, "d": 0.3}
    assert run.server.sites_to_train(round_of(3), SITES) == ("b", "d")
    many = Federation(clean_share=0.0, min_sites=3)
    many.server.shares = run.server.shares
    assert many.server.sites_to_train(round_of(3), SITES) == ("b", "c", "d")


def test_without_corrections_and_a_second_stage_labels_stay() -> None:
    run = Federation(correction=False, finetuning_rounds=0)
    assert run.until(5) == [*SITES]
    assert {task for _, task, _ in run.asked} == {ESTIMATE_SITE_NOISE, ESTIMATE_NOISE_SHARE}
    assert run.server.describe(round_of(5))["corrected_before_round"] == {}


@pytest.mark.parametrize("statistic", [None, float("nan")])
def test_without_statistics_nobody_is_noisy(statistic: float | None) -> None:
    run = Federation()
    run.statistics = dict.fromkeys(SITES, statistic)
    assert run.until(4) == [*SITES]
    assert run.server.noisy == ()
    assert any("No site is noisier" in text for text in run.said)


def test_lost_corrections_are_said() -> None:
    run = Federation()
    run.until(5)
    run.number = 6
    this_round = round_of(6, ask=run.ask, said=run.said)
    run.server.before_round(this_round)
    run.server.after_training(round_of(6, reports={"c": {"num_samples": 9, "has_corrected": False}}, said=run.said))
    assert run.said[-1].startswith("c no longer has its corrections")


def test_a_restart_goes_on_as_before() -> None:
    run, again = Federation(), Federation()
    run.until(2)
    again.server.restore(run.server.state(), [])
    again.number = 2
    assert again.until(7) == run.until(7)
    assert again.server.state() == run.server.state()
    assert again.asked == run.asked[2:]


@pytest.mark.parametrize("kind", [FedCorrSettings, FedCorrClassificationSettings])
def test_the_last_stage_has_a_round(kind: type[RunSettings]) -> None:
    told = "must be below rounds, but got preprocessing_rounds=4, finetuning_rounds=6, rounds=10"
    with pytest.raises(ValueError, match=told):
        kind.model_validate({"rounds": 10, "preprocessing_rounds": 4, "finetuning_rounds": 6})
