"""What pictures of cases are made of: which cases and slices are shown, images, outlines, signed maps."""

from dataclasses import replace
from itertools import cycle
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage

from ..custom.data.site_data import LoadedCase, SiteData

# One for each class in turn.
LINE_STYLES: tuple[Literal["solid", "dashed", "dotted", "dashdot"], ...] = ("solid", "dashed", "dotted", "dashdot")


def annotated_cases(data: SiteData, count: int) -> list[int]:
    """Return the first cases that have an annotated object, else the first cases, of different patients if possible."""
    annotated = [number for number, case in enumerate(data.cases) if bool(case.label.any())]
    candidates = annotated or list(range(len(data.cases)))
    units = [data.cases[number].unit for number in candidates]
    return sorted(candidates, key=lambda number: units.index(data.cases[number].unit) != candidates.index(number))[
        :count
    ]


def largest_slice(case: LoadedCase) -> LoadedCase:
    """Of the slices of a volume, the one with the largest annotation; whatever else is returned as it is."""
    largest = int((case.label > 0).flatten(1).sum(1).argmax())
    kept = slice(largest, largest + 1)
    clean = None if case.clean_label is None else case.clean_label[kept]
    return replace(case, image=case.image[kept], label=case.label[kept], clean_label=clean)


def draw_image(axes: Any, case: LoadedCase) -> None:
    """Draw a sample's image, from its darkest to its brightest hundredth."""
    image = plane(case.image[0], case)
    low, high = (float(np.quantile(image, share)) for share in (0.01, 0.99))
    pixels = np.moveaxis(((image - low) / max(high - low, 1e-6)).clip(0, 1), 0, -1)
    axes.imshow(pixels if pixels.shape[-1] == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=1, aspect=_aspect(case))


def draw_contours(axes: Any, mask: torch.Tensor, case: LoadedCase, colour: str) -> None:
    """Draw the outlines of the classes of a mask ``(1, H, W[, D])``, each with a style of line of its own."""
    classes = plane(mask, case)[0]
    for label, style in zip(range(1, int(classes.max()) + 1), cycle(LINE_STYLES), strict=False):
        if (region := _region(classes, label)).any():
            axes.contour(region, levels=[0.5], colors=colour, linewidths=1.2, linestyles=style)


def draw_values(axes: Any, values: torch.Tensor, case: LoadedCase, limit: float) -> Any:
    """Draw signed numbers ``(1, H, W[, D])``, blue for -limit, white for 0, red for the limit; return what is drawn."""
    return axes.imshow(plane(values, case)[0], cmap="bwr", vmin=-limit, vmax=limit, aspect=_aspect(case))


def _aspect(case: LoadedCase) -> Any:
    return "equal" if case.spacing is None else case.spacing[1] / case.spacing[0]


def _region(classes: NDArray[Any], label: int) -> NDArray[np.bool_]:
    """Where a class is, with the other classes that it surrounds: they have contours of their own."""
    region: NDArray[np.bool_] = classes == label
    region |= ndimage.binary_fill_holes(region) & (classes > 0)
    return region


def plane(tensor: torch.Tensor, case: LoadedCase) -> NDArray[Any]:
    """What is shown of an image ``(C, H, W[, D])`` or mask ``(1, H, W[, D])``, with channels first.

    Of a whole volume it is the plane with the largest annotation. The axes of volumes grow to the right and upward,
    those of pictures downward and to the right.
    """
    if tensor.ndim == 4:
        tensor = tensor[..., int((case.label[0] > 0).sum((0, 1)).argmax())]
    pixels: NDArray[Any] = tensor.numpy()
    return pixels if case.spacing is None else np.rot90(pixels, axes=(1, 2))
