"""The controller carries messages: requests become NVFlare's tasks, results replies, and waiting comes to an end."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows.model_controller import ModelController
from plain_records import in_words

from fedannot.custom.compatibility import DataMismatchError
from fedannot.custom.flare import controller as controller_module
from fedannot.custom.flare import task_delivery
from fedannot.custom.flare.controller import FederatedController
from fedannot.custom.flare.messages import ERROR_HEADER, METHOD_TASK, REFUSAL_HEADER, TASK
from fedannot.custom.flare.private_log import COURSE_LOGGER
from fedannot.custom.flare.task_delivery import Deliveries
from fedannot.custom.flare.unfetched import Unfetched
from fedannot.custom.networks.start_weights import ModelFileError
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.state import ResumeError, RunFailedError
from fedannot.custom.run.transport import Reply, Request
from fedannot.custom.settings import SettingsError
from fedannot.custom.task_names import ESTIMATE_QUALITY
from fedannot.transforms.errors import DataError


class Clock:
    """Time that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(task_delivery, "time", made)
    monkeypatch.setattr(controller_module, "time", made)
    return made


def answer(site: str, round_number: int | None = 1, **changes: Any) -> FLModel:
    values = {
        "params": {"w": torch.ones(2)},
        "params_type": ParamsType.FULL,
        "current_round": round_number,
        "meta": {"client_name": site, "num_samples": 3},
    }
    return FLModel(**(values | changes))


