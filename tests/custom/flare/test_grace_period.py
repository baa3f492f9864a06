"""When a round stops waiting for the last sites."""

from types import SimpleNamespace

import pytest
import torch

from fedannot.custom.flare import asking_controller, grace_period
from fedannot.custom.flare.federated_averaging import FedAvgController
from fedannot.custom.flare.grace_period import GracePeriod
from fedannot.custom.run.state import RunState


class Clock:
    """Time that goes on only when somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(grace_period, "time", made)
    monkeypatch.setattr(asking_controller, "time", made)
    return made


def test_it_begins_with_the_kth_usable_answer(clock):
    grace = GracePeriod(2, 10)
    grace.count_usable_answer()
    clock.sleep(100)
    assert not grace.is_over, "one answer is not enough"
    grace.count_usable_answer()
    clock.sleep(6)
    grace.count_usable_answer()
    assert not grace.is_over
    clock.sleep(4)
    assert grace.is_over, "a third answer does not begin it anew"


def test_without_one_the_round_waits_for_all(clock):
    grace = GracePeriod(1, None)
    grace.count_usable_answer()
    clock.sleep(1e6)
    assert not grace.is_over


def test_none_at_all_closes_at_once(clock):
    grace = GracePeriod(1, 0)
    assert not grace.is_over
    grace.count_usable_answer()
    assert grace.is_over


def ask(clock, answers, **settings):
    """Ask three sites that answer at the given seconds, usable or not; return the refused and how long it took."""
    made = FedAvgController({"method": "fedavg", "rounds": 3, "task_timeout": 500, **settings})
    made.abort_signal, made._task_check_period = SimpleNamespace(triggered=False), 0.5
    made.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=f"site-{number}") for number in (1, 2, 3)])
    made.state = RunState("fedavg", {}, 0, {"w": torch.zeros(1)})
    made.warning = lambda *_: None
    left = dict(answers)
    task = {}

    def broadcast(model, timeout, callback, **_):
        task.update(deadline=clock.now + timeout, callback=callback, cancelled=False)

    def standing():
        for site, (when, _) in sorted(left.items(), key=lambda entry: entry[1][0]):
            if when <= clock.now and not task["cancelled"]:
                del left[site]
                task["callback"](SimpleNamespace(meta={"client_name": site}, usable=answers[site][1]))
        return int(bool(left) and not task["cancelled"] and clock.now < task["deadline"])

    made.broadcast_model, made.get_num_standing_tasks = broadcast, standing
    made.cancel_all_tasks = lambda: task.update(cancelled=True)
    made.give_task("train", 1, lambda result: result.usable)
    return made.refused, clock.now


def test_the_controller_closes_a_round_after_k_usable_answers_and_the_grace_period(clock):
    answers = {"site-1": (10, True), "site-2": (20, True), "site-3": (1000, True)}
    refused, took = ask(clock, answers, min_sites=2, grace_period=30)
    assert took == pytest.approx(50, abs=1)
    assert refused == {"site-3": "no answer to 'train' within 30 s after enough others had answered"}


def test_an_answer_that_cannot_be_used_does_not_count(clock):
    answers = {"site-1": (10, True), "site-2": (20, False), "site-3": (100, True)}
    refused, took = ask(clock, answers, min_sites=2, grace_period=30)
    assert took == pytest.approx(100, abs=1)
    assert refused == {}


def test_nobody_waits_for_the_grace_period_when_all_have_answered(clock):
    answers = {"site-1": (10, True), "site-2": (20, True), "site-3": (25, True)}
    refused, took = ask(clock, answers, min_sites=1, grace_period=300)
    assert (refused, took) == ({}, pytest.approx(25, abs=1))


def test_without_a_grace_period_the_tasks_time_bounds_the_wait(clock):
    answers = {"site-1": (10, True), "site-2": (20, True), "site-3": (1000, True)}
    refused, took = ask(clock, answers, min_sites=2)
    assert took == pytest.approx(500, abs=1)
    assert refused == {"site-3": "no answer to 'train' within 500 s"}
