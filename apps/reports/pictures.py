"""Pictures of a run: scores over rounds, aggregation weights, the two groups, cases with contours or classes."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from ...custom.data.datalist import TESTING, TRAINING
from ...custom.data.description import DESCRIPTION_FILE, read_site_description
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.data.site_data import load_site_data
from ...custom.data.whole_files import replaced
from ...custom.evaluation.inference import Inference
from ...custom.methods.feda3i.records import EstimateRecord, QualityFindings, WeightsRecord
from ...custom.methods.lookup import read_job_settings
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.networks.described import described_network
from ...custom.run.summary_record import ClassificationSummary, Summary
from ...transforms.natural_order import natural_order
from .case_drawing import (
    FILL_OPACITY,
    LINE_STYLES,
    ShownCase,
    annotated_cases,
    draw_contours,
    draw_filled,
    draw_image,
    shown_case,
)
from .class_pictures import case_figure, confusion_figure
from .compared_runs import Comparison
from .local_pictures import draw_local_models
from .output import MODEL_FILE, read_summary, scoring_of
from .swarm_output import OWN_CASES_PICTURE, draw_own_cases
from .weights_picture import has_weights, weights_figure

mpl.use("Agg")

PICTURE_FOLDER = "pictures"
_GROUP_COLOURS = {"larger": "tab:red", "smaller": "tab:blue", None: "tab:gray"}
# Name, colour and width, in the order in which they are drawn: clean contours show on both sides of equal annotations.
_CONTOURS = (("clean contour", "lime", 3.6), ("annotation", "tab:red", 1.6), ("prediction", "tab:cyan", 1.2))
_LEFT_OUT = ("left out by the site", "magenta")
_LEGEND_COLUMNS = 2
_CASES_PER_SITE = 2
_SITES_SHOWN = 4


def draw_run(
    out: Path, data: Path | None, against: Summary | None = None, *, workspace: Path | None = None
) -> list[Path]:
    """Draw a run's pictures into its output folder and return the files.

    Args:
        out: output folder with the model and the summary.
        data: the federation's folder, for overlays, which show cases; None leaves them out.
        against: summary of another run on the same data, for the curve of Dice or macro F1.
        workspace: the NVFlare workspace with what the sites stored; by default that lies in the output folder.
    """
    summary = read_summary(out)
    folder = out / PICTURE_FOLDER
    folder.mkdir(exist_ok=True)
    files = []
    if any(record.main_score is not None for record in summary.rounds):
        files.append(draw_rounds(summary, folder / f"{scoring_of(summary).names[0]}.png", against))
    if has_weights(summary):
        files.append(_save(weights_figure(summary), folder / "weights_by_round.png"))
    quality = summary.added(QualityFindings)
    if quality is not None and quality.weights is not None:
        files.append(draw_weights(quality.weights, folder / "weights.png"))
    if summary.own_cases and (drawn := draw_own_cases(summary.own_cases, folder / OWN_CASES_PICTURE)):
        files.append(drawn)
    if quality is not None and quality.estimate is not None:
        files.append(draw_groups(quality.estimate, folder / "groups.png"))
    if data is not None:
        if isinstance(summary, ClassificationSummary) and summary.last_round.confusion:
            classes = read_site_description(data / read_federation(data).sites[0]).classes
            figure = confusion_figure(summary.last_round.confusion, classes)
            files.append(_save(figure, folder / "confusion.png"))
        settings = read_job_settings(summary.settings)
        with TemporaryDirectory() as cache:
            if not isinstance(settings, PersonalSettings) or settings.has_global_model:
                files.append(draw_cases(summary, out / MODEL_FILE, data, folder / "cases.png", cache=Path(cache)))
            files += draw_local_models(summary, workspace or out, data, folder, cache=Path(cache))
    return files


def draw_rounds(summary: Summary, file: Path, against: Summary | None = None) -> Path:
    """Draw Dice or macro F1 over rounds with the stages, and that of another run on the same data."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for run, style in ((summary, "-o"), (against, "--s")):
        if run is not None:
            scored = [(record.round, 100 * score) for record in run.rounds if (score := record.main_score) is not None]
            axes.plot([number for number, _ in scored], [score for _, score in scored], style, label=run.method)
    stages = [record.stage for record in summary.rounds]
    for index in range(1, len(stages)):
        if stages[index] != stages[index - 1]:
            axes.axvline(index + 0.5, color="gray", linestyle=":", label=f"{stages[index]} from round {index + 1}")
    label = scoring_of(summary).label
    axes.set(xlabel="round", ylabel=f"{label}, %", title=f"{summary.method}, seed {summary.seed}")
    axes.legend()
    return _save(figure, file)


