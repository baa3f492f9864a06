"""A paper's table made again, written as Markdown, CSV and JSON, and printed."""

import csv
import io
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError
from rich import box
from rich.table import Table
from rich.text import Text

from ...custom.data.whole_files import write_text
from ...transforms.errors import DataError, describe_validation_error
from ...transforms.strict_files import read_json
from ..terminal import Terminal
from .records import CENTRE_METRICS, Metric
from .results import Block, MetricResult, RowResult, RowStatus, TableResult

JSON_FILE, MARKDOWN_FILE, CSV_FILE = "table.json", "table.md", "table.csv"
_HEADINGS: dict[Metric, str] = {
    "dice": "Dice",
    "f1": "F1",
    "recall": "recall",
    "precision": "precision",
    "own": "mean of centres",
}
_DASH = "-"
# Printed columns that hold words, and how narrow they may become.
_WORDS = {"method": 8, "here": 12}


def write_outputs(result: TableResult, out: Path) -> None:
    """Write ``table.json``, ``table.md`` and ``table.csv``."""
    write_text(out / JSON_FILE, json.dumps(result.plain(), indent=1, ensure_ascii=False) + "\n")
    write_text(out / MARKDOWN_FILE, markdown(result))
    write_text(out / CSV_FILE, csv_text(result))


def read_earlier(out: Path) -> dict[tuple[str, str, str], RowResult]:
    """Return the rows that earlier calls have run, by condition, group and name.

    Raises:
        DataError: if the file of the table is none.
    """
    file = out / JSON_FILE
    if not file.is_file():
        return {}
    try:
        earlier = TableResult.model_validate(read_json(file, "a paper's table"))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=TableResult)) from error
    return {
        (block.condition, block.group, row.row): row
        for block in earlier.blocks
        for row in block.rows
        if row.status is RowStatus.RUN
    }


