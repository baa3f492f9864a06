"""Methods side by side: the same data, the same start weights, paired over seeds."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...custom.data.whole_files import write_text
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.run.threads import number_of_threads
from ..reports.charts import draw_comparison
from ..reports.compared_results import with_case_results
from ..reports.compared_runs import COMPARISON_FILE, COMPARISON_PICTURE, ComparedRun, Comparison, PairedArm
from ..reports.comparison import describe_run, paired_statistics
from ..reports.comparison_page import REQUEST_FILE, run_folder, write_comparison_page
from ..reports.output import read_summary, scoring_of
from .arm_run import federation_of, is_run_elsewhere, run_arm
from .arms import Arm, PlannedArm
from .checked_arms import CheckedArms, check_arms
from .in_process import RunError
from .interruption import check_interruption
from .output_request import folder_locked, keep_request
from .progress import Progress
from .ray_cluster import usable_address
from .ray_engine import RayEngine
from .run_placer import RunPlacer
from .run_places import RunPlaces, run_places
from .run_share import RunShare
from .tracking import Tracking
from .watched_runs import RunsProgress, WatchedRun

_SHOWN_RUNS = 5


class RunsMissingError(RunError):
    """Runs of a comparison are not there yet: they are of other shares, or another process works on them.

    Attributes:
        missing: names of the runs.
        running: names of those among them that another process works on.
    """

    def __init__(self, missing: Sequence[str], running: Sequence[str], out: Path) -> None:
        self.missing, self.running = tuple(missing), tuple(running)
        text = f"{out}: {len(missing)} runs are missing ({_shown(missing)}), so there is no comparison yet."
        if running:
            text += f" Another process works on {len(running)} of them ({_shown(running)}) and was not disturbed."
        super().__init__(f"{text} Whoever finishes the last run writes the comparison; any share may be called again.")


def _shown(names: Sequence[str]) -> str:
    return "; ".join(names[:_SHOWN_RUNS]) + (f"; and {len(names) - _SHOWN_RUNS} more" if names[_SHOWN_RUNS:] else "")


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
    engine: RayEngine | None = None,
    track: str | None = None,
    only: RunShare | None = None,
    root: Path | None = None,
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
        settings: a set of settings; its name must exist next to every job, or its file fit every job.
        overrides: settings to change in every arm whose job has them.
        like: name of an arm, or name or folder of a job, whose settings all arms take as far as
            :data:`fedannot.apps.runs.fairness.HELD` lists them.
        allow_different: settings or blocks of that list that may differ between arms, besides an arm's own ones.
        network: place of the function that builds the network of all arms, ``package.module:function``.
        processes: runs at a time, by default one per core and thread of a run; with Ray as many as it has room for.
        engine: what is asked of Ray, which then places the runs; None for processes of this machine.
        track: where every run is tracked, see :class:`fedannot.apps.runs.tracking.Tracking`.
        only: the runs that are run here; None for all. All shares write into the same folder.
        root: a folder with the output folder and the data, which may be moved as a whole; None for the output folder.
        progress: tells how far the runs are; by default on the standard error.

    Raises:
        JobError: if a seed is named twice, or none is; the arms cannot be compared (see
            :func:`fedannot.apps.runs.arms.plan`), their phantoms are of different kinds, the folder holds another
            comparison, or Ray cannot be used.
        UnfairComparisonError: if arms differ in more than their methods, and nothing declares it.
        SettingsError: if a setting of any arm, or the set of settings, cannot be used.
        DataError: if there are no data for a seed, or they do not fit an arm, or are not those that the set is for.
        RunError: if a run failed; the others are finished first.
        RunsMissingError: if runs of other shares, or runs that another process works on, are not there yet.
    """
    if track is not None:
        # Wrong before the first run, not in each of them.
        Tracking.parse(track).check()
    if engine is not None:
        usable_address(engine.address)
    checked = check_arms(
        arms,
        data=data,
        seeds=seeds,
        settings=settings,
        overrides=overrides,
        like=like,
        allow_different=allow_different,
        network=network,
    )
    asked = {"data": data, "settings": settings, "overrides": dict(overrides), "like": like, "network": network}
    _keep_asked(out, asked, arms, allow_different, root)
    progress = progress or Progress()
    runs = {(arm.name, seed): _watched_run(checked, arm, seed, out) for seed in seeds for arm in checked.arms}
    here = [(arm, seed, runs[arm.name, seed]) for arm, seed in (only or RunShare()).of_runs(checked.arms, seeds)]
    runs_here = [run for *_, run in here]
    progress_of_runs = RunsProgress(runs_here, progress)
    # Ray takes seconds to start.
    engine = None if all(run.is_finished for run in runs_here) else engine
    check_interruption()
    threads = max(number_of_threads(of_arm.threads) for of_arm in checked.of_arms.values())
    with run_places(engine, out, processes=processes, threads=threads, num_runs=len(here)) as places:
        common = {"--settings": settings, "--track": track, "--network": network}
        common["--sites-at-once"] = str(places.sites_at_once)
        run = partial(
            run_arm,
            reference=checked.arms[0].name,
            data=data,
            common=common,
            without=checked.own_network,
            out=out,
        )
        _make_runs(here, run, places, progress_of_runs)
    _check_all_there(list(runs.values()), out)
    with folder_locked(out):
        return _write_comparison(checked, seeds, data, out, progress)


