"""Pictures of a classifier: its confusion matrix, and cases with their given, true and predicted classes."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from ...custom.data.site_data import LoadedCase, SiteData
from ...custom.evaluation.inference import Inference
from ...transforms.printable import drawable
from .colours import VERMILLION
from .shown_channels import shown_channels

mpl.use("Agg")

_CASES_PER_SITE = 6
_RIGHT, _WRONG = "black", VERMILLION


def confusion_figure(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """Draw the numbers of cases, rows for the true and columns for the predicted class, coloured by the row's shares.

    Args:
        confusion: ``(C, C)``.
        classes: names of the classes.
    """
    counts = np.asarray(confusion)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = 2.5 + 0.6 * len(classes)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        axes.text(
            column, row, str(count), ha="center", va="center", color="white" if shares[row, column] > 0.6 else "black"
        )
    names = [drawable(name) for name in classes]
    axes.set_xticks(range(len(classes)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(classes)), names)
    axes.set(xlabel="predicted", ylabel="true", title="Test cases")
    figure.colorbar(image, label="fraction of the true class")
    return figure


def case_figure(network: nn.Module, sites: Sequence[SiteData], inference: Inference) -> Figure:
    """Draw the first cases of each class of some sites with their classes; orange where they differ.

    Args:
        network: the trained network.
        sites: training data of sites, and the test set.
        inference: how the model is run.
    """
    figure = Figure(figsize=(2.2 * _CASES_PER_SITE, 2.8 * len(sites)), layout="constrained")
    grid = figure.subplots(len(sites), _CASES_PER_SITE, squeeze=False)
    for data, row in zip(sites, grid, strict=True):
        cases = _various_cases(data)
        predicted = inference.class_probabilities(network, cases).argmax(dim=1)
        for axes in row:
            axes.axis("off")
        for axes, case, label in zip(row, cases, predicted.tolist(), strict=False):
            _draw_case(axes, data, case, label)
    return figure


def _draw_case(axes: Any, data: SiteData, case: LoadedCase, predicted: int) -> None:
    image = torch.from_numpy(shown_channels(case.image[0].movedim(0, -1).numpy(), of_volume=False))
    low, high = (torch.quantile(image.flatten(), share) for share in (0.01, 0.99))
    shown = ((image - low) / (high - low).clamp(min=1e-6)).clamp(0, 1)
    axes.imshow(shown, cmap="gray")
    given = int(case.label)
    lines = [f"{data.site}", f"given: {data.classes[given]}"]
    true = given if case.clean_label is None else int(case.clean_label)
    if true != given:
        lines.append(f"true: {data.classes[true]}")
    lines.append(f"predicted: {data.classes[predicted]}")
    axes.set_title("\n".join(map(drawable, lines)), fontsize=7, color=_RIGHT if predicted == given == true else _WRONG)


def _various_cases(data: SiteData) -> list[LoadedCase]:
    """Cases of one class after the other, first those whose given label is wrong as far as that is known."""
    suspect = [case for case in data.cases if case.clean_label is not None and int(case.clean_label) != int(case.label)]
    chosen = suspect[: _CASES_PER_SITE // 2]
    seen = {int(case.label) for case in chosen}
    for case in data.cases:
        if len(chosen) < _CASES_PER_SITE and int(case.label) not in seen:
            seen.add(int(case.label))
            chosen.append(case)
    return chosen
