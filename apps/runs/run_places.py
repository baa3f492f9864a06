"""Where the runs of a comparison are made: in processes of this machine, or where Ray has room."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..commands.simulation import SIMULATION
from .cores import available_cores
from .gpus import visible_gpus
from .ray_engine import RayEngine
from .run_placer import RunPlacer
from .run_process import Commands


@dataclass(frozen=True)
class RunPlaces:
    """What makes the runs of a comparison.

    Attributes:
        placer: makes them.
        at_a_time: how many at a time.
        sites_at_once: how many sites of a run may work at a time: the cores that runs leave are their sites'. On a GPU
            they take turns.
    """

    placer: RunPlacer
    at_a_time: int
    sites_at_once: int


@contextmanager
def run_places(
    engine: RayEngine | None, out: Path, *, processes: int | None, threads: int, num_runs: int
) -> Iterator[RunPlaces]:
    """Give what makes runs; none of them outlives the block.

    Args:
        engine: what is asked of Ray; None for processes of this machine.
        out: the comparison's output folder.
        processes: the most runs at a time; None for one per GPU, without GPUs one per core and thread of a run, or what
            Ray has room for.
        threads: of a run.
        num_runs: how many there are.

    Raises:
        JobError: if Ray cannot be used, see :func:`.ray_runs.ray_places`.
    """
    if engine is None:
        cores, gpus = available_cores() // threads, visible_gpus()
        at_a_time = processes or max(1, min(cores, len(gpus)) if gpus else cores)
        commands = Commands(SIMULATION, at_a_time, gpus=gpus)
        try:
            yield RunPlaces(commands, at_a_time, 1 if gpus else max(1, cores // min(at_a_time, max(1, num_runs))))
        finally:
            commands.stop()
        return
    from .ray_runs import ray_places  # noqa: PLC0415

    with ray_places(engine, out, threads, processes) as places:
        sites_at_once = 1 if places.budget.gpus else max(1, places.budget.cpus // threads)
        yield RunPlaces(places.placer, places.at_a_time, sites_at_once)
