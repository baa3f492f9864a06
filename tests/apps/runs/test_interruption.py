"""Signals to end within one process: what is raised, what is disturbed, what is put back."""

import logging
import os
import shlex
import signal
import sys
import threading
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app as fedannot
from fedannot.apps.commands.errors import reported_errors
from fedannot.apps.runs.interruption import Interrupted, check_interruption, given_command, stopping_on_signals
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.run_log import LOG_FILE, run_log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_handlers_are_as_before_and_an_except_of_exceptions_does_not_hold_it_up(number):
    before = [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)]

    def swallow():
        with stopping_on_signals():
            try:
                os.kill(os.getpid(), number)
            except Exception:
                pytest.fail("was taken for an error")

    with pytest.raises(Interrupted, match=signal.Signals(number).name) as raised:
        swallow()
    assert raised.value.exit_code == 128 + number
    assert [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)] == before
    check_interruption()


def swallowed():
    with stopping_on_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            # A second one disturbs nothing.
            os.kill(os.getpid(), signal.SIGTERM)
        check_interruption()


def test_what_was_swallowed_is_raised_again():
    with pytest.raises(Interrupted):
        swallowed()


def test_in_another_thread_nothing_is_changed():
    found = []

    def look():
        with stopping_on_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]


def test_an_error_that_a_library_makes_of_the_signal_is_no_error_of_the_run(tmp_path, capsys):
    """As PyTorch does when the signal comes while it writes a file."""

    def write() -> None:
        with reported_errors(lambda: "Go on."), run_log(tmp_path, Progress()):
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException as stop:
                logging.getLogger("nvflare").error("unexpected pos", exc_info=True)
                raise RuntimeError("unexpected pos") from stop

    with pytest.raises(typer.Exit) as ended:
        write()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "Stopped by SIGINT. Go on.\n"
    assert "unexpected pos" in (tmp_path / LOG_FILE).read_text()


def test_a_real_fault_keeps_its_traceback():
    with pytest.raises(RuntimeError, match="unexpected"), reported_errors():
        raise RuntimeError("unexpected")


app = typer.Typer()


@app.callback()
def group() -> None:
    pass


@app.command()
def end(
    context: typer.Context,
    places: list[str],
    count: int = 3,
    name: str | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    exact: Annotated[bool, typer.Option("--exact")] = False,
    resume: Annotated[bool, typer.Option("--resume")] = False,
) -> None:
    with reported_errors(lambda: f"Go on with: {given_command(context, resume=True)}"):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a"], "end a --resume"),
        (["a b", "c", "--count", "3"], "end 'a b' c --resume"),
        (
            ["a", "--set", "x=1", "--count", "4", "--set", "y=[1, 2]"],
            "end a --count 4 --set x=1 --set 'y=[1, 2]' --resume",
        ),
        (["a", "--resume", "--exact", "--name", "$(b)"], "end a --name '$(b)' --exact --resume"),
    ],
)
def test_the_command_that_goes_on_is_the_one_that_was_given(given, expected):
    result = CliRunner().invoke(app, ["end", *given], prog_name="fedannot")
    assert result.exit_code == 143
    assert result.output == f"Stopped by SIGTERM. Go on with: fedannot {expected}\n"


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_simulation_that_is_stopped_while_it_is_imported_says_a_command_that_works(monkeypatch, tmp_path, has_begun):
    """Half imported nothing can be imported any more; only what has an output folder can be resumed."""

    def stop(*_, **__):
        raise Interrupted(signal.SIGINT)

    out = tmp_path / "the output"
    if has_begun:
        out.mkdir()
    monkeypatch.setattr("fedannot.apps.runs.progress.Progress.tell", stop)
    monkeypatch.setitem(sys.modules, "fedannot.apps.runs.resuming", None)
    result = CliRunner().invoke(fedannot, ["simulate", "jobs/fedavg", "--out", str(out)], prog_name="fedannot")
    assert result.exit_code == 128 + signal.SIGINT
    command = shlex.join(["fedannot", "simulate", "jobs/fedavg", "--out", str(out)] + ["--resume"] * has_begun)
    assert result.stderr == f"Stopped by SIGINT. Go on with: {command}\n"
