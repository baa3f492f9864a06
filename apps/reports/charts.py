"""Charts of a run and of a comparison: scores over rounds, weights, what is hard for the model at each site."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ...custom.data.whole_files import replaced
from ...custom.methods.feda3i.records import EstimateRecord, PredictedSite, WeightsRecord
from ...custom.run.summary_record import Summary
from ...transforms.natural_order import natural_order
from ...transforms.printable import drawable
from ..wording.final_model import compared_in_words
from .colours import LARGER, SMALLER, UNGROUPED, curve_style
from .compared_runs import ComparedRun, Comparison
from .output import scoring_of

mpl.use("Agg")

RESOLUTION = 110
_GROUPS = {
    "larger": (LARGER, "draws too large"),
    "smaller": (SMALLER, "draws too small"),
    None: (UNGROUPED, "no groups of sites"),
}
# Above so many curves, or names of so many characters, a legend or a label would cover something.
_MANY, _LONG = 5, 9
_NO_SCORE = "no test set, no validation"


def save_figure(figure: Figure, file: Path) -> Path:
    """Write a picture in one step, and return the file."""
    with replaced(file) as temporary:
        figure.savefig(temporary, dpi=RESOLUTION)
    return file


def draw_rounds(summary: Summary, file: Path, against: Summary | None = None) -> Path:
    """Draw Dice or macro F1 over rounds with the stages, and that of another run on the same data."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for index, run in enumerate((summary, against)):
        if run is not None:
            colour, style, marker = curve_style(index)
            scored = [(record.round, 100 * score) for record in run.rounds if (score := record.main_score) is not None]
            rounds, scores = [number for number, _ in scored], [score for _, score in scored]
            axes.plot(rounds, scores, color=colour, linestyle=style, marker=marker, label=drawable(run.method))
    stages = [record.stage for record in summary.rounds]
    for index in range(1, len(stages)):
        if stages[index] != stages[index - 1]:
            axes.axvline(index + 0.5, color="gray", linestyle=":", label=f"{stages[index]} from round {index + 1}")
    final = summary.final_model
    if final is not None and final.kind == "best":
        axes.axvline(final.rounds[0], color="gray", label=f"final model: round {final.rounds[0]}")
    label = scoring_of(summary).label
    axes.set(xlabel="round", ylabel=f"{label}, %", title=f"{summary.method}, seed {summary.seed}")
    _with_room(axes)
    axes.legend()
    return save_figure(figure, file)


def draw_weights(weights: WeightsRecord, file: Path) -> Path:
    """Draw the matrix of aggregation weights, site by layer block."""
    sites = sorted(weights.sites, key=natural_order)
    values = np.asarray([weights.of_site(site) for site in sites])
    figure = Figure(figsize=(1.5 + 0.7 * values.shape[1], 1.5 + 0.4 * values.shape[0]), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="viridis", aspect="auto", vmin=0)
    axes.set_xticks(range(values.shape[1]), weights.blocks, rotation=45, ha="right")
    axes.set_yticks(range(values.shape[0]), [drawable(site) for site in sites])
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value < 0.6 * values.max() else "black"
        axes.text(column, row, f"{value:z.2f}", ha="center", va="center", color=colour, fontsize=7)
    axes.set(xlabel="layer block, in forward order", title="Fraction of each site in the new model")
    figure.colorbar(image)
    return save_figure(figure, file)


def draw_groups(estimate: EstimateRecord, file: Path) -> Path:
    """Draw for every site how hard the pixels inside and outside its contours are for the model (FedA³I's q_in, q_out).

    A row per site, those first whose contours are hardest inside, so that no label lies on another one.
    """
    predicted = {
        site: (one, sum(one.inner), sum(one.outer))
        for site, one in estimate.sites.items()
        if one.inner is not None and one.outer is not None
    }
    order = sorted(predicted, key=lambda site: (predicted[site][1] - predicted[site][2], natural_order(site)))
    figure = Figure(figsize=(7, 1.9 + 0.26 * max(len(order), 3)), layout="constrained")
    axes = figure.subplots()
    for row, site in enumerate(order):
        one, inside, outside = predicted[site]
        colour = _GROUPS[one.group][0]
        axes.plot([inside, outside], [row, row], color=colour, linewidth=2, zorder=1)
        axes.scatter([inside], [row], color=colour, s=45, zorder=2)
        axes.scatter([outside], [row], facecolor="white", edgecolor=colour, linewidth=2, s=45, marker="s", zorder=2)
    axes.set_yticks(range(len(order)), [drawable(site) for site in order])
    p_value = estimate.p_value
    test = "" if p_value is None else f" (two groups: p = {p_value:z.3f})"
    axes.set(xlabel="mean cross entropy of the model", title=f"Where contours are hard for the model{test}")
    axes.margins(x=0.08, y=0.6 / max(len(order), 1))
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    figure.legend(handles=_group_legend([one for one, _, _ in predicted.values()]), loc="outside lower center", ncols=2)
    return save_figure(figure, file)


