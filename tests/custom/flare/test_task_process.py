"""A site's tasks in a process of their own: the same answers, and a bounded end when it dies or hangs."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply
from nvflare.app_common.app_constant import AppConstants

from fedannot.custom.flare.messages import REFUSAL_HEADER, SAMPLE_VALUES
from fedannot.custom.flare.task_process import SiteContext, TaskProcess, TaskProcessError, TaskStopped, describe_exit
from fedannot.custom.outbound.private_statistics import PatientVectors, SampleValues

SAMPLES = {
    "offset": SampleValues.of([[1.0], [-2.0]], ["a", "b"], is_mean=True, is_signed=True),
    "number": SampleValues.of([3.0, 4.0, 5.0], ["a", "a", "b"], is_mean=False),
    "curve": PatientVectors.of_patients(np.full((3, 1, 4), 2.0)),
}


class Worker:
    """Answers by the task's name, as an executor would or would rather not."""

    def __init__(self, settings):
        self.settings = settings

    def answer(self, task, shareable, fl_ctx, stop, note):
        assert not stop.triggered
        if task == "note and die":
            note({"num_samples": 3, "embedded_data": False})
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "hang":
            time.sleep(600)
        if task == "refuse":
            reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
            reply.set_header(REFUSAL_HEADER, "no data")
            return reply
        if task == "estimate":
            fl_ctx.set_prop(SAMPLE_VALUES, SAMPLES, private=True, sticky=False)
        logging.getLogger("worker").warning("task %s", task)
        received = from_shareable(shareable)
        workspace = fl_ctx.get_engine().get_workspace()
        where = [fl_ctx.get_identity_name(), fl_ctx.get_job_id(), workspace.get_run_dir(fl_ctx.get_job_id())]
        meta = {"where": where, "seed": self.settings["seed"], "pid": os.getpid(), **received.meta}
        reply = DXO(DataKind.WEIGHTS, {name: 2 * value for name, value in received.data.items()}, meta).to_shareable()
        reply.set_header(AppConstants.CURRENT_ROUND, shareable.get_header(AppConstants.CURRENT_ROUND))
        return reply


@pytest.fixture
def workspace(tmp_path):
    for name in ("startup", "local"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def process(workspace):
    made = TaskProcess(Worker, {"seed": 7}, SiteContext("site-2", "job-9", str(workspace)))
    yield made
    made.end()


def task(round_number=3):
    shareable = DXO(
        DataKind.WEIGHTS, {"w": torch.tensor([0.1, -2.0]), "n": torch.tensor(3)}, {"rule": "x"}
    ).to_shareable()
    shareable.set_header(AppConstants.CURRENT_ROUND, round_number)
    return shareable


def never():
    return False


def test_the_answer_comes_from_another_process_with_the_sites_own_context(process, workspace, caplog):
    reply, _ = process.do("train", task(), 60, never)
    result = from_shareable(reply)
    assert torch.equal(result.data["w"], torch.tensor([0.2, -4.0]))
    assert torch.equal(result.data["n"], torch.tensor(6))
    assert result.meta["where"] == ["site-2", "job-9", str(workspace / "job-9")]
    assert (result.meta["rule"], result.meta["seed"]) == ("x", 7)
    assert result.meta["pid"] == process.pid != os.getpid()
    assert reply.get_header(AppConstants.CURRENT_ROUND) == 3
    assert ("worker", logging.WARNING, "task train") in caplog.record_tuples


def test_what_statistics_are_made_of_comes_along(process):
    _, samples = process.do("estimate", task(), 60, never)
    assert set(samples) == set(SAMPLES)
    for name, given in SAMPLES.items():
        result = samples[name]
        assert result.values.tolist() == given.values.tolist()
        assert result.units.tolist() == given.units.tolist()
        assert (result.is_mean, result.is_signed) == (given.is_mean, given.is_signed)
        # What noise is made by: vectors are cut to a length, not entry by entry.
        assert type(result) is type(given)
        assert (result.bounded(0, 3.0), result.sensitivity(0, 3.0)) == (
            given.bounded(0, 3.0),
            given.sensitivity(0, 3.0),
        )


def test_a_refusal_keeps_its_reason_and_the_process_goes_on(process):
    reply, _ = process.do("refuse", task(), 60, never)
    assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert reply.get_header(REFUSAL_HEADER) == "no data"
    assert from_shareable(process.do("train", task(), 60, never)[0]).meta["pid"] == process.pid


def test_a_death_is_reported_with_its_signal(process):
    with pytest.raises(TaskProcessError, match=r"its process died \(signal 9\)"):
        process.do("die", task(), 60, never)
    with pytest.raises(TaskProcessError, match="died"):
        process.do("train", task(), 60, never)


def test_what_is_noted_comes_along_though_the_process_dies_later(process):
    noted = []
    with pytest.raises(TaskProcessError, match=r"its process died \(signal 9\)"):
        process.do("note and die", task(), 60, never, noted.append)
    assert noted == [{"num_samples": 3, "embedded_data": False}]


def test_a_process_that_hangs_is_ended_in_time(process):
    process.do("train", task(), 60, never)
    began = time.monotonic()
    with pytest.raises(TaskProcessError, match="did not answer within 1 s"):
        process.do("hang", task(), 1, never)
    assert time.monotonic() - began < 15
    assert not psutil.pid_exists(process.pid)


def test_a_stopped_task_ends_the_process(process):
    process.do("train", task(), 60, never)
    with pytest.raises(TaskStopped):
        process.do("hang", task(), 600, lambda: True)
    assert not psutil.pid_exists(process.pid)


def test_a_killed_parent_leaves_no_process(workspace, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_task_process import SiteContext, TaskProcess, Worker, never, task\n"
        "if __name__ == '__main__':\n"
        f"    process = TaskProcess(Worker, {{'seed': 0}}, SiteContext('a', 'b', {str(workspace)!r}))\n"
        "    process.do('train', task(), 60, never)\n"
        "    print(process.pid, flush=True)\n"
        "    process.do('hang', task(), 600, never)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        child.wait(timeout=20)
    assert not child.is_running()


@pytest.mark.parametrize(("code", "said"), [(None, "no exit code"), (1, "exit code 1"), (-15, "signal 15")])
def test_how_a_process_ended(code, said):
    assert describe_exit(code) == said
