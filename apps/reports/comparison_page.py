"""The report of a comparison as a page: which method is better, with which confidence, and everything that was run."""

import math
import shlex
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from scipy import stats

from ...custom.data.whole_files import write_text
from ...transforms.strict_files import JsonObject, read_json
from ..audit.pages import page_of_text
from ..checking.finding import plural
from ..plain_lines import GENERATED
from ..wording.final_model import compared_in_words
from ..wording.shell_words import path_word
from .compared_runs import COMPARISON_PICTURE, Comparison, PairedArm
from .compared_settings import difference_columns, settings_in_words
from .comparison import LEFT_COLUMNS, case_test_columns, case_tests_head, comparison_columns
from .html import html_picture, html_table
from .output import percent, read_summary, scoring_of
from .run_page import REPORT_FILE

_LEVEL = 0.95
# Next to the comparison: what was asked for.
REQUEST_FILE = "request.json"
_CAPTION = (
    "Left: every seed thin, their mean thick. Right: the runs of a seed are joined; they have the same data and start "
    "weights."
)


@dataclass(frozen=True)
class ArmRow:
    """An arm on the page.

    Attributes:
        name: the arm's.
        mean: of its scores over the seeds, with their standard deviation.
        difference: to the reference, in points; empty for the reference itself.
        interval: of the difference, as above.
        p_value: of the paired test, as above.
        setting: its own settings, in words.
    """

    name: str
    mean: str
    difference: str
    interval: str
    p_value: str
    setting: str


def interval_of(pair: PairedArm) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean difference by Student's t; None for one seed.

    With equal differences it has no width.
    """
    if pair.standard_deviation is None:
        return None
    count = len(pair.differences)
    half = float(stats.t.ppf((1 + _LEVEL) / 2, count - 1)) * pair.standard_deviation / math.sqrt(count)
    return pair.mean - half, pair.mean + half


def answer(comparison: Comparison) -> str:
    """Return what a comparison says in a sentence: of the arm that differs most from the reference."""
    label = scoring_of(comparison.runs[0]).label
    if not comparison.paired:
        return f"{label} of {comparison.reference} over {plural(len(comparison.seeds), 'seed')}"
    best = max(comparison.paired, key=lambda pair: pair.mean)
    points, interval = f"{100 * best.mean:+z.1f} {label} points", interval_of(best)
    if interval is None:
        return f"{best.arm} against {best.reference}: {points} in one seed, which says nothing of the spread"
    evidence = f"95 % interval {_points(interval)}, {plural(len(comparison.seeds), 'seed')}"
    if interval[0] <= 0 <= interval[1]:
        return f"{best.arm} and {best.reference} cannot be distinguished: {points} ({evidence})"
    return f"{best.arm} {'gains' if best.mean > 0 else 'loses'} against {best.reference}: {points} ({evidence})"


def write_comparison_page(out: Path, comparison: Comparison) -> Path:
    """Write the report of a comparison into its output folder and return the file.

    Args:
        out: the comparison's output folder.
        comparison: what was found.
    """
    request = _request(out)
    first = comparison.runs[0]
    summary = read_summary(run_folder(out, first.arm, first.seed))
    page = page_of_text(
        "comparison_page.html",
        ("site_page.css", "report.css"),
        answer=answer(comparison),
        generated=GENERATED if comparison.data is None else "",
        label=scoring_of(first).label,
        scored=compared_in_words(comparison.runs),
        arms=arm_rows(comparison, request),
        settings=settings_in_words(comparison.settings),
        differences=_table_of_differences(comparison),
        comparison=comparison,
        picture=html_picture(out / COMPARISON_PICTURE, _CAPTION),
        cases=html_table(case_test_columns(comparison)) if comparison.case_tests else "",
        cases_of=case_tests_head(comparison),
        seeds=plural(len(comparison.seeds), "seed"),
        runs=html_table(comparison_columns(comparison), left=LEFT_COLUMNS),
        reports=_reports(out, comparison),
        versions=summary.versions or {},
        source=summary.source,
        command=command_again(out, comparison, request),
    )
    file = out / REPORT_FILE
    write_text(file, page)
    return file


def _table_of_differences(comparison: Comparison) -> Markup:
    """A row for each setting that the arms do not have alike; empty where there is none."""
    settings = comparison.settings
    if settings is None or not settings.differences:
        return Markup("")
    columns = difference_columns(settings, comparison.arms)
    return html_table(columns, left=list(columns))


def run_folder(out: Path, arm: str, seed: int) -> Path:
    """Return the output folder of one run of a comparison."""
    return out / "runs" / f"{arm}-seed{seed}"


def arm_rows(comparison: Comparison, request: Mapping[str, Any]) -> list[ArmRow]:
    """Return the rows of the page's first table, the reference first."""
    pairs = {pair.arm: pair for pair in comparison.paired}
    asked = request.get("arms", {})
    rows = []
    for arm in comparison.arms:
        values = [score for run in comparison.of_arm(arm) if (score := run.main_score) is not None]
        spread = f" ± {100 * statistics.stdev(values):z.1f}" if len(values) > 1 else ""
        pair = pairs.get(arm)
        interval = None if pair is None else interval_of(pair)
        rows.append(
            ArmRow(
                arm,
                f"{percent(statistics.fmean(values))}{spread}" if values else "–",
                "" if pair is None else f"{100 * pair.mean:+z.1f}",
                "" if interval is None else _points(interval),
                "" if pair is None or pair.p_value is None else f"{pair.p_value:z.3f}",
                ", ".join(f"{key} = {value}" for key, value in asked.get(arm, {}).get("overrides", {}).items()),
            )
        )
    return rows