def draw_weights(weights: WeightsRecord, file: Path) -> Path:
    """Draw the matrix of aggregation weights, site by layer block."""
    sites = sorted(weights.sites, key=natural_order)
    values = np.asarray([weights.of_site(site) for site in sites])
    figure = Figure(figsize=(1.5 + 0.7 * values.shape[1], 1.5 + 0.4 * values.shape[0]), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="viridis", aspect="auto", vmin=0)
    axes.set_xticks(range(values.shape[1]), weights.blocks, rotation=45, ha="right")
    axes.set_yticks(range(values.shape[0]), sites)
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value < 0.6 * values.max() else "black"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=7)
    axes.set(xlabel="layer block, in forward order", title="Aggregation weights")
    figure.colorbar(image)
    return _save(figure, file)


def draw_groups(estimate: EstimateRecord, file: Path) -> Path:
    """Draw every site's q_in against q_out, coloured by group."""
    figure = Figure(figsize=(5.5, 5), layout="constrained")
    axes = figure.subplots()
    shown: set[str | None] = set()
    for site, judged in estimate.sites.items():
        if judged.inner is None or judged.outer is None:
            continue
        group = judged.group
        label = None if group in shown else ("no groups" if group is None else f"draws {group}")
        shown.add(group)
        inner, outer = sum(judged.inner), sum(judged.outer)
        axes.scatter(inner, outer, color=_GROUP_COLOURS[group], label=label)
        axes.annotate(site, (inner, outer), textcoords="offset points", xytext=(5, 3), fontsize=8)
    p_value = estimate.p_value
    title = "Learning difficulty of the sites" + ("" if p_value is None else f" (two groups: p = {p_value:.3f})")
    axes.margins(0.2)
    axes.set(xlabel="q_in, cross entropy inside the contour", ylabel="q_out, outside", title=title)
    if shown:
        axes.legend()
    return _save(figure, file)


