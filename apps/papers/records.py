"""What a paper's file of tables says: data, noise, rows and published figures, checked when it is read."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ...custom.data.noise.choice import COMPLETENESS, LABELS, PROTOCOLS
from ...custom.data.yaml_file import YamlContent
from ...custom.strict_model import StrictModel
from ...transforms.noise.federation_noise import FederationNoise
from ..importing.layouts import DATASETS
from ..runs.installed import installed_jobs

Metric = Literal["dice", "f1", "recall", "precision", "generic", "centre A", "centre B", "centre C", "centre D", "own"]
# Of these the final models' scores on generic data and on the sites' own cases count, of others those of rounds.
CENTRE_METRICS = ("generic", "centre A", "centre B", "centre C", "centre D", "own")
PhantomTask = Literal["lesions2d", "lesions3d", "chambers3d", "cells2d"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FIGURE = re.compile(r"(?P<mean>\d+(\.\d+)?)( ± (?P<spread>\d+(\.\d+)?))?")

Name = Annotated[str, Field(pattern=_NAME.pattern)]
Line = Annotated[int, Field(ge=1)]


class Figure(StrictModel):
    """A published figure.

    Attributes:
        mean: as printed.
        spread: the printed standard deviation; None without one.
    """

    mean: float
    spread: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, values: Any) -> Any:
        """Read ``72.69 ± 1.28`` or a number."""
        if isinstance(values, int | float):
            return {"mean": values}
        if not isinstance(values, str):
            return values
        match = _FIGURE.fullmatch(values)
        if match is None:
            raise ValueError(f"found {values!r}, expected a figure such as '72.69 ± 1.28'")
        return {key: float(number) for key, number in match.groupdict().items() if number is not None}


class PaperData(StrictModel):
    """A data set of a paper, and how a federation is made of it.

    Attributes:
        what: the images and their annotations.
        section: of the paper, which describes it.
        line: as above, of the paper's plain text.
        sources: names of the published layouts that it is made of.
        sites: as for `fedannot data import --sites`.
        test: fraction of the cases for the common test set; None for the published one.
        test_sources: sources that the common test set is drawn from; empty for all.
        parts_patients: cases are dealt out one by one, whatever their patient or video.
        validation: fraction of each site's cases for its validation.
        pipeline: of volumes; None for the data set's own.
        keys: keys of ``data.yaml``, such as ``size``.
        confusions: for clinical label noise, which classes are confused.
        phantom: the generated images that stand for it.
        phantom_sites: how many sites of those.
        differs: how it differs from the paper's.
    """

    what: str
    section: str
    line: Line
    sources: tuple[str, ...]
    sites: str
    test: float | None = None
    test_sources: tuple[str, ...] = ()
    parts_patients: bool = False
    validation: float = 0.0
    pipeline: str | None = None
    keys: dict[str, Any]
    confusions: str | None = None
    phantom: PhantomTask
    phantom_sites: Annotated[int, Field(ge=1)]
    differs: tuple[str, ...] = ()

    @field_validator("sources")
    @classmethod
    def _layouts_exist(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in sources if name not in DATASETS]:
            raise ValueError(f"found the layouts {unknown}, expected some of {', '.join(DATASETS)}")
        return sources


class Condition(StrictModel):
    """A block of a table's columns: one federation, with one noise.

    Attributes:
        title: as the paper calls it.
        data: key of the data set.
        noise: ``M(20,-20,10,0.2)``, ``completeness 0.4,0.6``, ``labels S40`` or ``protocols 0-0-C-D``; None where the
            annotations stay as they are.
        phantom_noise: of the generated images, where it is another.
        settings: name of the published set of settings, which every job has.
        section: of the paper, which gives the noise.
        line: as above, of the paper's plain text.
    """

    title: str
    data: str
    noise: str | None
    phantom_noise: str | None = None
    settings: str
    section: str
    line: Line

    @field_validator("noise", "phantom_noise")
    @classmethod
    def _noise_is_known(cls, noise: str | None) -> str | None:
        if noise is not None and not noise.startswith((COMPLETENESS, LABELS, PROTOCOLS)):
            FederationNoise.parse(noise)
        return noise


class PaperArm(StrictModel):
    """How a row is run.

    Attributes:
        job: name of the installed job.
        changes: settings that differ from the published set, ``{"weighting": "intra"}``.
        data_changes: of conditions of a data set, by its key, in addition.
        small_changes: of a small run, in addition.
        shares_warmup: its warm-up is federated averaging and is not trained once more.
    """

    job: str
    changes: dict[str, Any] = Field(default_factory=dict)
    data_changes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    small_changes: dict[str, Any] = Field(default_factory=dict)
    shares_warmup: bool = False

    @field_validator("job")
    @classmethod
    def _job_exists(cls, job: str) -> str:
        if job not in installed_jobs():
            raise ValueError(f"found the job {job!r}, expected one of {', '.join(installed_jobs())}")
        return job


class PaperRow(StrictModel):
    """A row of a table: a method, with its published figures.

    Attributes:
        name: as on the command line.
        title: as the paper calls it; None for its name.
        arm: how it is run; None for a method that is not implemented here.
        figures: published, all metrics of the first condition, then those of the next; none where the paper has none.
        line: of the paper's plain text, which has the figures.
        table: the paper's table, where it is another one.
        minutes_to_best: published, by condition: until the score is FedAvg's best.
        minutes_line: of the paper's plain text, which has them.
    """

    name: Name
    title: str | None = None
    arm: PaperArm | None = None
    figures: tuple[Figure, ...] = ()
    line: Line | None = None
    table: str | None = None
    minutes_to_best: dict[str, float] = Field(default_factory=dict)
    minutes_line: Line | None = None

    @model_validator(mode="after")
    def _figures_have_a_place(self) -> "PaperRow":
        if bool(self.figures) != (self.line is not None):
            raise ValueError(f"{self.name}: expected figures and their line together")
        if bool(self.minutes_to_best) != (self.minutes_line is not None):
            raise ValueError(f"{self.name}: expected minutes_to_best and minutes_line together")
        if self.arm is None and not self.figures:
            raise ValueError(f"{self.name}: expected an arm, figures or both")
        return self


class RowGroup(StrictModel):
    """Rows that are compared with each other; the first one with an arm is the reference, federated averaging.

    Attributes:
        name: short, for folders.
        title: as the paper calls it; empty for a table with one group.
        changes: settings of all rows.
        rows: the rows.
    """

    name: Name = "all"
    title: str = ""
    changes: dict[str, Any] = Field(default_factory=dict)
    rows: tuple[PaperRow, ...]

    @property
    def reference(self) -> PaperRow:
        """Federated averaging."""
        return next(row for row in self.rows if row.arm is not None)

    @model_validator(mode="after")
    def _has_a_reference(self) -> "RowGroup":
        arms = [row for row in self.rows if row.arm is not None]
        if not arms or arms[0].arm is None or arms[0].arm.shares_warmup:
            raise ValueError(f"{self.name}: expected first a row that shares no warm-up, the reference")
        return self


class PaperTable(StrictModel):
    """A result table of a paper.

    Attributes:
        number: as the paper has it; with an S in front for the supplement's.
        title: what it compares.
        section: of the paper.
        metrics: what is measured in each condition, the first is what gains are of.
        in_percent: whether the figures are percentages.
        conditions: keys of the conditions, in the order of the columns.
        groups: of rows.
        seeds: repetitions.
        expected_changes: settings that a person has to give, with the reason.
        differs: how it differs from the paper's.
    """

    number: Name
    title: str
    section: str
    metrics: tuple[Metric, ...]
    in_percent: bool = True
    conditions: tuple[str, ...]
    groups: tuple[RowGroup, ...]
    seeds: Annotated[int, Field(ge=1)]
    expected_changes: dict[str, str] = Field(default_factory=dict)
    differs: tuple[str, ...] = ()

    @property
    def rows(self) -> Iterator[PaperRow]:
        """Those of all groups."""
        return (row for group in self.groups for row in group.rows)

    @model_validator(mode="after")
    def _figures_fill_the_columns(self) -> "PaperTable":
        wanted = len(self.conditions) * len(self.metrics)
        for row in self.rows:
            if row.figures and len(row.figures) != wanted:
                raise ValueError(f"{row.name}: found {len(row.figures)} figures, expected {wanted}")
            if len({figure.spread is None for figure in row.figures}) > 1:
                raise ValueError(f"{row.name}: expected a standard deviation of every figure, or of none")
        for group in self.groups:
            names = [row.name for row in group.rows]
            if len(set(names)) < len(names):
                raise ValueError(f"{group.name}: expected rows of different names, but got {names}")
        return self

    def figure(self, row: PaperRow, condition: str, metric: Metric) -> Figure | None:
        """Return a published figure, None where the paper has none."""
        if not row.figures:
            return None
        return row.figures[self.conditions.index(condition) * len(self.metrics) + self.metrics.index(metric)]


class Paper(YamlContent):
    """The result tables of a paper.

    Attributes:
        title: the method's.
        citation: authors, title, place and year.
        data: its data sets, by key.
        conditions: blocks of columns, by key.
        tables: its result tables.
    """

    title: str
    citation: str
    data: dict[Name, PaperData]
    conditions: dict[Name, Condition]
    tables: tuple[PaperTable, ...]

    @model_validator(mode="after")
    def _keys_exist(self) -> "Paper":
        for key, condition in self.conditions.items():
            _check_known(condition.data, self.data, f"the data set of {key}")
        for table in self.tables:
            for name in (*table.conditions, *(key for row in table.rows for key in row.minutes_to_best)):
                _check_known(name, self.conditions, f"a condition of table {table.number}")
            for key in (key for row in table.rows if row.arm is not None for key in row.arm.data_changes):
                _check_known(key, self.data, f"a data set of table {table.number}")
        return self


def _check_known(name: str, known: Mapping[str, object], what: str) -> None:
    if name not in known:
        raise ValueError(f"found {name!r} as {what}, expected one of {', '.join(known)}")
