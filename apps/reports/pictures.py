"""Pictures of a run in its output folder: its charts, and cases with contours or classes."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

from ...custom.data.datalist import TESTING, TRAINING
from ...custom.data.description import DESCRIPTION_FILE, read_site_description
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.data.site_data import load_site_data
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import private_folder
from ...custom.evaluation.inference import Inference
from ...custom.methods.feda3i.records import QualityFindings
from ...custom.methods.lookup import read_job_settings
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.networks.described import described_network
from ...custom.run.summary_record import ClassificationSummary, Summary
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
from .charts import draw_groups, draw_rounds, draw_weights, save_figure
from .class_pictures import case_figure, confusion_figure
from .colours import ANNOTATION, CLEAN, LEFT_OUT, PREDICTION
from .local_pictures import draw_local_models
from .output import MODEL_FILE, read_summary, scoring_of
from .swarm_output import OWN_CASES_PICTURE, draw_own_cases
from .weights_picture import has_weights, weights_figure

mpl.use("Agg")

PICTURE_FOLDER = "pictures"
# Name, colour and width, in the order in which they are drawn: clean contours show on both sides of equal annotations.
_CONTOURS = (("clean contour", CLEAN, 3.6), ("annotation", ANNOTATION, 1.6), ("prediction", PREDICTION, 1.2))
_LEFT_OUT = ("missed by the site", LEFT_OUT)
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
    private_folder(folder)
    files = []
    if any(record.main_score is not None for record in summary.rounds):
        files.append(draw_rounds(summary, folder / f"{scoring_of(summary).names[0]}.png", against))
    if has_weights(summary):
        files.append(save_figure(weights_figure(summary), folder / "weights_by_round.png"))
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
            files.append(save_figure(figure, folder / "confusion.png"))
        settings = read_job_settings(summary.settings, of_finished_run=True)
        if not isinstance(settings, PersonalSettings) or settings.has_global_model:
            files.append(draw_cases(summary, out / MODEL_FILE, data, folder / "cases.png"))
        files += draw_local_models(summary, workspace or out, data, folder)
    return files


def draw_cases(summary: Summary, model: Path, data: Path, file: Path) -> Path:
    """Draw cases of some sites with the annotation, the clean one where it is known, and the model's prediction.

    Lesions that a site left out are shaded, and cases and slices that have such are shown first. Else the slice of a
    volume with the largest annotation is shown, of a whole one across its last axis.
    """
    settings = read_job_settings(summary.settings, of_finished_run=True)
    network = described_network(settings.network)
    network.load_state_dict(torch.load(model, map_location="cpu", weights_only=True)["model"])
    sites = read_federation(data).sites
    step = max(1, len(sites) // _SITES_SHOWN)
    store = participant_store()
    rule = settings.training.consensus
    rows = [
        load_site_data(data / site, store, section=TRAINING, site=site, consensus=rule)
        for site in sites[::step][:_SITES_SHOWN]
    ]
    if (data / TEST_FOLDER / DESCRIPTION_FILE).is_file():
        rows.append(load_site_data(data / TEST_FOLDER, store, section=TESTING, site=TEST_FOLDER, consensus=rule))
    if settings.task == "classification":
        return save_figure(case_figure(network, rows, Inference.of(settings)), file)
    figure = Figure(figsize=(3 * _CASES_PER_SITE, 3 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), _CASES_PER_SITE, squeeze=False)
    inference, some_left_out = Inference.of(settings), False
    for site_data, row in zip(rows, grid, strict=True):
        chosen = annotated_cases(site_data, _CASES_PER_SITE)
        shown = [shown_case(site_data.cases[number]) for number in chosen]
        predictions = inference.predictions(network, [item.case for item in shown])
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
    return save_figure(figure, file)


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
    return f"\n{shown.num_left_out} of {shown.num_lesions} lesions missed" if shown.num_left_out else ""


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
