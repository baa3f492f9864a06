"""The figures of a row from its finished runs: scores, tests over cases, costs and what leaves."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedannot.apps.reports.case_statistics import CaseTest, Metric, case_tests
from fedannot.apps.reports.compared_runs import ComparedRun, Comparison
from fedannot.apps.reports.comparison import describe_run, paired_statistics
from fedannot.apps.reports.comparison_page import REQUEST_FILE, run_folder
from fedannot.apps.reports.output import read_summary
from fedannot.apps.reports.result_rows import ResultRow, renamed
from fedannot.apps.reports.results_file import RESULTS_FILE, is_written, read_results
from fedannot.apps.runs.arm_run import federation_of, state_folder
from fedannot.custom.data.datalist import TRAINING, Case, read_datalist
from fedannot.custom.data.description import SegmentationDescription, read_site_description
from fedannot.custom.data.federation import TEST_FOLDER, read_federation
from fedannot.custom.data.masks import read_classes, turned_to
from fedannot.custom.methods.lookup import find_method
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.custom.run.summary_record import LAST_ROUNDS, Summary
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import read_json

from .figures import REFERENCE, AbsentMethod, CaseDifference, LeagueFigures, Machine, MethodFigures
from .rows import LeagueRow

_MB = 1e6


def finished_comparison(runs: Path, arms: Sequence[str], data: str, seeds: Sequence[int]) -> Comparison:
    """Return a comparison of runs that are there; nothing is written.

    Args:
        runs: the comparison's output folder.
        arms: federated averaging first; all their runs are finished.
        data: the federations, with ``{seed}`` for the seed.
        seeds: of each arm.
    """
    summaries = {(arm, seed): read_summary(run_folder(runs, arm, seed)) for arm in arms for seed in seeds}
    has_personal = any(_is_personal(summary.task, summary.method) for summary in summaries.values())
    described = tuple(
        describe_run(
            arm,
            seed,
            run_folder(runs, arm, seed),
            summary,
            federation_of(data, seed) or run_folder(runs, arm, seed),
            scores_centres=has_personal,
        )
        for (arm, seed), summary in summaries.items()
    )
    return Comparison(reference=arms[0], data=data, seeds=tuple(seeds), runs=described, paired=())


def row_figures(
    name: str, row: LeagueRow, comparison: Comparison, runs: Path, absent: Sequence[AbsentMethod]
) -> LeagueFigures:
    """Return the figures of a row.

    Args:
        name: the row's.
        row: the row.
        comparison: of its runs; its first arm is federated averaging.
        runs: the comparison's output folder, of which nothing is changed.
        absent: methods without figures.
    """
    request = read_json(runs / REQUEST_FILE, "what was compared") if (runs / REQUEST_FILE).is_file() else {}
    given = {arm: asked["overrides"] for arm, asked in request.get("arms", {}).items()}
    figures = LeagueFigures(
        row=name,
        what=row.what,
        task=row.task,
        clean=row.clean,
        seeds=tuple(comparison.seeds),
        agreement=_mean_agreement(comparison),
        methods=tuple(_method_figures(comparison, arm, runs) for arm in comparison.arms),
        absent=tuple(absent),
    )
    results = global_results(comparison, runs)
    metric: Metric = "accuracy" if row.task == "classification" else "dice"
    tests = case_tests(results, REFERENCE, metric)
    of_reference = _differences(tests)
    rival = figures.best_rival
    of_rival = {} if rival is None else _differences(case_tests(results, rival.method, metric))
    methods = [
        method.model_copy(
            update={
                "settings": _beside(row.settings, given[method.method]) if method.method in given else None,
                "on_cases": (found := of_reference.get(method.method)),
                "p_cases": found and found.p,
                "on_cases_of_rival": of_rival.get(method.method),
            }
        )
        for method in figures.methods
    ]
    # Without another method there is no test.
    num_patients = max((test.num_patients for test in tests), default=len({line.patient for line in results}) or None)
    return figures.model_copy(update={"methods": tuple(methods), "num_patients": num_patients})


def _beside(of_row: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a method was given beside a row's settings, or in place of them."""
    return {key: value for key, value in given.items() if key not in of_row or value != of_row[key]}


def global_results(comparison: Comparison, runs: Path) -> list[ResultRow]:
    """Return the results on the test set of all runs whose methods have one model for all sites; nothing is written.

    Raises:
        DataError: if a run has none, or others than the cases of the same seed's federated averaging.
    """
    results: list[ResultRow] = []
    cases_of: dict[int, frozenset[tuple[str, str]]] = {}
    for run in comparison.runs:
        if _is_personal(run.task, run.method):
            continue
        folder = run_folder(runs, run.arm, run.seed)
        if not is_written(folder / RESULTS_FILE):
            raise DataError(f"{folder}: found no whole {RESULTS_FILE}; expected the results of the test cases.")
        of_run = [
            line
            for line in renamed(read_results(folder / RESULTS_FILE), run=folder.name, arm=run.arm)
            if line.site == TEST_FOLDER
        ]
        cases = frozenset((line.case, line.class_name) for line in of_run)
        if cases != cases_of.setdefault(run.seed, cases):
            raise DataError(f"{folder / RESULTS_FILE}: found other test cases than {comparison.reference} has.")
        results += of_run
    return results


