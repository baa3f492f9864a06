"""How far a run is: the numbers by hand, with a clock of its own."""

import threading

import pytest
from plain_records import record

from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.records.round_records import RoundRecord
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.run_progress import Failure, Phase, ProgressTracker, RunProgress


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def of_round(number: int, seconds: float, dice: float | None) -> RoundRecord:
    return record(number, stage=f"stage {number}", seconds=seconds, dice=dice)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept() -> list[RunProgress]:
    return []


@pytest.fixture
def tracker(clock: Clock, kept: list[RunProgress]) -> ProgressTracker:
    settings = FedAvgSettings.model_validate({"rounds": 12, "min_sites": 2, "grace_period": 60, "task_timeout": 900})
    made = ProgressTracker(settings, clock)
    made.keep = kept.append
    return made


def test_before_the_first_round(tracker: ProgressTracker) -> None:
    progress = tracker.current
    assert (progress.phase, progress.rounds, progress.round_number) == (Phase.STARTING, 12, 0)
    assert (progress.min_sites, progress.grace_period, progress.task_timeout) == (2, 60, 900)
    assert (progress.score, progress.score_label, progress.round_seconds, progress.seconds_left) == (
        None,
        "Dice",
        None,
        None,
    )
    assert progress.missing == ()


def test_who_has_answered_and_who_is_missing(tracker: ProgressTracker, clock: Clock) -> None:
    tracker.begin_round(1, [])
    clock.now = 1010.0
    tracker.ask("train", ["a", "b", "c", "d"])
    tracker.answer("b")
    tracker.answer("b")
    tracker.refuse("c", RefusalReason.of(RefusalCode.TASK_FAILED))
    tracker.refuse("c", RefusalReason.of(RefusalCode.NO_MODEL))
    clock.now = 1022.0
    progress = tracker.current
    assert progress.phase is Phase.WAITING
    assert progress.request is not None
    assert (progress.request.since, progress.written) == (1010.0, 1022.0)
    assert progress.request.answered == ("b",)
    assert progress.refused == {"c": RefusalReason(code=RefusalCode.TASK_FAILED)}
    assert progress.missing == ("a", "d")
    tracker.compute()
    assert tracker.current.missing == ()
    tracker.begin_round(2, [])
    assert tracker.current.refused == {}


def test_score_and_time_left_follow_from_the_rounds(tracker: ProgressTracker) -> None:
    """The median of 40, 10, 12, 11 and 14 s is 12 s, and seven rounds are left; round 5 has no score."""
    history = [of_round(number, seconds, dice) for number, seconds, dice in ((1, 40, 0.1), (2, 10, 0.2), (3, 12, 0.3))]
    history += [of_round(4, 11, 0.4), of_round(5, 14, None)]
    tracker.begin_round(2, history[:1], ["e"])
    assert (tracker.current.round_seconds, tracker.current.seconds_left) == (40, 11 * 40)
    tracker.finish_round(history)
    progress = tracker.current
    assert (progress.finished_rounds, progress.stage, progress.score) == (5, "stage 5", 0.4)
    assert (progress.round_seconds, progress.seconds_left) == (12, 84)
    assert progress.absent == ("e",)


def test_what_is_kept_are_steps_and_not_each_answer(tracker: ProgressTracker, kept: list[RunProgress]) -> None:
    tracker.begin_round(1, [])
    tracker.ask("train", ["a", "b"])
    for site in ("a", "b"):
        tracker.answer(site)
    tracker.finish_round([of_round(1, 3, 0.5)])
    tracker.end(Phase.FAILED, Failure.DATA)
    assert [item.phase for item in kept] == [Phase.COMPUTING, Phase.WAITING, Phase.WAITING, Phase.FAILED]
    assert (kept[-1].failure, kept[-1].finished_rounds, kept[-1].score) == (Failure.DATA, 1, 0.5)


def test_answers_from_many_threads_are_all_there(tracker: ProgressTracker) -> None:
    sites = [f"site-{number}" for number in range(40)]
    tracker.ask("train", sites)
    threads = [threading.Thread(target=tracker.answer, args=(site,)) for site in sites]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert tracker.current.request is not None
    assert sorted(tracker.current.request.answered) == sorted(sites)


def test_it_comes_back_from_json_as_it_was(tracker: ProgressTracker) -> None:
    tracker.ask("train", ["a"])
    tracker.refuse("a", RefusalReason.of(RefusalCode.NO_ANSWER, task="train", seconds=30))
    progress = tracker.current
    assert RunProgress.model_validate_json(progress.model_dump_json()) == progress


def test_progress_of_an_earlier_version_has_texts(tracker: ProgressTracker) -> None:
    texts = {"a": "its task failed; see the site's log", "b": "no answer to 'train' within 30 s"}
    values = tracker.current.model_dump(mode="json") | {"version": 1, "refused": texts}
    assert RunProgress.model_validate(values).refused == {
        "a": RefusalReason.of(RefusalCode.TASK_FAILED),
        "b": RefusalReason.of(RefusalCode.TEXT, text="no answer to 'train' within 30 s"),
    }
