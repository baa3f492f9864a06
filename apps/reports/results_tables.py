"""A table of arms from results per case: as CSV, and as LaTeX with the package booktabs."""

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ...custom.data.federation import TEST_FOLDER
from ...custom.data.whole_files import write_text
from ...custom.evaluation.case_results import Detection
from ...custom.run.summary_record import FinalModel
from ...transforms.printable import spreadsheet_safe
from ..checking.finding import plural
from ..wording.case_tests import METRIC_NAMES, interval_in_words, metric_factor, p_value_in_words
from ..wording.final_model import case_models_in_words
from .case_statistics import METRICS, CaseTest, Metric, PatientTable, case_scores, case_tests
from .result_rows import ResultRow


@dataclass(frozen=True)
class TableCell:
    """A metric of an arm.

    Attributes:
        arm: the arm.
        evaluated_on: `test` or `sites`.
        metric: what was measured.
        unit: of a distance; of the surface Dice its tolerance; empty for other fractions.
        mean: over seeds of the means over cases; fractions between 0 and 1.
        low: lower end of its 95 % interval, by resampling patients within the seeds; None of a single patient.
        high: the upper end, as above.
        seeds_sd: standard deviation of the seeds' means; NaN for one seed.
        num_seeds: seeds.
        num_cases: cases with a value, over all seeds.
        num_patients: patients of these.
        num_undefined: cases and classes that are annotated and have no value.
    """

    arm: str
    evaluated_on: str
    metric: Metric
    unit: str
    mean: float
    low: float | None
    high: float | None
    seeds_sd: float
    num_seeds: int
    num_cases: int
    num_patients: int
    num_undefined: int


