"""The executor: tasks by their own names, what goes wrong as a short reason, and what filters find afterwards."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants
from support.corrected_runs import made_corrections

from fedannot.custom.compatibility import DataMismatchError
from fedannot.custom.corrections.kinds import LesionsAdded
from fedannot.custom.corrections.model import CaseCorrection, NewMask
from fedannot.custom.data.location import DATA_VARIABLE, DataLocation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.data.store_location import CACHE_VARIABLE
from fedannot.custom.flare.at_hand import registry_at_hand, task_at_hand
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.flare.messages import (
    ERROR_HEADER,
    FIELDS_WITHOUT_MODEL,
    METHOD_TASK,
    RECEIVED_MODEL,
    REFUSAL_HEADER,
    SAMPLE_VALUES,
    TASK,
)
from fedannot.custom.flare.outbound_filter import OutboundFilter, check_reply
from fedannot.custom.flare.public_errors import SIMULATED_JOB
from fedannot.custom.flare.swarm_executor import SwarmExecutor
from fedannot.custom.flare.task_process import SiteContext, TaskProcessError, TaskStopped
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.refusals import RefusalCode
from fedannot.custom.run.round_loop import CONTINUED_JOB, CONTINUED_ROUND
from fedannot.custom.run.site_tasks import Note, UnknownTaskError
from fedannot.custom.run.threads import THREADS_VARIABLE
from fedannot.custom.settings import SettingsError
from fedannot.custom.task_names import ESTIMATE_QUALITY
from fedannot.custom.training.loop import TrainingStopped
from fedannot.transforms.errors import DataError

SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "rounds": 1,
    "network": {"in_channels": 1, "num_classes": 1, "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4]},
    "training": {"learning_rate": 0.01, "batch_size": 2, "local_epochs": 1},
}
QUALITY = SETTINGS | {"method": "feda3i", "rounds": 3, "warmup_rounds": 1}


def params_of(executor: FederatedExecutor) -> dict[str, torch.Tensor]:
    return dict(described_network(executor.settings.network).state_dict())


def context(folder: Path, task: str, job: str = "job") -> FLContext:
    for needed in ("startup", "local"):
        (folder / needed).mkdir(exist_ok=True)
    made: FLContext = SiteContext("site-1", job, str(folder)).context()
    made.set_prop(FLContextKey.TASK_NAME, task, private=True, sticky=False)
    return made


def ask(
    executor: FederatedExecutor,
    folder: Path,
    task: str,
    meta: Mapping[str, Any] | None = None,
    params: Mapping[str, torch.Tensor] | None = None,
    job: str = "job",
) -> tuple[Shareable, FLContext]:
    """The reply, and the context that filters of it find."""
    data = params_of(executor) if params is None else dict(params)
    shareable = DXO(DataKind.WEIGHTS, data=data, meta=dict(meta or {})).to_shareable()
    shareable.set_header(AppConstants.CURRENT_ROUND, 1)
    fl_ctx = context(folder, task, job)
    return executor.execute(task, shareable, fl_ctx, Signal()), fl_ctx


@pytest.fixture
def phantom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The site's data, and threads as before afterwards."""
    before = torch.get_num_threads()
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, seed=0, images_per_site=3, test_images=1)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("phantom")
def test_a_training_is_answered_with_a_model_of_its_round_that_may_leave(tmp_path: Path) -> None:
    reply, _ = ask(FederatedExecutor(SETTINGS), tmp_path, "train")
    result = from_shareable(reply)
    assert (reply.get_return_code(), result.data_kind) == (ReturnCode.OK, DataKind.WEIGHTS)
    assert reply.get_header(AppConstants.CURRENT_ROUND) == 1
    assert result.meta["num_samples"] == 3
    assert result.meta["embedded_data"] is False
    OutboundRegistry().check("train", result.meta | {"params": result.data})


FULL_BATCH = {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 0.5, "batch_size": 1024, "local_epochs": 1}


