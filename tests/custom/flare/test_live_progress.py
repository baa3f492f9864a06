"""The progress of a run on its way out: in NVFlare's statistics, in a file of the job's folder, and in its archive."""

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.fl_context import FLContext
from nvflare.widgets.info_collector import GroupInfoCollector, InfoCollector

from fedannot.custom.flare.controller import FederatedController
from fedannot.custom.flare.live_progress import PROGRESS_GROUP, failure_of, keep_progress, kept_progress
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.run.run_progress import PROGRESS_FILE, Failure, Phase, ProgressTracker, RunProgress
from fedannot.custom.run.state import ResumeError, RunFailedError
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

JOB_ID = "0123abcd-0123-4567-89ab-0123456789ab"


@pytest.fixture
def progress() -> RunProgress:
    tracker = ProgressTracker(FedAvgSettings.model_validate({"rounds": 3}))
    tracker.ask("train", ["site-1"])
    return tracker.current


def context_of(job_id: str, folder: Path) -> Any:
    workspace = SimpleNamespace(get_run_dir=lambda job: str(folder / job))
    engine = SimpleNamespace(get_workspace=lambda: workspace)
    return SimpleNamespace(get_job_id=lambda: job_id, get_engine=lambda: engine)


def test_who_may_look_gets_it_with_nvflares_statistics() -> None:
    controller = FederatedController({"method": "fedavg", "rounds": 7})
    controller.course.progress.begin_round(3, [])
    context, collector = FLContext(), GroupInfoCollector()
    context.set_prop(InfoCollector.CTX_KEY_STATS_COLLECTOR, collector, sticky=False, private=True)
    controller.handle_event(InfoCollector.EVENT_TYPE_GET_STATS, context)
    progress = RunProgress.model_validate(collector.info[PROGRESS_GROUP])
    assert (progress.method, progress.rounds, progress.round_number) == ("fedavg", 7, 3)


def test_it_is_kept_in_the_folder_of_a_submitted_job_alone(progress: RunProgress, tmp_path: Path) -> None:
    for job_id in (JOB_ID, "simulate_job"):
        (tmp_path / job_id).mkdir()
        assert keep_progress(progress, context_of(job_id, tmp_path)) is None
    assert not any((tmp_path / "simulate_job").iterdir())
    assert kept_progress(tmp_path / JOB_ID, tmp_path / "none") == progress


def test_what_cannot_be_written_ends_no_run(progress: RunProgress, tmp_path: Path) -> None:
    problem = keep_progress(progress, context_of(JOB_ID, tmp_path / "absent"))
    assert problem is not None
    assert problem.startswith("The progress cannot be written: ")


def test_after_the_job_it_is_read_from_the_archive(progress: RunProgress, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "workspace", "w") as archive:
        archive.writestr(PROGRESS_FILE, progress.model_dump_json())
    assert kept_progress(tmp_path / "gone", tmp_path / "workspace") == progress


@pytest.mark.parametrize("content", [b"", b"PK", b"{}"])
def test_what_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "workspace").write_bytes(content)
    assert kept_progress(tmp_path / "gone", tmp_path / "workspace") is None
    (tmp_path / PROGRESS_FILE).write_bytes(content)
    assert kept_progress(tmp_path, tmp_path / "workspace") is None


def test_errors_have_kinds_and_their_texts_stay() -> None:
    """A text may name a file of the server's test set."""
    errors = [RunFailedError("a"), ResumeError("b"), DataError("/data/patient-1.nii"), SettingsError("c"), OSError("d")]
    kinds = [Failure.TOO_FEW_RESULTS, Failure.STATE, Failure.DATA, Failure.SETTINGS, Failure.ERROR]
    assert [failure_of(error) for error in errors] == kinds


@pytest.mark.parametrize(
    ("error", "phase", "failure"),
    [(None, Phase.FINISHED, None), (DataError("/data/p.nii"), Phase.FAILED, Failure.DATA)],
)
def test_the_controller_says_how_a_run_ended(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, phase: Phase, failure: Failure | None
) -> None:
    controller = FederatedController({"method": "fedavg", "rounds": 1})
    controller.abort_signal = SimpleNamespace(triggered=False)

    def run(_: Any) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(controller, "_config_folder", lambda: Path("local"))
    monkeypatch.setattr(controller, "_private_folder", lambda: Path("private"))
    controller.fl_ctx = SimpleNamespace(get_job_id=lambda: "simulate_job")
    monkeypatch.setattr("fedannot.custom.flare.controller.set_threads", lambda threads, folder: None)
    monkeypatch.setattr(controller, "_beginning", lambda: None)
    monkeypatch.setattr(controller.course, "run", run)
    monkeypatch.setattr(controller, "panic", lambda _: None)
    controller.run()
    assert (controller.course.progress.current.phase, controller.course.progress.current.failure) == (phase, failure)
    assert "p.nii" not in controller.course.progress.current.model_dump_json()
