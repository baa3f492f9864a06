"""A paper's table made again as records: scores with the published figures, and the time to FedAvg's best."""

import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from pathlib import Path

from ...custom.data.federation import read_federation
from ...custom.records.round_records import Record
from ...custom.run.summary_record import Summary
from ..reports.centre_scores import CentreScores, centre_scores
from ..reports.compared_runs import ComparedRun, Comparison
from ..reports.comparison_page import run_folder
from ..reports.output import read_summary
from ..wording.final_model import compared_in_words
from .reading import NamedTable
from .records import CENTRE_METRICS, Figure, Metric, PaperRow, PaperTable, RowGroup

_CENTRES = tuple(metric for metric in CENTRE_METRICS if metric.startswith("centre"))


class RowStatus(StrEnum):
    """Whether a row was run."""

    RUN = "run"
    NOT_RUN = "not run"
    NOT_IMPLEMENTED = "not implemented here"


class MetricResult(Record):
    """A metric of a row.

    Attributes:
        here: of each seed, in the unit of the paper; None where a run has no such score.
        gain: over federated averaging, of each seed that both have; empty for federated averaging itself.
        published: the paper's figure.
        published_gain: the paper's gain over federated averaging.
    """

    here: tuple[float | None, ...] = ()
    gain: tuple[float, ...] = ()
    published: Figure | None = None
    published_gain: float | None = None

    @property
    def mean(self) -> float | None:
        """Over the seeds with a score."""
        known = [value for value in self.here if value is not None]
        return statistics.fmean(known) if known else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None with one."""
        known = [value for value in self.here if value is not None]
        return statistics.stdev(known) if len(known) > 1 else None

    @property
    def mean_gain(self) -> float | None:
        """Over the seeds."""
        return statistics.fmean(self.gain) if self.gain else None


class TimeToBest(Record):
    """When a run's score is that of federated averaging's best round with the same seed.

    Attributes:
        round: the first such round; None if there is none.
        minutes: that all rounds up to it took.
    """

    round: int | None = None
    minutes: float | None = None


class RowResult(Record):
    """A row in a block of columns.

    Attributes:
        row: its name.
        title: as the paper calls it.
        status: whether it was run.
        seeds: with which it was run.
        metrics: by name, the main one first.
        time_to_best: of each seed.
        published_minutes: until FedAvg's best, as published.
        place: of the published figures.
        scored: which rounds count, in words.
    """

    row: str
    title: str
    status: RowStatus
    seeds: tuple[int, ...] = ()
    metrics: dict[Metric, MetricResult]
    time_to_best: tuple[TimeToBest, ...] = ()
    published_minutes: float | None = None
    place: str | None = None
    scored: str | None = None


class Block(Record):
    """A block of columns for a group of rows.

    Attributes:
        condition: its key.
        group: the rows'.
        title: of both.
        rows: in the order of the paper, federated averaging first.
    """

    condition: str
    group: str
    title: str
    rows: tuple[RowResult, ...]


class TableResult(Record):
    """A paper's table made again.

    Attributes:
        table: its name.
        title: what it compares.
        citation: of the paper.
        section: of the paper.
        small: whether images are generated, networks tiny and rounds few.
        in_percent: whether scores are percentages.
        differs: how it differs from the paper's.
        blocks: in the order of the paper.
    """

    table: str
    title: str
    citation: str
    section: str
    small: bool
    in_percent: bool
    differs: tuple[str, ...]
    blocks: tuple[Block, ...]


def time_to_best(best: float | None, scores: Sequence[float | None], seconds: Sequence[float]) -> TimeToBest:
    """Return when a score is reached.

    Args:
        best: the score; None if there is none.
        scores: of each round.
        seconds: that each round took.

    >>> time_to_best(0.5, [0.2, None, 0.6, 0.7], [60, 60, 60, 60])
    TimeToBest(round=3, minutes=3.0)
    """
    if best is None:
        return TimeToBest()
    for number, (score, elapsed) in enumerate(zip(scores, accumulate(seconds), strict=True), start=1):
        if score is not None and score >= best:
            return TimeToBest(round=number, minutes=elapsed / 60)
    return TimeToBest()


def unrun_row(named: NamedTable, condition: str, group: RowGroup, row: PaperRow) -> RowResult:
    """Return a row with the paper's figures alone."""
    table, reference = named.table, group.reference
    metrics = {
        metric: MetricResult(
            published=(figure := table.figure(row, condition, metric)),
            published_gain=_published_gain(
                figure, None if row is reference else table.figure(reference, condition, metric)
            ),
        )
        for metric in table.metrics
    }
    return RowResult(
        row=row.name,
        title=row.title or row.name,
        status=RowStatus.NOT_IMPLEMENTED if row.arm is None else RowStatus.NOT_RUN,
        metrics=metrics,
        published_minutes=row.minutes_to_best.get(condition),
        place=_place(table, row),
    )