def _keep_asked(
    out: Path, asked: Mapping[str, Any], arms: Sequence[Arm], allow_different: Collection[str], root: Path | None
) -> None:
    """Keep what a comparison is asked for; other arms may come to it, and what may differ changes no run."""
    of_arms = {arm.name: _asked_arm(arm) for arm in arms}
    keep_request(
        out,
        REQUEST_FILE,
        {**asked, "allow_different": sorted(allow_different), "arms": of_arms},
        contents="comparison",
        growing={"arms": "arm"},
        free={"allow_different"},
        paths={"data"},
        root=root,
    )


def _watched_run(checked: CheckedArms, arm: PlannedArm, seed: int, out: Path) -> WatchedRun:
    rounds = checked.of_arms[arm.name].rounds
    return WatchedRun(f"{arm.name}, seed {seed}", run_folder(out, arm.name, seed), rounds)


def _make_runs(
    runs: Sequence[tuple[PlannedArm, int, WatchedRun]],
    run: Callable[[RunPlacer, PlannedArm, int], str | None],
    places: RunPlaces,
    progress: RunsProgress,
) -> None:
    """Make runs with a function that makes one and returns an error's text, see :func:`.arm_run.run_arm`.

    Raises:
        RunError: if any failed; the others are finished first.
    """
    progress.begin(places.at_a_time)
    # Arms that branch wait for the run that they branch from.
    for branching in (False, True):
        begun = {
            places.placer.submit(partial(run, places.placer, arm, seed)): watched
            for arm, seed, watched in runs
            if bool(arm.shared_rounds) is branching
        }
        if failed := [error for error in progress.wait(begun) if error]:
            raise RunError(f"{len(failed)} of {len(begun)} runs failed. First: {failed[0]}")


def _check_all_there(runs: Sequence[WatchedRun], out: Path) -> None:
    """Check that every run is over; a run that another process works on is not, whatever it has written already.

    Raises:
        RunsMissingError: if any is not.
    """
    running = [run.name for run in runs if is_run_elsewhere(run.folder)]
    if missing := [run.name for run in runs if run.name in running or not run.is_finished]:
        raise RunsMissingError(missing, running, out)


def _asked_arm(arm: Arm) -> dict[str, Any]:
    return {"job": arm.job.name, "overrides": dict(arm.overrides), "shared_rounds": arm.shared_rounds}


def _write_comparison(
    checked: CheckedArms, seeds: Sequence[int], data: str | None, out: Path, progress: Progress
) -> Comparison:
    """Write the comparison of finished runs, its figure and its page."""
    comparison = with_case_results(out, _summarize(checked, seeds, data, out), progress.tell)
    write_text(out / COMPARISON_FILE, json.dumps(comparison.plain(), indent=2) + "\n")
    draw_comparison(comparison, out / COMPARISON_PICTURE)
    write_comparison_page(out, comparison)
    return comparison


def _summarize(checked: CheckedArms, seeds: Sequence[int], data: str | None, out: Path) -> Comparison:
    names = [arm.name for arm in checked.arms]
    scores_centres = any(isinstance(arm.job.settings(), PersonalSettings) for arm in checked.arms)
    runs: list[ComparedRun] = []
    scores: dict[str, list[float]] = {}
    for name in names:
        for seed in seeds:
            folder = run_folder(out, name, seed)
            summary = read_summary(folder)
            federation = federation_of(data, seed) or folder / "data"
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
        settings=checked.compared,
        runs=tuple(runs),
        paired=tuple(paired),
    )
