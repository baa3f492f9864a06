"""A paper's table made again: its federations, every row on them with every seed, and the table after each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...custom.components.merging import merged
from ...custom.settings import SettingValues
from ..runs.arms import Arm
from ..runs.compare import compare
from ..runs.installed import find_job
from ..runs.job import Job
from ..runs.output_request import keep_request
from ..runs.progress import Progress
from ..runs.settings_files import SettingsFile
from .data import check_sources, make_federation, make_phantom
from .output import read_earlier, write_outputs
from .reading import NamedTable, PaperError
from .records import PaperArm, RowGroup
from .results import RowResult, TableResult, block_title, run_row, table_result
from .small import PAPER_NETWORK, SMALL

_REQUEST = "request.json"
_GENERATED = "Generated images, tiny networks, few rounds: these figures show that the table can be made, nothing else."


@dataclass(frozen=True)
class TableRequest:
    """A table as a person asks for it.

    Attributes:
        named: the table, and what of it is run.
        out: output folder.
        data: folder with the published data sets, see :func:`fedannot.apps.papers.data.check_sources`.
        small: generated images, tiny networks and few rounds in place of the paper's.
        seeds: repetitions, from seed 0; None for the paper's number, and 1 of a small run.
        changes: settings of all rows that have them.
        processes: runs at a time; by default one per core.
    """

    named: NamedTable
    out: Path
    data: Path | None = None
    small: bool = False
    seeds: int | None = None
    changes: Mapping[str, Any] | None = None
    processes: int | None = None

    @property
    def repetitions(self) -> range:
        """The seeds."""
        return range(self.seeds or (1 if self.small else self.named.table.seeds))

    @property
    def differs(self) -> tuple[str, ...]:
        """How what is run differs from the paper's."""
        changed = tuple(f"{key} = {value} in all rows." for key, value in (self.changes or {}).items())
        return ((_GENERATED,) if self.small else self.named.differences) + changed

    def plain(self) -> dict[str, Any]:
        """Return what all calls for one output folder have in common; rows, conditions and seeds may be added."""
        return {
            "table": self.named.name,
            "data": None if self.data is None else str(self.data.resolve()),
            "small": self.small,
            "changes": dict(self.changes or {}),
        }


def make_table(request: TableRequest, progress: Progress) -> TableResult:
    """Make a table: import, noise, rows × conditions × seeds; what is finished in the output folder is kept.

    The table is written after each block of columns and keeps the rows of earlier calls.

    Args:
        request: what is made.
        progress: tells how far it is.

    Raises:
        PaperError: if data or settings that the table needs are not given.
        JobError: if the folder holds another table.
        DataError, JobError, SettingsError, RunError: see :func:`fedannot.apps.runs.compare.compare`.
    """
    _check_asked(request)
    keep_request(request.out, _REQUEST, request.plain(), contents="table")
    named = request.named
    made: dict[tuple[str, str, str], RowResult] = read_earlier(request.out)
    result = table_result(named, made, small=request.small, differs=request.differs)
    for key in named.conditions:
        federation = _federation(request, key, progress)
        for group in named.table.groups:
            made |= {(key, group.name, row.row): row for row in _run_block(request, key, group, federation, progress)}
            result = table_result(named, made, small=request.small, differs=request.differs)
            write_outputs(result, request.out)
    return result


def _check_asked(request: TableRequest) -> None:
    """Refuse before anything is made what would fail later."""
    named = request.named
    if request.small:
        if request.data is not None:
            raise PaperError("--small generates its images; expected either --small or --data, not both.")
        return
    if request.data is None:
        kinds = dict.fromkeys(named.condition(key).data for key in named.conditions)
        sources = dict.fromkeys(source for kind in kinds for source in named.paper.data[kind].sources)
        raise PaperError(
            f"{named.name} needs --data DIR with a folder for each of {', '.join(sources)}, as they are published "
            "(docs/datasets.md). Without data: --small."
        )
    check_sources(named, request.data)
    for key, reason in named.table.expected_changes.items():
        if key not in (request.changes or {}):
            raise PaperError(f"{named.name} needs --set {key}=…: {reason}.")


def _federation(request: TableRequest, key: str, progress: Progress) -> Path:
    folder = request.out / "data"
    if request.data is None:
        return make_phantom(request.named, key, folder, progress)
    return make_federation(request.named, key, request.data, folder, progress)


def _run_block(
    request: TableRequest, key: str, group: RowGroup, federation: Path, progress: Progress
) -> Sequence[RowResult]:
    """Run the rows of a group on a condition's federation."""
    named, changes = request.named, request.changes or {}
    progress.tell(f"{named.name}: {block_title(named, key, group)}")
    runs = request.out / "runs" / f"{key}-{group.name}"
    rows = [row for row in group.rows if row.name in named.rows]
    arms = group_arms(request, key, group)
    comparison = compare(
        [arms[row.name] for row in rows],
        runs,
        data=str(federation),
        seeds=request.repetitions,
        settings=None if request.small else named.condition(key).settings,
        overrides=changes if request.small else merged(group.changes, changes),
        processes=request.processes,
        root=request.out,
        progress=progress,
    )
    return [run_row(named, key, group, row, comparison, runs) for row in rows]


def group_arms(request: TableRequest, key: str, group: RowGroup) -> dict[str, Arm]:
    """Return how the rows of a group are run on a condition, the reference first.

    The reference keeps its model after each round that a row of the group branches from, whether it is run or not, so
    that rows can be added later.

    Args:
        request: what is made.
        key: of the condition.
        group: the rows.
    """
    arms = {row.name: table_arm(request, key, group, row.name, row.arm) for row in group.rows if row.arm is not None}
    reference = arms[group.reference.name]
    if kept := sorted({arm.shared_rounds for arm in arms.values()} - {0}):
        arms[reference.name] = replace(reference, overrides={**reference.overrides, "keep_rounds": kept})
    return arms


def table_arm(request: TableRequest, key: str, group: RowGroup, name: str, arm: PaperArm) -> Arm:
    """Return how a row is run: the published set, what the row changes, and of a small run its size.

    Args:
        request: what is made.
        key: of the condition.
        group: the row's.
        name: the row's.
        arm: the row's.
    """
    job = Job.open(find_job(arm.job))
    published = SettingsFile.read(job, request.named.condition(key).settings).values
    data = request.named.condition(key).data
    own: SettingValues = merged(arm.changes, arm.data_changes.get(data, {}))
    if request.small:
        own = _small_settings(request, key, job, merged(published, group.changes, own), arm)
    effective = merged({} if request.small else published, group.changes, request.changes or {}, own)
    known = set(job.known_names(effective))
    settings = job.settings_with({name: value for name, value in effective.items() if name in known})
    shared: int = getattr(settings, "warmup_rounds", 0) if arm.shares_warmup else 0
    return Arm(name, job.folder, own, shared)


def _small_settings(
    request: TableRequest, key: str, job: Job, values: Mapping[str, Any], arm: PaperArm
) -> SettingValues:
    """A row's settings on generated images: everything of the paper's but network, rounds and batches."""
    named = request.named
    of_paper = {name: value for name, value in values.items() if not name.startswith(PAPER_NETWORK)}
    small = SMALL[named.paper.data[named.condition(key).data].phantom].changes
    settings = merged(of_paper, small, arm.small_changes)
    known = set(job.known_names(settings))
    asked = {name: value for name, value in (request.changes or {}).items() if name in known}
    return merged({name: value for name, value in settings.items() if name in known}, asked)