def gradient(executor: FederatedExecutor, folder: Path) -> dict[str, torch.Tensor]:
    """The mean gradient of the site's images, by hand."""
    data = load_site_data(folder / "data" / "site-1", folder / "by_hand", section="training", site="site-1")
    network = described_network(executor.settings.network).train()
    loss = torch.nn.functional.cross_entropy(network(data.images), data.labels.long())
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.usefixtures("phantom")
def test_one_full_step_is_the_sites_gradient_and_does_not_leave_a_kit_with_few_samples(tmp_path: Path) -> None:
    """The attack that the minimum is against; a simulation has none."""
    executor = FederatedExecutor(SETTINGS | {"training": FULL_BATCH})
    received = params_of(executor)
    reply, _ = ask(executor, tmp_path, "train", params=received)
    sent = from_shareable(reply).data
    for name, expected in gradient(executor, tmp_path).items():
        torch.testing.assert_close((received[name] - sent[name]) / 0.5, expected, atol=1e-5, rtol=1e-3)
    (tmp_path / "local" / "limits.json").write_text("{}")
    reply, _ = ask(FederatedExecutor(SETTINGS | {"training": FULL_BATCH}), tmp_path, "train", params=received)
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.TOO_FEW_SAMPLES
    assert set(reply) == {ReservedHeaderKey.HEADERS}, "nothing but the reason"
    check_reply(reply, "train", OutboundRegistry())


@pytest.mark.usefixtures("phantom")
@pytest.mark.parametrize(
    ("file", "content", "refused"),
    [
        # Three images of three patients. Of a kit that was prepared before there was a minimum, or lost its limits:
        ("limits.json", {"largest": {"rounds": 5}}, True),
        ("approved_jobs.json", {}, True),
        ("limits.json", {"smallest": {"samples_per_step": 3}}, False),
        ("limits.json", {"smallest": {"samples_per_step": 1, "patients": 4}}, True),
        ("limits.json", {"smallest": {"samples_per_step": 1, "patients": 3}}, False),
    ],
)
def test_a_site_decides_of_how_few_samples_an_update_may_be(
    tmp_path: Path, file: str, content: dict[str, Any], refused: bool
) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / file).write_text(json.dumps(content))
    reply, _ = ask(FederatedExecutor(SETTINGS | {"training": FULL_BATCH}), tmp_path, "train")
    assert reply.get_header(REFUSAL_HEADER) == (RefusalCode.TOO_FEW_SAMPLES if refused else None)


@pytest.mark.usefixtures("phantom")
def test_limits_that_cannot_be_read_let_no_update_leave(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "limits.json").write_text('{"smallest": {"patient": 1}}')
    reply, _ = ask(FederatedExecutor(SETTINGS), tmp_path, "train")
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.NO_USABLE_DATA


@pytest.mark.usefixtures("phantom")
def test_prepared_images_lie_in_the_sites_own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE)
    site = tmp_path / "kit"
    (site / "local").mkdir(parents=True)
    (site / "local" / "cache.json").write_text("{}")
    reply, _ = ask(FederatedExecutor(SETTINGS), site, "train")
    assert reply.get_return_code() == ReturnCode.OK
    assert len(list((site / "cache" / "packs").iterdir())) == 1
    assert not [path for path in (site / "job").rglob("*") if path.is_file()]


@pytest.mark.usefixtures("phantom")
def test_filters_find_what_an_answer_holds_whatever_training_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {"num_samples": 3, "num_excluded": 0, "embedded_data": False, "num_threads": 1}
    monkeypatch.setattr("fedannot.custom.methods.fedavg.site.train", raising(FloatingPointError("not finite")))
    reply, fl_ctx = ask(FederatedExecutor(SETTINGS | {"threads": 1}), tmp_path, "train")
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.TASK_FAILED
    assert reply.get_header(AppConstants.CURRENT_ROUND) == 1
    said = fl_ctx.get_prop(FIELDS_WITHOUT_MODEL)
    assert {name: value for name, value in said.items() if name != "preparation"} == expected
    assert said["preparation"][:2] == [0, 1]
    monkeypatch.undo()
    # Not where a task never came as far.
    _, fl_ctx = ask(FederatedExecutor(SETTINGS), tmp_path, "dance")
    assert fl_ctx.get_prop(FIELDS_WITHOUT_MODEL) is None