class Federation:
    """NVFlare's part: sites answer a broadcast at given seconds, or never.

    Attributes:
        sent: what was broadcast, and how.
    """

    def __init__(self, clock: Clock, answers: Mapping[str, tuple[float, FLModel]], **settings: Any) -> None:
        self.clock, self.answers = clock, dict(answers)
        self.sent: list[dict[str, Any]] = []
        self.left: dict[str, tuple[float, FLModel]] = {}
        self.refused: dict[str, str] = {}
        self.replies: list[Reply] = []
        self.usable = True
        values = {"method": "feda3i", "rounds": 30, "task_timeout": 500} | settings
        self.controller = FederatedController(values, task_check_period=0.5)
        self.controller.abort_signal = SimpleNamespace(triggered=False)
        names = sorted(answers, reverse=True)
        self.controller.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=name) for name in names])
        self.controller.broadcast_model = self.broadcast
        self.controller.get_num_standing_tasks = self.standing
        self.controller.cancel_all_tasks = self.cancel

    def broadcast(self, model: FLModel, **how: Any) -> None:
        self.sent.append(how | {"model": model})
        self.left |= {site: self.answers[site] for site in how["targets"]}
        self.deadline, self.cancelled = self.clock.now + how["timeout"], False

    def standing(self) -> int:
        for site, (when, result) in sorted(self.left.items(), key=lambda entry: entry[1][0]):
            if when <= self.clock.now and not self.cancelled:
                del self.left[site]
                self.sent[-1]["callback"](result)
        return int(bool(self.left) and not self.cancelled and self.clock.now < self.deadline)

    def cancel(self) -> None:
        self.cancelled = True

    def receive(self, reply: Reply) -> bool:
        self.replies.append(reply)
        return self.usable and reply.problem is None

    def give(
        self,
        task: str = "train",
        sites: list[str] | None = None,
        own_messages: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "Federation":
        request = Request(task, 1, {"w": torch.zeros(2)}, {"word": 7}, sites, own_messages or {})
        self.controller.give(request, self.receive, self.refused.__setitem__)
        return self


def at(*seconds: float, **sites: float) -> dict[str, tuple[float, FLModel]]:
    """Usable answers of site-1, site-2, … at these seconds."""
    names = {f"site-{number}": when for number, when in enumerate(seconds, 1)} | sites
    return {site: (when, answer(site)) for site, when in names.items()}


# --- from requests to tasks, from results to replies


def test_a_request_is_broadcast_with_its_word_to_the_sites_in_their_natural_order(clock: Clock) -> None:
    federation = Federation(clock, {f"site-{number}": (0, answer(f"site-{number}")) for number in (2, 10, 1)}).give()
    (sent,) = federation.sent
    assert (sent["task_name"], sent["targets"]) == ("train", ["site-1", "site-2", "site-10"])
    assert (sent["min_responses"], sent["timeout"], sent["blocking"]) == (3, 500, False)
    model = sent["model"]
    assert (model.params_type, model.current_round, model.total_rounds) == (ParamsType.FULL, 1, 30)
    assert model.meta["word"] == 7
    assert TASK not in model.meta
    assert torch.equal(model.params["w"], torch.zeros(2))


def test_a_task_of_the_methods_own_travels_under_one_name(clock: Clock) -> None:
    (sent,) = Federation(clock, at(0)).give(ESTIMATE_QUALITY).sent
    assert (sent["task_name"], sent["model"].meta[TASK]) == (METHOD_TASK, ESTIMATE_QUALITY)


def test_named_sites_alone_are_asked(clock: Clock) -> None:
    federation = Federation(clock, at(0, 0, 0)).give(sites=["site-3", "gone"])
    assert federation.sent[0]["targets"] == ["site-3"]
    assert [reply.site for reply in federation.replies] == ["site-3"]
    assert federation.refused == {}


def test_messages_of_the_sites_own_are_sent_at_once_and_each_to_its_site_alone(clock: Clock) -> None:
    own = {"site-1": {"secret": 1}, "site-2": {"secret": 2}}
    federation = Federation(clock, at(0, 900, 900)).give(ESTIMATE_QUALITY, own_messages=own)
    sent = {tuple(item["targets"]): item["model"].meta for item in federation.sent}
    assert {sites: meta.get("secret") for sites, meta in sent.items()} == {
        ("site-1",): 1, ("site-2",): 2, ("site-3",): None
    }  # fmt: skip
    assert all((meta["word"], meta[TASK]) == (7, ESTIMATE_QUALITY) for meta in sent.values())
    first, *others = (item["model"].params["w"] for item in federation.sent)
    assert all(other is first for other in others), "the model is in memory once"
    # Two sites that do not answer are waited for at the same time.
    assert clock.now == pytest.approx(500, abs=1)
    assert sorted(federation.refused) == ["site-2", "site-3"]


@pytest.mark.parametrize("sites", [[], ["gone"]])
def test_without_anybody_to_ask_nothing_is_sent(clock: Clock, sites: list[str]) -> None:
    assert Federation(clock, at(0)).give(sites=sites).sent == []


def reply_to(clock: Clock, result: FLModel) -> Reply:
    (reply,) = Federation(clock, {"site-1": (0, result)}).give().replies
    return reply


def test_a_trained_model_comes_with_the_fields_in_its_meta(clock: Clock) -> None:
    reply = reply_to(clock, answer("site-1", 4))
    assert (reply.site, reply.round_number, reply.fields["num_samples"], reply.problem) == ("site-1", 4, 3, None)
    assert reply.params is not None
    assert torch.equal(reply.params["w"], torch.ones(2))


def test_metrics_are_the_fields_of_a_reply_without_a_model(clock: Clock) -> None:
    reply = reply_to(clock, FLModel(metrics={"num_samples": 5}, current_round=1, meta={"client_name": "site-1"}))
    assert (reply.fields, reply.params) == ({"num_samples": 5}, None)


def test_a_model_that_could_not_be_fetched_is_a_problem_and_no_model(clock: Clock) -> None:
    lost = answer("site-1", params={"w": torch.ones(2), "v": Unfetched()})
    reply = reply_to(clock, lost)
    assert (reply.params, reply.fields) == (None, {})
    assert in_words(reply.problem) == "its model could not be fetched; see the server's log"


def test_a_result_of_another_kind_has_no_model(clock: Clock) -> None:
    assert (
        reply_to(clock, FLModel(params={}, params_type=ParamsType.FULL, meta={"client_name": "site-1"})).params is None
    )


# --- failures


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (RefusalCode.NO_USABLE_DATA.value, "its data cannot be used; see the site's log"),
        # As sites of earlier versions say it.
        ("its data cannot be used; see the site's log", "its data cannot be used; see the site's log"),
        # A code that is no site's to report.
        (RefusalCode.TEXT.value, ReturnCode.EXECUTION_EXCEPTION),
        (None, ReturnCode.EXECUTION_EXCEPTION),
        # What a site writes by itself is not repeated, whatever its length.
        ("all is well\x1b[2J" * 10_000, ReturnCode.EXECUTION_EXCEPTION),
        (b"bytes", ReturnCode.EXECUTION_EXCEPTION),
    ],
)
def test_a_site_that_fails_is_refused_with_its_reason_and_has_not_run_out_of_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, header: str | None, reason: str
) -> None:
    federation = Federation(clock, at(0, 1000))
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    if header is not None:
        failed.set_header(REFUSAL_HEADER, header)

    def accept(self: ModelController, client: str, result: Shareable, fl_ctx: Any, is_unknown: bool = False) -> bool:
        return bool(result.get_return_code() == ReturnCode.OK)

    monkeypatch.setattr(ModelController, "_accept_train_result", accept)
    standing = federation.standing

    def fails_at_once() -> int:
        if federation.left.pop("site-2", None):
            assert not federation.controller._accept_train_result("site-2", failed, None)
        return standing()

    federation.controller.get_num_standing_tasks = fails_at_once
    federation.give()
    assert in_words(federation.refused) == {"site-2": reason}
    assert [reply.site for reply in federation.replies] == ["site-1"]


