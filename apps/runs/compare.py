"""Methods side by side: the same data, the same start weights, paired over seeds."""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...custom.components.merging import merged
from ...custom.data.whole_files import private_folder, replaced, write_text
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.run.state import STATE_FILE, SUMMARY_FILE, kept_state_file
from ...custom.run.threads import number_of_threads
from ...custom.settings import RunSettings, SettingsError, SettingValues
from ...transforms.errors import DataError
from ..commands.simulation import SIMULATION
from ..reports.charts import draw_comparison
from ..reports.compared_results import with_case_results
from ..reports.compared_runs import COMPARISON_FILE, COMPARISON_PICTURE, ComparedRun, Comparison, PairedArm
from ..reports.compared_settings import ComparedSettings
from ..reports.comparison import describe_run, paired_statistics
from ..reports.comparison_page import REQUEST_FILE, run_folder, write_comparison_page
from ..reports.output import read_summary, scoring_of
from ..wording.shell_words import shell_word
from .arms import Arm, PlannedArm, plan
from .cores import available_cores
from .data_compatibility import read_descriptions, settings_for_data
from .fairness import compared_settings, like_changes
from .in_process import JOB_ID, RunError
from .interruption import check_interruption
from .job import Job, JobError
from .output_request import keep_request
from .own_code import check_no_other_network, own_network_changes
from .progress import Progress
from .resuming import RUN_FOLDER, can_be_resumed
from .run_process import Commands, RunStoppedError, RunTimeoutError
from .setting_origins import named_origins
from .settings_files import SettingsFile
from .shared_rounds import check_shared_rounds
from .tracking import Tracking
from .watched_runs import RunsProgress, WatchedRun

_RUN_TIMEOUT_SECONDS = 24 * 3600