@dataclass(frozen=True)
class ResultsTable:
    """Arms by metrics, and how each arm differs from the first one.

    Attributes:
        cells: by arm and metric.
        missed: cases and classes that are annotated and not detected, and how many are annotated, by arm.
        tests: of every metric that is there.
    """

    cells: dict[tuple[str, Metric], TableCell]
    missed: dict[str, tuple[int, int]]
    tests: tuple[CaseTest, ...]

    @property
    def arms(self) -> list[str]:
        """The arms, the reference first."""
        return list(dict.fromkeys(arm for arm, _ in self.cells))

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that any arm has."""
        return [metric for metric in METRICS if any(key[1] == metric for key in self.cells)]

    def columns(self) -> dict[str, list[str]]:
        """Return the cells of a table with a row for each arm, by heading: means with intervals, and differences."""
        columns = {"arm": self.arms}
        for metric in self.metrics:
            cells = [self.cells.get((arm, metric)) for arm in self.arms]
            columns[self._heading(metric)] = ["-" if cell is None else mean_in_words(cell) for cell in cells]
        columns["missed"] = ["{} of {}".format(*self.missed[arm]) for arm in self.arms]
        main = {test.arm: test for test in self.tests if test.metric == self.metrics[0]}
        tests = [main.get(arm) for arm in self.arms]
        name = METRIC_NAMES[self.metrics[0]]
        columns[f"{name} difference"] = ["-" if test is None else difference_in_words(test) for test in tests]
        columns["p (Wilcoxon, Holm)"] = [
            "-" if test is None else p_value_in_words(test.p_wilcoxon_holm) for test in tests
        ]
        return columns

    def _heading(self, metric: Metric) -> str:
        units = "/".join(sorted({cell.unit for key, cell in self.cells.items() if key[1] == metric}))
        if metric == "hd95":
            return f"{METRIC_NAMES[metric]} {units}"
        return f"{METRIC_NAMES[metric]} %" + (f" ({units})" if units else "")


def results_table(rows: Sequence[ResultRow], reference: str | None = None) -> ResultsTable:
    """Return the table of results per case.

    Args:
        rows: of all arms; of the server's test set, or without one of the sites' own cases.
        reference: the arm that others are compared with; None for the first.

    Raises:
        ValueError: if there is no row, none of the reference, nothing is scored, or the surface Dice of arms has
            different tolerances.
    """
    arms = list(dict.fromkeys(row.arm for row in rows))
    reference = reference or (arms[0] if arms else "")
    if reference not in arms:
        raise ValueError(f"Expected results per case of the arm {reference!r}, but found those of {arms}.")
    _check_tolerance(rows)
    on = TEST_FOLDER if any(row.site == TEST_FOLDER for row in rows) else "sites"
    counted = [row for row in rows if on != TEST_FOLDER or row.site == TEST_FOLDER]
    cells: dict[tuple[str, Metric], TableCell] = {}
    tests: list[CaseTest] = []
    for metric in METRICS:
        scores = case_scores(rows, metric)
        for arm in sorted(scores, key=lambda arm: (arm != reference, arms.index(arm))):
            of_arm = [row for row in counted if row.arm == arm]
            cells[arm, metric] = _cell(arm, on, metric, of_arm, PatientTable.of(scores[arm]))
        tests += case_tests(rows, reference, metric)
    if not cells:
        raise ValueError("Expected a score of a case at least, but found none: nothing is annotated in any of them.")
    missed = {arm: _missed([row for row in counted if row.arm == arm]) for arm in arms}
    return ResultsTable(cells, missed, tuple(tests))


def _check_tolerance(rows: Sequence[ResultRow]) -> None:
    found: dict[float, set[str]] = {}
    for row in rows:
        if math.isfinite(row.nsd_tolerance):
            found.setdefault(row.nsd_tolerance, set()).add(row.arm)
    if len(found) > 1:
        listed = ", ".join(f"{value:g} in {' and '.join(sorted(arms))}" for value, arms in sorted(found.items()))
        raise ValueError(f"Expected one nsd_tolerance, with which surface Dice can be compared, but found {listed}.")


def _annotated(rows: Sequence[ResultRow]) -> list[ResultRow]:
    return [row for row in rows if row.detected in (Detection.DETECTED, Detection.MISSED)]


def _missed(rows: Sequence[ResultRow]) -> tuple[int, int]:
    annotated = _annotated(rows)
    return sum(row.detected == Detection.MISSED for row in annotated), len(annotated)


def _cell(arm: str, on: str, metric: Metric, rows: Sequence[ResultRow], table: PatientTable) -> TableCell:
    annotated = _annotated(rows)
    low, high = table.interval()
    of_seeds = table.of_seeds.tolist()
    return TableCell(
        arm=arm,
        evaluated_on=on,
        metric=metric,
        unit=_unit(metric, rows),
        mean=statistics.fmean(of_seeds),
        low=low,
        high=high,
        seeds_sd=statistics.stdev(of_seeds) if len(of_seeds) > 1 else math.nan,
        num_seeds=len(of_seeds),
        num_cases=int(table.counts.sum()),
        num_patients=table.counts.shape[1],
        num_undefined=sum(metric != "accuracy" and math.isnan(getattr(row, metric)) for row in annotated),
    )


def _unit(metric: Metric, rows: Sequence[ResultRow]) -> str:
    if metric == "nsd":
        return "/".join(sorted({f"{row.nsd_tolerance:g} {row.unit}" for row in rows if math.isfinite(row.nsd)}))
    return next((row.unit for row in rows if row.unit), "") if metric == "hd95" else ""


def mean_in_words(cell: TableCell) -> str:
    """Return a mean with its interval as it is shown: ``78.1 (75.0 to 80.9)``; without one of a single patient."""
    factor = metric_factor(cell.metric)
    mean = f"{factor * cell.mean:z.1f}"
    if cell.low is None or cell.high is None:
        return mean
    return f"{mean} ({factor * cell.low:z.1f} to {factor * cell.high:z.1f})"


def difference_in_words(test: CaseTest) -> str:
    """Return a difference with its interval as it is shown: ``+2.1 (+0.3 to +4.0)``."""
    return f"{metric_factor(test.metric) * test.mean:+z.1f} ({interval_in_words(test.metric, test.low, test.high)})"


def write_table(table: ResultsTable, file: Path) -> Path:
    """Write the cells as CSV, a line each, and return the file."""
    return _write_csv(file, [one.name for one in fields(TableCell)], list(table.cells.values()))


def write_tests(tests: Sequence[CaseTest], file: Path) -> Path:
    """Write tests as CSV, a line each, and return the file."""
    return _write_csv(file, list(CaseTest.model_fields), tests)


def _write_csv(file: Path, names: Sequence[str], lines: Sequence[object]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_plain(getattr(line, name)) for name in names] for line in lines])
    write_text(file, text.getvalue())
    return file


def _plain(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.8g}" if isinstance(value, float) else _text(value)


def _text(value: object) -> str:
    return spreadsheet_safe(value) if isinstance(value, str) else str(value)


def results_head(table: ResultsTable, models: Sequence[FinalModel]) -> list[str]:
    """Return what the table's values are, and of which models, a sentence each.

    Args:
        table: the table.
        models: of the runs, where they are known.
    """
    first = next(iter(table.cells.values()))
    over = f"Means over {first.num_seeds} seeds of the means over cases" if first.num_seeds > 1 else "Means over cases"
    lines = [f"{over}, with 95 % bootstrap intervals over patients; {plural(first.num_patients, 'patient')}."]
    return [*lines, f"Scored are {named}."] if (named := case_models_in_words(models)) else lines


def write_latex(table: ResultsTable, file: Path, models: Sequence[FinalModel] = ()) -> Path:
    """Write the table as LaTeX, which needs the package booktabs, and return the file; arguments as above."""
    columns = table.columns()
    heading = " & ".join(_latex(name) for name in columns)
    rows = [" & ".join(map(_latex, cells)) + r" \\" for cells in zip(*columns.values(), strict=True)]
    notes = [f"% {line}" for line in results_head(table, models)]
    lines = [*notes, rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule", rf"{heading} \\", r"\midrule"]
    write_text(file, "\n".join([*lines, *rows, r"\bottomrule", r"\end{tabular}"]) + "\n")
    return file


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"},
}


def _latex(text: str) -> str:
    r"""Return a text as LaTeX shows it.

    >>> print(_latex("fed_avg 50 %"))
    fed\_avg 50 \%
    """
    if text[:1] == "-" and text != "-":
        text, sign = text[1:], "$-$"
    else:
        sign = ""
    return sign + "".join(_LATEX.get(character, character) for character in text).replace("(-", "($-$").replace(
        "to -", "to $-$"
    )
