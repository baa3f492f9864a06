"""What is asked of Ray: which cluster, and how many cores and GPUs a run gets; checked without Ray."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .job import JobError

RAY, PROCESSES = "ray", "processes"
# Starts Ray on this machine even where RAY_ADDRESS names a cluster.
LOCAL = "local"
# How often a run is begun again whose worker has died.
RETRIES = 3
_MOST_CPUS, _MOST_GPUS = 1024, 64
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})")


@dataclass(frozen=True)
class RayEngine:
    """What is asked of Ray.

    Attributes:
        cpus_per_run: cores of a run; None for as many as it has threads.
        gpus_per_run: GPUs of a run, or a fraction of one; None for one where the cluster has any.
        address: ``HOST:PORT`` of a cluster's head, or ``local``; None for that of ``RAY_ADDRESS``, else local.
    """

    cpus_per_run: int | None = None
    gpus_per_run: float | None = None
    address: str | None = None


@dataclass(frozen=True)
class RunBudget:
    """What each run gets of a machine.

    Attributes:
        cpus: cores.
        gpus: GPUs, or a fraction of one.
    """

    cpus: int
    gpus: float


def chosen_engine(
    engine: str, cpus_per_run: int | None = None, gpus_per_run: float | None = None, address: str | None = None
) -> RayEngine | None:
    """Return what is asked of Ray; None if runs are processes of this machine.

    Raises:
        JobError: if there is no such engine, an option has no use or no meaning, or the address has another form.

    >>> chosen_engine("ray", cpus_per_run=2)
    RayEngine(cpus_per_run=2, gpus_per_run=None, address=None)
    """
    given = {"--cpus-per-run": cpus_per_run, "--gpus-per-run": gpus_per_run, "--ray-address": address}
    if engine not in (PROCESSES, RAY):
        raise JobError(f"--engine: found {engine!r:.40}, expected {PROCESSES} or {RAY}.")
    if engine == PROCESSES:
        if useless := [option for option, value in given.items() if value is not None]:
            raise JobError(f"{', '.join(useless)}: expected only with --engine {RAY}.")
        return None
    if cpus_per_run is not None and not 1 <= cpus_per_run <= _MOST_CPUS:
        raise JobError(f"--cpus-per-run: found {cpus_per_run}, expected a whole number from 1 to {_MOST_CPUS}.")
    if gpus_per_run is not None and not _is_number_of_gpus(gpus_per_run):
        raise JobError(
            f"--gpus-per-run: found {gpus_per_run:g}, expected a whole number up to {_MOST_GPUS}, or a part of one."
        )
    if address is not None:
        check_address(address, "--ray-address")
    return RayEngine(cpus_per_run, gpus_per_run, address)


def _is_number_of_gpus(number: float) -> bool:
    # Ray counts in ten thousandths.
    return number == 0 or 0.0001 <= number < 1 or (1 <= number <= _MOST_GPUS and number == math.floor(number))


def check_address(address: str, source: str) -> None:
    """Check that an address is ``HOST:PORT`` or ``local``.

    Ray's ``auto`` is refused: it takes a cluster that a file in the folder for temporary files names, or any process of
    the machine, and every account can write and start those. Ray executes what a cluster answers.

    Args:
        address: of the head of a cluster.
        source: what names it.

    Raises:
        JobError: if it has another form.
    """
    match = _ADDRESS.fullmatch(address)
    if address != LOCAL and (match is None or not 0 < int(match[1]) < 2**16):
        raise JobError(
            f"{source}: found {address!r:.80}, expected HOST:PORT of the cluster's head, or {LOCAL}. The command "
            "runs on a machine of the cluster (ray start --address=HOST:PORT); ray:// and auto are not for it."
        )


def run_budget(engine: RayEngine, threads: int, nodes: Sequence[Mapping[str, Any]]) -> RunBudget:
    """Return what each run gets.

    Args:
        engine: what is asked.
        threads: of a run.
        nodes: Ray's resources of each machine.
    """
    has_gpu = any(node.get("GPU", 0) >= 1 for node in nodes)
    gpus = float(has_gpu) if engine.gpus_per_run is None else engine.gpus_per_run
    return RunBudget(engine.cpus_per_run or threads, gpus)


def runs_at_a_time(budget: RunBudget, nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return how many runs fit on all machines together.

    Raises:
        JobError: if none fits on any of them: Ray would wait for one that joins later.
    """
    fitting = 0
    for node in nodes:
        by_cpus = node.get("CPU", 0) // budget.cpus
        # Part of a GPU is taken of one GPU.
        per_gpu = math.floor(1 / budget.gpus + 1e-9) if 0 < budget.gpus < 1 else 1
        whole = max(1.0, budget.gpus)
        by_gpus = math.inf if budget.gpus == 0 else node.get("GPU", 0) // whole * per_gpu
        fitting += int(min(by_cpus, by_gpus))
    if not fitting:
        largest = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise JobError(
            f"A run is to have {budget.cpus} CPUs and {budget.gpus:g} GPUs, and no machine of Ray has as many (found: "
            f"{largest or 'no machine'}). Give --cpus-per-run and --gpus-per-run, or start larger machines first."
        )
    return fitting
