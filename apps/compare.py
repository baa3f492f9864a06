"""Methods side by side: the same data, the same start weights, paired over seeds."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..custom.run_state import STATE_FILE, SUMMARY_FILE, write_text
from .in_process import JOB_ID, RunError
from .job import Job, JobError, flat_settings
from .output import number, percent
from .pictures import draw_comparison
from .settings_files import SettingsFile
from .simulate import RUN_FOLDER

COMPARISON_FILE = "comparison.json"
_REQUEST_FILE = "request.json"
_RUN_TIMEOUT_SECONDS = 24 * 3600
_NO_SPREAD = 1e-12


def compare_jobs(
    job_folders: Sequence[Path],
    out: Path,
    *,
    data: str | None,
    seeds: Sequence[int],
    settings: str | None = None,
    overrides: Mapping[str, Any],
    processes: int | None = None,
) -> dict[str, Any]:
    """Run every job with every seed, each in a process of its own, and write ``comparison.json`` and a plot.

    Finished runs in the output folder are kept, so an interrupted comparison goes on; a run that was cut off is
    resumed from its last round.

    Args:
        job_folders: the jobs; the first is the reference.
        out: output folder.
        data: a federation's folder, with ``{seed}`` standing for the seed; None for the embedded phantom.
        seeds: the seeds; a seed decides start weights and order of samples, the same for all jobs.
        settings: a set of settings; its name must exist beside every job, or its file fit every job.
        overrides: settings to change, in every job that has them.
        processes: runs at a time, by default one per core and thread of a run.

    Raises:
        JobError: if there are no two different jobs, a setting is unknown to all, or the folder holds another
        comparison. SettingsError: if the set of settings cannot be used. DataError: if the data are not those that it
        is for. RunError: if a run failed; the others are finished first.
    """
    jobs = [Job.open(folder) for folder in job_folders]
    if len(jobs) < 2 or len({job.folder.name for job in jobs}) < len(jobs):
        raise JobError(f"Expected at least two jobs of different names, but got {[job.folder.name for job in jobs]}.")
    changes = [_known_overrides(job, overrides) for job in jobs]
    if unknown := sorted(set(overrides) - {key for known in changes for key in known}):
        raise JobError(f"No job has the settings {unknown}.")
    federations = [_federation(data, seed) for seed in seeds]
    sets = [_values_of_set(job, settings, federations) for job in jobs]
    request = {"jobs": [folder.name for folder in job_folders], "data": data, "overrides": dict(overrides)}
    _check_same_request(out, request if settings is None else request | {"settings": settings})
    plan = [(job, known, seed) for seed in seeds for job, known in zip(jobs, changes, strict=True)]
    if processes is None:
        threads = max(
            int((values | known).get("threads", job.settings().threads))
            for job, values, known in zip(jobs, sets, changes, strict=True)
        )
        processes = max(1, (os.cpu_count() or 1) // threads)
    with ThreadPoolExecutor(processes) as pool:
        errors = list(pool.map(lambda entry: _run(*entry, data=data, settings=settings, out=out), plan))
    if failed := [error for error in errors if error]:
        raise RunError(f"{len(failed)} of {len(plan)} runs failed. First: {failed[0]}")
    comparison = _summarize(jobs, seeds, data, out)
    write_text(out / COMPARISON_FILE, json.dumps(comparison, indent=2) + "\n")
    draw_comparison(comparison, out / "comparison.png")
    return comparison


def paired_statistics(reference: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """Return differences other - reference, their mean and standard deviation, and the paired t-test's two-sided
    p-value.

    With one pair, or equal differences, there is no test and the p-value is None.
    """
    from scipy.stats import ttest_rel

    differences = [b - a for a, b in zip(reference, other, strict=True)]
    deviation = statistics.stdev(differences) if len(differences) > 1 else None
    # Differences that are equal but for rounding leave nothing to test.
    p_value = float(ttest_rel(other, reference).pvalue) if deviation is not None and deviation > _NO_SPREAD else None
    return {
        "differences": differences,
        "mean": statistics.fmean(differences),
        "standard_deviation": deviation,
        "p_value": p_value,
    }


def print_comparison(comparison: Mapping[str, Any], console: Console) -> None:
    """Print a row per run and the paired differences to the reference."""
    table = Table(title="Mean of the last five rounds", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("job", "seed", "Dice %", "last round", "HD95", "groups", "as drawn", "seconds", "MB"):
        left = heading in ("job", "groups", "as drawn")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for run in comparison["runs"]:
        table.add_row(
            run["job"],
            str(run["seed"]),
            percent(run["last_rounds"]["dice"]),
            percent(run["last_round"]["dice"]),
            number(run["last_rounds"]["hd95"]),
            run["groups"],
            {True: "yes", False: "no", None: "-"}[run["groups_as_drawn"]],
            number(run["seconds"], 0),
            number(run["peak_memory_mb"], 0),
        )
    console.print(table)
    for pair in comparison["paired"]:
        spread = "" if pair["standard_deviation"] is None else f" ± {100 * pair['standard_deviation']:.1f}"
        test = "" if pair["p_value"] is None else f", paired t-test p = {pair['p_value']:.3f}"
        each = ", ".join(f"{100 * difference:+.1f}" for difference in pair["differences"])
        console.print(
            f"{pair['job']} - {pair['reference']}: {100 * pair['mean']:+.1f}{spread} Dice points (seeds: {each}){test}"
        )


def _known_overrides(job: Job, overrides: Mapping[str, Any]) -> dict[str, Any]:
    known = flat_settings(job.settings().model_dump())
    return {key: value for key, value in overrides.items() if key in known}


def _federation(data: str | None, seed: int) -> Path | None:
    return None if data is None else Path(data.replace("{seed}", str(seed)))


def _values_of_set(job: Job, settings: str | None, federations: Sequence[Path | None]) -> dict[str, Any]:
    """Read a set of settings and check it against the data, before any run starts."""
    if settings is None:
        return {}
    settings_file = SettingsFile.read(job, settings)
    for federation in dict.fromkeys(federations):
        settings_file.check_data(federation)
    return settings_file.values


def _check_same_request(out: Path, request: Mapping[str, Any]) -> None:
    """Refuse to mix runs of another comparison into this one; seeds may be added."""
    file = out / _REQUEST_FILE
    if file.is_file():
        if (earlier := json.loads(file.read_text(encoding="utf-8"))) != request:
            raise JobError(
                f"{out} holds another comparison ({earlier}); choose another output folder than for {request}."
            )
        return
    if out.exists() and any(out.iterdir()):
        raise JobError(f"Expected an empty folder or an earlier comparison, but {out} holds other files.")
    out.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(request, indent=2) + "\n")


def _run_folder(out: Path, job: Job, seed: int) -> Path:
    return out / "runs" / f"{job.folder.name}-seed{seed}"


def _run(
    job: Job, overrides: Mapping[str, Any], seed: int, *, data: str | None, settings: str | None, out: Path
) -> str | None:
    """Run a job in a process of its own unless that is done already; return an error's text."""
    folder = _run_folder(out, job, seed)
    if (folder / SUMMARY_FILE).is_file():
        return None
    command = [sys.executable, "-m", "fedannot.apps", "simulate", str(job.folder)]
    command += ["--seed", str(seed), "--out", str(folder)]
    if data is not None:
        command += ["--data", str(_federation(data, seed))]
    if settings is not None:
        command += ["--settings", settings]
    if (folder / RUN_FOLDER / "server" / JOB_ID / STATE_FILE).is_file():
        command.append("--resume")
    for key, value in overrides.items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.parent / f"{folder.name}.log"
    with log.open("w", encoding="utf-8") as stream:
        finished = subprocess.run(
            command, stdout=stream, stderr=subprocess.STDOUT, timeout=_RUN_TIMEOUT_SECONDS, check=False
        )
    if finished.returncode:
        last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
        return f"{job.folder.name}, seed {seed}: {last} (log: {log})"
    return None


