"""What `fedannot compare` refuses before the first run, and what it gives the runs of its arms."""

import json
from pathlib import Path

import pytest
from support.unstarted_runs import collect_commands
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app

JOBS = Path(__file__).parents[3] / "jobs"
FEDAVG, FEDA3I, FEDIA = JOBS / "fedavg", JOBS / "fedaaai", JOBS / "fedia"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of runs that a comparison would start; none is."""
    return collect_commands(monkeypatch)


def test_the_command_refuses_and_like_runs_both_alike(tmp_path: Path, started: list[list[str]]) -> None:
    arguments = ["compare", str(FEDAVG), str(FEDIA), "--seeds", "1", "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert "training.loss: ce in fedavg, batch_dice in fedia" in refused.output
    assert not started
    assert not (tmp_path / "out").exists()

    CliRunner().invoke(app, [*arguments, "--like", "fedia", "--set", "network.upsample=deconv"])
    commands = {Path(command[1]).name: command for command in started}
    assert set(commands) == {"fedavg", "fedia"}
    given = set(commands["fedavg"]) - {"--set"}
    assert {'training.loss="batch_dice"', "rounds=24", 'embedded.task="lesions3d"', "embedded.noise=null"} <= given
    assert [word for word in commands["fedia"] if "=" in word] == ['network.upsample="deconv"']
    asked = json.loads((tmp_path / "out" / "request.json").read_text(encoding="utf-8"))
    assert (asked["like"], asked["allow_different"], asked["overrides"]) == (
        "fedia",
        [],
        {"network.upsample": "deconv"},
    )
    short = CliRunner().invoke(app, [*arguments, "--like", "fedavg"])
    assert "Error: fedia, with the settings of --like fedavg: " in short.output
    again = CliRunner().invoke(app, [*arguments, "--like", "fedavg", "--set", "warmup_rounds=2"])
    assert "like was fedia and is fedavg" in " ".join(again.output.split())


def test_like_another_task_is_refused(tmp_path: Path) -> None:
    arguments = ["compare", str(FEDAVG), str(FEDA3I), "--like", "fedgsca", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert "--like fedgsca is for classification, but the arms are for segmentation" in " ".join(result.output.split())


NETWORK = """
from torch import nn
def build(in_channels, out_channels):
    return nn.Conv2d(in_channels, out_channels, 3, padding=1)
"""


def test_one_network_of_a_researchers_own_for_all_arms(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fair_network.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    jobs = [str(FEDAVG), str(FEDIA), "--like", "fedia"]
    arguments = ["compare", *jobs, "--network", "fair_network:build", "--seeds", "1", "--out", str(tmp_path / "out")]
    CliRunner().invoke(app, arguments)
    assert len(started) == 2
    for command in started:
        assert command[command.index("--network") + 1] == "fair_network:build"
        assert not any(word.startswith("network.") for word in command)
    result = CliRunner().invoke(app, [*arguments, "--set", "fedia:network.features=[4,4,8,8,8,4]"])
    assert "--network is given, and 'network.features' says another network" in " ".join(result.output.split())


def test_start_weights_that_differ_are_refused(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = "number = 0\ndef counted():\n    global number\n    number += 1\n    made = build(1, 2)\n"
    (tmp_path / "odd_network.py").write_text(f"{NETWORK}{counting}    made.bias.data[0] = number\n    return made\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ["compare", str(FEDAVG), str(FEDA3I), "--network", "odd_network:counted", "--seeds", "1"]
    arguments += ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert "those of seed 0 differ in 2 common entries" in " ".join(result.output.split())
    assert not started
    CliRunner().invoke(app, [*arguments, "--allow-different", "start_weights"])
    assert len(started) == 2
