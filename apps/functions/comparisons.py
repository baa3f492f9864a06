"""Methods side by side, and a finished comparison as a value that a notebook shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..reports.compared_runs import COMPARISON_PICTURE, Comparison, PairedArm, read_comparison
from ..reports.compared_settings import settings_in_words
from ..reports.comparison import LEFT_COLUMNS, comparison_columns, differences_in_words
from ..reports.html import html_paragraphs, html_picture, html_table
from ..reports.run_page import REPORT_FILE
from ..runs.arms import Arm, parse_arms
from ..runs.compare import compare as compare_arms
from ..runs.job import JobError
from ..runs.progress import OnProgress, Progress, progress_of
from ..runs.ray_engine import PROCESSES, chosen_engine
from ..runs.run_share import RunShare


@dataclass(frozen=True)
class ComparedMethods:
    """A finished comparison; a notebook shows the runs, the differences paired by seed, and the curves.

    Attributes:
        folder: its output folder, with all runs below it.
        comparison: the runs and the differences.
    """

    folder: Path
    comparison: Comparison

    @property
    def differences(self) -> dict[str, PairedArm]:
        """How each arm differs from the first one, by the arm's name."""
        return {pair.arm: pair for pair in self.comparison.paired}

    @property
    def picture(self) -> Path:
        """The file with the curves of all runs."""
        return self.folder / COMPARISON_PICTURE

    @property
    def report(self) -> Path:
        """The page with everything that was found, and the reports of all runs."""
        return self.folder / REPORT_FILE

    def __str__(self) -> str:
        return "\n".join(differences_in_words(self.comparison))

    def _repr_html_(self) -> str:
        return (
            html_paragraphs(*settings_in_words(self.comparison.settings), *differences_in_words(self.comparison))
            + html_table(comparison_columns(self.comparison), left=LEFT_COLUMNS)
            + html_picture(self.picture, "Scores by round and by seed")
        )


def compare(
    arms: Sequence[str | Arm],
    out: str | Path,
    *,
    data: str | None = None,
    seeds: int | Sequence[int] = 3,
    settings: str | None = None,
    changes: Mapping[str, Any] | None = None,
    like: str | None = None,
    allow_different: Sequence[str] = (),
    network: str | None = None,
    processes: int | None = None,
    engine: str = PROCESSES,
    cpus_per_run: int | None = None,
    gpus_per_run: float | None = None,
    ray_address: str | None = None,
    track: str | None = None,
    only: str | None = None,
    root: str | Path | None = None,
    on_progress: OnProgress | Progress | None = None,
) -> ComparedMethods:
    """Run several methods on the same data from the same start weights, and compare them seed by seed.

    Arms that differ in network, loss, optimizer, learning rate, length of training, batches, augmentation, data or
    scoring are refused, unless `like`, `allow_different` or settings of an arm's own say what is meant.

    Every run is a process of its own. A comparison that was interrupted goes on where it stopped.

    Args:
        arms: names or folders of jobs, ``"short=fedaaai"`` for another name, or arms with settings of their own; the
            first is the reference.
        out: output folder.
        data: a federation's folder, in which ``{seed}`` stands for the seed; None for generated images.
        seeds: how many, from 0, or which.
        settings: a set of settings, by its name next to every job or as a file.
        changes: settings of all arms that have them.
        like: name of an arm, or of another job, whose network, loss and so on all arms take.
        allow_different: settings or blocks of them, such as ``training.learning_rate``, that may differ.
        network: place of your own function that builds the network of all arms, ``package.module:function``; each run
            imports it in a process of its own.
        processes: runs at a time; by default one per core, or as many as Ray has room for.
        engine: ``"processes"`` of this machine, or ``"ray"``, which places the runs. A connection of this process
            to Ray is used where there is one.
        cpus_per_run: cores of a run under Ray; by default as many as it has threads.
        gpus_per_run: GPUs of a run under Ray, or a fraction of one; by default one where there are any.
        ray_address: ``HOST:PORT`` of a cluster's head, or ``"local"``; by default ``RAY_ADDRESS`` or local.
        track: ``mlflow=URI`` or ``wandb=PROJECT``: every run's numbers, settings and pictures go there as well.
        only: ``"I/N"``, to make the I-th of N shares of the runs; others make the rest into the same folder.
        root: a folder with `out` and `data`, if both are to be moved with it; by default `out`.
        on_progress: is given every step.

    Raises:
        JobError, SettingsError, DataError, RunError, RunsMissingError, UnfairComparisonError: see
            :func:`fedannot.apps.runs.compare.compare`.

    >>> from fedannot.apps import compare
    >>> compare(["fedavg"], "runs/compared")
    Traceback (most recent call last):
    ...
    fedannot.apps.runs.job.JobError: Expected at least two jobs to compare, but got ['fedavg'].
    """
    if len(arms) < 2:
        names = [arm.name if isinstance(arm, Arm) else arm for arm in arms]
        raise JobError(f"Expected at least two jobs to compare, but got {names}.")
    named = [item for arm in arms for item in ([arm] if isinstance(arm, Arm) else parse_arms([arm], [])[0])]
    comparison = compare_arms(
        named,
        Path(out),
        data=data,
        seeds=range(seeds) if isinstance(seeds, int) else seeds,
        settings=settings,
        overrides=changes or {},
        like=like,
        allow_different=allow_different,
        network=network,
        processes=processes,
        engine=chosen_engine(engine, cpus_per_run, gpus_per_run, ray_address),
        track=track,
        only=None if only is None else RunShare.parse(only),
        root=None if root is None else Path(root),
        progress=progress_of(on_progress),
    )
    return ComparedMethods(Path(out), comparison)


def read_compared(folder: str | Path) -> ComparedMethods:
    """Return a comparison that is finished already.

    Raises:
        OutputError: if there is none.
        DataError: if the file cannot be used.

    >>> from fedannot.apps import read_compared
    >>> read_compared("nowhere")
    Traceback (most recent call last):
    ...
    fedannot.apps.reports.output.OutputError: Expected a comparison in nowhere, but there is no comparison.json.
    """
    return ComparedMethods(Path(folder), read_comparison(Path(folder)))
