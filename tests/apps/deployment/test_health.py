"""The health of a participant: with processes that run, that are stopped, and that are others'."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment import health
from fedannot.apps.deployment.check_points import Point, State
from fedannot.apps.deployment.health import check_health

DAY = timedelta(days=1)
MakeKit = Callable[..., Path]
Start = Callable[..., subprocess.Popen[bytes]]

# As NVFlare's: the program's name, then the kit's folder after -m; perhaps with a connection.
PROGRAM = """
import socket, sys, time
port = int(sys.argv[-1])
held = socket.create_connection(("127.0.0.1", port)) if port else None
time.sleep(60)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts something that looks like a participant's process."""
    started = []

    def run(kit: Path, port: int = 0, role: str = "site") -> subprocess.Popen[bytes]:
        words = ["-u", "-m", health._PROGRAMS[role], "-m", str(kit), str(port)]
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM, *words]))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait(10)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def points(kit: Path) -> dict[str, Point]:
    return {point.what: point for point in check_health(kit)}


def test_nothing_runs(make_kit: MakeKit) -> None:
    result = points(make_kit())
    assert set(result) == {"process", "certificate", "disk"}
    assert (result["process"].state, result["process"].found) == (State.PROBLEM, "none runs with this kit")
    assert "start.sh" in result["process"].remedy


@pytest.mark.parametrize("keeps_number", [True, False], ids=["start.sh", "--once"])
def test_a_site_that_is_connected(make_kit: MakeKit, start: Start, listener: socket.socket, keeps_number: bool) -> None:
    port = listener.getsockname()[1]
    kit = make_kit(target=f"localhost:{port}")
    process = start(kit, port)
    if keeps_number:
        (kit / "pid.fl").write_text(f"{process.pid}\n")
    held = listener.accept()
    result = points(kit)
    assert {point.state for point in result.values()} == {State.READY}
    assert result["process"].found.startswith(f"{process.pid}, since ")
    assert result["connection"].found == f"to localhost:{port}"
    held[0].close()


def test_a_site_without_a_connection_and_one_that_is_stopped(make_kit: MakeKit, start: Start) -> None:
    kit = make_kit()
    process = start(kit)
    assert points(kit)["connection"].state is State.PROBLEM
    process.send_signal(signal.SIGSTOP)
    end = time.monotonic() + 10
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < end
        time.sleep(0.01)
    result = points(kit)["process"]
    assert (result.state, result.remedy) == (State.PROBLEM, f"kill -CONT {process.pid}")


def test_the_number_of_a_process_that_is_gone_is_another_programs(make_kit: MakeKit, start: Start) -> None:
    """Of this test, and of a participant with another kit."""
    kit, other = make_kit(), start(make_kit("hospital-2"))
    for number in (psutil.Process().pid, other.pid):
        (kit / "pid.fl").write_text(str(number))
        assert points(kit)["process"].found == "none runs with this kit"


def test_the_servers_port(make_kit: MakeKit, start: Start, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    kit = make_kit("localhost", f"localhost:{port}", "server")
    start(kit, role="server")
    assert points(kit)["port"].state is State.READY
    listener.close()
    assert points(kit)["port"].state is State.PROBLEM


@pytest.mark.parametrize(("end", "state"), [(DAY, State.WARNING), (-DAY / 2, State.PROBLEM), (90 * DAY, State.READY)])
def test_the_certificates_end(make_kit: MakeKit, end: timedelta, state: State) -> None:
    assert points(make_kit(end=end))["certificate"].state is state


def test_the_command(make_kit: MakeKit, start: Start, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    kit = make_kit(target=f"localhost:{port}")
    result = CliRunner().invoke(app, ["deploy", "health", str(kit), "--quiet"])
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == "problem  process: none runs with this kit"
    start(kit, port)
    held = listener.accept()
    result = CliRunner().invoke(app, ["deploy", "health", str(kit)])
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "Healthy.")
    assert CliRunner().invoke(app, ["deploy", "health", str(kit), "--quiet"]).output == ""
    held[0].close()


def test_it_is_cheap() -> None:
    """It is asked every half minute: neither PyTorch nor NVFlare is loaded."""
    code = "import sys, fedannot.apps.commands.cli, fedannot.apps.deployment.health; print('torch' in sys.modules)"
    code += "; print('nvflare' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout.split() == ["False", "False"]
