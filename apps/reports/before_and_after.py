"""Pictures of an annotation before and after, on the planes of a case that change most."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ...custom.data.whole_files import replaced
from ...transforms.array_types import Array, Booleans, Classes
from ...transforms.printable import drawable
from .case_drawing import FILL_OPACITY, LINE_STYLES, class_region
from .colours import ORANGE, SKY, VERMILLION

mpl.use("Agg")

_PLANES_PER_CASE = 4
_GIVEN, _MOVED, _MARKED = SKY, ORANGE, VERMILLION


@dataclass(frozen=True)
class BeforeAndAfter:
    """The planes of a case.

    Attributes:
        image: intensities ``(P, H, W)`` or colours ``(P, H, W, 3)``.
        given: classes of the given annotation ``(P, H, W)``.
        moved: classes of the annotation that counts, as above; None where no annotated pixel changes.
        marked: pixels to shade, as above.
        aspect: height of a pixel over its width.
    """

    image: Array
    given: Classes
    moved: Classes | None
    marked: Booleans
    aspect: float

    @property
    def chosen(self) -> list[int]:
        """The planes that change most, in their order; one at least."""
        changes = self.marked if self.moved is None else self.marked | (self.moved != self.given)
        sizes = changes.sum(axis=(1, 2))
        number = min(_PLANES_PER_CASE, max(1, int((sizes > 0).sum())))
        return sorted(np.argsort(-sizes, kind="stable")[:number].tolist())


def draw_before_and_after(
    file: Path, planes: BeforeAndAfter, heading: Sequence[str], *, after: str, marked_as: str
) -> Path:
    """Draw the planes that change most: above the given annotation, below the one that counts; one plane side by side.

    Args:
        file: the picture; replaced in one step.
        planes: the case.
        heading: lines above the picture.
        after: the title of what counts.
        marked_as: what is shaded, for the legend.
    """
    chosen = planes.chosen
    rows, columns = (2, len(chosen)) if len(chosen) > 1 else (1, 2)
    figure = Figure(figsize=(3.2 * columns, 3.2 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).reshape(2, -1)
    low, high = (float(np.quantile(planes.image, share)) for share in (0.01, 0.99))
    for column, plane in enumerate(chosen):
        for row, title in enumerate(("given", after)):
            axes = grid[row, column]
            pixels = ((planes.image[plane] - low) / max(high - low, 1e-6)).clip(0, 1)
            axes.imshow(pixels, cmap="gray", aspect=planes.aspect)
            _outline(axes, planes.given[plane], _GIVEN)
            if row:
                _draw_after(axes, planes, plane)
            axes.set_title(f"{title}, slice {plane + 1}" if len(planes.image) > 1 else title, fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])
    figure.suptitle("\n".join(map(drawable, heading)), fontsize=9)
    handles: list[Any] = [Line2D([], [], color=_GIVEN, label="given annotation")]
    if planes.moved is not None:
        handles.append(Line2D([], [], color=_MOVED, label="contour that counts"))
    handles.append(Patch(color=_MARKED, alpha=0.6, label=marked_as))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    with replaced(file) as temporary:
        figure.savefig(temporary, dpi=100)
    return file


def _draw_after(axes: Any, planes: BeforeAndAfter, plane: int) -> None:
    """Draw what changes over the given contours."""
    if planes.moved is not None:
        _outline(axes, planes.moved[plane], _MOVED)
    marked = planes.marked[plane]
    shade = np.zeros((*marked.shape, 4))
    shade[marked] = mpl.colors.to_rgba(_MARKED, FILL_OPACITY)
    axes.imshow(shade, aspect=planes.aspect)
    _outline(axes, marked.astype(np.uint8), _MARKED)


def _outline(axes: Any, classes: Classes, colour: str) -> None:
    """Draw the contours of every class ``(H, W)``, each with a style of line of its own."""
    for label in range(1, int(classes.max()) + 1):
        region = class_region(classes, label)
        if region.any() and not region.all():
            style = LINE_STYLES[(label - 1) % len(LINE_STYLES)]
            axes.contour(region, levels=[0.5], colors=colour, linewidths=1.2, linestyles=style)