@pytest.mark.parametrize("simulated", [True, False])
def test_a_sites_error_is_taken_in_a_simulation_alone(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, simulated: bool
) -> None:
    federation = Federation(clock, at(0, 1000))
    federation.controller._refuse = federation.refused.__setitem__
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    failed.set_header(REFUSAL_HEADER, RefusalCode.TASK_FAILED.value)
    failed.set_header(ERROR_HEADER, {"error": "ValueError", "error_text": "two\nlines", "other": "x", "error_line": 7})
    monkeypatch.setattr(ModelController, "_accept_train_result", lambda *_: False)
    monkeypatch.setattr(controller_module, "is_simulated", lambda _: simulated)
    assert not federation.controller._accept_train_result("site-2", failed, None)
    expected = {"error": "ValueError", "error_text": "two\nlines"} if simulated else {}
    assert federation.refused["site-2"].values == expected
    assert clock.now < 10


@pytest.mark.parametrize("code", [torch.ones(2), ["OK"], None, 7, "patient 0815"])
def test_an_odd_return_code_refuses_its_site_alone(clock: Clock, code: Any) -> None:
    """NVFlare asks whether it is true, which a tensor answers with an error that ends the task for all."""
    federation = Federation(clock, at(0))
    said: dict[str, RefusalReason] = {}
    federation.controller._refuse = said.__setitem__
    reply = make_reply(ReturnCode.OK)
    reply.set_return_code(code)
    assert not federation.controller._accept_train_result("site-1", reply, federation.controller.fl_ctx)
    assert in_words(said) == {"site-1": "its answer has no known reason"}


def test_a_late_answer_to_an_unknown_task_refuses_nobody(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelController, "_accept_train_result", lambda *_: False)
    federation = Federation(clock, at(0)).give()
    federation.controller._accept_train_result("site-1", make_reply(ReturnCode.OK), None, is_unknown_task=True)
    assert federation.refused == {}


def test_a_run_that_is_stopped_waits_for_nobody_and_refuses_nobody(clock: Clock) -> None:
    federation = Federation(clock, at(0, 1000))

    def stop(reply: Reply) -> bool:
        federation.controller.abort_signal.triggered = True
        return True

    federation.controller.give(Request("train", 1, {}, {}), stop, federation.refused.__setitem__)
    assert federation.refused == {}
    assert clock.now < 10


