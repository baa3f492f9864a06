"""Commands of runs that a comparison would start, without a run."""

from pathlib import Path
from typing import Any

import pytest

from fedannot.apps.runs.run_process import Commands


def collect_commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return a list that gets the command of every run, each of which fails."""
    commands: list[list[str]] = []

    def start(_: Commands, command: list[str], log: Path, **__: Any) -> int:
        log.write_text("not run in this test")
        commands.append(command)
        return 1

    monkeypatch.setattr(Commands, "run", start)
    return commands
