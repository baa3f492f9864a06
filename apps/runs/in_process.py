"""Runs a job in one process: the job's own components, without processes, sockets or polling in between.

The configuration is read by NVFlare's own configurators, so that a job folder means the same here and there. Only
broadcasts from the server are served; workflows in which sites talk to each other run under NVFlare.
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.dxo import from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.wf_comm_spec import WFCommSpec
from nvflare.app_common.app_constant import AppConstants

from ...custom.flare.at_hand import own_name
from ...custom.global_rng import current_gpus, global_rng_was_used
from .cores import fitting_on_gpu
from .interruption import check_interruption
from .job import Job, parse_hocon
from .participants import JOB_ID, ServerParticipant, SiteParticipant


class RunError(RuntimeError):
    """A run ended with an error; the text is what the component that stopped it said."""


@dataclass(frozen=True)
class Step:
    """A task at one site, at which a run is.

    Attributes:
        round_number: the round; None for a task that belongs to none.
        rounds: of the run, None where the job does not say.
        task: the task's own name.
        site: whose turn it is.
        position: which of the sites that are asked it is, from 1.
        count: how many are asked.
    """

    round_number: int | None
    rounds: int | None
    task: str
    site: str
    position: int
    count: int

    @property
    def done(self) -> int | None:
        """How many sites' turns of the whole run are over, as many in every round; None where that is not known."""
        return None if self.round_number is None else (self.round_number - 1) * self.count + self.position - 1

    @property
    def total(self) -> int | None:
        """How many turns the run has."""
        return None if self.rounds is None else self.rounds * self.count

    def __str__(self) -> str:
        known = self.round_number is not None and self.rounds is not None
        where = f"Round {self.round_number}/{self.rounds}: " if known else ""
        return f"{where}{self.site}, {self.position} of {self.count} ({self.task.replace('_', ' ')})"


Watch = Callable[[Step], None]


class InProcessCommunicator(WFCommSpec):  # type: ignore[misc]
    """Hands a broadcast task to the sites, some at a time, and their answers to the controller in the sites' order.

    The first site that is asked a task does it alone. If it takes global random numbers, as dropout does, all sites
    take turns: in one process these numbers are one sequence. If only a later one does, the run ends with an error.

    Args:
        server: the server.
        sites: all sites.
        abort_signal: is triggered when the run is being stopped.
        watch: is called before every task of a site.
        sites_at_once: how many sites work at a time, each in a thread.
    """

    def __init__(
        self,
        server: ServerParticipant,
        sites: Sequence[SiteParticipant],
        abort_signal: Signal,
        watch: Watch,
        sites_at_once: int = 1,
    ) -> None:
        super().__init__()
        self._watch = watch
        self._server = server
        self._sites = {site.name: site for site in sites}
        self._abort_signal = abort_signal
        self._sites_at_once = sites_at_once
        # Of those, as many as memory is enough for, known when one has worked.
        self._fitting: int | None = None
        # By a task's own name, whether sites may do it at the same time.
        self._may_overlap: dict[str, bool] = {}
        # In the order in which sites are asked; a request of which each has its own message is a task for each.
        self._standing: list[_Delivery] = []

    def broadcast(
        self,
        task: Task,
        fl_ctx: FLContext,
        targets: Sequence[Client | str] | None = None,
        min_responses: int = 1,
        wait_time_after_min_received: int = 0,
    ) -> None:
        """Take note of a task for every target, which does it when the controller asks how many tasks stand."""
        del min_responses, wait_time_after_min_received
        asked = self._sites if targets is None else targets
        names = [target.name if isinstance(target, Client) else target for target in asked]
        self._standing += [_Delivery(task, fl_ctx, name) for name in names]

    def get_num_standing_tasks(self) -> int:
        """Let every target do its task, and return 0: all have answered then."""
        turns, self._standing = self._standing, []
        alone = 0
        while alone < len(turns) and not self._may_overlap.get(turns[alone].own_name, False):
            if self._abort_signal.triggered:
                return 0
            self._receive(turns[alone], self._begin(turns, alone), self._do_alone(turns[alone]))
            alone += 1
        if alone < len(turns):
            self._overlap(turns, alone)
        return 0

    def _begin(self, turns: "Sequence[_Delivery]", position: int) -> ClientTask:
        """Say whose turn it is, and return the task as it is sent."""
        delivery = turns[position]
        self._watch(delivery.step(position + 1, len(turns)))
        client_task = ClientTask(Client(delivery.site, ""), delivery.task)
        if delivery.task.before_task_sent_cb is not None:
            delivery.task.before_task_sent_cb(client_task=client_task, fl_ctx=delivery.fl_ctx)
        return client_task

    def _do_alone(self, delivery: "_Delivery") -> Shareable:
        """Let a site do the task while no other works, and learn whether others may work at the same time."""
        site = self._sites[delivery.site]
        reply = site.do_task(delivery.task, delivery.fl_ctx, _own_copy(delivery.task.data))
        if delivery.own_name not in self._may_overlap and site.global_rng_used is not None:
            self._may_overlap[delivery.own_name] = self._sites_at_once > 1 and not site.global_rng_used
        return reply

    def _overlap(self, turns: "Sequence[_Delivery]", position: int) -> None:
        """Let sites from a position on do the task, some at a time."""
        # So many answers wait at most for those of sites before them.
        begun: _Begun = deque()
        if self._fitting is None:
            self._fitting = fitting_on_gpu(self._sites_at_once)
        at_once = self._fitting
        with _process_as_before(), ThreadPoolExecutor(at_once, "site", initializer=_use_own_stream) as pool:
            try:
                for at in range(position, len(turns)):
                    if self._abort_signal.triggered:
                        break
                    client_task, (task, fl_ctx) = self._begin(turns, at), (turns[at].task, turns[at].fl_ctx)
                    do_task = self._sites[turns[at].site].do_task
                    begun.append((turns[at], client_task, pool.submit(do_task, task, fl_ctx, _own_copy(task.data))))
                    if len(begun) >= 2 * at_once:
                        self._receive_first(begun)
                while begun:
                    self._receive_first(begun)
                _check_global_rng(turns[-1].own_name, is_used=global_rng_was_used())
            except BaseException:
                # The sites at work stop before their next step, and the others do not begin.
                self._abort_signal.trigger(True)
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _receive_first(self, begun: "_Begun") -> None:
        delivery, client_task, answer = begun.popleft()
        reply = answer.result()
        _check_global_rng(delivery.own_name, is_used=self._sites[delivery.site].global_rng_used is True)
        self._receive(delivery, client_task, reply)

    def _receive(self, delivery: "_Delivery", client_task: ClientTask, reply: Shareable) -> None:
        """Hand an answer to the controller."""
        client_task.result = reply
        # A filter of NVFlare's takes any exception for its own; the answer must not count then.
        check_interruption()
        if delivery.task.result_received_cb is not None:
            delivery.task.result_received_cb(client_task=client_task, fl_ctx=self._server.new_context())

    def broadcast_and_wait(
        self,
        task: Task,
        fl_ctx: FLContext,
        targets: Sequence[Client | str] | None = None,
        min_responses: int = 1,
        wait_time_after_min_received: int = 0,
        abort_signal: Signal | None = None,
    ) -> None:
        """Let every target do a task; returns when all have answered."""
        del abort_signal
        self.broadcast(task, fl_ctx, targets, min_responses, wait_time_after_min_received)
        self.get_num_standing_tasks()

    def cancel_all_tasks(self, completion_status: Any = None, fl_ctx: FLContext | None = None) -> None:
        """Do nothing: no task stands."""


