"""The annotations that count where a site has undone its channel: made in memory, from the given ones."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.move_contour import MoveContour
from ...transforms.printable import printable_logger
from .site_data import LoadedCase
from .undone import Undone

_LOGGER = printable_logger(__name__)


def undone_labels(
    undone: Undone, ignored: Mapping[str, NDArray[np.bool_]], cases: Sequence[LoadedCase], data_folder: Path
) -> list[torch.Tensor]:
    """Return the annotations that count, one ``(H, W[, D])`` for each sample; given ones are not changed.

    Ignored pixels that do not fit their annotation, as it has changed since, are not ignored; the site's log says so.

    Args:
        undone: what is undone.
        ignored: by given annotation, the pixels that are ignored ``(S, H, W[, D])``.
        cases: of the site.
        data_folder: the folder of the site's data, to which recorded paths are relative.
    """
    labels: list[torch.Tensor] = []
    for case in cases:
        name, _ = case_files(case, data_folder)
        if name in undone.reverted:
            labels.extend(case.label)
            continue
        pixels = ignored.get(name)
        if not fits(pixels, case):
            _LOGGER.warning(
                "Site %s: %s has another size than when its missing objects were looked for; nothing is ignored in it.",
                undone.site,
                name,
            )
        labels.extend(undone_label(undone.moves, pixels, case))
    return labels


def completeness_of_samples(
    undone: Undone, cases: Sequence[LoadedCase], data_folder: Path, num_classes: int
) -> torch.Tensor:
    """Return the share of the objects that is annotated in each sample, class by class, ``(N, C)``.

    It is the site's; an annotation that somebody lets count as it was given is complete.

    Args:
        undone: what is undone.
        cases: of the site.
        data_folder: the folder of the site's data, to which recorded paths are relative.
        num_classes: foreground classes.
    """
    of_site = torch.tensor([1 - undone.missing.get(str(label), 0.0) for label in range(1, num_classes + 1)])
    shares = []
    for case in cases:
        is_reverted = case_files(case, data_folder)[0] in undone.reverted
        shares += len(case.label) * [torch.ones_like(of_site) if is_reverted else of_site]
    return torch.stack(shares)


def undone_label(moves: Mapping[int, float], pixels: NDArray[np.bool_] | None, case: LoadedCase) -> torch.Tensor:
    """Return a case's annotation ``(S, H, W[, D])`` with its contours moved and missing objects ignored.

    Args:
        moves: by label, by how far contours move, positive outward, in millimetres (pixels without spacing).
        pixels: those that are ignored, of the same shape; not used where it differs. None if none are.
        case: the case with its given annotation, which is not changed.
    """
    move = MoveContour(moves)
    moved = np.stack([np.asarray(move(given.numpy(), case.spacing)) for given in case.label])
    if pixels is not None and fits(pixels, case):
        moved[pixels & (moved == 0)] = IGNORED_LABEL
    return torch.from_numpy(moved)


def fits(pixels: NDArray[np.bool_] | None, case: LoadedCase) -> bool:
    """Return whether ignored pixels are those of a case's annotation as it is now, or there are none."""
    return pixels is None or pixels.shape == tuple(case.label.shape)


def case_files(case: LoadedCase, data_folder: Path) -> tuple[str, str]:
    """Return the annotation and the image of a case, relative to the site's data."""
    if case.files is None or not isinstance(case.files.label, Path):
        return case.name, case.name
    return os.path.relpath(case.files.label, data_folder), case.image_name(data_folder)
