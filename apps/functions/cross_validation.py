"""A comparison for each split of a federation, by patient or by site, and the results of all cases together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...custom.data.federation import TEST_FOLDER
from ...custom.data.splits import write_folds, write_left_out_sites
from ..reports.result_rows import ResultRow
from ..reports.results_file import (
    RESULTS_FILE,
    ROUNDS_FILE,
    read_description,
    read_results,
    read_round_lines,
    write_results,
)
from ..runs.arms import Arm
from ..runs.checked_arms import check_seeds
from ..runs.job import JobError
from ..runs.output_request import keep_request
from ..runs.progress import OnProgress, Progress, progress_of
from .comparisons import ComparedMethods, compare
from .results import ExportedResults, export_results

SPLITS_FILE = "splits.json"
_DATA = "data"


@dataclass(frozen=True)
class CrossValidated:
    """Finished comparisons of all splits; a notebook shows the table of all cases.

    Attributes:
        folder: the output folder, with a comparison for each split.
        splits: the comparisons, by the split's name.
        results: what was exported of the cases of all splits.
    """

    folder: Path
    splits: dict[str, ComparedMethods]
    results: ExportedResults

    def __str__(self) -> str:
        return str(self.results)

    def _repr_html_(self) -> str:
        return self.results._repr_html_()


def cross_validate(
    arms: Sequence[str | Arm],
    out: str | Path,
    *,
    data: str | None,
    folds: int | None = None,
    leave_site_out: bool = False,
    seeds: int | Sequence[int] = 3,
    split_seed: int = 0,
    on_progress: OnProgress | Progress | None = None,
    **options: Any,
) -> CrossValidated:
    """Compare methods on every split of a federation; each case that is tested is so once for each seed and arm.

    With `folds` every site has all patients but those of a fold, which are the test set. With `leave_site_out` one site
    takes no part, and its cases are the test set. What was interrupted goes on where it stopped. The splits are
    federations in the folder ``data``.

    Args:
        arms: as for :func:`fedannot.compare`.
        out: output folder; the results of all splits are exported into it.
        data: a federation's folder, in which ``{seed}`` stands for the seed.
        folds: how many.
        leave_site_out: leave out each site once.
        seeds: how many, from 0, or which.
        split_seed: decides who is in which fold; the same for all seeds.
        on_progress: is given every step.
        options: further arguments of :func:`fedannot.compare`.

    Raises:
        JobError: if there are no data, not one kind of split, or the output folder holds something else.
        DataError: if the federation cannot be split.

    >>> cross_validate(["fedavg", "auto"], "runs/folds", data=None, folds=5)
    Traceback (most recent call last):
    ...
    fedannot.apps.runs.job.JobError: Cross-validation needs a federation's folder; `fedannot data phantom` makes one.
    """
    if data is None:
        raise JobError("Cross-validation needs a federation's folder; `fedannot data phantom` makes one.")
    if (folds is not None) == leave_site_out:
        raise JobError("Expected either a number of folds or to leave each site out, and not both.")
    if options.get("only") is not None:
        raise JobError("Shares of the runs (only) are for one comparison; expected none with a cross-validation.")
    target, numbers = Path(out), list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    check_seeds(numbers)
    asked = {"data": data, "folds": folds, "leave_site_out": leave_site_out, "seed": split_seed}
    keep_request(target, SPLITS_FILE, asked, contents="cross-validation", paths={"data"})
    progress = progress_of(on_progress)
    names: list[str] = []
    for seed in numbers if "{seed}" in data else [0]:
        progress.state("Splitting the federation.")
        source, folder = Path(data.replace("{seed}", str(seed))), target / _DATA / _data_folder(data, str(seed))
        paths = (
            write_left_out_sites(source, folder) if folds is None else write_folds(source, folder, folds, split_seed)
        )
        names = [path.name for path in paths]
    splits = {}
    for number, name in enumerate(names, 1):
        progress.tell(f"Split {number} of {len(names)}: {name}.")
        of_split = str(target / _DATA / _data_folder(data, "{seed}") / name)
        splits[name] = compare(
            arms, target / name, data=of_split, seeds=numbers, root=target, on_progress=progress, **options
        )
    models = {
        f"{name}/{run}": model
        for name in names
        for run, model in read_description(target / name / RESULTS_FILE).models.items()
    }
    rows = [row for name in names for row in _tested(target / name, name)]
    lines = [
        line | {"run": f"{name}/{line['run']}"}
        for name in names
        for line in read_round_lines(target / name / ROUNDS_FILE)
    ]
    write_results(target / RESULTS_FILE, rows, models, lines)
    return CrossValidated(target, splits, export_results(target, target))


def over_splits(
    folds: int | None, leave_site_out: bool
) -> Callable[..., ComparedMethods] | Callable[..., CrossValidated]:
    """Return the function that compares once, or on every split where these are asked for."""
    if folds is None and not leave_site_out:
        return compare

    def on_splits(arms: Sequence[str | Arm], out: str | Path, **options: Any) -> CrossValidated:
        return cross_validate(arms, out, folds=folds, leave_site_out=leave_site_out, **options)

    return on_splits


def _data_folder(data: str, seed: str) -> str:
    return f"seed-{seed}" if "{seed}" in data else "all-seeds"


def _tested(folder: Path, split: str) -> list[ResultRow]:
    """The lines of a split's test set; a case of another split is another case."""
    return [
        replace(row, run=f"{split}/{row.run}", case=f"{split}/{row.case}", patient=f"{split}/{row.patient}")
        for row in read_results(folder / RESULTS_FILE)
        if row.site == TEST_FOLDER
    ]
