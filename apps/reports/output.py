"""The output of a run in one folder: model, summary, metrics; and their scores as cells of tables."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...custom.data.whole_files import private_folder, replaced, write_text
from ...custom.evaluation.score_records import MeanScores
from ...custom.evaluation.scoring import Scoring
from ...custom.methods.fedgsca.records import NoiseLevel
from ...custom.records.round_records import RoundRecord, SiteReport
from ...custom.run.reading import METRICS_FILE, read_metrics_file, read_summary_file
from ...custom.run.state import SCORED_MODEL_FILE, SUMMARY_FILE
from ...custom.run.summary import is_unfinished, write_summary
from ...custom.run.summary_record import FinalModel, Summary

# How scores are called in tables.
_SCORE_HEADINGS = {
    **{"dice": "Dice %", "left_empty": "left\nempty\n%", "hd95": "HD95", "hd95_undefined": "missed"},
    **{"f1": "F1 %", "recall": "recall %", "precision": "precision %"},
}

# Scores without a column where no run has them.
_OPTIONAL_SCORES = ("left_empty", "hd95_undefined")

MODEL_FILE = "model.pt"
# Of an output folder: the generated images of a run that was given no data.
DATA_FOLDER = "data"
# In the server's run folder.
PERSISTED_MODEL = Path("app_server") / "FL_global_model.pt"


class OutputError(ValueError):
    """A folder is not the output of a run."""


class Scored(Protocol):
    """What has scores: the summary of a run, or what a comparison keeps of one."""

    @property
    def task(self) -> str:
        """What was learnt."""

    @property
    def method(self) -> str:
        """How."""

    @property
    def result_scores(self) -> MeanScores:
        """The scores that say how good the run's model is."""


def find_run_folder(workspace: Path) -> Path:
    """Return the server's run folder in a simulator's workspace or in an output folder.

    Raises:
        OutputError: if there is none, or several.
    """
    result = [
        file.parent for file in sorted(workspace.glob(f"**/{SUMMARY_FILE}")) if (file.parent / "app_server").is_dir()
    ]
    if len(result) != 1:
        raise OutputError(f"Expected one run with a {SUMMARY_FILE} below {workspace}, but found {len(result)}.")
    return result[0]


def has_server_summary(workspace: Path) -> bool:
    """Return whether a server wrote a summary somewhere below a folder; in a swarm, and at a site, none does."""
    return any((file.parent / "app_server").is_dir() for file in workspace.glob(f"**/{SUMMARY_FILE}"))


def is_output(folder: Path) -> bool:
    """Return whether a folder is the output of a run, with its model and summary in it."""
    return (folder / SUMMARY_FILE).is_file() and (folder / MODEL_FILE).is_file()


def collect_output(run_folder: Path, out: Path, added: Callable[[], Mapping[str, Any]] = lambda: {}) -> Summary:
    """Copy model, metrics and, last, the summary of a run to the output folder and return the summary.

    Args:
        run_folder: the server's run folder.
        out: the output folder.
        added: gives fields of the summary besides those that the run wrote.

    Raises:
        DataError: if the run's summary cannot be used.
    """
    # What cannot be used leaves nothing half collected.
    summary = read_summary(run_folder)
    private_folder(out)
    sources = {MODEL_FILE: PERSISTED_MODEL}
    if (run_folder / SCORED_MODEL_FILE).is_file():
        sources[SCORED_MODEL_FILE] = Path(SCORED_MODEL_FILE)
    for name, source in sources.items():
        with replaced(out / name) as temporary:
            shutil.copyfile(run_folder / source, temporary)
    with replaced(out / METRICS_FILE) as temporary:
        # Without a line that a run which was killed has not finished.
        lines, end, _ = (run_folder / METRICS_FILE).read_bytes().rpartition(b"\n")
        temporary.write_bytes(lines + end)
    if more := added():
        summary = summary.model_copy(update=dict(more))
    if more or is_unfinished(run_folder / SUMMARY_FILE):
        write_summary(out / SUMMARY_FILE, summary)
    else:
        write_text(out / SUMMARY_FILE, (run_folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    return summary


def scored_model(folder: Path, model: Path, summary: Summary) -> tuple[Path, FinalModel]:
    """Return the file with the model that results per case are of, and which model that is.

    It is the model of the round that is reported, where the sites' validation chooses one, else the run's result.

    Args:
        folder: that has the models of a run, the server's or the output folder.
        model: the file with the run's result.
        summary: of the run.
    """
    of_round = folder / SCORED_MODEL_FILE
    if summary.scored_rounds is not None and summary.scored_rounds.kind == "best" and of_round.is_file():
        return of_round, FinalModel(kind="best", rounds=summary.scored_rounds.rounds)
    return model, summary.final_model or FinalModel(kind="last", rounds=(summary.rounds_finished,))


def used_generated_images(summary: Summary, out: Path) -> bool:
    """Return whether a run trained on generated images because it was given no data.

    Args:
        summary: of the run.
        out: its output folder, in which such images lie.
    """
    folder = summary.data_folder
    # The folder may have been moved since.
    is_own = folder is not None and folder.parts[-2:] == (out.resolve().name, DATA_FOLDER)
    return is_own or any(report.embedded_data for report in summary.sites.values())


def read_summary(out: Path) -> Summary:
    """Read the summary in an output folder.

    Raises:
        OutputError: if there is none.
        DataError: if the file is no summary, or of a later version.
    """
    file = out / SUMMARY_FILE
    if not file.is_file():
        raise OutputError(f"Expected the output of a run in {out}, but there is no {SUMMARY_FILE}.")
    return read_summary_file(file)


def read_metrics(out: Path) -> list[RoundRecord]:
    """Read the records of a run's rounds in an output folder, none where there are none.

    Raises:
        DataError: if a line is no record of a round, or of a later version.
    """
    file = out / METRICS_FILE
    return read_metrics_file(file) if file.is_file() else []


def scoring_of(run: Scored) -> Scoring:
    """Return the scoring of a run, of its summary or of what a comparison keeps of it."""
    return Scoring.of(run.task)


def score_columns(runs: Sequence[Scored]) -> dict[str, list[str]]:
    """Return the scores of runs' models as columns of a table, a cell per run, by heading.

    What is left empty has a column where a test set has cases in which nothing is annotated. HD95 is over the cases in
    which something is found; how many were missed stands next to it. Runs of earlier versions do not say it.
    """
    columns = {}
    for name in scoring_of(runs[0]).names:
        values = [getattr(run.result_scores, name) for run in runs]
        if name not in _OPTIONAL_SCORES or any(value is not None for value in values):
            columns[_SCORE_HEADINGS[name]] = [score_text(name, value) for value in values]
    return columns


def noise_level(report: SiteReport) -> float | None:
    """Return what fraction of a site's labels do not look right, None where nothing says it."""
    result = report.added(NoiseLevel)
    return None if result is None else result.noise_level


def score_text(name: str, value: float | None) -> str:
    """Write a score by its kind: a distance, a number of cases, which may be a mean, or a share."""
    if name == "hd95_undefined":
        return number(value).removesuffix(".0")
    return number(value) if name == "hd95" else percent(value)


def percent(value: float | None) -> str:
    """Write a share as percent with one decimal, or a dash."""
    return "-" if value is None else f"{100 * value:z.1f}"


def number(value: float | None, decimals: int = 1) -> str:
    """Write a number, or a dash."""
    return "-" if value is None else f"{value:.{decimals}f}"


def number_range(first: float, last: float, decimals: int) -> str:
    """Write a range, or one number where both are the same as written."""
    texts = [f"{value:.{decimals}f}" for value in (first, last)]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)