def _published_gain(figure: Figure | None, reference: Figure | None) -> float | None:
    # Figures have at most three decimals; a difference has no more.
    return None if figure is None or reference is None else round(figure.mean - reference.mean, 6)


def _place(table: PaperTable, row: PaperRow) -> str | None:
    return None if row.line is None else f"table {row.table or table.number}, line {row.line}"


def run_row(
    named: NamedTable, condition: str, group: RowGroup, row: PaperRow, comparison: Comparison, runs: Path
) -> RowResult:
    """Return a row that was run.

    Args:
        named: the table.
        condition: key of the block of columns.
        group: the row's.
        row: the row, an arm of the comparison.
        comparison: of the group's rows on the condition's federation.
        runs: its output folder.
    """
    without, table = unrun_row(named, condition, group, row), named.table
    scale, federation = 100.0 if table.in_percent else 1.0, Path(str(comparison.data))
    of_row, reference = comparison.of_arm(row.name), comparison.of_arm(group.reference.name)
    metrics = {}
    for metric, published in without.metrics.items():
        here, fixed = (
            [_scaled(_score(run, metric, runs, federation), scale) for run in of_arm] for of_arm in (of_row, reference)
        )
        pairs = [] if row is group.reference else zip(here, fixed, strict=True)
        gain = tuple(one - other for one, other in pairs if one is not None and other is not None)
        metrics[metric] = published.model_copy(update={"here": tuple(here), "gain": gain})
    summaries = {
        arm: [read_summary(run_folder(runs, arm, seed)) for seed in comparison.seeds]
        for arm in (row.name, group.reference.name)
    }
    times = tuple(
        time_to_best(_best(fixed), _scores_of_rounds(summary), [record.seconds for record in summary.rounds])
        for summary, fixed in zip(summaries[row.name], summaries[group.reference.name], strict=True)
    )
    return without.model_copy(
        update={
            "status": RowStatus.RUN,
            "seeds": comparison.seeds,
            "metrics": metrics,
            "time_to_best": times,
            "scored": compared_in_words(of_row),
        }
    )


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else scale * value


def _scores_of_rounds(summary: Summary) -> list[float | None]:
    return [record.main_score for record in summary.rounds]


def _best(summary: Summary) -> float | None:
    return max((score for score in _scores_of_rounds(summary) if score is not None), default=None)


def _score(run: ComparedRun, metric: Metric, runs: Path, federation: Path) -> float | None:
    """A score of a run, from 0 to 1."""
    if metric not in CENTRE_METRICS:
        score: float | None = getattr(run.result_scores, metric)
        return score
    centres = run.centres or _centres(runs, run, federation)
    return None if centres is None else centre_score(centres, metric, read_federation(federation).sites)


def _centres(runs: Path, run: ComparedRun, federation: Path) -> CentreScores | None:
    """Those of a run in a comparison that scores none, since no arm has personal models."""
    folder = run_folder(runs, run.arm, run.seed)
    return centre_scores(folder, read_summary(folder), federation)


def centre_score(centres: CentreScores, metric: Metric, sites: Sequence[str]) -> float | None:
    """Return the Dice on generic data, at a centre, or the mean over the centres.

    Args:
        centres: what was scored.
        metric: one of :data:`CENTRE_METRICS`.
        sites: in the order of the centres A to D.
    """
    if metric == "generic":
        return centres.generic
    if metric == "own":
        return statistics.fmean(centres.own.values()) if centres.own else None
    return centres.own.get(sites[_CENTRES.index(metric)])


def block_title(named: NamedTable, condition: str, group: RowGroup) -> str:
    """Return the title of a block of columns for a group of rows."""
    return ", ".join(filter(None, (named.condition(condition).title, group.title)))


def table_result(
    named: NamedTable,
    made: Mapping[tuple[str, str, str], RowResult],
    *,
    small: bool,
    differs: Sequence[str],
) -> TableResult:
    """Join the rows that were run with those that were not.

    Args:
        named: the table.
        made: rows that were run, by condition, group and name.
        small: as for :class:`TableResult`.
        differs: as above.
    """
    blocks = tuple(
        Block(
            condition=key,
            group=group.name,
            title=block_title(named, key, group),
            rows=tuple(
                made.get((key, group.name, row.name)) or unrun_row(named, key, group, row) for row in group.rows
            ),
        )
        for key in named.table.conditions
        for group in named.table.groups
    )
    return TableResult(
        table=named.name,
        title=named.table.title,
        citation=named.paper.citation,
        section=named.table.section,
        small=small,
        in_percent=named.table.in_percent,
        differs=tuple(differs),
        blocks=blocks,
    )
