"""Tasks that stand at the same time at NVFlare's real server of tasks, which sites ask oftener than they should."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.wf_comm_server import WFCommServer
from nvflare.apis.shareable import Shareable

from fedannot.custom.flare.task_delivery import beside_others

SITES = [Client(f"site-{number}", f"token {number}") for number in (1, 2, 3)]
BOUND = 10.0


class Server:
    """NVFlare's server of tasks without a network; sites are asked by hand."""

    def __init__(self) -> None:
        self.tasks = WFCommServer(task_check_period=0.02)
        self.tasks._engine = SimpleNamespace(get_clients=lambda: SITES, new_context=self.context)
        self.tasks.controller = SimpleNamespace(logger=self.tasks.logger)
        self.tasks.fire_event = lambda *_, **__: None
        self.tasks._task_monitor.start()
        self.answered: list[str] = []

    @contextmanager
    def context(self) -> Iterator[FLContext]:
        context = FLContext()
        context.set_prop(FLContextKey.JOB_RUN_NUMBER, "job", private=True)
        yield context

    def tell(self, site: Client, seconds: int = 60, data: Shareable | None = None) -> Task:
        """Schedule a task for one site."""

        def note(client_task: ClientTask, fl_ctx: FLContext) -> None:
            del fl_ctx
            self.answered.append(client_task.client.name)

        task = Task("tell", Shareable() if data is None else data, timeout=seconds, result_received_cb=note)
        self.tasks.broadcast(beside_others(task, own_data=True), FLContext(), targets=[site.name], min_responses=1)
        return task

    def ask(self, site: Client) -> tuple[str, Shareable]:
        """A site asks for a task: its number and data; no number where there is none."""
        _, number, data = self.tasks.process_task_request(site, FLContext())
        return number, data

    def answer(self, site: Client, number: str) -> None:
        self.tasks.process_submission(site, "tell", number, Shareable(), FLContext())

    def all_end(self) -> bool:
        return waited(lambda: self.tasks.get_num_standing_tasks() == 0)


def waited(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + BOUND
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    return is_so()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.tasks._all_done = True
    made.tasks._task_monitor.join(BOUND)


@pytest.mark.parametrize("again", SITES, ids=lambda site: site.name)
def test_a_site_that_asks_again_before_it_answers_stops_nobody(server: Server, again: Client) -> None:
    for site in SITES:
        server.tell(site)
    first = {site.name: server.ask(site)[0] for site in SITES}
    assert [server.ask(again)[0] for _ in range(3)] == 3 * [first[again.name]]
    for site in SITES:
        server.answer(site, first[site.name])
    assert server.all_end()
    assert server.answered == [site.name for site in SITES]
    # Tasks still end by their time.
    server.tell(SITES[0], seconds=1)
    assert server.all_end()


def test_a_site_gets_its_own_task_alone(server: Server) -> None:
    data = {site.name: Shareable({"secret": site.name}) for site in SITES}
    for site in SITES[:2]:
        server.tell(site, data=data[site.name])
    assert [server.ask(site)[1]["secret"] for site in SITES[:2]] == ["site-1", "site-2"]
    assert server.ask(SITES[2])[0] == ""


def test_an_answer_under_the_number_of_another_sites_task_does_not_count(server: Server) -> None:
    for site in SITES[:2]:
        server.tell(site)
    numbers = [server.ask(site)[0] for site in SITES[:2]]
    server.answer(SITES[1], numbers[0])
    assert server.answered == []
    server.answer(SITES[1], numbers[1])
    assert server.answered == ["site-2"]
    server.tasks.cancel_all_tasks(fl_ctx=FLContext())
    assert server.all_end()


def test_the_model_is_not_copied_for_every_site(server: Server) -> None:
    model = np.zeros(3)
    for site in SITES:
        server.tell(site, data=Shareable({"model": model}))
    assert all(server.ask(site)[1]["model"] is model for site in SITES)
