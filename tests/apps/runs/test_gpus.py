"""GPUs of a machine: each run sees one, the one with the fewest runs; sites of a run take turns there."""

import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedannot.apps.commands.simulation import SIMULATION
from fedannot.apps.runs import run_places
from fedannot.apps.runs.gpus import SharedGpus, visible_gpus
from fedannot.apps.runs.run_process import Commands


def say_gpu(arguments: Sequence[str]) -> None:
    """What a run does here: it says what it sees, once all have begun."""
    folder, number = Path(arguments[0]), int(arguments[1])
    sys.stdout.write(json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES")))
    (folder / f"begun{len(list(folder.glob('begun*')))}-{os.getpid()}").touch()
    while len(list(folder.glob("begun*"))) < number:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("variable", "count", "names"),
    [
        (None, 0, ()),
        (None, 3, ("0", "1", "2")),
        ("2, 5", 2, ("2", "5")),
        ("GPU-8f,GPU-9a,GPU-lost", 2, ("GPU-8f", "GPU-9a")),
        ("", 0, ()),
        ("-1", 0, ()),
    ],
)
def test_gpus_are_named_as_the_variable_has_them(
    variable: str | None, count: int, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert visible_gpus() == names


def test_a_run_gets_the_gpu_with_the_fewest_runs() -> None:
    gpus = SharedGpus(["0", "1"])
    with ExitStack() as runs:
        seen = [runs.enter_context(gpus.one())["CUDA_VISIBLE_DEVICES"] for _ in range(4)]
        assert sorted(seen) == ["0", "0", "1", "1"]
        with pytest.raises(ZeroDivisionError), gpus.one() as failed:
            raise ZeroDivisionError
    with gpus.one() as first, gpus.one() as second:
        assert {*first.values(), *second.values()} == {"0", "1"}
    assert failed["CUDA_VISIBLE_DEVICES"] in {"0", "1"}
    for names in ([], ["0"]):
        with SharedGpus(names).one() as alone:
            assert alone == {}


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux")
def test_runs_in_processes_see_different_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    commands = Commands(replace(SIMULATION, entry=say_gpu), 2, gpus=["4", "7"])
    logs = [tmp_path / name for name in ("first.log", "second.log")]
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda log: commands.run([str(tmp_path), "2"], log, timeout=120), logs))
    assert codes == [0, 0]
    assert {json.loads(log.read_text(encoding="utf-8")) for log in logs} == {"4", "7"}
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.parametrize(
    ("gpus", "processes", "at_a_time", "sites_at_once"),
    [((), None, 8, 4), ((), 1, 1, 8), (("0", "1"), None, 2, 1), (("0",), 6, 6, 1), (tuple("0123456789"), None, 8, 1)],
)
def test_one_run_per_gpu_whose_sites_take_turns(
    gpus: tuple[str, ...],
    processes: int | None,
    at_a_time: int,
    sites_at_once: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On eight cores, for two runs of one thread each."""
    monkeypatch.setattr(run_places, "available_cores", lambda: 8)
    monkeypatch.setattr(run_places, "visible_gpus", lambda: gpus)
    with run_places.run_places(None, tmp_path, processes=processes, threads=1, num_runs=2) as places:
        assert (places.at_a_time, places.sites_at_once) == (at_a_time, sites_at_once)