def _summarize(jobs: Sequence[Job], seeds: Sequence[int], data: str | None, out: Path) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    scores: dict[str, list[float]] = {}
    for job in jobs:
        for seed in seeds:
            folder = _run_folder(out, job, seed)
            summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
            federation = _federation(data, seed) or folder / "data"
            runs.append(_describe_run(job.folder.name, seed, summary, federation))
            if summary["last_rounds"]["dice"] is None:
                raise RunError(
                    f"{folder} has no Dice: neither a test set at {federation} nor validation cases of sites."
                )
            scores.setdefault(job.folder.name, []).append(summary["last_rounds"]["dice"])
    reference = jobs[0].folder.name
    paired = [
        {"job": name, "reference": reference} | paired_statistics(scores[reference], values)
        for name, values in scores.items()
        if name != reference
    ]
    return {"reference": reference, "data": data, "seeds": list(seeds), "runs": runs, "paired": paired}


def _describe_run(job: str, seed: int, summary: Mapping[str, Any], federation: Path) -> dict[str, Any]:
    estimate = summary.get("estimate")
    groups = {site: judged["group"] for site, judged in estimate["sites"].items()} if estimate else {}
    counts = {group: sum(found == group for found in groups.values()) for group in ("larger", "smaller")}
    described = "-"
    if estimate:
        described = "none" if estimate["reason"] else f"{counts['larger']} larger, {counts['smaller']} smaller"
    return {
        "job": job,
        "method": summary["method"],
        "seed": seed,
        "last_rounds": summary["last_rounds"],
        "last_round": summary["last_round"],
        "rounds": [{key: record[key] for key in ("round", "dice", "hd95")} for record in summary["rounds"]],
        "groups": described,
        "p_value": estimate["p_value"] if estimate else None,
        "groups_as_drawn": groups_as_drawn(groups, federation),
        "seconds": summary["seconds"],
        "peak_memory_mb": summary["peak_memory_mb"],
    }


def groups_as_drawn(groups: Mapping[str, str | None], federation: Path) -> bool | None:
    """Return whether the groups agree with the sign of every site's true noise, None where there are no groups or no
    noise.

    Args:
        groups: ``larger`` or ``smaller`` by site.
        federation: folder whose manifests tell the noise that was drawn; known in research runs only.
    """
    drawn: dict[str, str] = {}
    for site in groups:
        manifest = federation / site / "manifest.json"
        noise = json.loads(manifest.read_text(encoding="utf-8")).get("noise") if manifest.is_file() else None
        if noise:
            drawn[site] = "larger" if noise["mean"] > 0 else "smaller"
    if not drawn or not any(groups.values()):
        return None
    return all(groups[site] == group for site, group in drawn.items())
