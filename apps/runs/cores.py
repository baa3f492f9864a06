"""How many sites of a run can work at a time: by the cores that this process may use, and by memory."""

import math
import os
from pathlib import Path

import torch

from ...custom.data.description import read_site_description
from ...custom.run.free_memory import CGROUP, free_memory_mb
from ...custom.run.threads import number_of_threads
from ...custom.settings import RunSettings

# The fraction of the free memory that steps of training may take; images and messages need some, too.
_MEMORY_OF_STEPS = 0.5


def available_cores(cgroup: Path = CGROUP) -> int:
    """Return the number of cores that this process may use: those that it is bound to, as far as its quota goes.

    Args:
        cgroup: folder of the control group's files, of version 2 or 1.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return bound if quota is None else max(1, min(bound, math.floor(quota)))


def suitable_sites_at_once(settings: RunSettings, num_sites: int, *, step_mb: float | None = None) -> int:
    """Return how many sites of a run in one process may work at a time.

    As many as there are cores for their threads and memory for their steps. On a GPU sites take turns, unless asked
    otherwise.

    Args:
        settings: the run's.
        num_sites: how many sites there are.
        step_mb: MiB that a step of training takes; None where it is not known.
    """
    if torch.cuda.is_available():
        return 1
    by_cores = available_cores() // number_of_threads(settings.threads)
    free = free_memory_mb()
    by_memory = by_cores if step_mb is None or free is None else int(_MEMORY_OF_STEPS * free / max(step_mb, 1.0))
    return max(1, min(num_sites, by_cores, by_memory))


def fitting_on_gpu(sites_at_once: int) -> int:
    """Return how many sites may work at a time on the GPU, where one has done so alone before.

    Each may take as much of its memory as that one did at most, all together half of it.

    Args:
        sites_at_once: how many there would be without a GPU, or if there is memory.
    """
    if not torch.cuda.is_available():
        return sites_at_once
    _, total = torch.cuda.mem_get_info()
    of_one = max(1, torch.cuda.max_memory_reserved())
    return max(1, min(sites_at_once, int(_MEMORY_OF_STEPS * total / of_one)))


def estimated_step_mb(settings: RunSettings, site: Path) -> float | None:
    """Return MiB of a method's step with a network in MONAI's form; None for that of the settings: it is not run.

    Args:
        settings: the run's.
        site: folder of a site's data.

    Raises:
        DataError: if the site's description cannot be read.
    """
    if settings.network.component is None:
        return None
    # MONAI takes 2 s.
    from ...custom.networks.dry_run import dry_run  # noqa: PLC0415

    description = read_site_description(site)
    one_pass = dry_run(settings, None if description.spatial_dims == 3 else description.size)
    return round(one_pass.memory_mb + (settings.kept_factor - 1) * one_pass.activations_mb, 1)


def _quota(cgroup: Path) -> float | None:
    """Cores' worth of time that the control group has; None without a limit, or where it cannot be known."""
    try:
        if (cgroup / "cpu.max").is_file():
            quota, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
            return None if quota == "max" else float(quota) / float(period)
        folder = cgroup / "cpu"
        quota_us, period_us = (
            float((folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii")) for name in ("quota", "period")
        )
        return None if quota_us <= 0 else quota_us / period_us
    except (OSError, ValueError, ZeroDivisionError):
        return None
