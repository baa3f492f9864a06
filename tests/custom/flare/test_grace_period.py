"""When a round stops waiting for the last sites."""

import pytest

from fedannot.custom.flare import task_delivery
from fedannot.custom.flare.task_delivery import GracePeriod


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
    monkeypatch.setattr(task_delivery, "time", made)
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
    assert grace.is_over, "a third answer does not begin it again"


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