def _differences(tests: Sequence[CaseTest]) -> dict[str, CaseDifference]:
    return {
        test.arm: CaseDifference(
            mean=100 * test.mean, low=_points(test.low), high=_points(test.high), p=test.p_wilcoxon_holm
        )
        for test in tests
    }


def _is_personal(task: str, method: str) -> bool:
    return issubclass(find_method(task, method).settings, PersonalSettings)


def _method_figures(comparison: Comparison, arm: str, out: Path) -> MethodFigures:
    """All but what needs the other methods' results per case."""
    runs, reference = comparison.of_arm(arm), comparison.of_arm(comparison.reference)
    summaries = [read_summary(run_folder(out, run.arm, run.seed)) for run in runs]
    method, base = find_method(runs[0].task, runs[0].method), find_method(runs[0].task, reference[0].method)
    known = {field.name for field in base.outbound_fields}
    scores = [100 * (run.main_score or 0.0) for run in runs]
    pair = None
    if arm != comparison.reference:
        pair = paired_statistics([100 * (run.main_score or 0.0) for run in reference], scores)
    memory = [run.peak_memory_mb for run in runs if run.peak_memory_mb is not None]
    has_centres = any(run.centres is not None for run in comparison.runs)
    return MethodFigures(
        method=arm,
        is_personal=_is_personal(runs[0].task, runs[0].method),
        scores=tuple(scores),
        mean=statistics.fmean(scores),
        standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        difference=None if pair is None else pair.mean,
        p_seeds=None if pair is None else pair.p_value,
        p_cases=None,
        left_empty=tuple(_points(getattr(run.last_rounds, "left_empty", None)) for run in runs),
        slope=_slope(runs),
        generic=tuple(_points(None if run.centres is None else run.centres.generic) for run in runs)
        if has_centres
        else (),
        own=tuple(_own(run) for run in runs) if has_centres else (),
        seconds_per_round=statistics.fmean(run.seconds / len(run.rounds) for run in runs),
        cpu_seconds_per_round=_cpu_seconds(summaries),
        memory_mb=max(memory, default=None),
        model_mb=_model_mb(run_folder(out, arm, runs[0].seed)),
        fields=tuple(dict.fromkeys(field.name for field in method.outbound_fields if field.name not in known)),
        machines=tuple(map(_machine, summaries)),
        commits=tuple(None if summary.source is None else summary.source.commit for summary in summaries),
    )


def _slope(runs: Sequence[ComparedRun]) -> float | None:
    """Points per round of a line through the last rounds' scores, mean over the runs."""
    slopes = []
    for run in runs:
        last = run.rounds[-LAST_ROUNDS:]
        points = [(record.round, 100 * record.main_score) for record in last if record.main_score is not None]
        if len(points) > 1:
            rounds, scores = np.array(points, dtype=np.float64).T
            slopes.append(float(np.polyfit(rounds, scores, 1)[0]))
    return statistics.fmean(slopes) if slopes else None


def _points(score: float | None) -> float | None:
    return None if score is None else 100 * score


def _own(run: ComparedRun) -> float | None:
    own = {} if run.centres is None else run.centres.own
    return 100 * statistics.fmean(own.values()) if own else None


def _machine(summary: Summary) -> Machine:
    return Machine(processor=summary.processor, torch=(summary.versions or {}).get("torch"))


def _cpu_seconds(summaries: Sequence[Summary]) -> float | None:
    """Of a round, mean over the runs that know it."""
    known = [one.cpu_seconds / max(1, one.rounds_finished) for one in summaries if one.cpu_seconds is not None]
    return statistics.fmean(known) if known else None


def _model_mb(folder: Path) -> float | None:
    """Of the average of what sites have sent, which has the parameters and buffers that each of them sends."""
    file = state_folder(folder) / STATE_FILE
    if not file.is_file():
        return None
    return sum(tensor.numel() * tensor.element_size() for tensor in RunState.load(file).params.values()) / _MB


def _mean_agreement(comparison: Comparison) -> float | None:
    federations = [federation_of(comparison.data, seed) for seed in comparison.seeds]
    found = [agreement(folder) for folder in federations if folder is not None and folder.is_dir()]
    known = [value for value in found if value is not None]
    return 100 * statistics.fmean(known) if known else None


def agreement(federation: Path) -> float | None:
    """Return how well the sites' training annotations agree with the right ones: mean Dice of the foreground of masks,
    or fraction of labels.

    A case of which both masks are empty does not count. None where no right annotations are known.
    """
    values: list[float] = []
    for site in read_federation(federation).sites:
        folder = federation / site
        description = read_site_description(folder)
        for case in read_datalist(folder / description.datalist).section(TRAINING):
            if case.clean_label is None:
                continue
            if not isinstance(description, SegmentationDescription):
                values.append(float(case.label == case.clean_label))
            elif (dice := _dice(case, description)) is not None:
                values.append(dice)
    return statistics.fmean(values) if values else None


def _dice(case: Case, description: SegmentationDescription) -> float | None:
    if not isinstance(case.label, Path) or not isinstance(case.clean_label, Path):
        return None
    given = read_classes(case.label, description)
    right = turned_to(read_classes(case.clean_label, description), given.affine).foreground
    size = int(given.foreground.sum()) + int(right.sum())
    return 2 * int((given.foreground & right).sum()) / size if size else None
