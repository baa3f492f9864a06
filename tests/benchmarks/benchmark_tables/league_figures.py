"""The figures of the league, as records, and the file that holds them."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from fedannot.apps.reports.case_statistics import CaseTest
from fedannot.apps.reports.compared_runs import ComparedRun, Comparison
from fedannot.apps.reports.comparison import paired_statistics
from fedannot.apps.reports.comparison_page import run_folder
from fedannot.apps.runs.arm_run import state_folder
from fedannot.custom.data.whole_files import write_text
from fedannot.custom.methods.lookup import find_method
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.records.round_records import Record
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.custom.run.summary_record import LAST_ROUNDS
from fedannot.transforms.errors import DataError, describe_validation_error
from fedannot.transforms.strict_files import read_json

LEAGUE_FILE = "league.json"
_MB = 1e6


class MethodFigures(Record):
    """What is reported of a method in a row; scores in percent, differences in points.

    Attributes:
        method: its name.
        is_personal: whether each site keeps a model of its own.
        scores: Dice or macro F1 of each seed.
        mean: of them.
        standard_deviation: over the seeds; None for one.
        difference: mean difference to federated averaging, paired by seed; None for federated averaging itself.
        p_seeds: of the paired t-test; None without one.
        p_cases: of Wilcoxon's signed-rank test over patients, with Holm's correction over the row's methods.
        slope: points that the score gains per round in the last rounds, mean over the seeds.
        generic: Dice on the test set of each seed, where methods with models of each site are in the row.
        own: mean Dice of the sites' own cases of each seed, as above.
        seconds_per_round: mean over the seeds.
        memory_mb: most of a run's process.
        model_mb: of the model that a site sends in a round, in 10⁶ bytes; None where the run's state is gone.
        fields: names of the declared fields that may leave a site in addition to those of federated averaging.
    """

    method: str
    is_personal: bool
    scores: tuple[float, ...]
    mean: float
    standard_deviation: float | None
    difference: float | None
    p_seeds: float | None
    p_cases: float | None
    slope: float | None
    generic: tuple[float | None, ...] = ()
    own: tuple[float | None, ...] = ()
    seconds_per_round: float
    memory_mb: float | None
    model_mb: float | None
    fields: tuple[str, ...]


class AbsentMethod(Record):
    """A method that has no figures in a row.

    Attributes:
        method: its name.
        status: whether it is not defined on the row's data, or a run of it failed.
        reason: why.
    """

    method: str
    status: Literal["not defined", "failed"]
    reason: str


class LeagueFigures(Record):
    """What is reported of a row: the data, the seeds, the methods, and those that have no figures."""

    row: str
    what: str
    task: str
    clean: str
    seeds: tuple[int, ...]
    methods: tuple[MethodFigures, ...]
    absent: tuple[AbsentMethod, ...]

    def of(self, method: str) -> MethodFigures | None:
        """Return a method's figures, None where it has none."""
        return next((figures for figures in self.methods if figures.method == method), None)


class League(Record):
    """All rows that were finished."""

    version: Literal[1] = 1
    rows: tuple[LeagueFigures, ...] = ()


def method_figures(comparison: Comparison, arm: str, out: Path) -> MethodFigures:
    """Return the figures of an arm of a comparison.

    Args:
        comparison: of a row; its first arm is federated averaging.
        arm: the arm, called as its method.
        out: the comparison's output folder.
    """
    runs, reference = comparison.of_arm(arm), comparison.of_arm(comparison.reference)
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
        is_personal=issubclass(method.settings, PersonalSettings),
        scores=tuple(scores),
        mean=statistics.fmean(scores),
        standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        difference=None if pair is None else pair.mean,
        p_seeds=None if pair is None else pair.p_value,
        p_cases=_p_cases(comparison.case_tests or (), arm),
        slope=_slope(runs),
        generic=tuple(_points(run.centres and run.centres.generic) for run in runs) if has_centres else (),
        own=tuple(_own(run) for run in runs) if has_centres else (),
        seconds_per_round=statistics.fmean(run.seconds / len(run.rounds) for run in runs),
        memory_mb=max(memory, default=None),
        model_mb=_model_mb(run_folder(out, arm, runs[0].seed)),
        fields=tuple(dict.fromkeys(field.name for field in method.outbound_fields if field.name not in known)),
    )


def _p_cases(tests: Sequence[CaseTest], arm: str) -> float | None:
    return next((test.p_wilcoxon_holm for test in tests if test.arm == arm), None)


def _slope(runs: Sequence[ComparedRun]) -> float | None:
    """Points per round of a line through the last rounds' scores, mean over the runs."""
    slopes = []
    for run in runs:
        last = run.rounds[-LAST_ROUNDS:]
        points = [(record.round, 100 * record.main_score) for record in last if record.main_score is not None]
        if len(points) > 1:
            slopes.append(float(np.polyfit(*zip(*points, strict=True), 1)[0]))
    return statistics.fmean(slopes) if slopes else None


def _points(score: float | None) -> float | None:
    return None if score is None else 100 * score


def _own(run: ComparedRun) -> float | None:
    own = {} if run.centres is None else run.centres.own
    return 100 * statistics.fmean(own.values()) if own else None


def _model_mb(folder: Path) -> float | None:
    """Of the average of what sites have sent, which has the parameters and buffers that each of them sends."""
    file = state_folder(folder) / STATE_FILE
    if not file.is_file():
        return None
    return sum(tensor.numel() * tensor.element_size() for tensor in RunState.load(file).params.values()) / _MB


def read_league(file: Path) -> League:
    """Read the rows of the league, none where there is no file.

    Raises:
        DataError: if the file holds something else.
    """
    if not file.is_file():
        return League()
    try:
        return League.model_validate(read_json(file, "the rows of the league"))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=League)) from error


def write_league(league: League, file: Path) -> None:
    """Write the rows of the league."""
    write_text(file, json.dumps(league.plain(), indent=1, ensure_ascii=False) + "\n", shared=True)