def _group_legend(predicted: Sequence[PredictedSite]) -> list[Any]:
    handles = [
        Line2D([], [], color="black", marker="o", linestyle="", label="just inside the contour"),
        Line2D([], [], color="black", marker="s", markerfacecolor="white", linestyle="", label="just outside"),
    ]
    for group in dict.fromkeys(item.group for item in predicted):
        colour, name = _GROUPS[group]
        handles.append(Line2D([], [], color=colour, linewidth=2, label=name))
    return handles


def draw_comparison(comparison: Comparison, file: Path) -> Path:
    """Draw Dice or macro F1 over rounds, a thin line per seed and a thick one for the mean, and the scores paired by
    seed. An arm without scores is named with the reason.
    """
    scoring = scoring_of(comparison.runs[0])
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    arms = comparison.arms
    for index, arm in enumerate(arms):
        colour, style, marker = curve_style(index)
        rounds, curves = _curves(comparison.of_arm(arm))
        if not len(rounds):
            left.plot([], [], color=colour, linestyle=style, label=f"{drawable(arm)}: {_NO_SCORE}")
            continue
        left.plot(rounds, curves.T, color=colour, alpha=0.3, linewidth=1)
        mark = marker if len(rounds) == 1 else None
        left.plot(
            rounds, curves.mean(0), color=colour, linestyle=style, linewidth=2.5, marker=mark, label=drawable(arm)
        )
    _draw_paired(right, comparison)
    left.set(xlabel="round", ylabel=f"{scoring.label}, %", title="all rounds")
    right.set(title=compared_in_words(comparison.runs), ylabel=f"{scoring.label}, %")
    _with_room(left)
    if len(arms) > _MANY:
        figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    else:
        left.legend()
    return save_figure(figure, file)


def _curves(runs: Sequence[ComparedRun]) -> tuple[Any, Any]:
    """The rounds in which all runs of an arm have a score, ``(R,)``, and these, ``(seeds, R)``."""
    scores = [{record.round: record.main_score for record in run.rounds} for run in runs]
    rounds = [number for number in scores[0] if all(of_run.get(number) is not None for of_run in scores)]
    return np.array(rounds), 100 * np.array([[of_run[number] for number in rounds] for of_run in scores], dtype=float)


def _draw_paired(axes: Any, comparison: Comparison) -> None:
    """A line per seed through the scores of all arms; a gap where an arm has none."""
    arms = comparison.arms
    by_run = {(run.arm, run.seed): run.main_score for run in comparison.runs}
    for index, seed in enumerate(comparison.seeds):
        marker = curve_style(index)[2]
        scores = [by_run.get((arm, seed)) for arm in arms]
        heights = [float("nan") if score is None else 100 * score for score in scores]
        axes.plot(range(len(arms)), heights, color="#555555", linewidth=1, marker=marker, label=f"seed {seed}")
    for place, arm in enumerate(arms):
        if all(by_run.get((arm, seed)) is None for seed in comparison.seeds):
            axes.text(
                place, 0.5, _NO_SCORE, rotation=90, ha="center", va="center", transform=axes.get_xaxis_transform()
            )
    slanted = max(map(len, arms)) > _LONG or len(arms) > _MANY
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if slanted else {}
    axes.set_xticks(range(len(arms)), [drawable(arm) for arm in arms], **turned)
    axes.set_xlim(-0.5, len(arms) - 0.5)
    axes.margins(y=0.12)
    if len(comparison.seeds) <= _MANY:
        axes.legend(fontsize=8)


def _with_room(axes: Any) -> None:
    """Rounds are whole numbers, and no mark is cut by the border."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.04, y=0.12)
    axes.grid(color="#e5e5e5")
    axes.set_axisbelow(True)
