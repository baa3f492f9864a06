"""How much memory this process can have without swapping: what the machine has free, within its control group."""

from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_MEMORY = Path("/proc/meminfo")
_MIB = 2**20
# Of the free memory, what models may take that wait for their weights: sums, messages and sites need some, too.
_WAITING = 0.25


def free_memory_mb(file: Path = _MEMORY, cgroup: Path = CGROUP) -> float | None:
    """Return MiB of memory that can be had without swapping; None where it cannot be known.

    Args:
        file: what the system says of its memory.
        cgroup: folder of the control group's files, of version 2 or 1.
    """
    known = [value for value in (_of_machine(file), _of_group(cgroup)) if value is not None]
    return min(known) if known else None


def waiting_memory(limit_mb: int | None) -> int:
    """Return the bytes that models which wait may take in memory.

    Args:
        limit_mb: MiB that a job gives; None for a quarter of the free memory, and for nothing where that is unknown.
    """
    free = free_memory_mb()
    by_machine = 0 if free is None else int(_WAITING * free * _MIB)
    return by_machine if limit_mb is None else min(limit_mb * _MIB, by_machine)


def _of_machine(file: Path) -> float | None:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    values = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return float(values[0]) / 1024 if values else None


def _of_group(cgroup: Path) -> float | None:
    """What the control group has left, with the cached files that it would give up; None without a limit."""
    if (cgroup / "memory.max").is_file():
        folder, limit_name, usage_name, cached = cgroup, "memory.max", "memory.current", "inactive_file"
    else:
        folder = cgroup / "memory"
        limit_name, usage_name = "memory.limit_in_bytes", "memory.usage_in_bytes"
        cached = "total_inactive_file"
    try:
        limit = (folder / limit_name).read_text(encoding="ascii").strip()
        if limit == "max":
            return None
        usage = int((folder / usage_name).read_text(encoding="ascii"))
        counts = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0.0, (int(limit) - usage + int(counts.get(cached, 0))) / _MIB)
    except (OSError, ValueError):
        return None
