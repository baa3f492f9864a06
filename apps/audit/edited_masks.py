"""Masks that come back from another tool: found by the names of the given ones, and checked before they count."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ...custom.audit.findings import AuditedCase
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, plain_name, read_classes
from ...transforms.array_types import Classes, Floats
from ...transforms.errors import DataError
from ...transforms.loading.dicom_header import DICOM_SUFFIX
from ...transforms.loading.slicer_segments import SEGMENTATION_SUFFIX
from .case_files import CaseReader
from .exported_files import UnchangedFiles, name_of_copy

_IMAGE_SUFFIXES = (".png", ".tif", ".tiff", ".bmp")
_VOLUME_SUFFIXES = (".nii.gz", ".nii", SEGMENTATION_SUFFIX, DICOM_SUFFIX)
# What editors save next to masks.
_OTHERS = (".mrml", ".itksnap")


class EditedMask(Protocol):
    """A mask that came back for a case."""

    def read(self, given: Path, description: SegmentationDescription) -> tuple[Mask, Mask]:
        """Return the given mask and the edited one, which lies as the given one does.

        Raises:
            DataError: if either cannot be read, or the edited one does not fit.
        """
        ...


@dataclass(frozen=True)
class EditedFile:
    """A mask in a file of its own.

    Attributes:
        file: the file.
        series: folder of the DICOM series that the case's volume was made of; None where it is not known.
    """

    file: Path
    series: Path | None = None

    def read(self, given: Path, description: SegmentationDescription) -> tuple[Mask, Mask]:
        """As :meth:`EditedMask.read`."""
        name = self.file.name.lower()
        if name.endswith(SEGMENTATION_SUFFIX):
            return _read_slicer_segmentation(self.file, given, description)
        if name.endswith(DICOM_SUFFIX):
            return _read_dicom_segmentation(self.file, self.series, given, description)
        return read_edited(self.file, given, description)


def find_edited(folder: Path, reader: CaseReader, *, dicom: Path | None = None) -> dict[str, "FoundMask"]:
    """Return the edited masks of a folder by the given annotation that each stands for.

    A mask has the given one's path in the site's data, or its file name alone; the suffix may be another that a tool
    writes: ``.seg.nrrd``, ``.dcm`` or NIfTI of a volume, PNG or TIFF of a picture. Files of an export that nobody has
    changed are no edited masks.

    Args:
        folder: where they lie, at any depth.
        reader: of the audit.
        dicom: folder of DICOM series, each a folder with its volume's name; DICOM segmentations need it.

    Raises:
        DataError: if there is no such folder, it has no mask, a file is not that of exactly one annotation, or a link
            leads elsewhere.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected that of the edited masks.")
    names = _GivenNames(reader)
    result: dict[str, FoundMask] = {}
    exported, unchanged = UnchangedFiles(), 0
    for file in sorted(path for path in folder.rglob("*") if not path.name.startswith(".")):
        if file.is_symlink() and not (exported.has_link(file) and not names.is_path_of_one(file)):
            raise DataError(f"{file}: found a link; expected the mask itself. Copy it there in place of the link.")
        if file.is_symlink() or not file.is_file() or file.name.lower().endswith(_OTHERS):
            continue
        if exported.has(file):
            unchanged += 1
            continue
        case = names.case_of(file, file.relative_to(folder).as_posix())
        if case.label in result:
            raise DataError(f"{file}: found a second edited mask of {case.label}; expected one.")
        series = None if dicom is None else dicom / plain_name(Path(case.image))
        result[case.label] = (case, EditedFile(file, series))
    if not result:
        what = f"{unchanged} files as they were exported" if unchanged else "no file in it"
        raise DataError(f"{folder}: found {what}; expected edited masks by the names of the given ones.")
    return result


# The case that a mask stands for, and the mask.
FoundMask = tuple[AuditedCase, EditedMask]


class _GivenNames:
    """Finds the case whose given annotation a file is called after."""

    def __init__(self, reader: CaseReader) -> None:
        self._cases = reader.audit.cases
        self._by: dict[str, list[AuditedCase]] = {}
        for case in self._cases:
            names = {case.label, Path(case.label).name, name_of_copy(reader, reader.data / case.label)}
            for key in names | {f"{_without_suffix(name)}.*" for name in names}:
                self._by.setdefault(key, []).append(case)
        self._paths = {name_of_copy(reader, reader.data / case.label) for case in self._cases}

    def is_path_of_one(self, file: Path) -> bool:
        """Return whether a path ends with that of a given annotation in the site's data."""
        parts = file.parts
        return any("/".join(parts[start:]) in self._paths for start in range(1, len(parts)))

    def case_of(self, file: Path, name: str) -> AuditedCase:
        """Return the case of a file.

        Args:
            file: to name in an error.
            name: its path in the folder of edited masks.

        Raises:
            DataError: if no annotation has the name, or several have.
        """
        keys = [name, file.name]
        if file.name.lower().endswith((*_IMAGE_SUFFIXES, *_VOLUME_SUFFIXES)):
            parts = Path(_without_suffix(name)).parts
            # The folder of an export lies around the site's own.
            keys += [f"{'/'.join(parts[start:])}.*" for start in range(len(parts))]
        meant = next((self._by[key] for key in keys if key in self._by), [])
        if len(meant) != 1:
            count = "no audited annotation has" if not meant else f"{len(meant)} audited annotations have"
            raise DataError(
                f"{file}: {count} this name; expected that of a given one, such as {self._cases[0].label}, or "
                "its path in the site's data."
            )
        return meant[0]