def compare(
    arms: Sequence[Arm],
    out: Path,
    *,
    data: str | None,
    seeds: Sequence[int],
    settings: str | None = None,
    overrides: Mapping[str, Any],
    like: str | None = None,
    allow_different: Collection[str] = (),
    network: str | None = None,
    processes: int | None = None,
    track: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
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
        like: name of an arm, or name or folder of a job, whose settings all arms take as far as
            :data:`fedannot.apps.runs.fairness.HELD` lists them.
        allow_different: settings or blocks of that list that may differ between arms, beside an arm's own ones.
        network: place of the function that builds the network of all arms, ``package.module:function``.
        processes: runs at a time, by default one per core and thread of a run.
        track: where every run is tracked, see :class:`fedannot.apps.runs.tracking.Tracking`.
        progress: tells how far the runs are; by default on the standard error.

    Raises:
        JobError: if the arms cannot be compared (see :func:`fedannot.apps.runs.arms.plan`), their phantoms are of
            different kinds, or the folder holds another comparison.
        UnfairComparisonError: if arms differ in more than their methods, and nothing declares it.
        SettingsError: if a setting of any arm, or the set of settings, cannot be used.
        DataError: if there are no data for a seed, or they do not fit an arm, or are not those that the set is for.
        RunError: if a run failed; the others are finished first.
    """
    if track is not None:
        # Wrong before the first run, not in each of them.
        Tracking.parse(track).check()
    own_network = {} if network is None else _network_of_all(network, arms, overrides)
    planned = plan(arms, merged(overrides, own_network))
    names, federations = [arm.name for arm in planned], [_federation(data, seed) for seed in seeds]
    if like is not None:
        model = _model_arm(like, planned, merged(overrides, own_network))
        planned = _all_like(planned, model, settings, federations, seeds)
    of_arms = _settings_for_data(planned, settings, federations, seeds, like)
    compared = compared_settings(planned, of_arms, seeds, like, network, allow_different, data_given=data is not None)
    if data is None:
        _check_phantoms(of_arms)
    check_shared_rounds(planned, of_arms, data_given=data is not None)
    request: dict[str, Any] = {
        "data": data,
        "settings": settings,
        "overrides": dict(overrides),
        "like": like,
        "network": network,
    }
    # What may differ changes no run, and may be more when arms are added.
    request |= {"allow_different": sorted(allow_different), "arms": {arm.name: _asked_arm(arm) for arm in arms}}
    keep_request(out, REQUEST_FILE, request, contents="comparison", growing={"arms": "arm"}, free={"allow_different"})
    threads = max(number_of_threads(found.threads) for found in of_arms.values())
    cores = available_cores() // threads
    processes = processes or max(1, cores)
    runs = {
        (arm.name, seed): WatchedRun(
            f"{arm.name}, seed {seed}", run_folder(out, arm.name, seed), of_arms[arm.name].rounds
        )
        for seed in seeds
        for arm in planned
    }
    progress = progress or Progress()
    progress_of_runs = RunsProgress(list(runs.values()), progress)
    progress_of_runs.begin(processes)
    branching = [arm for arm in planned if arm.shared_rounds]
    # Cores that runs leave are their sites'.
    at_once = max(1, cores // min(processes, len(runs)))
    common = {"--settings": settings, "--track": track, "--network": network, "--sites-at-once": str(at_once)}
    run = partial(_run, reference=names[0], data=data, common=common, without=own_network, out=out)
    with _running(processes) as commands:
        # Arms that branch wait for the run that they branch from.
        for phase in ([arm for arm in planned if not arm.shared_rounds], branching):
            begun = {
                commands.submit(partial(run, commands, arm, seed)): runs[arm.name, seed]
                for seed in seeds
                for arm in phase
            }
            if failed := [error for error in progress_of_runs.wait(begun) if error]:
                raise RunError(f"{len(failed)} of {len(begun)} runs failed. First: {failed[0]}")
    scores_centres = any(isinstance(arm.job.settings(), PersonalSettings) for arm in planned)
    found = _summarize(names, seeds, data, out, compared, scores_centres=scores_centres)
    comparison = with_case_results(out, found, progress.tell)
    write_text(out / COMPARISON_FILE, json.dumps(comparison.plain(), indent=2) + "\n")
    draw_comparison(comparison, out / COMPARISON_PICTURE)
    write_comparison_page(out, comparison)
    return comparison


@contextmanager
def _running(processes: int) -> Iterator[Commands]:
    """The runs, so many at a time, which do not outlive the block."""
    check_interruption()
    commands = Commands(SIMULATION, processes)
    try:
        yield commands
    finally:
        commands.stop()


def _network_of_all(network: str, arms: Sequence[Arm], overrides: Mapping[str, Any]) -> SettingValues:
    """Let this process know a researcher's network, and return the changes that name it, which are for all arms."""
    for changes in (overrides, *(arm.overrides for arm in arms)):
        check_no_other_network(changes)
    return own_network_changes(network)


def _model_arm(like: str, planned: Sequence[PlannedArm], overrides: Mapping[str, Any]) -> PlannedArm:
    """The job whose settings all arms take, as an arm that has nothing of its own."""
    job = next((arm.job for arm in planned if arm.name == like), None) or Job.open(like)
    tasks = job.settings().task, planned[0].job.settings().task
    if tasks[0] != tasks[1]:
        raise JobError(
            f"--like {like} is for {tasks[0]}, but the arms are for {tasks[1]}: expected a job of that task."
        )
    changes = job.current_names(overrides)
    known = job.known_names(changes)
    return PlannedArm(like, job, {key: value for key, value in changes.items() if key in known}, 0)


def _all_like(
    arms: Sequence[PlannedArm],
    model: PlannedArm,
    settings: str | None,
    federations: Sequence[Path | None],
    seeds: Sequence[int],
) -> list[PlannedArm]:
    """The arms with the settings of another job; what is changed for all arms, or for one, counts more."""
    of_model = _settings_for_data([model], settings, federations, seeds)[model.name]
    result = []
    for arm in arms:
        of_set = {} if settings is None else SettingsFile.read(arm.job, settings, arm.overrides).values
        changes = like_changes(of_model, arm, of_set, name=model.name, data_given=federations[0] is not None)
        result.append(replace(arm, overrides=merged(changes, arm.overrides)))
    return result


def _asked_arm(arm: Arm) -> dict[str, Any]:
    return {"job": arm.job.name, "overrides": dict(arm.overrides), "shared_rounds": arm.shared_rounds}


def _federation(data: str | None, seed: int) -> Path | None:
    return None if data is None else Path(data.replace("{seed}", str(seed)))


def _settings_for_data(
    arms: Sequence[PlannedArm],
    settings: str | None,
    federations: Sequence[Path | None],
    seeds: Sequence[int],
    like: str | None = None,
) -> dict[str, RunSettings]:
    """Check the settings of every run, and that its data are those that they are for, before any run starts.

    Args:
        arms: the arms.
        settings: the set of settings; None for none.
        federations: of each seed; None for generated images.
        seeds: the seeds.
        like: the job whose settings the arms were given, to name in an error.

    Returns:
        The settings of each arm, by its name, with the last seed and its data.
    """
    described = {folder: None if folder is None else read_descriptions(folder) for folder in dict.fromkeys(federations)}
    result: dict[str, RunSettings] = {}
    for arm in arms:
        settings_file = None if settings is None else SettingsFile.read(arm.job, settings, arm.overrides)
        of_set = {} if settings_file is None else settings_file.values
        for federation, seed in zip(federations, seeds, strict=True):
            if settings_file is not None:
                settings_file.check_data(federation)
            try:
                with named_origins(arm.job, settings_file, arm.overrides):
                    changes = merged(of_set, arm.overrides, {"seed": seed})
                    result[arm.name] = arm.job.settings_with(settings_for_data(arm.job, changes, described[federation]))
            except (DataError, SettingsError) as error:
                # An error class need not be made from a text.
                given = "" if like in (None, arm.name) else f", with the settings of --like {like}"
                error.args = (f"{arm.name}{given}: {error}",)
                raise
    return result


def _check_phantoms(of_arms: Mapping[str, RunSettings]) -> None:
    """Refuse arms whose jobs bring phantoms of different kinds: runs are paired on the same data."""
    tasks = {arm: settings.embedded.task for arm, settings in of_arms.items()}
    first, *others = tasks
    for other in others:
        if tasks[other] != tasks[first]:
            raise JobError(
                f"Without --data the phantom of {first} is {tasks[first]} and that of {other} {tasks[other]}: expected "
                "the same data for all. Give a federation that fits both with --data, or all the phantom of one with "
                f"--like {shell_word(first)}."
            )


def _state_folder(run: Path) -> Path:
    return run / RUN_FOLDER / "server" / JOB_ID


def _run(
    commands: Commands,
    arm: PlannedArm,
    seed: int,
    *,
    reference: str,
    data: str | None,
    common: Mapping[str, str | None],
    without: Collection[str],
    out: Path,
) -> str | None:
    """Run an arm in a process of its own unless that is done already; return an error's text."""
    folder = run_folder(out, arm.name, seed)
    if (folder / SUMMARY_FILE).is_file():
        return None
    state = _state_folder(folder) / STATE_FILE
    if arm.shared_rounds and not can_be_resumed(folder):
        branch = _state_folder(run_folder(out, reference, seed)) / kept_state_file(arm.shared_rounds)
        if not branch.is_file():
            return f"{arm.name}, seed {seed}: {branch} is absent; {reference} was run before it had to be kept."
        private_folder(state.parent)
        with replaced(state) as temporary:
            shutil.copyfile(branch, temporary)
    asked = {"--data": _federation(data, seed), **common}
    options = {option: value for option, value in asked.items() if value is not None}
    command = _command(arm, seed, folder, options, without)
    private_folder(folder.parent)
    log = folder.parent / f"{folder.name}.log"
    try:
        failed = commands.run(command, log, timeout=_RUN_TIMEOUT_SECONDS) != 0
    except (RunTimeoutError, RunStoppedError) as error:
        return f"{arm.name}, seed {seed}: {error}"
    if failed:
        last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
        return f"{arm.name}, seed {seed}: {last} (log: {log})"
    return None


def _command(
    arm: PlannedArm, seed: int, folder: Path, asked: Mapping[str, str | Path], without: Collection[str]
) -> list[str]:
    """The command of an arm's run; it goes on where its folder has one already."""
    # Arms differ in what they are given alone.
    command = ["simulate", str(arm.job.folder), "--no-plan", "--seed", str(seed), "--out", str(folder)]
    for option, value in asked.items():
        command += [option, str(value)]
    if folder.is_dir() and any(folder.iterdir()):
        command.append("--resume")
    # A network of a researcher's own code is named by its option.
    for key, value in arm.overrides.items():
        if key in without:
            continue
        command += ["--set", f"{key}={json.dumps(value)}"]
    return command


def _summarize(
    names: Sequence[str],
    seeds: Sequence[int],
    data: str | None,
    out: Path,
    settings: ComparedSettings,
    *,
    scores_centres: bool,
) -> Comparison:
    runs: list[ComparedRun] = []
    scores: dict[str, list[float]] = {}
    for name in names:
        for seed in seeds:
            folder = run_folder(out, name, seed)
            summary = read_summary(folder)
            federation = _federation(data, seed) or folder / "data"
            runs.append(describe_run(name, seed, folder, summary, federation, scores_centres=scores_centres))
            score = summary.main_score
            if score is None:
                raise RunError(
                    f"{folder} has no {scoring_of(summary).label}: neither a test set at {federation} nor validation "
                    "cases of sites in which anything is annotated."
                )
            scores.setdefault(name, []).append(score)
    reference = names[0]
    paired = [
        PairedArm(arm=name, reference=reference, **paired_statistics(scores[reference], values).model_dump())
        for name, values in scores.items()
        if name != reference
    ]
    return Comparison(
        reference=reference,
        data=data,
        seeds=tuple(seeds),
        settings=settings,
        runs=tuple(runs),
        paired=tuple(paired),
    )