def markdown(result: TableResult) -> str:
    """Return the table in Markdown: a table for each block, with the paper's figures, and how they differ."""
    lines = [f"# {result.table}: {result.title}", "", *(text for line in _introduction(result) for text in (line, ""))]
    for block in result.blocks:
        columns = block_columns(block, in_percent=result.in_percent)
        rows = list(zip(*columns.values(), strict=True))
        lines += [f"## {block.title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        lines += [f"| {' | '.join(cells)} |" for cells in rows]
        lines.append("")
    lines += ["## What differs from the paper", "", *(f"- {text}" for text in result.differs), ""]
    return "\n".join(lines)


def _introduction(result: TableResult) -> Iterator[str]:
    unit = "in %" if result.in_percent else "from 0 to 1"
    yield f"{result.citation}, {result.section}. Scores {unit}: mean ± standard deviation over the seeds."
    scored = dict.fromkeys(row.scored for block in result.blocks for row in block.rows if row.scored)
    if scored and any(metric not in CENTRE_METRICS for metric in result.blocks[0].rows[0].metrics):
        yield f"Score of a run: {' or '.join(scored)}."
    yield (
        "“Gain” is the difference to the first row. “To its best” is the first round whose score is that of the first "
        "row's best round, and the minutes until then."
    )


def block_columns(block: Block, *, in_percent: bool) -> dict[str, list[str]]:
    """Return the cells of a block by heading: each metric here and as published, gains, and the time to the best."""
    digits, rows = (1, 2) if in_percent else (3, 3), block.rows
    columns = {"method": [row.title for row in rows], "run": [_status(row) for row in rows]}
    main = next(iter(rows[0].metrics))
    for metric in rows[0].metrics:
        heading = _HEADINGS.get(metric, metric)
        results = [row.metrics[metric] for row in rows]
        columns[heading] = [_spread(result.mean, result.spread, digits[0]) for result in results]
        columns[f"{heading}, paper"] = [_published(result, digits[1]) for result in results]
        if metric == main:
            columns["gain"] = [_signed(result.mean_gain, digits[0]) for result in results]
            columns["gain, paper"] = [_signed(result.published_gain, digits[1]) for result in results]
    columns["rounds to its best"] = [_rounds_to_best(row) for row in rows]
    columns["minutes"] = [_minutes_to_best(row) for row in rows]
    if any(row.published_minutes is not None for row in rows):
        columns["minutes, paper"] = [_number(row.published_minutes, 2) for row in rows]
    columns["in the paper"] = [row.place or _DASH for row in rows]
    return columns


def _status(row: RowResult) -> str:
    if row.status is not RowStatus.RUN:
        return row.status.value
    return f"{len(row.seeds)} seed{'s' * (len(row.seeds) != 1)}"


def _number(value: float | None, digits: int) -> str:
    return _DASH if value is None else f"{value:.{digits}f}"


def _signed(value: float | None, digits: int) -> str:
    return _DASH if value is None else f"{value:+.{digits}f}"


def _spread(mean: float | None, spread: float | None, digits: int) -> str:
    return _number(mean, digits) + ("" if spread is None else f" ± {spread:.{digits}f}")


def _published(result: MetricResult, digits: int) -> str:
    figure = result.published
    return _DASH if figure is None else _spread(figure.mean, figure.spread, digits)


def _reached(row: RowResult) -> Sequence[int]:
    return [time.round for time in row.time_to_best if time.round is not None]


def _rounds_to_best(row: RowResult) -> str:
    """The mean over the seeds that reach it, and how many if not all do."""
    reached, seeds = _reached(row), len(row.time_to_best)
    if not seeds:
        return _DASH
    if not reached:
        return "not reached"
    mean = f"{statistics.fmean(reached):.1f}".removesuffix(".0")
    return mean if len(reached) == seeds else f"{mean} ({len(reached)} of {seeds} seeds)"


def _minutes(row: RowResult) -> float | None:
    known = [time.minutes for time in row.time_to_best if time.minutes is not None]
    return statistics.fmean(known) if known else None


def _minutes_to_best(row: RowResult) -> str:
    return _number(_minutes(row), 2)


_CSV_COLUMNS = (
    "table",
    "condition",
    "group",
    "row",
    "status",
    "metric",
    "seeds",
    "mean",
    "standard_deviation",
    "gain",
    "paper_mean",
    "paper_standard_deviation",
    "paper_gain",
    "rounds_to_fedavg_best",
    "minutes_to_fedavg_best",
    "seeds_that_reach_it",
    "paper_minutes_to_fedavg_best",
    "paper_place",
)


def csv_text(result: TableResult) -> str:
    """Return the table with a line for each block, row and metric; an empty cell is not known."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for block in result.blocks:
        for row in block.rows:
            reached = _reached(row)
            for metric, scores in row.metrics.items():
                published = scores.published
                writer.writerow(
                    (
                        *(
                            result.table,
                            block.condition,
                            block.group,
                            row.row,
                            row.status.value,
                            metric,
                            len(row.seeds),
                        ),
                        *(scores.mean, scores.spread, scores.mean_gain),
                        *((None, None) if published is None else (published.mean, published.spread)),
                        scores.published_gain,
                        *(statistics.fmean(reached) if reached else None, _minutes(row)),
                        len(reached) if row.time_to_best else None,
                        *(row.published_minutes, row.place),
                    )
                )
    return buffer.getvalue()


def print_table(result: TableResult, console: Terminal) -> None:
    """Print the blocks of which something was run, a line for each row and metric, and what differs from the paper."""
    console.print_named(result.table, f": {result.title}")
    run = [block for block in result.blocks if any(row.status is RowStatus.RUN for row in block.rows)]
    for block in run:
        columns = _printed_columns(block, in_percent=result.in_percent)
        table = Table(title=block.title, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for heading in columns:
            # What consists of words may be broken; a number is not.
            table.add_column(
                Text(heading),
                justify="left" if heading in ("method", "score") else "right",
                no_wrap=heading not in _WORDS,
                min_width=_WORDS.get(heading),
            )
        for cells in zip(*columns.values(), strict=True):
            table.add_row(*cells)
        console.print(table)
    if len(run) < len(result.blocks):
        console.print(f"Not run: {len(result.blocks) - len(run)} of {len(result.blocks)} blocks.")
    for text in _introduction(result):
        console.print(text, soft_wrap=True)
    console.print("What differs from the paper:", soft_wrap=True)
    for text in result.differs:
        console.print(f"- {text}", soft_wrap=True)


def _printed_columns(block: Block, *, in_percent: bool) -> dict[str, list[str]]:
    """The cells of a narrow table; the files have the seeds, and the figures' places as well."""
    digits, published_digits = (1, 2) if in_percent else (3, 3)
    lines = [(row, metric, result) for row in block.rows for metric, result in row.metrics.items()]
    first = [metric == next(iter(row.metrics)) for row, metric, _ in lines]

    def once(cells: Iterable[str]) -> list[str]:
        return [cell if is_first else "" for cell, is_first in zip(cells, first, strict=True)]

    columns = {"method": once(row.title for row, _, _ in lines)}
    if len(block.rows[0].metrics) > 1:
        columns["score"] = [_HEADINGS.get(metric, metric) for _, metric, _ in lines]
    columns["here"] = [
        _spread(result.mean, result.spread, digits)
        if row.status is RowStatus.RUN
        else row.status.value * (metric == next(iter(row.metrics)))
        for row, metric, result in lines
    ]
    columns["paper"] = [_published(result, published_digits) for _, _, result in lines]
    columns["gain"] = [_signed(result.mean_gain, digits) for _, _, result in lines]
    columns["gain,\npaper"] = [_signed(result.published_gain, published_digits) for _, _, result in lines]
    columns["rounds to\nits best"] = once(_rounds_to_best(row) for row, _, _ in lines)
    columns["minutes"] = once(_minutes_to_best(row) for row, _, _ in lines)
    if any(row.published_minutes is not None for row in block.rows):
        columns["minutes,\npaper"] = once(_number(row.published_minutes, 2) for row, _, _ in lines)
    return columns