def command_again(out: Path, comparison: Comparison, request: Mapping[str, Any]) -> str:
    """Return the command that makes the comparison once more, as far as its jobs are installed by their names."""
    asked = request.get("arms", {})
    words = ["fedannot", "compare"]
    for arm in comparison.arms:
        job = asked.get(arm, {}).get("job", arm)
        words.append(path_word(arm) if job == arm else f"{arm}={job}")
    changes = [("", request.get("overrides", {}))]
    changes += [(f"{arm}:", asked.get(arm, {}).get("overrides", {})) for arm in comparison.arms]
    for prefix, overrides in changes:
        for key, value in overrides.items():
            words += ["--set", f"{prefix}{key}={value}"]
    shared = {arm: asked.get(arm, {}).get("shared_rounds") for arm in comparison.arms}
    words += [word for arm, rounds in shared.items() if rounds for word in ("--shared-rounds", f"{arm}:{rounds}")]
    words += [word for key in request.get("allow_different", []) for word in ("--allow-different", str(key))]
    options = {"--data": None if comparison.data is None else path_word(comparison.data)}
    options |= {f"--{option}": request.get(option) for option in ("settings", "like", "network")}
    for option, value in options.items():
        if value is not None:
            words += [option, str(value)]
    words += ["--seeds", str(len(comparison.seeds))]
    if comparison.seeds[0]:
        words += ["--first-seed", str(comparison.seeds[0])]
    return shlex.join([*words, "--out", path_word(f"{out}-again")])


def _request(out: Path) -> JsonObject:
    file = out / REQUEST_FILE
    values = read_json(file, "what was compared") if file.is_file() else {}
    return values if isinstance(values, dict) else {}


def _reports(out: Path, comparison: Comparison) -> list[tuple[str, str]]:
    """The reports of the runs that have one: their names, and where they are from here."""
    result = []
    for run in comparison.runs:
        file = run_folder(out, run.arm, run.seed) / REPORT_FILE
        if file.is_file():
            result.append((f"{run.arm}, seed {run.seed}", file.relative_to(out).as_posix()))
    return result


def _points(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:+z.1f} to {100 * interval[1]:+z.1f}"