def test_a_number_in_place_of_a_scalar_does_not_fit(tmp_path: Path) -> None:
    """PyTorch loads it. The trained model would fit the received one no more, but one that failed to train would."""
    executor = FederatedExecutor(SETTINGS)
    params = params_of(executor)
    name = next(name for name in params if name.endswith("num_batches_tracked"))
    reply, _ = ask(executor, tmp_path, "train", params=params | {name: params[name].reshape(1)})
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.MODEL_DOES_NOT_FIT


@pytest.mark.usefixtures("phantom")
def test_a_site_trains_with_as_many_threads_as_its_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job asks for one, as a researcher's does."""
    monkeypatch.setenv(THREADS_VARIABLE, "2")
    reply, _ = ask(FederatedExecutor(SETTINGS | {"threads": 1}), tmp_path, "train")
    assert from_shareable(reply).meta["num_threads"] == 2


@pytest.mark.usefixtures("phantom")
def test_a_task_of_the_methods_own_is_done_by_its_own_name_and_leaves_its_samples_for_filters(tmp_path: Path) -> None:
    executor = FederatedExecutor(QUALITY)
    reply, fl_ctx = ask(executor, tmp_path, METHOD_TASK, {TASK: ESTIMATE_QUALITY})
    result = from_shareable(reply)
    assert result.data_kind == DataKind.METRICS
    assert result.data["num_samples"] == 3
    assert task_at_hand(fl_ctx) == ESTIMATE_QUALITY
    registry_at_hand(fl_ctx).check(ESTIMATE_QUALITY, result.data)
    assert set(fl_ctx.get_prop(SAMPLE_VALUES)) == {"inner_difficulty", "outer_difficulty", "predicted_share"}


def test_filters_find_the_received_model_and_no_samples_of_an_earlier_task(tmp_path: Path) -> None:
    executor = FederatedExecutor(SETTINGS)
    fl_ctx = context(tmp_path, "train")
    fl_ctx.set_prop(SAMPLE_VALUES, {"old": 1}, private=True, sticky=False)
    params = params_of(executor)
    executor.execute("dance", DXO(DataKind.WEIGHTS, data=params).to_shareable(), fl_ctx, Signal())
    assert fl_ctx.get_prop(SAMPLE_VALUES) == {}
    assert fl_ctx.get_prop(RECEIVED_MODEL).keys() == params.keys()


