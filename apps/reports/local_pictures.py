"""Pictures of the sites' own models: what a site's model says compared with the global one and the site's protocol."""

from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch import nn

from ...custom.data.datalist import VALIDATION
from ...custom.data.federation import read_federation
from ...custom.data.site_data import SiteData, count_cases, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import replaced
from ...custom.evaluation.inference import Inference, evaluating
from ...custom.methods.decoupled.adaptation import LocalModel
from ...custom.methods.lookup import read_job_settings
from ...custom.methods.personal.own_threshold import AtThreshold
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.run.summary_record import Summary
from .case_drawing import annotated_cases, draw_contours, draw_image, draw_values, shown_case
from .colours import ANNOTATION, CLEAN, GLOBAL_MODEL, OWN_MODEL
from .local_models import local_model

mpl.use("Agg")

_CASES = 3
_ANNOTATIONS = (("the site's annotation", ANNOTATION), ("generic annotation", CLEAN))
_PREDICTIONS = (("the site's model", OWN_MODEL), ("global model", GLOBAL_MODEL))


def draw_local_models(summary: Summary, out: Path, data: Path, folder: Path) -> list[Path]:
    """Draw for each site that keeps cases from training what its own model makes of them, and return the files.

    A row shows one case: the site's annotation with the generic one, where it is known; the site's prediction with the
    global one, where there is one; and for decoupled predictions where W changes the probability of the foreground, and
    in which direction.

    Args:
        summary: the run's summary.
        out: the run's output folder, or another that holds the sites' workspaces.
        data: the federation's folder.
        folder: where the pictures go.
    """
    settings = read_job_settings(summary.settings, of_finished_run=True)
    files: list[Path] = []
    if not isinstance(settings, PersonalSettings):
        return files
    for site in read_federation(data).sites:
        model = local_model(out, site, settings)
        if model is None or not count_cases(data / site, VALIDATION):
            continue
        cases = load_site_data(
            data / site, participant_store(), section=VALIDATION, site=site, consensus=settings.training.consensus
        )
        file = folder / f"{site}-own-model.png"
        with replaced(file) as temporary:
            _local_figure(model, cases, Inference.of(settings)).savefig(temporary, dpi=110)
        files.append(file)
    return files


def _local_figure(model: nn.Module, data: SiteData, inference: Inference) -> Figure:
    plain = model.model if isinstance(model, AtThreshold) else model
    shared = plain.shared if isinstance(plain, LocalModel) else None
    chosen = annotated_cases(data, _CASES)
    columns = 2 if shared is None else 3
    figure = Figure(figsize=(3 * columns, 3 * len(chosen)), layout="constrained")
    grid = figure.subplots(len(chosen), columns, squeeze=False)
    drawn = None
    for row, number in zip(grid, chosen, strict=True):
        shown = shown_case(data.cases[number])
        case = shown.case
        for axes in row:
            axes.axis("off")
        for axes in row[:2]:
            draw_image(axes, shown)
        masks = (case.label, case.clean_label)
        local = _probabilities(model, case.image, inference)
        predictions = [local.argmax(dim=1)]
        if shared is not None:
            common = _probabilities(shared, case.image, inference)
            predictions.append(common.argmax(dim=1))
            # The foreground's probability is what the background's is not.
            own = _probabilities(plain, case.image, inference)
            drawn = draw_values(row[2], common[:, 0] - own[:, 0], shown, limit=1.0)
        for axes, drawn_masks, lines in zip(row, (masks, predictions), (_ANNOTATIONS, _PREDICTIONS), strict=False):
            for mask, (_, colour) in zip(drawn_masks, lines, strict=False):
                if mask is not None:
                    draw_contours(axes, mask, shown, colour)
        row[0].set_title(f"{data.site}, case {number + 1}", fontsize=9)
    lines = (*_ANNOTATIONS, *(_PREDICTIONS if shared is not None else _PREDICTIONS[:1]))
    handles = [mpl.lines.Line2D([], [], color=colour, label=name) for name, colour in lines]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    if drawn is not None:
        grid[0][2].set_title("foreground, W ⊙ p − p", fontsize=9)
        figure.colorbar(drawn, ax=[row[2] for row in grid], shrink=0.6)
    return figure


def _probabilities(model: nn.Module, images: torch.Tensor, inference: Inference) -> torch.Tensor:
    """Class probabilities ``(1, C + 1, H, W[, D])`` of one sample."""
    with evaluating(model):
        return inference.logits(model, images).float().softmax(dim=1).cpu()
