"""HOCON of others includes files of its own folder, and reaches nothing else: no network, no other file, no code."""

import http.server
import shutil
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyhocon import ConfigFactory, config_parser
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.hocon import parse_hocon_value, read_hocon
from fedannot.apps.runs.job import Job, JobError, parse_hocon
from fedannot.apps.runs.overrides import parse_override
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

JOBS = Path(__file__).parents[3] / "jobs"


@pytest.fixture
def requested() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and what it was asked for."""
    paths: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"settings { rounds = 77 }")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with socketserver.TCPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/evil.conf", paths
        server.shutdown()
        thread.join(timeout=5)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job folder of somebody else; beside it there is a file that is none of theirs."""
    (tmp_path / "secret.conf").write_text("settings { rounds = 66 }")
    return Path(shutil.copytree(JOBS / "fedavg", tmp_path / "foreign"))


def add(file: Path, text: str) -> None:
    file.write_text(f"{file.read_text()}\n{text}\n")


@pytest.mark.parametrize(
    "statement", ['include url("{}")', 'include "{}"', 'include required(url("{}"))', 'include # here\n url("{}")']
)
def test_no_url_is_fetched(statement: str, job: Path, requested: tuple[str, list[str]]) -> None:
    url, paths = requested
    add(job / "app" / "config" / "settings.conf", statement.format(url))
    with pytest.raises(JobError, match=r"settings\.conf.*") as caught:
        Job.open(job)
    if "#" not in statement:
        assert f"found an include of the URL {url!r}; expected files of the folder alone" in str(caught.value)
    assert paths == []
    # The parser of others fetches it.
    if statement.startswith("include url"):
        assert ConfigFactory.parse_string(statement.format(url))["settings.rounds"] == 77
        assert paths == ["/evil.conf"]


@pytest.mark.parametrize(
    "statement",
    [
        'include "../../../secret.conf"',
        'include file("{outside}/secret.conf")',
        'include url("file://{outside}/secret.conf")',
        'include required(file("../../../secret.conf"))',
        'include "linked.conf"',
        'include "inner/first.conf"',
        'include "{outside}/*.conf"',
        'include package("evil_package:secret.conf")',
    ],
)
def test_no_file_outside_the_job_is_read(
    statement: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = job / "app" / "config"
    (config / "linked.conf").symlink_to(tmp_path / "secret.conf")
    (config / "inner").mkdir()
    (config / "inner" / "first.conf").write_text('include "../../../../secret.conf"')
    package = tmp_path / "evil_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    add(config / "settings.conf", statement.format(outside=tmp_path))
    with pytest.raises(JobError, match=r"settings\.conf: found an include of .*; expected "):
        Job.open(job)
    assert "evil_package" not in sys.modules


def test_a_set_of_settings_and_the_command_are_guarded(job: Path, tmp_path: Path) -> None:
    named = tmp_path / "sets" / "mine.conf"
    named.parent.mkdir()
    named.write_text('include "../secret.conf"')
    with pytest.raises(JobError, match=rf"expected files in {named.parent} alone"):
        SettingsFile.read(Job.open(job), str(named))
    result = CliRunner().invoke(app, ["simulate", str(job), "--settings", str(named), "--out", str(tmp_path / "out")])
    assert result.exit_code != 0
    assert not (tmp_path / "out").exists()


def test_files_of_the_job_are_included_from_its_folders(job: Path) -> None:
    """Also from a set of settings, which lies beside the app."""
    own = job / "app" / "config" / "settings.conf"
    (job / "shared").mkdir()
    (job / "shared" / "rounds.conf").write_text("settings { rounds = 9 }")
    (job / "settings").mkdir(exist_ok=True)
    (job / "settings" / "short.conf").write_text('include "../shared/rounds.conf"\nsettings { seed = 3 }')
    assert SettingsFile.read(Job.open(job), "short").values == {"rounds": 9, "seed": 3}
    add(own, 'include "../../shared/rounds.conf"')
    assert Job.open(job).settings().rounds == 9


def test_includes_that_never_end_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text('include "a.conf"')
    with pytest.raises(DataError, match="found includes of includes, more than 8 deep"):
        read_hocon(file, tmp_path)


def test_the_parser_of_others_in_the_process_stays_as_it_is(tmp_path: Path) -> None:
    before = config_parser.glob, config_parser.urlopen, ConfigFactory.parse_file, ConfigFactory.parse_URL
    (tmp_path / "a.conf").write_text("a = 1")
    assert parse_hocon(tmp_path / "a.conf") == {"a": 1}
    assert before == (config_parser.glob, config_parser.urlopen, ConfigFactory.parse_file, ConfigFactory.parse_URL)


# --- blocks on the command line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{_target_=SegResNet, init_filters=8}", {"_target_": "SegResNet", "init_filters": 8}),
        ("{ _target_ = UNet, strides = [2, 2], act = [prelu, { init = 0.2 }] }", None),
        ("{_target_: SegResNet, init_filters: 8}", {"_target_": "SegResNet", "init_filters": 8}),
        (
            "[{_target_ = RandFlipd, keys = [image, label], prob = 0.5}]",
            [{"_target_": "RandFlipd", "keys": ["image", "label"], "prob": 0.5}],
        ),
        ("['a=b']", ["a=b"]),
        ("{text: 'a=b'}", {"text": "a=b"}),
    ],
)
def test_a_block_is_given_as_a_file_has_it(text: str, value: object) -> None:
    expected = value or {"_target_": "UNet", "strides": [2, 2], "act": ["prelu", {"init": 0.2}]}
    assert parse_override(f"network={text}") == ("network", expected)


def test_a_block_of_the_command_line_is_a_network_and_includes_nothing(job: Path, tmp_path: Path) -> None:
    overrides = dict([parse_override("network={_target_=SegResNet, init_filters=8}")])
    network = Job.open(job).settings_with(overrides).network
    assert network.component is not None
    assert (network.component.target, network.component.arguments) == (
        "monai.networks.nets.SegResNet",
        {"init_filters": 8},
    )
    with pytest.raises(SettingsError, match=r"cannot be read: the value: found an include .*; expected no include"):
        parse_override(f'network={{ include "{tmp_path}/secret.conf", a = 1 }}')
    with pytest.raises(SettingsError, match="cannot be read: the value is not HOCON"):
        parse_override("network={_target_ = [}")
    assert parse_hocon_value("{a = 1}") == {"a": 1}
