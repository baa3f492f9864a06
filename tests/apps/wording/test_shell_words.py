"""Commands that a reader copies: a folder's name is one word of them, whatever is in it."""

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.wording.shell_words import shell_word

HOSTILE = ("my kits", "a'b", 'a"b', "$(touch HACKED)", "`touch HACKED`", "x; touch HACKED", "-n", "ü & ö", "a\\b", "*")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_name_that_was_meant(name: str, tmp_path: Path) -> None:
    script = f"printf '%s' {shell_word(name)}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout == name
    assert list(tmp_path.iterdir()) == []


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
