"""A process of a site's own for its tasks, so that its death is a failed task and not the end of the job.

NVFlare ends a job for all sites when the process dies in which a site's components run. With
``task_process = true`` that process keeps the connection alone; data, network and training are in a child of it. A
child that dies, for want of memory, say, or hangs is a refused result, and the next task gets a new one.
"""

import io
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace
from nvflare.app_common.app_constant import AppConstants

from ..data.participant_folder import participant_folder
from ..outbound.private_statistics import PatientVectors, SampleValues
from ..run.freed_memory import keep_freed_memory
from ..run.site_tasks import Note
from .messages import ERROR_HEADER, REFUSAL_HEADER, SAMPLE_VALUES
from .private_log import keep_console_private

# How often a waiting parent looks whether the run is being stopped, in seconds.
_LOOK_EVERY = 0.2
# How long a child that was asked to end may take, in seconds.
_END_TIMEOUT = 5.0


class TaskProcessError(RuntimeError):
    """A task's process died or took too long; the text is for the site's log."""


class TaskStopped(Exception):
    """The run was stopped while the process did a task."""


@dataclass(frozen=True)
class SiteContext:
    """Where a site's task is done: what an executor asks NVFlare's context for.

    Attributes:
        site: the site's name.
        job_id: the job.
        workspace: root folder of the site's workspace.
    """

    site: str
    job_id: str
    workspace: str

    @classmethod
    def of(cls, fl_ctx: FLContext) -> "SiteContext":
        """Return the place that a context is of."""
        workspace = fl_ctx.get_engine().get_workspace()
        return cls(fl_ctx.get_identity_name(), fl_ctx.get_job_id(), workspace.get_root_dir())

    def context(self) -> FLContext:
        """Return a context that knows the site, the job and the workspace, and no other component."""
        engine = _Engine(Workspace(self.workspace, self.site))
        manager = FLContextManager(engine=engine, identity_name=self.site, job_id=self.job_id)
        context: FLContext = manager.new_context()
        return context


class _Engine:
    """What a task's executor asks of its engine."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def get_workspace(self) -> Workspace:
        return self._workspace

    def fire_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Tell nobody: there is no other component."""


class TaskProcess:
    """A child process that does one task after the other with an executor of its own.

    Args:
        executor: class of the executor; its method ``answer`` does a task.
        settings: the executor's settings.
        place: the site, the job and the workspace.
    """

    def __init__(self, executor: type[Any], settings: Mapping[str, Any], place: SiteContext) -> None:
        self._connection, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process: BaseProcess = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, executor, dict(settings), place), daemon=True, name=f"tasks of {place.site}"
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int | None:
        """The process's number."""
        return self._process.pid

    def do(
        self,
        task: str,
        shareable: Shareable,
        timeout: float,
        should_stop: Callable[[], bool],
        note: Note | None = None,
    ) -> tuple[Shareable, dict[str, SampleValues]]:
        """Hand a task over and return the answer, and what its statistics are made of.

        Args:
            task: the task's name.
            shareable: the task as NVFlare gave it.
            timeout: seconds that it may take.
            should_stop: asked now and then; the process is ended when it says so.
            note: takes what the answer holds whatever the model does to the task, even if the process dies later.

        Raises:
            TaskProcessError: if the process died, or did not answer in time; it is ended then.
            TaskStopped: if the task was stopped; as above.
        """
        try:
            self._connection.send_bytes(_packed(_message(task, shareable)))
            answer = self._answer(time.monotonic() + timeout, timeout, should_stop, note)
            return _to_shareable(answer), _to_samples(answer)
        except (EOFError, OSError) as error:
            self._process.join(_END_TIMEOUT)
            died = f"its process died ({describe_exit(self._process.exitcode)})."
            self.end()
            raise TaskProcessError(died) from error
        except BaseException:
            self.end()
            raise

    def _answer(
        self,
        deadline: float,
        timeout: float,
        should_stop: Callable[[], bool],
        note: Note | None,
    ) -> dict[str, Any]:
        """Wait for the answer, passing on what the process logs and notes meanwhile."""
        while True:
            ready = wait([self._connection, self._process.sentinel], _LOOK_EVERY)
            if self._connection in ready:
                message = _unpacked(self._connection.recv_bytes())
                if "log" in message:
                    logging.getLogger(message["log"]).log(message["level"], message["text"])
                elif "noted" not in message:
                    return message
                elif note is not None:
                    note(message["noted"])
            elif ready:
                raise EOFError
            if should_stop():
                raise TaskStopped
            if time.monotonic() > deadline:
                raise TaskProcessError(f"its process did not answer within {timeout:.0f} s, and was ended.")

    def end(self) -> None:
        """End the process, whatever it does."""
        self._connection.close()
        self._process.terminate()
        self._process.join(_END_TIMEOUT)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_END_TIMEOUT)


