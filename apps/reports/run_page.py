"""The report of a run as a page: one file that asks for nothing elsewhere; it shows cases, where there are pictures."""

import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...custom.annotation_bias.statuses import Unit
from ...custom.data.whole_files import write_text
from ...custom.methods.auto.records import BiasFindings
from ...custom.methods.auto_classification.records import ConfusionFindings
from ...custom.run.summary_record import ClassificationSummary, SegmentationRoundSummary, Summary
from ..audit.federation_page import bias_chart
from ..audit.federation_report import ParameterTable, noise_level_tables, parameter_tables
from ..audit.pages import page_of_text
from ..plain_lines import GENERATED
from ..wording.final_model import final_model_in_words, scored_in_words, scored_rounds_in_words
from ..wording.shell_words import path_word
from .captions import caption
from .html import html_picture, html_table
from .output import percent, score_text, scoring_of, used_generated_images
from .own_cases_columns import own_cases_columns
from .settings_rows import flat_rows
from .site_columns import WORDS, site_columns, site_legend
from .summary_text import conclusions

REPORT_FILE = "report.html"
# First what answers, then what explains it.
_ORDER = ("dice", "f1", "own_cases", "cases", "confusion", "groups", "weights", "weights_by_round")
_NAMES = {
    **{
        "dice": "Dice, %",
        "left_empty": "empty cases left empty, %",
        "hd95": "HD95",
        "hd95_undefined": "missed, without HD95",
    },
    **{"f1": "macro F1, %", "recall": "recall, %", "precision": "precision, %"},
}


@dataclass(frozen=True)
class Score:
    """A score of a run.

    Attributes:
        name: with its unit.
        mean: over the rounds that count.
        spread: lowest and highest of these rounds.
        last: of the last round.
        final: of the final model; empty where that is the last one.
    """

    name: str
    mean: str
    spread: str
    last: str
    final: str = ""


def write_run_page(out: Path, summary: Summary, pictures: Sequence[Path]) -> Path:
    """Write the report of a run into its output folder and return the file.

    It shows patients' images where the pictures do, and belongs where these may be seen.

    Args:
        out: the run's output folder.
        summary: of the run.
        pictures: their files.
    """
    tables = _channels(summary)
    is_classification = isinstance(summary, ClassificationSummary)
    shown = sorted(pictures, key=lambda file: (_place(file.stem), file.stem))
    page = page_of_text(
        "run_page.html",
        ("site_page.css", "channel_tables.css", "report.css"),
        summary=summary,
        answer=answer(summary),
        generated=GENERATED if used_generated_images(summary, out) else "",
        conclusions=conclusions(summary),
        scores=scores(summary),
        final_model=final_model_in_words(summary.final_model),
        scored=_scored_heading(summary),
        sites=html_table(site_columns(summary), left=WORDS) if summary.sites else "",
        own_cases=html_table(own_cases_columns(summary.own_cases)) if summary.own_cases else "",
        legend=site_legend(summary),
        channels=tables,
        charts=[bias_chart(table) for table in tables],
        pictures=[html_picture(file, caption(file.stem, is_classification=is_classification)) for file in shown],
        settings=html_table(flat_rows(summary.settings, summary.planned or ()), left=("value", "origin")),
        versions=summary.versions or {},
        source=summary.source,
        command=command_again(out, summary),
    )
    file = out / REPORT_FILE
    write_text(file, page)
    return file


def answer(summary: Summary) -> str:
    """Return what came of a run in a sentence: its main score, after how many rounds, at how many sites."""
    label, score = scoring_of(summary).label, summary.main_score
    where = f"after {summary.rounds_finished} rounds at {len(summary.sites) or len(summary.own_cases or {})} sites"
    if score is None:
        return f"No {label}: neither a test set nor validation cases, {where}"
    is_default = summary.scored_rounds is None and summary.final_scores is None
    whose = "" if is_default else f": {scored_in_words(summary, summary.final_model)}"
    return f"{label} {percent(score)} % {where}{whose}"


def _scored_heading(summary: Summary) -> str:
    """The heading of the means over the rounds that count."""
    scored = summary.scored_rounds
    if scored is not None and scored.kind in ("last", "best"):
        words = scored_rounds_in_words(scored)
        return words[:1].upper() + words[1:]
    return f"Mean of the last {len(summary.counted_rounds)} rounds"


def scores(summary: Summary) -> list[Score]:
    """Return the scores of a run: means over the rounds that count, and how far these rounds lie apart."""
    result = []
    for name in scoring_of(summary).names:
        of_rounds = [getattr(record, name) for record in summary.counted_rounds]
        values = [value for value in of_rounds if value is not None]
        if not values:
            continue
        final = summary.final_scores
        write = partial(score_text, name)
        result.append(
            Score(
                _NAMES[name],
                write(statistics.fmean(values)),
                f"{write(min(values))} to {write(max(values))}",
                write(getattr(summary.last_round, name)),
                "" if final is None else write(getattr(final, name)),
            )
        )
    return result


def command_again(out: Path, summary: Summary) -> str:
    """Return the command that makes a run once more, from the job as it was run."""
    words = ["fedannot", "simulate", path_word(out / "job")]
    if summary.data and not used_generated_images(summary, out):
        # The job's copy has the planned settings.
        words += ["--data", path_word(summary.data), "--no-plan"]
    return shlex.join([*words, "--out", path_word(f"{out}-again")])


def _channels(summary: Summary) -> tuple[ParameterTable, ...]:
    """What was measured of how sites annotate, by the last estimate; nothing where nothing was."""
    labels = summary.added(ConfusionFindings)
    if labels is not None and labels.noise_levels:
        return noise_level_tables(labels.noise_levels[-1])
    result = summary.added(BiasFindings)
    if result is None or not result.channels:
        return ()
    known = {record.hd95_unit for record in summary.rounds if isinstance(record, SegmentationRoundSummary)}
    unit: Unit = "mm" if "mm" in known else "px"
    units = dict.fromkeys(summary.sites, unit)
    return parameter_tables(result.channels[-1], units)


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
