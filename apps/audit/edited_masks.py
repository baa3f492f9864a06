"""Masks that come back from another tool: found by the names of the given ones, and checked before they count."""

from pathlib import Path

import numpy as np

from ...custom.audit.findings import AuditedCase
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, read_classes
from ...transforms.errors import DataError
from .case_files import CaseReader


def find_edited(folder: Path, reader: CaseReader) -> dict[str, tuple[AuditedCase, Path]]:
    """Return the edited masks of a folder by the given annotation that each stands for.

    A mask has the given one's path in the site's data, or its file name alone.

    Raises:
        DataError: if there is no such folder, it has no mask, or a file is not that of exactly one annotation.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected that of the edited masks.")
    by_path = {case.label: case for case in reader.audit.cases}
    by_name: dict[str, list[AuditedCase]] = {}
    for case in reader.audit.cases:
        by_name.setdefault(Path(case.label).name, []).append(case)
    result: dict[str, tuple[AuditedCase, Path]] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        name = file.relative_to(folder).as_posix()
        meant = [by_path[name]] if name in by_path else by_name.get(file.name, [])
        if len(meant) != 1:
            count = "no audited annotation has" if not meant else f"{len(meant)} audited annotations have"
            raise DataError(
                f"{file}: {count} this name; expected that of a given one, such as {reader.audit.cases[0].label}, or "
                "its path in the site's data."
            )
        if meant[0].label in result:
            raise DataError(f"{file}: found a second edited mask of {meant[0].label}; expected one.")
        result[meant[0].label] = (meant[0], file)
    if not result:
        raise DataError(f"{folder}: found no file in it; expected edited masks by the names of the given ones.")
    return result


def read_edited(file: Path, given: Path, description: SegmentationDescription) -> tuple[Mask, Mask]:
    """Read an edited mask and the given one that it stands for.

    Returns:
        The given one and the edited one.

    Raises:
        DataError: if either cannot be read, or the edited one has another shape, label values that the site does not
            have, or lies elsewhere than the given one.
    """
    before, edited = read_classes(given, description), read_classes(file, description)
    if before.affine is not None and edited.affine is not None:
        # Only volumes need nibabel.
        from ...transforms.loading.volume_files import Volume, as_image_lies  # noqa: PLC0415

        given_volume = Volume(before.classes, before.affine)
        edited = Mask(as_image_lies(file, Volume(edited.classes, edited.affine), given_volume).voxels, before.affine)
    if edited.classes.shape != before.classes.shape:
        raise DataError(
            f"{file}: found a mask of the shape {edited.classes.shape}; expected that of {given}, "
            f"{before.classes.shape}."
        )
    return before, edited


def count_changed(before: Mask, after: Mask) -> int:
    """Return how many pixels or voxels have another class."""
    return int(np.count_nonzero(before.classes != after.classes))
