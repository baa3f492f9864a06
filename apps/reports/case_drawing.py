"""What pictures of cases are made of: which cases and slices are shown, images, outlines, signed maps."""

from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.colors import to_rgba
from scipy import ndimage

from ...custom.data.masks import without_ignored
from ...custom.data.site_data import LoadedCase, SiteData
from ...transforms.array_types import Array, Booleans
from .left_out import is_annotated, lacks_lesions, left_out_lesions
from .shown_channels import shown_channels

# One for each class in turn.
LINE_STYLES: tuple[Literal["solid", "dashed", "dotted", "dashdot"], ...] = ("solid", "dashed", "dotted", "dashdot")
# Of what is shaded.
FILL_OPACITY = 0.45


@dataclass(frozen=True)
class ShownCase:
    """What is shown of a case: an image, the chosen slice of a volume, or a whole volume with its chosen plane.

    Attributes:
        case: the case, cut to the slice where it has slices.
        left_out: the classes of the lesions that the annotation has nothing of, ``(1, H, W[, D])``; None where the
            clean annotation is not known.
        plane: the plane of a whole volume, across its last axis.
        num_lesions: lesions of the clean annotation in the whole case.
        num_left_out: how many of them the annotation has nothing of.
    """

    case: LoadedCase
    left_out: torch.Tensor | None = None
    plane: int = 0
    num_lesions: int = 0
    num_left_out: int = 0


def annotated_cases(data: SiteData, count: int) -> list[int]:
    """Return the first cases that have an annotated object, else the first cases, of different patients if possible.

    Cases in which a lesion was left out go first, where that is known.
    """
    annotated = [number for number, case in enumerate(data.cases) if bool(is_annotated(case.label).any())]
    candidates = annotated or list(range(len(data.cases)))
    units = [data.cases[number].unit for number in candidates]
    repeated = {number for place, number in enumerate(candidates) if units.index(units[place]) != place}
    first = list(islice((n for n in candidates if n not in repeated and lacks_lesions(data.cases[n])), count))
    return (first + sorted(set(candidates) - set(first), key=lambda number: (number in repeated, number)))[:count]


def shown_case(case: LoadedCase) -> ShownCase:
    """Choose the slice, or the plane of a whole volume, that shows most of what is annotated and of what is left out.

    Where nothing is left out, or the clean annotation is not known, it is the one with the largest annotation.
    """
    result = left_out_lesions(case)
    counts = (result.num_lesions, result.num_left_out) if result else (0, 0)
    left_out = None if result is None else result.mask
    if case.label.ndim == 4:
        chosen = _most_shown(case.label.movedim(-1, 0), None if left_out is None else left_out.movedim(-1, 0))
        return ShownCase(case, left_out, chosen, *counts)
    chosen = _most_shown(case.label, left_out)
    kept = slice(chosen, chosen + 1)
    clean = None if case.clean_label is None else case.clean_label[kept]
    cut = replace(case, image=case.image[kept], label=case.label[kept], clean_label=clean)
    return ShownCase(cut, None if left_out is None else left_out[kept], 0, *counts)


def _most_shown(label: torch.Tensor, left_out: torch.Tensor | None) -> int:
    """The slice, along the first axis, that has much of both; of what there is where a case does not have both."""
    annotated = is_annotated(label).flatten(1).sum(1)
    if left_out is None or not bool(left_out.any()):
        return int(annotated.argmax())
    missing = (left_out > 0).flatten(1).sum(1)
    both = annotated * missing
    return int((both if bool(both.any()) else missing).argmax())


def draw_image(axes: Any, shown: ShownCase) -> None:
    """Draw a sample's image, colours or the first channel, from its darkest to its brightest hundredth."""
    image = np.moveaxis(plane(shown.case.image[0], shown), 0, -1)
    image = shown_channels(image, of_volume=shown.case.spacing is not None)
    low, high = (float(np.quantile(image, share)) for share in (0.01, 0.99))
    pixels = ((image - low) / max(high - low, 1e-6)).clip(0, 1)
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, aspect=_aspect(shown.case))


def draw_contours(axes: Any, mask: torch.Tensor, shown: ShownCase, colour: str, *, width: float = 1.2) -> None:
    """Draw the outlines of the classes of a mask ``(1, H, W[, D])``, each with a style of line of its own.

    Ignored pixels are drawn as background.
    """
    classes = without_ignored(plane(mask, shown)[0])
    for label, style in zip(range(1, int(classes.max()) + 1), cycle(LINE_STYLES), strict=False):
        if (region := class_region(classes, label)).any():
            axes.contour(region, levels=[0.5], colors=colour, linewidths=width, linestyles=style)


def draw_filled(axes: Any, mask: torch.Tensor, shown: ShownCase, colour: str) -> None:
    """Shade the foreground of a mask ``(1, H, W[, D])``, so that the image shines through, and draw its outline."""
    region = plane(mask, shown)[0] > 0
    if region.any():
        shade = np.zeros((*region.shape, 4))
        shade[region] = to_rgba(colour, FILL_OPACITY)
        axes.imshow(shade, aspect=_aspect(shown.case))
        axes.contour(region, levels=[0.5], colors=colour, linewidths=2.0)


def draw_values(axes: Any, values: torch.Tensor, shown: ShownCase, limit: float) -> Any:
    """Draw signed numbers ``(1, H, W[, D])``, blue for -limit, white for 0, red for the limit; return what is drawn."""
    return axes.imshow(plane(values, shown)[0], cmap="bwr", vmin=-limit, vmax=limit, aspect=_aspect(shown.case))


def _aspect(case: LoadedCase) -> Any:
    return "equal" if case.spacing is None else case.spacing[1] / case.spacing[0]


def class_region(classes: Array, label: int) -> Booleans:
    """Return where a class of ``(H, W)`` is, with the classes that it surrounds: they have contours of their own."""
    region: Booleans = classes == label
    region |= ndimage.binary_fill_holes(region) & (classes > 0)
    return region


def plane(tensor: torch.Tensor, shown: ShownCase) -> Array:
    """What is shown of an image ``(C, H, W[, D])`` or mask ``(1, H, W[, D])``, with channels first.

    The axes of volumes grow to the right and upward, those of pictures downward and to the right.
    """
    if tensor.ndim == 4:
        tensor = tensor[..., shown.plane]
    pixels: Array = tensor.numpy()
    return pixels if shown.case.spacing is None else np.rot90(pixels, axes=(1, 2))