@pytest.mark.parametrize(
    ("task", "meta", "fits", "expected"),
    [
        ("dance", {}, True, RefusalCode.TASK_NOT_KNOWN),
        # Another method's, one that is named by itself, and none at all.
        (METHOD_TASK, {TASK: ESTIMATE_QUALITY}, True, RefusalCode.TASK_NOT_KNOWN),
        (METHOD_TASK, {}, True, RefusalCode.TASK_NOT_KNOWN),
        ("validate_classes", {}, True, RefusalCode.TASK_NOT_KNOWN),
        ("train", {}, False, RefusalCode.MODEL_DOES_NOT_FIT),
    ],
)
def test_what_it_cannot_do_is_a_refusal_with_a_reason(
    tmp_path: Path, task: str, meta: dict[str, Any], fits: bool, expected: str
) -> None:
    executor = FederatedExecutor(SETTINGS)
    params = params_of(executor)
    if not fits:
        params.popitem()
    reply, _ = ask(executor, tmp_path, task, meta, params)
    assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert reply.get_header(REFUSAL_HEADER) == expected


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (DataError("case 7 is broken"), ReturnCode.EXECUTION_EXCEPTION, RefusalCode.NO_USABLE_DATA),
        (DataMismatchError("other classes"), ReturnCode.EXECUTION_EXCEPTION, RefusalCode.DATA_DO_NOT_FIT),
        (SettingsError("threads"), ReturnCode.EXECUTION_EXCEPTION, RefusalCode.TASK_FAILED),
        (UnknownTaskError("dance"), ReturnCode.EXECUTION_EXCEPTION, RefusalCode.TASK_NOT_KNOWN),
        (RuntimeError("out of memory at case 7"), ReturnCode.EXECUTION_EXCEPTION, RefusalCode.TASK_FAILED),
        (TrainingStopped("stop"), ReturnCode.TASK_ABORTED, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_whatever_goes_wrong_leaves_with_a_short_reason_and_is_logged_at_the_site(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: str,
    reason: str | None,
) -> None:
    executor = FederatedExecutor(SETTINGS)
    monkeypatch.setattr(executor, "do_task", raising(error))
    reply, _ = ask(executor, tmp_path, "train")
    assert (reply.get_return_code(), reply.get_header(REFUSAL_HEADER)) == (code, reason)
    assert str(error) not in str(dict(reply))
    assert (str(error) in caplog.text) is (reason is not None)


@pytest.mark.parametrize(
    ("job", "has_kit", "tells"),
    [
        (SIMULATED_JOB, False, True),
        # In a federation jobs have such ids.
        ("8a5f1c9e-1111-4222-8333-944455556666", False, False),
        # The server's word for the job opens nothing at a participant with a kit.
        (SIMULATED_JOB, True, False),
        ("job", False, False),
    ],
)
def test_the_error_itself_leaves_in_a_simulation_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, has_kit: bool, tells: bool
) -> None:
    executor = FederatedExecutor(SETTINGS)
    monkeypatch.setattr(executor, "do_task", raising(ValueError("of patient 0815:\n  no lesion")))
    (tmp_path / "startup").mkdir()
    if has_kit:
        (tmp_path / "startup" / "fed_client.json").write_text("{}")
    reply, fl_ctx = ask(executor, tmp_path, "train", job=job)
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.TASK_FAILED
    assert OutboundFilter().process(reply, fl_ctx) is reply
    if not tells:
        assert "0815" not in str(dict(reply))
        # Whatever put it there, the site's filter keeps it back.
        reply.set_header(ERROR_HEADER, {"error": "ValueError"})
        with pytest.raises(OutboundError, match="may not send the headers"):
            OutboundFilter().process(reply, fl_ctx)
        return
    error = reply.get_header(ERROR_HEADER)
    assert (error["error"], error["error_text"]) == ("ValueError", "of patient 0815:\n  no lesion")
    frame, line = error["error_line"].splitlines()
    assert frame.startswith(f'File "{__file__}", line ')
    assert (frame.rpartition(", in ")[2], line.strip()) == ("fail", "raise error")


def test_in_a_swarm_no_error_goes_to_other_sites() -> None:
    assert not SwarmExecutor.tells_errors


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.usefixtures("phantom")
def test_data_are_read_once_and_again_when_the_annotations_in_use_change(tmp_path: Path) -> None:
    executor = FederatedExecutor(SETTINGS)
    view = executor.view(1, {}, context(tmp_path, "train"))
    first = view.load("training")
    assert view.load("training") is first
    case = first.cases[0]
    assert case.files is not None
    assert isinstance(case.files.label, Path)
    folder = view.corrections.folder_of(1)
    corrected = folder / f"labels/0001_{case.files.label.name}"
    corrected.parent.mkdir(parents=True)
    shutil.copyfile(case.files.label, corrected)
    mask = NewMask(file=str(corrected.relative_to(folder)))
    names = {"image": case.image_name(view.locate().folder), "label": case.label_name(view.locate().folder)}
    added = (LesionsAdded(threshold=0.8),)
    corrections = made_corrections(
        view.locate().folder, [CaseCorrection(**names, mask=mask)], round_number=1, corrections=added
    )
    view.corrections.write(corrections)
    again = view.load("training")
    assert again is not first
    assert again.cases[0].files is not None
    assert again.cases[0].files.label == corrected
    assert view.load("training") is again


def test_a_site_learns_where_its_part_of_the_continued_run_may_lie(tmp_path: Path) -> None:
    executor = FederatedExecutor(SETTINGS | {"resume_from": "/runs/server/job-0/fedannot_state.pt"})
    fl_ctx = context(tmp_path, "train")
    plain = executor.view(4, {}, fl_ctx)
    assert (list(plain.earlier_folders), plain.continued_round) == ([], None)
    view = executor.view(4, {CONTINUED_JOB: "job-0", CONTINUED_ROUND: 3}, fl_ctx)
    # Of earlier versions it lies in the job's folder.
    assert list(view.earlier_folders) == [
        tmp_path / "private" / "job-0",
        tmp_path / "job-0",
        Path("/runs/site-1/private/job-0"),
        Path("/runs/site-1/job-0"),
    ]
    assert (view.continued_round, view.round_number, view.name) == (3, 4, "site-1")
    assert view.run_folder == tmp_path / "private" / "job"


