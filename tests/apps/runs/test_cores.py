"""How many sites work at a time: cores as they are bound and allotted, threads, memory."""

import os
from pathlib import Path

import pytest

from fedannot.apps.runs import cores
from fedannot.apps.runs.cores import available_cores, fitting_on_gpu, suitable_sites_at_once
from fedannot.apps.runs.job import Job

SETTINGS = Job.open("fedavg").settings()


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "nonsense"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
    ],
)
@pytest.mark.usefixtures("eight_cores")
def test_cores_are_those_that_the_process_may_use(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    assert available_cores(tmp_path) == expected


@pytest.mark.usefixtures("eight_cores")
def test_sites_share_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "available_cores", lambda: 8)
    monkeypatch.setattr(cores, "free_memory_mb", lambda: 4000.0)
    assert suitable_sites_at_once(SETTINGS, 20) == 8
    assert suitable_sites_at_once(SETTINGS, 3) == 3
    assert suitable_sites_at_once(SETTINGS.model_copy(update={"threads": 4}), 20) == 2
    assert suitable_sites_at_once(SETTINGS.model_copy(update={"threads": 16}), 20) == 1
    # Half of 4,000 MiB.
    assert suitable_sites_at_once(SETTINGS, 20, step_mb=700.0) == 2
    assert suitable_sites_at_once(SETTINGS, 20, step_mb=9000.0) == 1
    monkeypatch.setattr(cores.torch.cuda, "is_available", lambda: True)
    assert suitable_sites_at_once(SETTINGS, 20) == 1


def test_as_many_sites_as_half_of_a_gpu_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fitting_on_gpu(3) == 3
    monkeypatch.setattr(cores.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cores.torch.cuda, "mem_get_info", lambda: (10, 1000))
    for taken, expected in ((0, 4), (124, 4), (126, 3), (251, 1), (900, 1)):
        monkeypatch.setattr(cores.torch.cuda, "max_memory_reserved", lambda taken=taken: taken)
        assert fitting_on_gpu(4) == expected