def describe_exit(exit_code: int | None) -> str:
    """Say how a process ended: ``exit code 1``, ``signal 9``."""
    if exit_code is None:
        return "no exit code"
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def _serve(connection: Connection, executor: type[Any], settings: dict[str, Any], place: SiteContext) -> None:
    """The child: do tasks until the parent closes the connection or dies."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    keep_console_private(participant_folder(Path(place.workspace), place.job_id))
    logger = logging.getLogger()
    logger.setLevel(logging.INFO)
    logger.addHandler(_ToParent(connection))
    # Libraries name files in warnings.
    logging.captureWarnings(capture=True)
    context = place.context()
    worker = executor(settings)

    def note(fields: Mapping[str, Any]) -> None:
        connection.send_bytes(_packed({"noted": dict(fields)}))

    while True:
        try:
            message = _unpacked(connection.recv_bytes())
        except EOFError:
            return
        reply = worker.answer(message["task"], _to_shareable(message), context, Signal(), note)
        connection.send_bytes(_packed(_message("", reply, context.get_prop(SAMPLE_VALUES))))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _ToParent(logging.Handler):
    """Hands log records to the parent, which writes the site's log."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(logging.INFO)
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._connection.send_bytes(_packed({"log": record.name, "level": record.levelno, "text": text}))


def _message(task: str, shareable: Shareable, samples: Mapping[str, SampleValues] | None = None) -> dict[str, Any]:
    """Take out of a task or an answer what its end needs, as tensors and plain values."""
    message = {
        "samples": {
            name: (torch.from_numpy(of.values), torch.from_numpy(of.units), of.is_mean, of.is_signed, _vector_size(of))
            for name, of in (samples or {}).items()
        },
        "task": task,
        "round": shareable.get_header(AppConstants.CURRENT_ROUND),
        "code": shareable.get_return_code(),
        "refusal": shareable.get_header(REFUSAL_HEADER),
        "error": shareable.get_header(ERROR_HEADER),
    }
    if message["code"] == ReturnCode.OK:
        dxo = from_shareable(shareable)
        message |= {"kind": DataKind(dxo.data_kind).value, "data": dict(dxo.data), "meta": dict(dxo.meta)}
    return message


def _to_shareable(message: Mapping[str, Any]) -> Shareable:
    if "kind" in message:
        shareable = DXO(DataKind(message["kind"]), data=message["data"], meta=message["meta"]).to_shareable()
    else:
        shareable = make_reply(message["code"])
    headers = {AppConstants.CURRENT_ROUND: "round", REFUSAL_HEADER: "refusal", ERROR_HEADER: "error"}
    for header, name in headers.items():
        if message[name] is not None:
            shareable.set_header(header, message[name])
    return shareable


def _to_samples(message: Mapping[str, Any]) -> dict[str, SampleValues]:
    return {name: _samples(*of) for name, of in message["samples"].items()}


def _vector_size(samples: SampleValues) -> int:
    return samples.size if isinstance(samples, PatientVectors) else 0


def _samples(
    values: torch.Tensor, units: torch.Tensor, is_mean: bool, is_signed: bool, vector_size: int
) -> SampleValues:
    if vector_size:
        return PatientVectors(values.numpy(), units.numpy(), is_mean, is_signed, vector_size)
    return SampleValues(values.numpy(), units.numpy(), is_mean, is_signed)


def _packed(message: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    torch.save(dict(message), stream)
    return stream.getvalue()


def _unpacked(content: bytes) -> dict[str, Any]:
    message: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return message