@pytest.mark.parametrize("error", [DataError, ResumeError, RunFailedError, SettingsError])
def test_what_a_person_has_to_mend_ends_the_job_with_its_text(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    controller, panics = failing(clock, monkeypatch, error("look here"), "simulate_job")
    controller.run()
    assert panics == ["look here"]


@pytest.mark.parametrize(
    ("settings", "job", "expected"),
    [
        ({}, "simulate_job", ["1 of the 10 sites of the embedded federation take part"]),
        ({"embedded": {"sites": 1, "noise": None}}, "simulate_job", []),
        ({"data_required": True}, "simulate_job", []),
        ({"data": "/data"}, "simulate_job", []),
        ({}, "01234567-89ab-cdef-0123-456789abcdef", []),
    ],
)
def test_a_simulation_says_that_sites_of_the_embedded_federation_are_missing(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings: Mapping[str, Any],
    job: str,
    expected: list[str],
) -> None:
    monkeypatch.delenv("FEDANNOT_DATA", raising=False)
    controller, _ = failing(clock, monkeypatch, DataError("look here"), job, **settings)
    with caplog.at_level("WARNING", COURSE_LOGGER):
        controller._say_if_sites_are_missing()
    said = [record.getMessage() for record in caplog.records if "embedded federation" in record.getMessage()]
    assert [text.partition(";")[0] for text in said] == expected
    assert all(text.endswith("for all of them: nvflare simulator JOB -n 10") for text in said)


JOB = "01234567-89ab-cdef-0123-456789abcdef"
SECRET = "/kits/server/../data/patient-7-scan.png: found no image"
DATA, OTHER = "The server's test set", "The run failed at a participant"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DataError(SECRET), DATA),
        (DataMismatchError(SECRET), DATA),
        (SettingsError(SECRET), "A participant's own settings"),
        (OSError(5, SECRET), f"{OTHER} (OSError)"),
        (RuntimeError(SECRET), f"{OTHER} (RuntimeError)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_of_a_submitted_job_everybody_learns_a_short_reason_without_names(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, expected: str
) -> None:
    """What the course says and the reason are for everybody; the full text comes from another logger."""
    controller, panics = failing(clock, monkeypatch, error, JOB)
    controller.run()
    (reason,) = panics
    assert reason.startswith(expected)
    assert reason.endswith("the operator's log says why.")
    assert SECRET in caplog.text
    public = [record for record in caplog.records if record.name.startswith((COURSE_LOGGER, "nvflare"))]
    assert not any(SECRET in record.getMessage() or record.exc_info for record in public)


