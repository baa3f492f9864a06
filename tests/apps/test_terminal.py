"""Whatever names hold, the terminal, the errors and the logs get visible escapes of it, and no markup is read."""

import ast
import io
import json
import logging
import sys
from pathlib import Path

import numpy as np
import plain_records
import pytest
import typer
from PIL import Image
from rich.table import Table
from typer.testing import CliRunner

import fedannot.apps.commands.cli
from fedannot.apps.commands.cli import app
from fedannot.apps.commands.errors import reported_errors
from fedannot.apps.reports.summary_text import print_summary
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.run_log import run_log
from fedannot.apps.terminal import Terminal
from fedannot.transforms.errors import DataError

EVIL = "x\x1b[31m\u202e[red]y[/red] [link=http://z]:smile:\n$\\nosuch{.png"
SHOWN = r"x\x1b[31m\u202e[red]y[/red] [link=http://z]:smile:\n$\nosuch{.png"


def printed(show):
    text = io.StringIO()
    show(Terminal(file=text, width=200, force_terminal=True))
    return text.getvalue()


def as_table(console):
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    console.print(table)


@pytest.mark.parametrize(
    "show",
    [
        lambda console: console.print(EVIL),
        lambda console: console.print(EVIL, style="yellow"),
        lambda console: console.print_named(EVIL, EVIL),
        as_table,
    ],
    ids=["line", "style", "named", "table"],
)
def test_a_text_is_printed_letter_by_letter(show):
    text = printed(show)
    assert SHOWN in text
    assert "\x1b[31m" not in text
    assert "\x1b]8" not in text
    assert "\u202e" not in text


def test_styles_are_given_beside_the_text():
    assert "\x1b[33m" in printed(lambda console: console.print("warned", style="yellow"))


@pytest.fixture
def evil_site(tmp_path):
    """A site whose files and classes have such names."""
    site = tmp_path / "site"
    (site / "images").mkdir(parents=True)
    name = EVIL.replace("/", "|")
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(site / "images" / name)
    items = [{"image": f"images/{name}", "label": f"images/absent {name}"}, {"image": f"../{name}", "label": EVIL}]
    (site / "datalist.json").write_text(json.dumps({"training": items}))
    classes = json.dumps([EVIL])
    (site / "data.yaml").write_text(f"channels: 1\nsize: [8, 8]\nlabels: {{0: 0, 255: 1}}\nclasses: {classes}\n")
    return site


def assert_harmless(output):
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert r"x\x1b[31m\u202e[red]" in output


@pytest.mark.filterwarnings("error:Glyph")
def test_the_check_names_such_files_and_draws_their_sheet(evil_site, tmp_path):
    result = CliRunner().invoke(app, ["data", "check", str(evil_site), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1, result.output
    assert_harmless(result.output)
    assert (tmp_path / "out" / "site.png").is_file()


def test_an_error_names_such_a_file(tmp_path):
    result = CliRunner().invoke(app, ["data", "check", str(tmp_path / EVIL.replace("/", "|"))])
    assert result.exit_code == 1
    assert_harmless(result.output)
    # What is done, the error, and its second line.
    assert [line.startswith("    ") for line in result.output.splitlines()] == [False, False, True]


def test_a_summary_with_such_names_is_printed_letter_by_letter():
    report = {"num_samples": 1, "num_excluded": 0, "train_loss": 0.5}
    summary = {
        "method": EVIL,
        "task": "segmentation",
        "seed": 0,
        "rounds_finished": 1,
        "seconds": 1.0,
        "last_rounds": {"dice": 0.5, "hd95": 1.0},
        "rounds": [],
        "sites": {EVIL: report | {"updates_delta": 1e-5, "updates_epsilon": 1.0}},
        "estimate": {"reason": EVIL, "sites": {}, "p_value": None},
        "absent": [EVIL],
        "bounded": [{"round": 1, "site": EVIL, "share": [0.1]}],
        "refusals": [{"round": 1, "site": EVIL, "reason": EVIL}],
    }
    text = printed(lambda console: print_summary(plain_records.summary(**summary), console))
    assert text.count(SHOWN) >= 7
    assert "\x1b[31m" not in text
    assert "\u202e" not in text


def test_no_line_of_an_error_passes_for_another(capsys):
    with pytest.raises(typer.Exit), reported_errors():
        raise DataError("a\nError: b")
    assert capsys.readouterr().err == "Error: a\n    Error: b\n"


def test_the_log_of_a_run_has_one_beginning_of_a_line_for_each_message(tmp_path, capsys):
    logger = logging.getLogger("anything")
    with run_log(tmp_path, Progress()):
        logger.warning("site %s is lost", EVIL)
        try:
            raise ValueError("a\n2026-01-01 00:00:00 INFO forged\x1b[2J")
        except ValueError:
            logger.exception("failed")
    lines = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("    ")] == [lines[0], lines[1]]
    assert SHOWN in lines[0]
    assert "\x1b" not in "".join(lines)
    shown = capsys.readouterr().err
    assert f"warning: site {SHOWN} is lost\n" in shown
    assert "\x1b" not in shown


def test_a_traceback_has_its_lines_in_the_log_and_that_of_a_site_is_not_on_the_console(tmp_path, capsys):
    site = logging.getLogger("fedannot.custom.flare.executor.FederatedExecutor")
    traceback = 'Traceback (most recent call last):\n  File "{}.py", line 3, in loss\nValueError: x\x1b[2J\n'
    with run_log(tmp_path, Progress()):
        site.error(traceback.format("at_site"))
        logging.getLogger("server").error(traceback.format("at_server"))
    lines = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    expected = ['      File "at_site.py", line 3, in loss', r"    ValueError: x\x1b[2J"]
    assert [lines[0].endswith("Traceback (most recent call last):"), lines[1:3]] == [True, expected]
    shown = capsys.readouterr().err
    assert "at_site" not in shown
    assert 'Traceback (most recent call last):\n      File "at_server.py", line 3, in loss\n' in shown


@pytest.mark.skipif(sys.platform != "linux", reason="the disk must take bytes that are no text")
def test_a_name_that_is_no_text_is_listed(tmp_path):
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
    for kind in (b"images", b"labels"):
        path = str(tmp_path).encode() + b"/" + kind + b"/m\xe4.png"
        with open(path, "wb") as stream:  # noqa: PTH123 - bytes
            stream.write(b"damaged")
    images, labels = tmp_path / "images", tmp_path / "labels"
    arguments = ["data", "import", "--images", str(images), "--labels", str(labels), "--sites", "1", "--out"]
    result = CliRunner().invoke(app, [*arguments, str(tmp_path / "out")])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert r"m\udce4.png" in result.output


APPS = Path(fedannot.apps.commands.cli.__file__).parent


@pytest.mark.parametrize("file", sorted(APPS.rglob("*.py")), ids=lambda file: str(file.relative_to(APPS)))
def test_nothing_is_printed_past_the_functions_that_escape(file):
    if file.name in ("terminal.py", "plain_lines.py"):
        return
    calls = [node.func for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    names = {function.id if isinstance(function, ast.Name) else getattr(function, "attr", "") for function in calls}
    own = {function.id for function in calls if isinstance(function, ast.Name)}
    assert not names & {"echo", "secho", "Console"}
    assert "print" not in own
