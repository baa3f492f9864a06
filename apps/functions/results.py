"""Results per case of a run or a comparison, for a paper: tables, tests and figures."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ...custom.data.whole_files import private_folder, replaced
from ...custom.run.state import SUMMARY_FILE
from ...custom.run.summary_record import FinalModel
from ...transforms.errors import DataError
from ..reports.calibration_file import CALIBRATION_FILE
from ..reports.compared_results import results_of_run
from ..reports.compared_runs import COMPARISON_FILE
from ..reports.html import html_paragraphs, html_table
from ..reports.result_rows import ResultRow
from ..reports.results_figures import draw_cases, draw_curves
from ..reports.results_file import (
    RESULTS_DESCRIPTION,
    RESULTS_FILE,
    ROUNDS_FILE,
    read_description,
    read_results,
    read_round_lines,
)
from ..reports.results_tables import ResultsTable, results_head, results_table, write_latex, write_table, write_tests

TABLE_NAME, TESTS_FILE, CASES_FIGURE, CURVES_FIGURE = "table", "tests.csv", "cases", "curves"


@dataclass(frozen=True)
class ExportedResults:
    """What was exported; a notebook shows the table.

    Attributes:
        folder: with all files.
        table: arms by metrics, with intervals and tests.
        rows: the results per case.
        models: which model of its run each of them is of, where that is known.
    """

    folder: Path
    table: ResultsTable
    rows: tuple[ResultRow, ...]
    models: tuple[FinalModel, ...] = ()

    @property
    def latex(self) -> Path:
        """The table in LaTeX; it needs the package booktabs."""
        return self.folder / f"{TABLE_NAME}.tex"

    @property
    def figures(self) -> tuple[Path, ...]:
        """The figures as PDF and SVG."""
        return tuple(sorted([*self.folder.glob("*.pdf"), *self.folder.glob("*.svg")]))

    def __str__(self) -> str:
        columns = self.table.columns()
        rows = zip(*columns.values(), strict=True)
        lines = results_head(self.table, self.models)
        lines += ["; ".join(f"{name}: {cell}" for name, cell in zip(columns, row, strict=True)) for row in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_paragraphs(*results_head(self.table, self.models)) + html_table(self.table.columns())


def export_results(
    folder: str | Path, out: str | Path, *, data: str | Path | None = None, reference: str | None = None
) -> ExportedResults:
    """Write the results per case of a run or a comparison as tables, tests and figures.

    The output folder gets ``results.csv`` and ``results_rounds.csv``, ``table.csv`` and ``table.tex``, ``tests.csv``,
    and as PDF and SVG ``cases`` and ``curves``. The CSV files hold what the figures show.

    Args:
        folder: output folder of a run or a comparison. A run of an earlier version is scored first.
        out: output folder; files of these names are replaced.
        data: the federation's folder or a site's own, for a run that is scored first; None for where it had its data.
        reference: the arm that others are compared with; None for the first.

    Raises:
        OutputError: if the folder holds no run.
        DataError: if there are no results per case, or none of the reference.

    >>> from fedannot.apps import export_results
    >>> export_results("nowhere", "paper")
    Traceback (most recent call last):
    ...
    fedannot.apps.reports.output.OutputError: Expected the output of a run in nowhere, but there is no summary.json.
    """
    source, target = Path(folder), Path(out)
    is_run = (source / SUMMARY_FILE).is_file()
    if (source / COMPARISON_FILE).is_file() or ((source / RESULTS_FILE).is_file() and not is_run):
        rows = read_results(source / RESULTS_FILE)
    else:
        # What an earlier version wrote without a description is made again.
        rows = results_of_run(source, None if data is None else Path(data))
    if not rows:
        raise DataError(f"{source / RESULTS_FILE} has no line; expected a test set at the server or at sites.")
    try:
        table = results_table(rows, reference)
    except ValueError as error:
        raise DataError(f"{source / RESULTS_FILE}: {error}") from error
    private_folder(target)
    if source.resolve() != target.resolve():
        # A table that was written halfway is not taken for one with the description of an earlier one.
        (target / RESULTS_DESCRIPTION).unlink(missing_ok=True)
    for name in (RESULTS_FILE, ROUNDS_FILE, CALIBRATION_FILE, RESULTS_DESCRIPTION):
        if (source / name).is_file() and source.resolve() != target.resolve():
            with replaced(target / name) as temporary:
                shutil.copyfile(source / name, temporary)
    write_table(table, target / f"{TABLE_NAME}.csv")
    models = tuple(read_description(source / RESULTS_FILE).models.values())
    write_latex(table, target / f"{TABLE_NAME}.tex", models)
    write_tests(table.tests, target / TESTS_FILE)
    main = table.metrics[0]
    draw_cases(rows, [test for test in table.tests if test.metric == main], main, target / CASES_FIGURE)
    lines = read_round_lines(source / ROUNDS_FILE)
    draw_curves(lines, "f1" if main == "accuracy" else "dice", target / CURVES_FIGURE)
    return ExportedResults(target, table, tuple(rows), models)
