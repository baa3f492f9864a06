"""A site's contact sheet: up to 24 cases with the contours of their annotations, those with a problem first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ...custom.data.description import ImageDescription, SegmentationDescription, SliceDescription, VolumeDescription
from ...custom.data.masks import Mask, annotated_axis, read_classes, turned_to
from ...custom.data.preparation import CLEAN_LABEL, IMAGE, LABEL, Preparation, build_preparation
from ...custom.data.whole_files import replaced
from ...transforms.array_types import Array, Booleans, Classes, Floats
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_files import read_image
from ...transforms.loading.volume_files import read_first_channel
from ...transforms.printable import drawable, printable
from ..reports.colours import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from ..reports.shown_channels import shown_channels
from .facts import CaseFacts, SiteFacts
from .finding import Severity
from .report import SiteReport

mpl.use("Agg")

MAX_CASES = 24
COLUMNS = 6

# In inches: side of a panel with the gap next to it, the two lines of text above it, of prepared cases three, and the
# sheet's head.
PANEL, GAP, TITLE, PREPARED_TITLE, HEADER = 1.9, 0.06, 0.3, 0.4, 0.6

_RESOLUTION = 100
# Panels are smaller than this many pixels; a mask is thinned out to it before its contour is drawn.
_MAX_SIDE = 512
_NAME_LENGTH = 26
# Axes of a prepared volume that is not cut into slices: samples, channels, and three of its own.
_WHOLE_VOLUME = 5
_SMALLEST_PERCENT = 0.01
_COLOURS = (VERMILLION, SKY, ORANGE, PURPLE, GREEN, BLUE)
_CLEAN_COLOUR = YELLOW
_IGNORED_COLOUR = "lightgrey"


@dataclass(frozen=True)
class Panel:
    """What is drawn of a case.

    Attributes:
        pixels: ``(H, W)`` or ``(H, W, 3)``, None if the image cannot be read.
        label: classes ``(H, W)``, None if there is no mask, or none that fits.
        clean_label: as above.
        aspect: height of a pixel over its width.
        caption: size with what is cut off, and spacing in a line of its own; empty where the files are drawn.
    """

    pixels: Array | None
    label: Array | None = None
    clean_label: Array | None = None
    aspect: float = 1.0
    caption: str = ""


def draw_contact_sheet(report: SiteReport, file: Path, *, prepared: bool = False) -> Path | None:
    """Draw a site's contact sheet and return the file; None if the site has no case to show.

    Args:
        report: on the site.
        file: the picture.
        prepared: draw what the network sees, with size, spacing and what is cut off of the annotation; else cases as
            they lie in their files.
    """
    if report.facts is None or not report.facts.cases:
        return None
    preparation = build_preparation(report.facts.description) if prepared and report.facts.description else None
    problems = problems_by_file(report)
    cases = chosen_cases(report.facts, problems)
    title = PREPARED_TITLE if prepared else TITLE
    width, height = COLUMNS * PANEL + GAP, -(-len(cases) // COLUMNS) * (PANEL + title) + HEADER
    figure = Figure(figsize=(width, height), dpi=_RESOLUTION)
    # One pair of axes in inches, rows going down: a pair for each panel would take most of the time.
    axes = figure.add_axes((0, 0, 1, 1), autoscale_on=False, xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for index, case in enumerate(cases):
        row, column = divmod(index, COLUMNS)
        left, top = column * PANEL + GAP, row * (PANEL + title) + HEADER
        kinds = _problems_of(case, problems)
        panel = _panel(case, report.facts) if preparation is None else _prepared_panel(case, preparation)
        text = "\n".join([_title(case, report.facts), panel.caption or ", ".join(kinds)])
        colour = "red" if kinds else "black"
        axes.text(left, top + 0.02, text, va="top", fontsize=6.5, color=colour, clip_on=True)
        _draw_panel(axes, panel, left, top + title)
    axes.text(
        width / 2,
        0.1,
        f"{drawable(report.site)}: {len(cases)} of {len(report.facts.cases)} cases{', prepared' if prepared else ''}",
        va="top",
        ha="center",
    )
    _draw_legend(figure, report.facts, 1 - 0.25 / height)
    with replaced(file) as temporary:
        figure.savefig(temporary)
    return file


def problems_by_file(report: SiteReport) -> dict[str, list[str]]:
    """Return file → kinds of the errors and warnings that say something about it, the worst first."""
    problems: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.scope == "case" and finding.severity != Severity.NOTE:
            for name in finding.files:
                problems.setdefault(name, []).append(finding.kind)
    return problems


def chosen_cases(site: SiteFacts, problems: Mapping[str, Sequence[str]]) -> list[CaseFacts]:
    """Return the cases to show: first those with a problem, the worst first, then others from all over the datalist."""
    ranks = {name: rank for rank, name in enumerate(problems)}
    bad = [case for case in site.cases if _problems_of(case, problems)]
    bad.sort(key=lambda case: min(ranks[name] for name in _files(case) if name in ranks))
    good = [case for case in site.cases if not _problems_of(case, problems)]
    room = max(0, MAX_CASES - len(bad))
    spread = np.linspace(0, len(good) - 1, min(room, len(good))).round().astype(int)
    return (bad + [good[index] for index in spread])[:MAX_CASES]


def _problems_of(case: CaseFacts, problems: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(kind for name in _files(case) for kind in problems.get(name, ())))


def _files(case: CaseFacts) -> list[str]:
    """The files of a case that a finding may name."""
    return [
        case.name,
        *([case.label] if case.label else []),
        *(name for problem in case.problems for name in problem.files),
    ]


def _panel(case: CaseFacts, site: SiteFacts) -> Panel:
    """Read a case once more, as it lies in its files."""
    description = site.description
    try:
        if isinstance(description, SliceDescription | VolumeDescription):
            return _volume_panel(case, description)
        pixels = np.moveaxis(read_image(case.case.image, description.shown_channels), 0, -1)
        pixels = shown_channels(pixels, of_volume=False)
    except (DataError, OSError):
        return Panel(None)
    if not isinstance(description, ImageDescription):
        return Panel(pixels)
    label, clean = (_mask(value, description, pixels.shape[:2]) for value in (case.case.label, case.case.clean_label))
    return Panel(pixels, label, clean)


def _volume_panel(case: CaseFacts, description: SliceDescription | VolumeDescription) -> Panel:
    """The slice with the largest annotation, else the middle one."""
    volume = read_first_channel(case.case.image)
    shape = volume.voxels.shape
    label, clean = (
        _mask(value, description, shape, volume.affine) for value in (case.case.label, case.case.clean_label)
    )
    axis = annotated_axis(Mask(np.zeros((1, 1, 1), np.uint8), volume.affine), description)
    position = shape[axis] // 2
    if label is not None and label.any():
        position = int(((label > 0) & (label != IGNORED_LABEL)).sum(axis=tuple({0, 1, 2} - {axis})).argmax())
    # The first axis in the slice goes right and the second up, as in a viewer of NIfTI volumes.
    across, up = (step for index, step in enumerate(volume.spacing) if index != axis)
    pixels, label, clean = (
        None if array is None else np.take(array, position, axis).T[::-1] for array in (volume.voxels, label, clean)
    )
    return Panel(pixels, label, clean, aspect=up / across)


def _prepared_panel(case: CaseFacts, preparation: Preparation) -> Panel:
    """What the network sees of a case: of slices the one with the largest annotation, of a volume such a slice."""
    try:
        prepared = preparation(case.case)
    except (DataError, OSError):
        return Panel(None)
    image, label, clean = (
        None if kind not in prepared.tensors else prepared.tensors[kind].numpy() for kind in (IMAGE, LABEL, CLEAN_LABEL)
    )
    assert image is not None
    masks = [None if mask is None or mask.ndim == 1 else mask for mask in (label, clean)]
    caption = _caption(image.shape, prepared.spacing, case)
    spacing = prepared.spacing or (1.0,) * (image.ndim - 2)
    if image.ndim == _WHOLE_VOLUME:
        # Slices across the last axis, as samples of their own.
        image = np.moveaxis(image[0], -1, 0)
        masks = [None if mask is None else np.moveaxis(mask[0], -1, 0) for mask in masks]
    shown = _largest(masks[0], len(image))
    pixels = np.moveaxis(image[shown], 0, -1)
    pixels = shown_channels(pixels, of_volume=prepared.spacing is not None)
    given, right = (None if mask is None else mask[shown] for mask in masks)
    if prepared.spacing is None:
        return Panel(pixels, given, right, caption=caption)
    # As in a viewer of NIfTI volumes, see above.
    pixels, given, right = (
        None if plane is None else np.swapaxes(plane, 0, 1)[::-1] for plane in (pixels, given, right)
    )
    return Panel(pixels, given, right, aspect=spacing[1] / spacing[0], caption=caption)


def _largest(label: Array | None, count: int) -> int:
    """The sample with the largest annotation, else the middle one."""
    if label is None or not label.any():
        return count // 2
    return int(((label > 0) & (label != IGNORED_LABEL)).reshape(count, -1).sum(axis=1).argmax())


def _caption(shape: tuple[int, ...], spacing: tuple[float, ...] | None, case: CaseFacts) -> str:
    """Size and spacing of a prepared image ``(S, C, H, W[, D])``, and the share of its annotation that is cut off.

    Nothing is cut off of pictures: they are resized or padded.
    """
    size = " × ".join(map(str, shape[2:]))
    number = f"{shape[0]} slices of {size}" if shape[0] > 1 else size
    steps = "" if spacing is None else f"\n{' × '.join(f'{step:.3g}' for step in spacing)} mm"
    cut = "" if case.annotation is None else f", {_percent(1 - case.annotation.share_kept)} cut off"
    return f"{number}{cut}{steps}"


def _percent(share: float) -> str:
    """A share in whole percent; what is cut off of large annotations is not rounded to nothing."""
    return "<1%" if 0 < share < _SMALLEST_PERCENT else f"{share:.0%}"


def _mask(
    value: Path | int | None,
    description: SegmentationDescription,
    shape: tuple[int, ...],
    affine: Floats | None = None,
) -> Classes | None:
    """The classes of a mask, None where there is none that can be read and has the size of its image."""
    if not isinstance(value, Path):
        return None
    try:
        classes = turned_to(read_classes(value, description), affine).classes
    except (DataError, OSError):
        return None
    return classes if classes.shape == shape else None


def _draw_panel(axes: Any, panel: Panel, left: float, top: float) -> None:
    """Draw a panel into the square with this corner, in inches."""
    side = PANEL - GAP
    if panel.pixels is None:
        axes.text(left + side / 2, top + side / 2, "cannot be read", ha="center", va="center", color="red", fontsize=8)
        return
    step = 1 + max(panel.pixels.shape[:2]) // _MAX_SIDE
    pixels = panel.pixels[::step, ::step]
    low, high = (float(value) for value in np.percentile(pixels, (1, 99)))
    scaled = np.clip((pixels - low) / max(high - low, 1e-6), 0, 1)
    rows, columns = pixels.shape[:2]
    pixel = side / max(rows * panel.aspect, columns)
    frame = (left, left + columns * pixel, top + rows * pixel * panel.aspect, top)
    axes.imshow(scaled, cmap="gray", vmin=0, vmax=1, aspect="auto", extent=frame)
    if panel.label is not None:
        label = panel.label[::step, ::step]
        for value in np.unique(label[label > 0]):
            colour, style = (colour_of(int(value)), "solid") if value != IGNORED_LABEL else (_IGNORED_COLOUR, "dotted")
            _draw_contour(axes, label == value, frame, colour, style)
    if panel.clean_label is not None:
        clean = panel.clean_label[::step, ::step]
        _draw_contour(axes, (clean > 0) & (clean != IGNORED_LABEL), frame, _CLEAN_COLOUR, "dashed")


def _draw_contour(axes: Any, mask: Booleans, frame: tuple[float, float, float, float], colour: str, style: str) -> None:
    """Draw the contour of a mask that fills a frame: left, right, bottom, top."""
    if not mask.any():
        return
    left, right, bottom, top = frame
    # Objects that touch the frame have a contour there, too.
    padded = np.pad(mask, 1)
    across = left + (np.arange(padded.shape[1]) - 0.5) * (right - left) / mask.shape[1]
    down = top + (np.arange(padded.shape[0]) - 0.5) * (bottom - top) / mask.shape[0]
    axes.contour(across, down, padded, levels=[0.5], colors=colour, linewidths=0.9, linestyles=style)


def colour_of(label: int) -> str:
    """Return the colour of a foreground class's contour."""
    return _COLOURS[(label - 1) % len(_COLOURS)]


def _title(case: CaseFacts, site: SiteFacts) -> str:
    name = printable(Path(case.name).name)
    name = drawable(name if len(name) <= _NAME_LENGTH else f"…{name[1 - _NAME_LENGTH :]}")
    if site.is_classification and isinstance(case.case.label, int):
        return f"{name}: {drawable(str(site.class_names.get(case.case.label, case.case.label)))}"
    return name


def _draw_legend(figure: Figure, site: SiteFacts, top: float) -> None:
    if site.is_classification:
        return
    line = mpl.lines.Line2D
    handles = [line([], [], color=colour_of(label), label=drawable(name)) for label, name in site.class_names.items()]
    if getattr(site.description, "ignore", ()):
        handles.append(line([], [], color=_IGNORED_COLOUR, linestyle="dotted", label="ignored"))
    if any(case.case.clean_label is not None for case in site.cases):
        handles.append(line([], [], color=_CLEAN_COLOUR, linestyle="dashed", label="clean label"))
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, top), ncols=len(handles), fontsize=8, frameon=False
    )
