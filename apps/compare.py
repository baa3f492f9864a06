"""Methods side by side: the same data, the same start weights, paired over seeds."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..custom.data.federation import read_federation
from ..custom.data.whole_files import replaced, write_text
from ..custom.method_settings import PersonalSettings
from ..custom.run_state import STATE_FILE, SUMMARY_FILE, kept_state_file
from ..transforms.strict_files import read_json
from .comparison import describe_run, paired_statistics
from .in_process import JOB_ID, RunError
from .job import Job, JobError, flat_settings
from .output import main_score, read_summary, scoring_of
from .pictures import draw_comparison
from .resuming import RUN_FOLDER, can_be_resumed
from .run_process import Commands, RunStoppedError, RunTimeoutError
from .settings_files import SettingsFile

COMPARISON_FILE = "comparison.json"
_REQUEST_FILE = "request.json"
_RUN_TIMEOUT_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Arm:
    """One of the things that are compared: a job, with settings of its own where they differ from the job's.

    Attributes:
        name: how it is called in the comparison.
        job: the job's folder.
        overrides: settings that this arm alone changes.
        shared_rounds: rounds at the start that are those of the reference, from whose run the arm branches after them.
    """

    name: str
    job: Path
    overrides: Mapping[str, Any] = field(default_factory=dict)
    shared_rounds: int = 0


@dataclass(frozen=True)
class _PlannedArm:
    name: str
    job: Job
    overrides: Mapping[str, Any]
    shared_rounds: int


def compare(
    arms: Sequence[Arm],
    out: Path,
    *,
    data: str | None,
    seeds: Sequence[int],
    settings: str | None = None,
    overrides: Mapping[str, Any],
    processes: int | None = None,
) -> dict[str, Any]:
    """Run every arm with every seed, each in a process of its own, and write ``comparison.json`` and a plot.

    Finished runs in the output folder are kept, so an interrupted comparison goes on, and seeds and arms may be added;
    a run that was cut off is resumed from its last round.

    Args:
        arms: what is compared; the first is the reference. With one arm there are scores and nothing to compare.
        out: output folder.
        data: a federation's folder, with ``{seed}`` standing for the seed; None for the embedded phantom.
        seeds: the seeds; a seed decides start weights and order of samples, the same for all arms.
        settings: a set of settings; its name must exist beside every job, or its file fit every job.
        overrides: settings to change in every arm whose job has them.
        processes: runs at a time, by default one per core and thread of a run.

    Raises:
        JobError: if there is no arm or two have one name, a setting is unknown, or the folder holds another
        comparison. SettingsError: if the set of settings cannot be used. DataError: if there are no data, or not those
        that the set is for. RunError: if a run failed; the others are finished first.
    """
    names = [arm.name for arm in arms]
    if not names or len(set(names)) < len(names):
        raise JobError(f"Expected arms (jobs, or one job with several settings) of different names, but got {names}.")
    planned = _plan(arms, overrides)
    federations = [_federation(data, seed) for seed in seeds]
    for folder in federations:
        if folder is not None:
            read_federation(folder)
    sets = [_values_of_set(arm.job, settings, federations) for arm in planned]
    _check_same_request(out, {"data": data, "settings": settings, "overrides": dict(overrides)}, arms)
    if processes is None:
        threads = max(
            int((values | dict(arm.overrides)).get("threads", arm.job.settings().threads))
            for arm, values in zip(planned, sets, strict=True)
        )
        processes = max(1, (os.cpu_count() or 1) // threads)
    branching = [arm for arm in planned if arm.shared_rounds]
    with _running(processes) as (pool, commands):
        # Arms that branch wait for the run that they branch from.
        for phase in ([arm for arm in planned if not arm.shared_rounds], branching):
            runs = [
                pool.submit(_run, commands, arm, seed, reference=names[0], data=data, settings=settings, out=out)
                for seed in seeds
                for arm in phase
            ]
            if failed := [error for run in runs if (error := run.result())]:
                raise RunError(f"{len(failed)} of {len(runs)} runs failed. First: {failed[0]}")
    scores_centres = any(isinstance(arm.job.settings(), PersonalSettings) for arm in planned)
    comparison = _summarize(names, seeds, data, out, scores_centres=scores_centres)
    write_text(out / COMPARISON_FILE, json.dumps(comparison, indent=2) + "\n")
    draw_comparison(comparison, out / "comparison.png")
    return comparison


@contextmanager
def _running(processes: int) -> Iterator[tuple[ThreadPoolExecutor, Commands]]:
    """Threads that wait for runs, and the runs, which do not outlive the block."""
    commands = Commands()
    with ThreadPoolExecutor(processes) as pool:
        try:
            yield pool, commands
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            commands.stop()
            raise


def _plan(arms: Sequence[Arm], overrides: Mapping[str, Any]) -> list[_PlannedArm]:
    """Open the jobs; common overrides reach the jobs that have the setting, an arm's own must be known to its job."""
    opened = {folder: Job.open(folder) for folder in dict.fromkeys(arm.job for arm in arms)}
    jobs = [opened[arm.job] for arm in arms]
    known = [flat_settings(job.settings().model_dump()) for job in jobs]
    if unknown := sorted(key for key in overrides if not any(key in keys for keys in known)):
        raise JobError(f"No job has the settings {unknown}.")
    for arm, keys in zip(arms, known, strict=True):
        if unknown := sorted(set(arm.overrides) - set(keys)):
            raise JobError(f"{arm.name}: the job {arm.job} has no settings {unknown}.")
    if arms[0].shared_rounds:
        raise JobError(f"{arms[0].name} is the reference and has no run to branch from, but {arms[0].shared_rounds=}.")
    planned = [
        _PlannedArm(
            arm.name,
            job,
            {key: value for key, value in overrides.items() if key in keys} | dict(arm.overrides),
            arm.shared_rounds,
        )
        for arm, job, keys in zip(arms, jobs, known, strict=True)
    ]
    if kept := sorted({arm.shared_rounds for arm in arms} - {0}):
        planned[0] = replace(planned[0], overrides={**planned[0].overrides, "keep_rounds": kept})
    return planned


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


