"""The free memory is the machine's, or what the control group has left, and a job cannot give out more."""

import pytest

from fedannot.custom.run import free_memory
from fedannot.custom.run.free_memory import free_memory_mb, waiting_memory

MIB = 2**20


@pytest.fixture
def machine(tmp_path):
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 9000 kB\nMemAvailable: 8192000 kB\n", encoding="ascii")
    return file


def group(folder, limit, names=("memory.max", "memory.current", "inactive_file")):
    folder.mkdir(parents=True)
    for name, value in zip(names[:2], (limit, str(900 * MIB)), strict=True):
        (folder / name).write_text(f"{value}\n", encoding="ascii")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {100 * MIB}\n", encoding="ascii")


def test_of_the_machine_without_a_limit_or_a_group(machine, tmp_path):
    assert free_memory_mb(machine, tmp_path / "none") == 8000
    group(tmp_path / "group", "max")
    assert free_memory_mb(machine, tmp_path / "group") == 8000
    assert free_memory_mb(tmp_path / "no file", tmp_path / "group") is None


def test_of_a_group_of_either_version_with_the_cached_files_that_it_gives_up(machine, tmp_path):
    group(tmp_path / "two", str(1000 * MIB))
    assert free_memory_mb(machine, tmp_path / "two") == 200
    group(
        tmp_path / "one" / "memory",
        str(1000 * MIB),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    assert free_memory_mb(machine, tmp_path / "one") == 200
    group(tmp_path / "full", str(500 * MIB))
    assert free_memory_mb(machine, tmp_path / "full") == 0


@pytest.mark.parametrize(
    ("free", "limit", "expected"),
    [(400.0, None, 100), (400.0, 30, 30), (400.0, 9999, 100), (None, 30, 0), (400.0, 0, 0)],
)
def test_models_that_wait_have_a_quarter_at_most(monkeypatch, free, limit, expected):
    monkeypatch.setattr(free_memory, "free_memory_mb", lambda: free)
    assert waiting_memory(limit) == expected * MIB