def test_a_view_says_when_the_run_is_stopped(tmp_path: Path) -> None:
    stop = Signal()
    view = FederatedExecutor(SETTINGS).view(1, {}, context(tmp_path, "train"), stop)
    assert not view.is_stopped()
    stop.trigger(True)
    assert view.is_stopped()


# --- a process of its own


class Process:
    """In place of the process of a site's tasks."""

    pid = 7
    fails: Exception | None = None

    def __init__(self, *made_with: Any) -> None:
        self.made_with, self.ended, self.tasks = made_with, False, list[str]()

    def do(
        self, task: str, shareable: Shareable, timeout: float, should_stop: Callable[[], bool], note: Note
    ) -> tuple[Shareable, dict[str, Any]]:
        self.tasks.append(task)
        note({"num_samples": 3})
        if self.fails is not None:
            raise self.fails
        return DXO(DataKind.METRICS, data={"num_samples": 3}).to_shareable(), {"inner_difficulty": "values"}

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    made: list[Process] = []

    def start(*given: Any) -> Process:
        made.append(Process(*given))
        return made[-1]

    monkeypatch.setattr("fedannot.custom.flare.executor.TaskProcess", start)
    return made


def test_one_process_does_all_tasks_with_the_same_settings_and_ends_with_the_run(
    tmp_path: Path, processes: list[Process]
) -> None:
    executor = FederatedExecutor(QUALITY | {"task_process": True})
    for _ in range(2):
        reply, fl_ctx = ask(executor, tmp_path, METHOD_TASK, {TASK: ESTIMATE_QUALITY})
    (process,) = processes
    assert process.tasks == [METHOD_TASK] * 2
    kind, settings, place = process.made_with
    assert (kind, place) == (FederatedExecutor, SiteContext("site-1", "job", str(tmp_path)))
    assert settings == executor.settings.model_dump(mode="json") | {"task_process": False}
    # Filters of the result run here, not there.
    assert fl_ctx.get_prop(SAMPLE_VALUES) == {"inner_difficulty": "values"}
    assert task_at_hand(fl_ctx) == ESTIMATE_QUALITY
    assert reply.get_header(AppConstants.CURRENT_ROUND) == 1
    executor.handle_event(EventType.END_RUN, fl_ctx)
    assert process.ended


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (TaskProcessError("its process died"), ReturnCode.EXECUTION_EXCEPTION, RefusalCode.PROCESS_DIED),
        (TaskStopped(), ReturnCode.TASK_ABORTED, None),
    ],
)
def test_after_a_process_that_died_or_was_stopped_comes_a_new_one(
    tmp_path: Path,
    processes: list[Process],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: str,
    reason: str | None,
) -> None:
    executor = FederatedExecutor(SETTINGS | {"task_process": True})
    monkeypatch.setattr(Process, "fails", error)
    reply, fl_ctx = ask(executor, tmp_path, "train")
    assert (reply.get_return_code(), reply.get_header(REFUSAL_HEADER)) == (code, reason)
    assert fl_ctx.get_prop(SAMPLE_VALUES) == {}
    # What it has said before it died is for a filter that answers in its place.
    assert fl_ctx.get_prop(FIELDS_WITHOUT_MODEL) == {"num_samples": 3}
    monkeypatch.setattr(Process, "fails", None)
    assert ask(executor, tmp_path, "train")[0].get_return_code() == ReturnCode.OK
    assert len(processes) == 2


def located_without_data(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: bool) -> DataLocation:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    executor = FederatedExecutor(SETTINGS | {"embedded": {"sites": 1, "images_per_site": 1}} | changes)
    return executor.locate(context(folder, "train"))


def test_a_site_that_names_no_data_makes_the_phantom_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = located_without_data(tmp_path, monkeypatch)
    assert location.embedded
    assert len(list((location.folder / "images").iterdir())) == 1


def test_a_site_that_names_no_data_makes_no_phantom_where_the_job_requires_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"the job does not train on the embedded phantom"):
        located_without_data(tmp_path, monkeypatch, data_required=True)