def test_what_the_job_itself_names_is_reported_without_the_servers_folder(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (ModelFileError("/kits/server/models/mine: does not fit"), ResumeError("/kits/server/job/x: is old")):
        controller, panics = failing(clock, monkeypatch, error, JOB)
        controller.run()
        assert panics == [str(error).removeprefix("/kits/server/")]


def test_an_unknown_error_of_a_simulation_keeps_its_traceback(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    controller, panics = failing(clock, monkeypatch, OSError("disk"), "simulate_job")
    with pytest.raises(OSError, match="disk"):
        controller.run()
    assert panics == []


def failing(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, error: Exception, job_id: str, **settings: Any
) -> tuple[FederatedController, list[str]]:
    """A controller whose run fails, and what it says when it ends the job."""
    controller, panics = Federation(clock, at(0), **settings).controller, list[str]()
    workspace = SimpleNamespace(get_root_dir=lambda: "/kits/server")
    engine = SimpleNamespace(get_workspace=lambda: workspace)
    controller.fl_ctx = SimpleNamespace(get_job_id=lambda: job_id, get_engine=lambda: engine)
    monkeypatch.setattr(controller.course.progress, "keep", lambda progress: None)
    monkeypatch.setattr(controller, "panic", panics.append)
    monkeypatch.setattr(controller, "_config_folder", lambda: Path("local"))
    monkeypatch.setattr(controller, "_private_folder", lambda: Path("private"))
    monkeypatch.setattr(controller_module, "keep_console_private", lambda folder: None)
    monkeypatch.setattr(controller_module, "set_threads", lambda threads, folder: None)
    monkeypatch.setattr(controller, "_beginning", raising(error))
    return controller, panics


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_a_persistor_without_a_model_is_named(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Federation(clock, at(0)).controller
    monkeypatch.setattr(controller, "load_model", lambda: None)
    with pytest.raises(RunFailedError, match="The persistor gave no start model"):
        controller._beginning()


# --- when a round stops waiting


def ask(clock: Clock, seconds: tuple[float, ...], **settings: Any) -> tuple[dict[str, RefusalReason], float]:
    federation = Federation(clock, at(*seconds), **settings).give()
    return federation.refused, clock.now


def test_a_round_closes_after_k_usable_answers_and_the_grace_period(clock: Clock) -> None:
    refused, took = ask(clock, (10, 20, 1000), min_sites=2, grace_period=30)
    assert took == pytest.approx(50, abs=1)
    assert in_words(refused) == {"site-3": "no answer to 'train' within 30 s after enough others had answered"}


def test_an_answer_that_cannot_be_used_does_not_count(clock: Clock) -> None:
    answers = at(10, 20, 100)
    answers["site-2"] = 20, answer("site-2", params={"w": Unfetched()})
    federation = Federation(clock, answers, min_sites=2, grace_period=30).give()
    assert clock.now == pytest.approx(100, abs=1)
    assert federation.refused == {}


def test_nobody_waits_for_the_grace_period_when_all_have_answered(clock: Clock) -> None:
    refused, took = ask(clock, (10, 20, 25), min_sites=1, grace_period=300)
    assert (refused, took) == ({}, pytest.approx(25, abs=1))


def test_of_fewer_sites_than_a_round_needs_all_are_enough(clock: Clock) -> None:
    """A task for two named sites, where a round needs three."""
    federation = Federation(clock, at(10, 20, 1000), min_sites=3, grace_period=5).give(sites=["site-1", "site-2"])
    assert (federation.refused, clock.now) == ({}, pytest.approx(20, abs=1))


def test_private_instructions_have_no_grace_period(clock: Clock) -> None:
    own = {site: {"secret": 1} for site in ("site-1", "site-2", "site-3")}
    federation = Federation(clock, at(10, 20, 400), min_sites=2, grace_period=30)
    federation.give(ESTIMATE_QUALITY, own_messages=own)
    assert (federation.refused, clock.now) == ({}, pytest.approx(400, abs=1))


def test_training_has_its_grace_period_whatever_a_site_is_told(clock: Clock) -> None:
    federation = Federation(clock, at(10, 20, 400), min_sites=2, grace_period=30)
    federation.give(own_messages={"site-1": {"secret": 1}})
    assert in_words(federation.refused).keys() == {"site-3"}
    assert clock.now == pytest.approx(50, abs=1)


def test_tasks_may_stand_beside_others(clock: Clock) -> None:
    controller = Federation(clock, at(0)).controller
    controller.fl_ctx = FLContext()
    model = FLModel(params={"w": torch.zeros(2)}, params_type=ParamsType.FULL)
    task = controller._prepare_task(data=model, task_name="train", timeout=5, callback=lambda _: True)
    assert isinstance(task.client_tasks, Deliveries)
    assert not hasattr(task, "_broadcast_data"), "NVFlare copies a model that others use"


def test_without_a_grace_period_the_tasks_time_bounds_the_wait(clock: Clock) -> None:
    refused, took = ask(clock, (10, 20, 1000), min_sites=2)
    assert took == pytest.approx(500, abs=1)
    assert in_words(refused) == {"site-3": "no answer to 'train' within 500 s"}


# --- construction


def test_settings_that_cannot_be_used_are_an_error() -> None:
    with pytest.raises(SettingsError, match="unknown key 'round'"):
        FederatedController({"method": "fedavg", "round": 3})
    with pytest.raises(SettingsError, match="key 'influence' cannot be set for fedcurv"):
        FederatedController({"method": "fedcurv", "influence": {"max_share": 0.5}})
