"""A hash of what every job gives after three rounds on its phantom: the same before and after a change of the code.

    python tests/job_hashes.py                   # in one process
    python tests/job_hashes.py --simulator       # under NVFlare's simulator, a process per site

One line per job: hashes of the final model, of the summary, of the records of the rounds, and the records' fields.
Times, memory and paths do not count. Hashes are comparable on one machine and with one number of threads alone.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from benchmarks.benchmark_tables.fedia import PUBLISHED

from fedannot.apps.reports.output import collect_output, find_run_folder
from fedannot.apps.runs.job import Job, is_swarm
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.simulate import simulate
from fedannot.apps.terminal import Terminal

JOBS = Path(__file__).parents[1] / "jobs"
SITES = ("site-1", "site-2", "site-3", "site-4")
TIMEOUT_SECONDS = 600

SMALL: dict[str, Any] = {
    "rounds": 3,
    "warmup_rounds": 1,
    "max_extra_warmup_rounds": 0,
    "min_predicted_fraction": 0.0,
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.widths": [4, 8, 8, 8],
    "training.local_epochs": 1,
    "embedded.sites": len(SITES),
    "embedded.images_per_site": 6,
    "embedded.test_images": 4,
}
# So that every stage of a method comes within three rounds.
OF_JOBS: dict[str, dict[str, Any]] = {
    "audit": {"rounds": 4},
    "fedaaai": {"group_decision": "shrink"},
    "fedia": PUBLISHED | {"correction_margin": -1.0},
}
# Of which nothing follows from the code alone.
_CHANGING = {"seconds", "wall_seconds", "cpu_seconds", "peak_memory_mb", "data", "versions", "source", "processor"}


def small_job(name: str, folder: Path) -> Path:
    """Copy a job with small settings, as far as it has them."""
    job = Job.open(JOBS / name)
    known = job.settings().model_dump(mode="json")
    overrides = {key: value for key, value in (SMALL | OF_JOBS.get(name, {})).items() if _has(known, key)}
    copied = job.copy_with(overrides, folder).folder
    meta = json.loads((copied / "meta.json").read_text(encoding="utf-8"))
    (members,) = meta["deploy_map"].values()
    members[:] = ["server", *SITES]
    (copied / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return copied


def _has(settings: Mapping[str, Any], key: str) -> bool:
    for part in key.split("."):
        if not isinstance(settings, Mapping) or part not in settings:
            return False
        settings = settings[part]
    return True


def run(job: Path, folder: Path, *, with_simulator: bool) -> Path:
    """Run a job; return the folder with its model, summary and metrics, or of a swarm the workspace."""
    if not with_simulator:
        simulate(job, folder / "out", progress=Progress(Terminal(file=(folder / "log.txt").open("w"))))
        return folder / "out"
    command = [str(Path(sys.executable).parent / "nvflare"), "simulator", str(job), "-w", str(folder / "workspace")]
    done = subprocess.run(
        [*command, "-t", str(len(SITES))], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise SystemExit(f"{job.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    if is_swarm(Job.open(job)):
        return folder / "workspace"
    collect_output(find_run_folder(folder / "workspace"), folder / "out")
    return folder / "out"


def digest_of_tensors(values: Any) -> str:
    """Hash every tensor of nested dictionaries, in the order of their names."""
    found = hashlib.sha256()

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key in sorted(value):
                add(f"{name}.{key}", value[key])
        elif isinstance(value, torch.Tensor):
            found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            found.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())

    add("", values)
    return found.hexdigest()[:16]


def digest_of_values(values: Any) -> str:
    """Hash plain values without those that change from run to run."""
    return hashlib.sha256(json.dumps(_constant(values), sort_keys=True).encode()).hexdigest()[:16]


def _constant(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _constant(value) for key, value in values.items() if key not in _CHANGING}
    return [_constant(value) for value in values] if isinstance(values, list) else values


def line_of(name: str, out: Path) -> str:
    """Describe what a run left; of a swarm the models that the sites keep."""
    if not (out / "summary.json").is_file():
        models = sorted(out.glob("**/personal/local_model.pt"))
        if not models:
            raise SystemExit(f"{name}: no model below {out}")
        hashes = [digest_of_tensors(torch.load(file, weights_only=True)) for file in models]
        return f"{name} models={','.join(hashes)}"
    model = digest_of_tensors(torch.load(out / "model.pt", weights_only=True))
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    fields = sorted({key for record in records for key in record} - _CHANGING)
    return (
        f"{name} model={model} summary={digest_of_values(summary)} records={digest_of_values(records)} "
        f"fields={','.join(fields)}"
    )


def main() -> None:
    """Print a line per job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulator", action="store_true", help="run under NVFlare's simulator")
    parser.add_argument("jobs", nargs="*", help="names of jobs; default: all")
    options = parser.parse_args()
    os.environ.pop("FEDANNOT_DATA", None)
    for name in options.jobs or sorted(folder.name for folder in JOBS.iterdir()):
        with TemporaryDirectory() as folder:
            job = small_job(name, Path(folder) / "job")
            if is_swarm(Job.open(job)) and not options.simulator:
                continue
            print(line_of(name, run(job, Path(folder), with_simulator=options.simulator)), flush=True)


if __name__ == "__main__":
    main()
