"""The results per case of a comparison: the lines of all its runs in one file, and what they show."""

import json
from collections.abc import Callable
from pathlib import Path

from ...custom.data.description import DESCRIPTION_FILE, read_site_description
from ...custom.data.whole_files import write_text
from ...custom.methods.lookup import read_job_settings
from ...custom.run.summary_record import FinalModel
from ...transforms.errors import DataError
from ..runs.job import Job
from ..runs.resuming import JOB_FOLDER
from .calibration_file import CALIBRATION_FILE, read_calibration
from .case_results import FinishedRun, write_case_results
from .case_statistics import Metric, case_tests
from .compared_runs import Comparison
from .comparison_page import run_folder
from .output import DATA_FOLDER, MODEL_FILE, read_summary, scored_model
from .preparations import check_preparation
from .result_rows import ResultRow, RunName, renamed
from .results_file import (
    RESULTS_FILE,
    ROUNDS_FILE,
    is_written,
    read_description,
    read_results,
    read_round_lines,
    write_results,
)


def with_case_results(out: Path, comparison: Comparison, warn: Callable[[str], None]) -> Comparison:
    """Put the results per case of all runs together, and return the comparison with its tests over cases.

    A run without results is scored now. What cannot be scored has no lines, and is said: the runs are over, and the
    comparison must come to its end.

    Args:
        out: the comparison's output folder.
        comparison: what was found.
        warn: is told of each run without lines, and why.
    """
    rows: list[ResultRow] = []
    models: dict[str, FinalModel] = {}
    rounds: list[dict[str, str]] = []
    calibration: list[dict[str, object]] = []
    for run in comparison.runs:
        folder = run_folder(out, run.arm, run.seed)
        data = comparison.data
        federation = folder / DATA_FOLDER if data is None else Path(data.replace("{seed}", str(run.seed)))
        try:
            of_run = results_of_run(folder, federation)
        except Exception as error:
            # Data or the code of a network are gone, or whatever had kept the run from scoring its cases.
            warn(f"warning: {folder.name} has no results per case: {type(error).__name__}: {error}")
            continue
        if of_run and (model := _model_of(folder)) is not None:
            models[folder.name] = model
        rows += renamed(of_run, run=folder.name, arm=run.arm)
        rounds += [line | {"run": folder.name, "arm": run.arm} for line in read_round_lines(folder / ROUNDS_FILE)]
        named = {"run": folder.name, "arm": run.arm, "seed": run.seed}
        calibration += [named | one for one in read_calibration(folder / CALIBRATION_FILE)]
    write_results(out / RESULTS_FILE, rows, models, rounds)
    write_text(out / CALIBRATION_FILE, json.dumps({"version": 1, "calibration": calibration}, indent=2) + "\n")
    metric: Metric = "accuracy" if comparison.runs[0].task == "classification" else "dice"
    tests = case_tests(rows, comparison.reference, metric)
    if not tests:
        return comparison
    of_runs = {(run.arm, run.seed): models.get(run_folder(out, run.arm, run.seed).name) for run in comparison.runs}
    runs = [
        run if (model := of_runs[run.arm, run.seed]) is None else run.model_copy(update={"case_model": model})
        for run in comparison.runs
    ]
    return comparison.model_copy(update={"runs": tuple(runs), "case_tests": tests})


def _model_of(folder: Path) -> FinalModel | None:
    """Which model of a run its results per case are of."""
    return next(iter(read_description(folder / RESULTS_FILE).models.values()), None)


def results_of_run(folder: Path, federation: Path | None = None) -> list[ResultRow]:
    """Return the results per case of a finished run; they are made if they are not there.

    Args:
        folder: the run's output folder.
        federation: folder of its data, or a site's own folder; None for where the run had them.

    Raises:
        OutputError: if there is no run.
        DataError: if there are neither results nor data that can be used, or they are prepared in other ways than in
            the run.
    """
    if not is_written(folder / RESULTS_FILE):
        summary = read_summary(folder)
        known = federation or summary.data_folder or folder / DATA_FOLDER
        if not known.is_dir():
            raise DataError(f"{folder} has no {RESULTS_FILE}, and {known} is no folder; expected the run's data there.")
        settings = read_job_settings(summary.settings, of_finished_run=True)
        job = folder / JOB_FOLDER
        arm = Job(job).name if job.is_dir() else summary.method
        name = RunName(folder.resolve().name, arm, summary.seed)
        sites, is_site = list(summary.sites), (known / DESCRIPTION_FILE).is_file()
        if is_site:
            # At a site, which has its own data alone.
            known, sites = known.resolve().parent, [known.resolve().name]
        for site in sites:
            if (known / site / DESCRIPTION_FILE).is_file():
                check_preparation(known / site, read_site_description(known / site), summary.preparations, site)
        model, which = scored_model(folder, folder / MODEL_FILE, summary)
        run = FinishedRun(name, folder, model, which, settings, known, sites, has_test_set=not is_site)
        write_case_results(run, folder, folder)
    return read_results(folder / RESULTS_FILE)