def _check_same_request(out: Path, common: Mapping[str, Any], arms: Sequence[Arm]) -> None:
    """Refuse to mix runs of another comparison into this one; seeds and arms may be added."""
    file = out / _REQUEST_FILE
    asked: dict[str, Any] = {
        arm.name: {"job": arm.job.name, "overrides": dict(arm.overrides), "shared_rounds": arm.shared_rounds}
        for arm in arms
    }
    known: dict[str, Any] = {}
    if file.is_file():
        earlier = read_json(file, "what was compared before")
        known = earlier.pop("arms", {})
        if earlier != common or any(known.get(name, arm) != arm for name, arm in asked.items()):
            raise JobError(
                f"{out} holds another comparison ({earlier}, {known}); choose another output folder than for "
                f"{common}, {asked}."
            )
    elif out.exists() and any(out.iterdir()):
        raise JobError(f"Expected an empty folder or an earlier comparison, but {out} holds other files.")
    out.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({**common, "arms": known | asked}, indent=2) + "\n")


def _run_folder(out: Path, name: str, seed: int) -> Path:
    return out / "runs" / f"{name}-seed{seed}"


def _state_folder(run: Path) -> Path:
    return run / RUN_FOLDER / "server" / JOB_ID


def _run(
    commands: Commands,
    arm: _PlannedArm,
    seed: int,
    *,
    reference: str,
    data: str | None,
    settings: str | None,
    out: Path,
) -> str | None:
    """Run an arm in a process of its own unless that is done already; return an error's text."""
    folder = _run_folder(out, arm.name, seed)
    if (folder / SUMMARY_FILE).is_file():
        return None
    state = _state_folder(folder) / STATE_FILE
    if arm.shared_rounds and not can_be_resumed(folder):
        branch = _state_folder(_run_folder(out, reference, seed)) / kept_state_file(arm.shared_rounds)
        if not branch.is_file():
            return f"{arm.name}, seed {seed}: {branch} is absent; {reference} was run before it had to be kept."
        state.parent.mkdir(parents=True, exist_ok=True)
        with replaced(state) as temporary:
            shutil.copyfile(branch, temporary)
    command = ["simulate", str(arm.job.folder), "--seed", str(seed), "--out", str(folder)]
    if data is not None:
        command += ["--data", str(_federation(data, seed))]
    if settings is not None:
        command += ["--settings", settings]
    if folder.is_dir() and any(folder.iterdir()):
        command.append("--resume")
    for key, value in arm.overrides.items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.parent / f"{folder.name}.log"
    try:
        failed = commands.run(command, log, timeout=_RUN_TIMEOUT_SECONDS) != 0
    except (RunTimeoutError, RunStoppedError) as error:
        return f"{arm.name}, seed {seed}: {error}"
    if failed:
        last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
        return f"{arm.name}, seed {seed}: {last} (log: {log})"
    return None


def _summarize(
    names: Sequence[str], seeds: Sequence[int], data: str | None, out: Path, *, scores_centres: bool
) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    scores: dict[str, list[float]] = {}
    for name in names:
        for seed in seeds:
            folder = _run_folder(out, name, seed)
            summary = read_summary(folder)
            federation = _federation(data, seed) or folder / "data"
            runs.append(describe_run(name, seed, folder, summary, federation, scores_centres=scores_centres))
            score = main_score(summary)
            if score is None:
                raise RunError(
                    f"{folder} has no {scoring_of(summary).label}: neither a test set at {federation} nor validation "
                    "cases of sites in which anything is annotated."
                )
            scores.setdefault(name, []).append(score)
    reference = names[0]
    paired = [
        {"arm": name, "reference": reference} | paired_statistics(scores[reference], values)
        for name, values in scores.items()
        if name != reference
    ]
    return {"reference": reference, "data": data, "seeds": list(seeds), "runs": runs, "paired": paired}
