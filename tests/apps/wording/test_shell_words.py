"""Commands that a reader copies: a folder's name is one word of them, whatever is in it."""

import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.interruption import given_command
from fedannot.apps.wording.shell_words import shell_word

HOSTILE = ("my kits", "a'b", 'a"b', "$(touch HACKED)", "`touch HACKED`", "x; touch HACKED", "-n", "ü & ö", "a\\b", "*")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_name_that_was_meant(name: str, tmp_path: Path) -> None:
    script = f"printf '%s' {shell_word(name)}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout == name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "word"),
    [("-x", "./-x"), ("-x y", "'./-x y'"), ("--out", "./--out"), ("runs/-x", "runs/-x"), ("/-x", "/-x"), ("x", "x")],
)
def test_no_command_takes_a_relative_path_for_an_option(path: str, word: str) -> None:
    assert shell_word(Path(path)) == word
    # A name is no path.
    assert shell_word("-x") == "-x"


def test_a_printed_command_takes_a_folder_whose_name_starts_with_a_hyphen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["jobs", "copy", "fedavg", "--", "-x"])
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("Run it: "))
    _, *words = shlex.split(line.removeprefix("Run it: "))
    assert words == ["simulate", "./-x/fedavg"]
    # The command is understood: it reads the job, which has no such setting.
    again = CliRunner().invoke(app, [*words, "--set", "no_such=1"])
    assert "no_such" in again.output
    assert "No such option" not in again.output


def test_a_command_to_go_on_with_takes_such_a_folder() -> None:
    root = typer.main.get_command(app)
    simulate = root.commands["simulate"]  # type: ignore[attr-defined]
    with simulate.make_context(
        "simulate", ["--out", "-y", "--", "-x"], typer.Context(root, info_name="fedannot")
    ) as one:
        said = given_command(one)
    assert shlex.split(said) == ["fedannot", "simulate", "./-x", "--out", "-y"]


def test_a_printed_command_does_nothing_but_what_it_says(tmp_path: Path) -> None:
    """The folder of the federation's files is named so that a shell without quotes would run what it names."""
    folder = tmp_path / "x; touch HACKED; $(touch HACKED)"
    result = CliRunner().invoke(app, ["deploy", "configs", str(folder)])
    assert result.exit_code == 0
    last = result.stdout.splitlines()[-1]
    command = last.partition("then: ")[2].replace("nvflare provision", "printf '%s\\n'")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout.splitlines()[:2] == ["-p", str(folder / "project.yml")]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
