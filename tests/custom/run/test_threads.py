"""Whose number of threads counts: the environment's, the kit's, the job's, and all cores at last."""

import json
from pathlib import Path

import pytest
import torch

from fedannot.custom.run import threads
from fedannot.custom.run.threads import COMPUTE_FILE, THREADS_VARIABLE, number_of_threads, set_threads
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch):
    """PyTorch would start with 32 threads; afterwards it has as many as before."""
    before = torch.get_num_threads()
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    monkeypatch.setattr(threads, "_DEFAULT", 32)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("environment", "kit", "job", "expected"),
    [
        (None, None, 0, 32),
        (None, None, 1, 1),
        (None, 0, 1, 1),
        (None, 8, 1, 8),
        ("3", 8, 1, 3),
        ("3", None, 0, 3),
        ("0", 8, 1, 8),
        ("", None, 0, 32),
    ],
)
def test_the_participant_comes_before_the_job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: str | None,
    kit: int | None,
    job: int,
    expected: int,
) -> None:
    if environment is not None:
        monkeypatch.setenv(THREADS_VARIABLE, environment)
    if kit is not None:
        (tmp_path / COMPUTE_FILE).write_text(json.dumps({"threads": kit}))
    assert number_of_threads(job, tmp_path) == expected


def test_pytorch_computes_with_them(tmp_path: Path) -> None:
    (tmp_path / COMPUTE_FILE).write_text('{"threads": 2}')
    set_threads(1, tmp_path)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("value", ["two", "-1", "1.5", "²", "99999"])
def test_an_environment_that_says_no_number(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, value)
    with pytest.raises(SettingsError, match="Expected a number of threads from 0 to 1024 in FEDANNOT_THREADS"):
        number_of_threads(1)


@pytest.mark.parametrize("content", ['{"threads": -1}', '{"threads": 99999}', '{"thread": 2}', "[]", "{"])
def test_a_kit_that_says_no_number(tmp_path: Path, content: str) -> None:
    (tmp_path / COMPUTE_FILE).write_text(content)
    with pytest.raises(DataError, match=r"compute\.json"):
        number_of_threads(1, tmp_path)
