"""Sites that work at the same time in one process: the same bits as in turn, in their order, and stopped together."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from nvflare.apis.shareable import Shareable
from support.whole_runs import assert_same_model

from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.participants import SiteParticipant
from fedannot.apps.runs.progress import Reported
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.run.state import STATE_FILE
from fedannot.custom.training import loop

SMALL_UNET = {"_target_": "UNet", "channels": [4, 8], "strides": [2]}


@pytest.fixture
def at_work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sites were at work whenever one began a task."""
    counts: list[int] = []
    working: set[str] = set()
    lock = threading.Lock()
    do_task = SiteParticipant.do_task

    def counted(self: SiteParticipant, *arguments: Any) -> Shareable:
        with lock:
            working.add(self.name)
            counts.append(len(working))
        try:
            return do_task(self, *arguments)
        finally:
            with lock:
                working.discard(self.name)

    monkeypatch.setattr(SiteParticipant, "do_task", counted)
    return counts


@pytest.mark.parametrize("job", ["fedaaai", "auto"])
def test_bits_and_order_are_those_of_turns(
    job: str, small_job: Callable[..., Path], tmp_path: Path, at_work: list[int]
) -> None:
    folder = small_job(job, rounds=2, warmup_rounds=1, embedded__images_per_site=2)
    in_turn = simulate(folder, tmp_path / "in turn", sites_at_once=1)
    assert max(at_work) == 1
    together = simulate(folder, tmp_path / "together", data=tmp_path / "in turn" / "data", sites_at_once=3)
    assert 2 <= max(at_work) <= 3
    assert_same_model(tmp_path / "in turn", tmp_path / "together")
    assert list(in_turn.sites) == list(together.sites)


def test_sites_that_have_messages_of_their_own_work_at_the_same_time(
    small_job: Callable[..., Path], tmp_path: Path, at_work: list[int]
) -> None:
    scaffold = {"drift_correction": "scaffold", "training__optimizer": "sgd", "training__momentum": 0.0}
    folder = small_job("fedavg", rounds=3, embedded__sites=2, embedded__images_per_site=2, **scaffold)
    steps: list[str] = []
    progress = Reported(lambda step: steps.append(step.text))
    simulate(folder, tmp_path / "in turn", sites_at_once=1, progress=progress)
    assert max(at_work) == 1
    assert {"Round 2/3: site-1, 1 of 2 (train)", "Round 3/3: site-2, 2 of 2 (train)"} <= set(steps)
    simulate(folder, tmp_path / "together", data=tmp_path / "in turn" / "data", sites_at_once=2)
    assert max(at_work) == 2
    assert_same_model(tmp_path / "in turn", tmp_path / "together")


def test_dropout_is_of_the_seed_and_lets_sites_take_turns(
    small_job: Callable[..., Path], tmp_path: Path, at_work: list[int]
) -> None:
    folder = small_job("fedavg", rounds=2, embedded__images_per_site=2)
    changes = {"network": SMALL_UNET | {"dropout": 0.5}}
    for number, at_once in enumerate((1, 3)):
        torch.manual_seed(number)
        data = tmp_path / "0" / "data" if number else None
        simulate(folder, tmp_path / str(number), data=data, overrides=changes, sites_at_once=at_once)
    assert max(at_work) == 1
    assert_same_model(tmp_path / "0", tmp_path / "1")


def test_global_numbers_that_only_a_later_turn_takes_end_the_run(
    small_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_epochs, turns = loop.run_epochs, []

    def taking(*arguments: Any, **options: Any) -> Any:
        turns.append(len(turns))
        if turns[-1]:
            torch.rand(1)
        return run_epochs(*arguments, **options)

    monkeypatch.setattr(loop, "run_epochs", taking)
    job, out = small_job("fedavg", rounds=1, embedded__images_per_site=2), tmp_path / "out"
    with pytest.raises(RunError, match=r"global random numbers .* task 'train' .* --sites-at-once 1"):
        simulate(job, out, sites_at_once=2)
    assert not list(out.rglob(STATE_FILE))
    simulate(job, out, sites_at_once=1, resume=True)


def test_an_error_of_one_site_is_its_own(faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    summary = simulate(faulty_job({"site-3": "raises"}, rounds=1), tmp_path / "out", sites_at_once=3)
    assert {refusal.site for refusal in summary.refusals} == {"site-3"}
    assert set(summary.sites) >= {"site-1", "site-2", "site-4"}


def test_an_error_of_the_run_itself_ends_it(
    small_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SiteParticipant, *given: object) -> None:
        raise TypeError("not a site's")

    monkeypatch.setattr(SiteParticipant, "do_task", fail)
    with pytest.raises(RunError, match="TypeError: not a site's"):
        simulate(small_job("fedavg", rounds=1, embedded__sites=2, embedded__images_per_site=2), tmp_path / "out")


def test_an_interruption_stops_all_sites_before_their_next_step(
    small_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    def receive(self: Any, *arguments: object) -> None:
        del self, arguments
        raise Interrupted

    stopped = []
    run_epochs = loop.run_epochs

    def noted(*arguments: Any, **options: Any) -> Any:
        try:
            return run_epochs(*arguments, **options)
        except loop.TrainingStopped:
            stopped.append(threading.current_thread().name)
            raise

    monkeypatch.setattr(loop, "run_epochs", noted)
    monkeypatch.setattr("fedannot.apps.runs.in_process.InProcessCommunicator._receive_first", receive)
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        simulate(small_job("fedavg", training__local_epochs=60, embedded__images_per_site=2), out, sites_at_once=2)
    assert stopped
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("site")]
    assert not list(out.rglob(STATE_FILE))