def draw_cases(summary: Summary, model: Path, data: Path, file: Path, *, cache: Path) -> Path:
    """Draw cases of some sites with the annotation, the clean one where it is known, and the model's prediction.

    Lesions that a site left out are shaded, and cases and slices that have such are shown first. Else the slice of a
    volume with the largest annotation is shown, of a whole one across its last axis.
    """
    settings = read_job_settings(summary.settings)
    network = described_network(settings.network)
    network.load_state_dict(torch.load(model, map_location="cpu", weights_only=True)["model"])
    sites = read_federation(data).sites
    step = max(1, len(sites) // _SITES_SHOWN)
    rows = [load_site_data(data / site, cache, section=TRAINING, site=site) for site in sites[::step][:_SITES_SHOWN]]
    if (data / TEST_FOLDER / DESCRIPTION_FILE).is_file():
        rows.append(load_site_data(data / TEST_FOLDER, cache, section=TESTING, site=TEST_FOLDER))
    if settings.task == "classification":
        return _save(case_figure(network, rows, Inference.of(settings)), file)
    figure = Figure(figsize=(3 * _CASES_PER_SITE, 3 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), _CASES_PER_SITE, squeeze=False)
    inference, some_left_out = Inference.of(settings), False
    for site_data, row in zip(rows, grid, strict=True):
        chosen = annotated_cases(site_data, _CASES_PER_SITE)
        shown = [shown_case(site_data.cases[number]) for number in chosen]
        predictions = inference.predictions(network, [one.case for one in shown])
        for axes in row:
            axes.axis("off")
        for axes, number, one, prediction in zip(row, chosen, shown, predictions, strict=False):
            draw_image(axes, one)
            is_test = site_data.site == TEST_FOLDER
            some_left_out |= not is_test and one.num_left_out > 0
            _draw_masks(axes, one, prediction, is_test=is_test)
            axes.set_title(f"{site_data.site}, case {number + 1}{'' if is_test else _left_out_text(one)}", fontsize=9)
    figure.legend(
        handles=_legend(rows[0].classes, some_left_out=some_left_out), loc="outside lower center", ncols=_LEGEND_COLUMNS
    )
    return _save(figure, file)


def _draw_masks(axes: Any, shown: ShownCase, prediction: torch.Tensor, *, is_test: bool) -> None:
    """Draw what is known of a case over its image; a test case's annotation is the clean one."""
    case = shown.case
    clean, given = (case.label, None) if is_test else (case.clean_label, case.label)
    if clean is not None and shown.left_out is not None and not is_test:
        draw_filled(axes, shown.left_out, shown, _LEFT_OUT[1])
        clean = torch.where(shown.left_out > 0, 0, clean)
    for mask, (_, colour, width) in zip((clean, given, prediction), _CONTOURS, strict=True):
        if mask is not None:
            draw_contours(axes, mask, shown, colour, width=width)


def _left_out_text(shown: ShownCase) -> str:
    """How many lesions the site left out of the whole case, as a second line of a title."""
    return f"\n{shown.num_left_out} of {shown.num_lesions} lesions left out" if shown.num_left_out else ""


def _legend(classes: Sequence[str], *, some_left_out: bool) -> list[Any]:
    handles: list[Any] = [
        mpl.lines.Line2D([], [], color=colour, linewidth=w, label=name) for name, colour, w in _CONTOURS
    ]
    if some_left_out:
        name, colour = _LEFT_OUT
        handles.append(mpl.patches.Patch(facecolor=(colour, FILL_OPACITY), edgecolor=colour, linewidth=2, label=name))
    if len(classes) > 1:
        styles = zip(classes, cycle(LINE_STYLES), strict=False)
        handles += [mpl.lines.Line2D([], [], color="black", linestyle=style, label=name) for name, style in styles]
    return handles


def draw_comparison(comparison: Comparison, file: Path) -> Path:
    """Draw Dice or macro F1 over rounds, a thin line per seed and a thick one for the mean, and the scores paired by
    seed.
    """
    scoring = scoring_of(comparison.runs[0])
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    arms = comparison.arms
    for index, arm in enumerate(arms):
        runs = comparison.of_arm(arm)
        curves = 100 * np.array([[record.main_score for record in run.rounds] for run in runs], dtype=float)
        rounds = np.array([record.round for record in runs[0].rounds])
        scored = ~np.isnan(curves).any(axis=0)
        rounds, curves = rounds[scored], curves[:, scored]
        left.plot(rounds, curves.T, color=f"C{index}", alpha=0.3, linewidth=1)
        left.plot(rounds, curves.mean(0), color=f"C{index}", linewidth=2.5, label=arm)
    for seed in comparison.seeds:
        scores = [
            100 * score
            for arm in arms
            for run in comparison.of_arm(arm)
            if run.seed == seed and (score := run.main_score) is not None
        ]
        right.plot(range(len(arms)), scores, marker="o", label=f"seed {seed}")
    left.set(xlabel="round", ylabel=f"{scoring.label}, %", title="all rounds")
    left.legend()
    right.set_xticks(range(len(arms)), arms)
    right.set(title="mean of the last five rounds", ylabel=f"{scoring.label}, %")
    right.margins(x=0.3)
    right.legend(fontsize=8)
    return _save(figure, file)


def _save(figure: Figure, file: Path) -> Path:
    with replaced(file) as temporary:
        figure.savefig(temporary, dpi=110)
    return file