def run_in_process(
    job: Job, sites: Sequence[str], folder: Path, watch: Watch = lambda _: None, *, sites_at_once: int = 1
) -> Path:
    """Run a job in this process and return the server's run folder.

    Each participant has its workspace in ``folder``, laid out as NVFlare's simulator does. The result depends neither
    on the order of the sites nor on how many work at the same time.

    Args:
        job: the job.
        sites: names of the sites.
        folder: where the workspaces are made.
        watch: is called before every task of a site.
        sites_at_once: how many sites work at a time.

    Raises:
        RunError: if the run ended with an error.
    """
    abort_signal = Signal()
    server_config, site_config = (parse_hocon(file) for file in (job.server_config, job.client_config))
    server = ServerParticipant(job, server_config, folder / "server", sites, abort_signal)
    participants = [SiteParticipant(site, job, site_config, folder / site, abort_signal) for site in sites]
    for workflow in server.config.workflows:
        communicator = InProcessCommunicator(server, participants, abort_signal, watch, sites_at_once)
        _run_workflow(workflow.controller, server, communicator, abort_signal)
    for participant in (*participants, server):
        participant.end()
    if abort_signal.triggered:
        failed = [item for item in (server, *participants) if item.panic_reason is not None]
        raise RunError("; ".join(f"{item.name}: {item.panic_reason}" for item in failed) or "The run was stopped.")
    return Path(server.workspace.get_run_dir(JOB_ID))


def _run_workflow(
    controller: Controller, server: ServerParticipant, communicator: InProcessCommunicator, abort_signal: Signal
) -> None:
    controller.set_communicator(communicator)
    context = server.new_context()
    controller.initialize(context)
    controller.control_flow(abort_signal, context)
    controller.stop_controller(context)


def _use_own_stream() -> None:
    """Let what a thread launches on a GPU run at the same time as what others launch."""
    if torch.cuda.is_available():
        torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]


@contextmanager
def _process_as_before() -> Iterator[None]:
    """Give back what threads that set it and set it back at the same time may leave changed in the process."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=current_gpus()):
        # None is taken of these yet, whatever the process has taken.
        torch.manual_seed(0)
        yield


def _check_global_rng(task: str, *, is_used: bool) -> None:
    """Check that no site took global random numbers while several were at work: they would be those of chance.

    Raises:
        RunError: if one did.
    """
    if is_used:
        raise RunError(
            f"Sites took global random numbers of PyTorch in the task {task!r} while several worked at the same time, "
            "and none in its first turn; so the round's result would be one of chance. Expected --sites-at-once 1, "
            "with --resume for the rounds that are over."
        )


@dataclass(frozen=True)
class _Delivery:
    """A task for one site; ``own_name`` is the task's, whatever NVFlare calls it."""

    task: Task
    fl_ctx: FLContext
    site: str

    @property
    def own_name(self) -> str:
        return own_name(self.task.name, from_shareable(self.task.data))

    def step(self, position: int, count: int) -> Step:
        headers = (AppConstants.CURRENT_ROUND, AppConstants.NUM_ROUNDS)
        round_number, rounds = (self.task.data.get_header(header) for header in headers)
        return Step(round_number, rounds, self.own_name, self.site, position, count)


_Begun = deque[tuple[_Delivery, ClientTask, Future[Shareable]]]


def _own_copy(data: Shareable) -> Shareable:
    """Copy a task's message but not its tensors: executors read the received model and never change it."""
    copied = Shareable()
    copied.update(data)
    copied[ReservedHeaderKey.HEADERS] = dict(data[ReservedHeaderKey.HEADERS])
    return copied
