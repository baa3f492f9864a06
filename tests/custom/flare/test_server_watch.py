"""The watch in the server's parent process, on an engine of our own."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, SystemComponents
from nvflare.apis.job_def import RunStatus

from fedannot.custom.flare.live_progress import PROGRESS_GROUP
from fedannot.custom.flare.server_watch import ServerWatch, Sign, SignsOfLife
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.run.run_progress import PROGRESS_FILE, ProgressTracker

RAN, DONE = "0123abcd-0123-4567-89ab-0123456789ab", "0123abcd-0123-4567-89ab-0123456789ac"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_silent_site_is_named_once_and_once_when_it_is_back() -> None:
    clock = Clock()
    signs = SignsOfLife(30.0, clock)
    assert signs.look({"a": 95.0, "b": 70.0}) == []
    clock.now = 101.0
    assert signs.look({"a": 95.0, "b": 70.0}) == [Sign("b", 31.0)]
    assert signs.look({"a": 95.0, "b": 70.0}) == []
    clock.now = 125.0
    assert signs.silent(50.0) == ["b"]
    assert signs.silent(60.0) == []
    assert signs.look({"a": 120.0, "b": 124.0}) == [Sign("b", None)]
    assert signs.silent(0.0) == []


def test_a_silent_site_that_nvflare_forgets_stays_silent_and_one_that_leaves_does_not() -> None:
    clock = Clock()
    signs = SignsOfLife(30.0, clock)
    signs.look({"a": 60.0, "b": 99.0})
    clock.now = 700.0
    assert signs.look({}) == []
    assert signs.silent(600.0) == ["a"]
    assert signs.look({"a": 699.0}) == [Sign("a", None)]


class Jobs:
    """NVFlare's job manager, and what is done with it."""

    def __init__(self, **status: RunStatus) -> None:
        self.status = {job.replace("_", "-"): value for job, value in status.items()}
        self.meta: dict[str, dict[str, Any]] = {}

    def get_jobs_by_status(self, wanted: list[RunStatus], _: Any) -> list[Any]:
        return [SimpleNamespace(job_id=job) for job, status in self.status.items() if status in wanted]

    def set_status(self, job_id: str, status: RunStatus, _: Any) -> None:
        self.status[job_id] = status

    def update_meta(self, job_id: str, added: dict[str, Any], _: Any) -> None:
        # What a submitted job says of itself stays.
        assert not set(added) & {"fedannot", "name", "status"}
        self.meta[job_id] = added


def context_of(jobs: Jobs, folder: Path, **data: Any) -> Any:
    components = {SystemComponents.JOB_MANAGER: jobs}
    workspace = SimpleNamespace(get_root_dir=lambda: str(folder))
    engine = SimpleNamespace(get_component=components.get, get_workspace=lambda: workspace)
    properties = {FLContextKey.EVENT_DATA: data}
    return SimpleNamespace(get_engine=lambda: engine, get_prop=lambda key, default=None: properties.get(key, default))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> ServerWatch:
    made = ServerWatch()
    monkeypatch.setattr(made, "log_warning", lambda *args, **kwargs: None)
    return made


def keep(folder: Path, round_number: int) -> None:
    folder.mkdir()
    tracker = ProgressTracker(FedAvgSettings.model_validate({"rounds": 9}))
    tracker.begin_round(round_number, [])
    (folder / PROGRESS_FILE).write_text(tracker.current.model_dump_json(), encoding="utf-8")


def test_jobs_of_a_killed_server_end_when_it_starts_again(watch: ServerWatch, tmp_path: Path) -> None:
    """NVFlare itself leaves RUNNING there for ever."""
    keep(tmp_path / RAN, 4)
    jobs = Jobs(**{RAN: RunStatus.RUNNING, DONE: RunStatus.FINISHED_COMPLETED})
    watch.handle_event(EventType.SYSTEM_BOOTSTRAP, context_of(jobs, tmp_path))
    assert jobs.status == {RAN: RunStatus.ABANDONED, DONE: RunStatus.FINISHED_COMPLETED}
    assert list(jobs.meta) == [RAN]
    assert jobs.meta[RAN][PROGRESS_GROUP]["round_number"] == 4


def test_an_ended_job_says_in_its_meta_how_far_it_was(watch: ServerWatch, tmp_path: Path) -> None:
    keep(tmp_path / DONE, 9)
    jobs = Jobs()
    watch.handle_event(EventType.JOB_COMPLETED, context_of(jobs, tmp_path, job_id=DONE))
    watch.handle_event(EventType.JOB_COMPLETED, context_of(jobs, tmp_path, job_id=RAN))
    watch.handle_event(EventType.JOB_COMPLETED, context_of(jobs, tmp_path, job_id="../elsewhere"))
    assert {job: meta[PROGRESS_GROUP]["round_number"] for job, meta in jobs.meta.items()} == {DONE: 9}


def test_a_finished_job_does_not_wait_for_a_silent_site(watch: ServerWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that still runs, or that ended with an error, is NVFlare's; so is a site that is there."""
    clock = Clock()
    watch._signs.clock = clock
    waiting = {"a": {"runs", "failed", "finished"}, "b": {"finished"}}
    resolved: list[tuple[str, str]] = []
    runner = SimpleNamespace(
        get_client_outcome_jobs=waiting.__getitem__,
        resolve_client_outcome=lambda job, site: resolved.append((job, site)),
    )
    clients = [SimpleNamespace(name="a", last_connect_time=50.0), SimpleNamespace(name="b", last_connect_time=95.0)]
    engine = SimpleNamespace(
        get_clients=lambda: clients,
        job_runner=runner,
        run_processes={"runs": {}},
        exception_run_processes={"failed": {}},
    )
    watch._look(engine)
    assert resolved == []
    clock.now = 111.0
    watch._look(engine)
    assert resolved == [("finished", "a")]
