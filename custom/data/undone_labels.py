"""The annotations that count where a site has undone its channel: made in memory, from the given ones."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ...transforms.array_types import Classes
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.move_contour import MoveContour
from ...transforms.printable import printable_logger
from .relabelled_objects import OtherClasses, relabelled_objects
from .site_data import LoadedCase
from .undone import Undone
from .undone_pixels import CasePixels

_LOGGER = printable_logger(__name__)


def undone_labels(
    undone: Undone, pixels: Mapping[str, CasePixels], cases: Sequence[LoadedCase], data_folder: Path
) -> list[torch.Tensor]:
    """Return the annotations that count in training, one ``(H, W[, D])`` for each sample; given ones are not changed.

    Pixels that do not fit their annotation, as it has changed since, count as they are given; the site's log says so.

    Args:
        undone: what is undone.
        pixels: by given annotation, those that count otherwise.
        cases: of the site.
        data_folder: the folder of the site's data, to which recorded paths are relative.
    """
    labels: list[torch.Tensor] = []
    for case in cases:
        name, _ = case_files(case, data_folder)
        if name in undone.reverted:
            labels.extend(case.label)
            continue
        of_case = pixels.get(name, CasePixels())
        if not of_case.fits(case):
            _LOGGER.warning(
                "Site %s: %s has another size than when objects were judged; none is ignored or of another class.",
                undone.site,
                name,
            )
        labels.extend(undone_label(undone.moves_in_training, of_case, case))
    return labels


def with_classes_anew(
    undone: Undone, pixels: Mapping[str, CasePixels], cases: Sequence[LoadedCase], data_folder: Path
) -> list[LoadedCase]:
    """Return the cases with the classes that objects were given, and nothing else undone.

    Args:
        undone: what is undone.
        pixels: by given annotation, those that count otherwise.
        cases: of the site.
        data_folder: the folder of the site's data, to which recorded paths are relative.
    """
    classes_alone = undone.model_copy(update={"offsets": {}, "overshoot": {}})
    relabelled = {name: CasePixels(relabelled=of_case.relabelled) for name, of_case in pixels.items()}
    labels = iter(undone_labels(classes_alone, relabelled, cases, data_folder))
    return [replace(case, label=torch.stack([next(labels) for _ in case.label])) for case in cases]


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


def undone_label(moves: Mapping[int, float], pixels: CasePixels, case: LoadedCase) -> torch.Tensor:
    """Return a case's annotation ``(S, H, W[, D])``: classes given anew, contours moved, missing objects ignored.

    Args:
        moves: by label, by how far contours move, positive outward, in millimetres (pixels without spacing).
        pixels: those that count otherwise; not used where they do not fit.
        case: the case with its given annotation, which is not changed.
    """
    move, usable = MoveContour(moves), pixels if pixels.fits(case) else CasePixels()
    classes = case.label.numpy()
    if usable.relabelled is not None:
        classes, _ = relabelled_samples(classes, usable.relabelled)
    moved = np.stack([np.asarray(move(given, case.spacing)) for given in classes])
    if usable.ignored is not None:
        moved[usable.ignored & (moved == 0)] = IGNORED_LABEL
    return torch.from_numpy(moved)


def relabelled_samples(classes: Classes, other: OtherClasses) -> tuple[Classes, int]:
    """Return a case's annotation with the objects of another class, and how many they are in its samples.

    Args:
        classes: the annotation as it is now ``(S, H, W[, D])``.
        other: what was decided, of its shape; see :func:`relabelled_objects`.
    """
    decided = map(OtherClasses, *other)
    found = [relabelled_objects(*sample) for sample in zip(classes, decided, strict=True)]
    return np.stack([sample for sample, _ in found]), sum(count for _, count in found)


def case_files(case: LoadedCase, data_folder: Path) -> tuple[str, str]:
    """Return the annotation and the image of a case, relative to the site's data."""
    if case.files is None or not isinstance(case.files.label, Path):
        return case.name, case.name
    return os.path.relpath(case.files.label, data_folder), case.image_name(data_folder)
