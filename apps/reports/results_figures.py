"""Figures from results per case at the size of a publication, as PDF and SVG; their data are the files next to them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...custom.data.whole_files import replaced
from ...transforms.printable import drawable
from ..wording.case_tests import METRIC_NAMES, metric_factor
from .case_statistics import CaseTest, Metric, case_scores
from .colours import curve_style
from .result_rows import ResultRow
from .results_file import MEAN

# Inches: two columns of a journal's page.
_WIDTH, _HEIGHT = 7.0, 2.6
FORMATS = ("pdf", "svg")
_STYLE: Any = {
    **{"font.size": 8, "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False},
    # Text stays text, and the same data give the same file.
    **{"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "fedannot"},
}


def draw_cases(rows: Sequence[ResultRow], tests: Sequence[CaseTest], metric: Metric, file: Path) -> list[Path]:
    """Draw the scores of cases by arm, and the differences to the reference with their intervals.

    Args:
        rows: results per case.
        tests: of the metric.
        metric: what is drawn.
        file: without its ending.
    """
    scores = case_scores(rows, metric)
    arms = [arm for arm in dict.fromkeys(row.arm for row in rows) if arm in scores]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        # One arm has nothing to differ from.
        axes = figure.subplots(1, 2 if tests else 1, squeeze=False, width_ratios=(3, 2) if tests else None)[0]
        _draw_scores(axes[0], {arm: list(scores[arm].values()) for arm in arms}, metric)
        if tests:
            _draw_differences(axes[1], tests, metric)
        return _saved(figure, file)


def _draw_scores(axes: Any, scores: Mapping[str, Sequence[float]], metric: Metric) -> None:
    """A box and a point for each case, by arm."""
    factor = metric_factor(metric)
    values = [factor * np.array(of_arm) for of_arm in scores.values()]
    thin = {"color": "black", "linewidth": 0.7}
    axes.boxplot(
        values, widths=0.6, showfliers=False, medianprops=thin, boxprops=thin, whiskerprops=thin, capprops=thin
    )
    generator = np.random.default_rng(0)
    for place, of_arm in enumerate(values):
        colour, _, marker = curve_style(place)
        beside = place + 1 + generator.uniform(-0.2, 0.2, len(of_arm))
        axes.plot(beside, of_arm, linestyle="", marker=marker, markersize=2, alpha=0.5, color=colour)
    axes.set_xticks(range(1, len(values) + 1), [drawable(arm) for arm in scores])
    axes.set(ylabel=_label(metric))


def _draw_differences(axes: Any, tests: Sequence[CaseTest], metric: Metric) -> None:
    """The mean difference and its interval, by arm."""
    factor = metric_factor(metric)
    axes.axvline(0, color="#777777", linewidth=0.6)
    for place, test in enumerate(tests):
        colour, _, marker = curve_style(place + 1)
        if test.low is not None and test.high is not None:
            axes.plot([factor * test.low, factor * test.high], [place, place], color=colour, linewidth=1.5)
        axes.plot([factor * test.mean], [place], color=colour, marker=marker, markersize=4)
    axes.set_yticks(range(len(tests)), [drawable(test.arm) for test in tests])
    axes.set_ylim(len(tests) - 0.5, -0.5)
    axes.set(xlabel=f"{_label(metric)}, against {drawable(tests[0].reference)}")


def draw_curves(lines: Sequence[Mapping[str, str]], metric: str, file: Path) -> list[Path]:
    """Draw the score of each round by arm: the mean over seeds, and the range of the seeds.

    Args:
        lines: of a table of rounds.
        metric: its column.
        file: without its ending.
    """
    curves: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["class"] == MEAN and line[metric]:
            curves[line["arm"]][int(line["round"])].append(100 * float(line[metric]))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH / 2, _HEIGHT), layout="constrained")
        axes = figure.subplots()
        for place, (arm, rounds) in enumerate(curves.items()):
            colour, style, marker = curve_style(place)
            numbers = sorted(rounds)
            means = [float(np.mean(rounds[number])) for number in numbers]
            low, high = ([end(rounds[number]) for number in numbers] for end in (min, max))
            axes.fill_between(numbers, low, high, color=colour, alpha=0.15, linewidth=0)
            mark = marker if len(numbers) == 1 else None
            axes.plot(numbers, means, color=colour, linestyle=style, marker=mark, linewidth=1.2, label=drawable(arm))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="round", ylabel=f"{METRIC_NAMES.get(metric, 'macro F1')}, %")
        if curves:
            axes.legend(frameon=False)
        return _saved(figure, file)


def _label(metric: Metric) -> str:
    return METRIC_NAMES[metric] if metric == "hd95" else f"{METRIC_NAMES[metric]}, %"


def _saved(figure: Figure, file: Path) -> list[Path]:
    files = []
    for ending in FORMATS:
        target = file.with_name(f"{file.name}.{ending}")
        # Without the time of writing.
        metadata = {"CreationDate": None} if ending == "pdf" else {"Date": None}
        with replaced(target) as temporary:
            figure.savefig(temporary, format=ending, metadata=metadata)
        files.append(target)
    return files