def _without_suffix(name: str) -> str:
    suffix = next((end for end in _VOLUME_SUFFIXES if name.lower().endswith(end)), Path(name).suffix)
    return name[: len(name) - len(suffix)]


def read_edited(
    file: Path, given: Path, description: SegmentationDescription, *, edited: SegmentationDescription | None = None
) -> tuple[Mask, Mask]:
    """Read an edited mask and the given one that it stands for.

    Args:
        file: the edited mask.
        given: the given one.
        description: the site's.
        edited: the same with the label values of the edited mask; None where they are the site's.

    Returns:
        The given one and the edited one.

    Raises:
        DataError: if either cannot be read, or the edited one has another shape, label values that the site does not
            have, or lies elsewhere than the given one.
    """
    before, after = read_classes(given, description), read_classes(file, edited or description)
    if before.affine is not None and after.affine is not None:
        after = Mask(_as_given_lies(file, after, given, before), before.affine)
    if after.classes.shape != before.classes.shape:
        raise DataError(
            f"{file}: found a mask of the shape {after.classes.shape}; expected that of {given}, "
            f"{before.classes.shape}."
        )
    return before, after


def _read_slicer_segmentation(file: Path, given: Path, description: SegmentationDescription) -> tuple[Mask, Mask]:
    """The given mask, and that of a segmentation that 3D Slicer has saved, whatever its box, layers and values are."""
    # Only volumes need these.
    from ...transforms.loading.other_volumes import affine_as_itk_reads, read_segmentation  # noqa: PLC0415
    from .named_segments import (  # noqa: PLC0415
        NamedSegment,
        check_none_is_lost,
        class_of,
        placed_on,
        segments_of_site,
        united_segments,
    )

    before, place = _given_volume(file, given, description)
    known, stored = segments_of_site(description), read_segmentation(file)
    labels = [class_of(file, NamedSegment(one.name, one.identity), known) for one in stored.segments]
    check_none_is_lost(file, labels, before, known)
    if stored.is_empty:
        return before, Mask(np.zeros_like(before.classes), before.affine)
    named = np.zeros(stored.layers.shape, dtype=bool)
    parts = []
    for label, segment in zip(labels, stored.segments, strict=True):
        if not 0 <= segment.layer < stored.layers.shape[3]:
            raise DataError(f"{file}: found no layer {segment.layer} of the segment {segment.name!r}; save it again.")
        where = stored.layers[..., segment.layer] == segment.value
        named[..., segment.layer] |= where
        parts.append((label, where))
    if lost := int(np.count_nonzero((stored.layers != 0) & ~named)):
        raise DataError(
            f"{file}: found {lost} voxels that belong to none of its {len(labels)} segments; expected a segment for "
            "each. Save the segmentation again."
        )
    classes = united_segments(file, stored.layers.shape[:3], parts, known)
    # 3D Slicer has read the given mask by ITK.
    return before, Mask(placed_on(file, classes, stored.affine, before, [affine_as_itk_reads(given), place]), place)


def _read_dicom_segmentation(
    file: Path, series: Path | None, given: Path, description: SegmentationDescription
) -> tuple[Mask, Mask]:
    """The given mask, and that of a DICOM segmentation of the series that the volume was made of."""
    from .dicom_seg import read_dicom_seg  # noqa: PLC0415
    from .named_segments import check_none_is_lost, class_of, placed_on, segments_of_site, united_segments  # noqa: PLC0415

    before, place = _given_volume(file, given, description)
    if series is None:
        raise DataError(f"{file}: is a DICOM segmentation; expected with it --dicom DIR, the series that it refers to.")
    known, stored = segments_of_site(description), read_dicom_seg(file, series)
    labels = {number: class_of(file, one, known) for number, one in stored.segments.items()}
    check_none_is_lost(file, labels.values(), before, known)
    parts = [(label, stored.numbers == number) for number, label in labels.items()]
    classes = united_segments(file, stored.numbers.shape, parts, known)
    return before, Mask(placed_on(file, classes, stored.affine, before, [place]), place)


def _given_volume(file: Path, given: Path, description: SegmentationDescription) -> tuple[Mask, Floats]:
    before = read_classes(given, description)
    if before.affine is None:
        raise DataError(f"{file}: is a segmentation of a volume; expected a picture in the place of {given}.")
    return before, before.affine


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
    from ...transforms.loading.other_volumes import affine_as_itk_reads  # noqa: PLC0415

    try:
        first, second = affine_as_itk_reads(file), affine_as_itk_reads(other)
    except DataError:
        return False
    return bool(np.allclose(first, second, rtol=0, atol=1e-3))


def count_changed(before: Mask, after: Mask) -> int:
    """Return how many pixels or voxels have another class."""
    return int(np.count_nonzero(before.classes != after.classes))
