"""The examples of docs/networks.md: settings and passes of each, and a run of the one in Python."""

import itertools
import re
import shlex
from pathlib import Path

import pytest

from fedannot.apps.functions.runs import Run
from fedannot.apps.runs.data_compatibility import settings_for_data
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.overrides import parse_override
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.custom.components.component import Component
from fedannot.custom.components.merging import merged
from fedannot.custom.training.component_check import check_training

PAGE = (Path(__file__).parents[3] / "docs" / "networks.md").read_text(encoding="utf-8")
COMMANDS = [text.replace("\\\n", " ") for text in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)]
FILES = dict(re.findall(r"^```text file=(\S+)\n(.*?)^```$", PAGE, re.M | re.S))
(CODE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_page_has_five_examples() -> None:
    assert (len(COMMANDS), len(FILES)) == (4, 2)


def test_the_training_of_the_page_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "training.conf"
    file.write_text(FILES[file.name], encoding="utf-8")
    job = Job.open("fedavg")
    settings = job.settings_with(SettingsFile.read(job, str(file)).values)
    check_training(settings, str(file))
    assert isinstance(settings.training.optimizer, Component)
    assert settings.training.local_steps == 50


@pytest.mark.parametrize("command", COMMANDS)
def test_the_network_of_an_example_takes_the_jobs_images(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `fedannot simulate` does before its first round."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = shlex.split(command)
    job = Job.open(words[2])
    pairs = list(itertools.pairwise(words))
    of_set = [SettingsFile.read(job, value).values for key, value in pairs if key == "--settings"]
    changes = merged(*of_set, dict(parse_override(value) for key, value in pairs if key == "--set"))
    settings = job.settings_with(settings_for_data(job, changes, None))
    assert settings.network.component is not None


def test_the_example_in_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(CODE, names)
    run = names["run"]
    assert isinstance(run, Run)
    assert run.summary.rounds_finished == 1
    assert run.report.is_file()
    assert run.summary.estimated_memory_mb is not None
