"""Masks that come back from another tool: found by the names of the given ones, and checked before they count."""

from pathlib import Path

import numpy as np

from ...custom.audit.findings import AuditedCase
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, read_classes
from ...transforms.array_types import Classes
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
        edited = Mask(_as_given_lies(file, edited, given, before), before.affine)
    if edited.classes.shape != before.classes.shape:
        raise DataError(
            f"{file}: found a mask of the shape {edited.classes.shape}; expected that of {given}, "
            f"{before.classes.shape}."
        )
    return before, edited


def _as_given_lies(file: Path, edited: Mask, given: Path, before: Mask) -> Classes:
    """The classes of an edited volume in the order of the given one, at the same place.

    Of a header that contradicts itself other programs may take another part than this project. What they write is at
    the place of the given mask as they see it.
    """
    # Only volumes need nibabel.
    from ...transforms.loading.volume_files import Volume, as_image_lies  # noqa: PLC0415

    assert edited.affine is not None
    assert before.affine is not None
    try:
        placed = as_image_lies(file, Volume(edited.classes, edited.affine), Volume(before.classes, before.affine))
    except DataError:
        if edited.classes.shape != before.classes.shape or not _same_for_simpleitk(file, given):
            raise
        return edited.classes
    return np.asarray(placed.voxels)


def _same_for_simpleitk(file: Path, other: Path) -> bool:
    """Return whether two volumes lie at the same place for SimpleITK, and so for 3D Slicer and ITK-SNAP."""
    import SimpleITK  # noqa: PLC0415

    places: list[list[float]] = []
    for path in (file, other):
        reader = SimpleITK.ImageFileReader()
        reader.SetFileName(str(path))
        try:
            reader.ReadImageInformation()
        except RuntimeError:
            return False
        places.append([*reader.GetSpacing(), *reader.GetOrigin(), *reader.GetDirection()])
    first, second = places
    return bool(np.allclose(first, second, rtol=0, atol=1e-3))


def count_changed(before: Mask, after: Mask) -> int:
    """Return how many pixels or voxels have another class."""
    return int(np.count_nonzero(before.classes != after.classes))
