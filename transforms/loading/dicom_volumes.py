"""DICOM as a volume: a series of slices with SimpleITK, a file of many frames or segments with highdicom."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Floats
from ..data_error import DataError
from .dicom_header import DicomHeader, dicom_files
from .volume_files import MAX_VOXELS

# Difference of two numbers of a header that is no rounding.
_SAME_NUMBER = 1e-3
# Fraction of the step between slices by which one of them may differ.
_LARGEST_UNEVENNESS = 0.1


def read_series(folder: Path) -> tuple[Array, Floats, bool]:
    """Read the only DICOM series of a folder: its slices, or the frames of its file.

    Every slice and frame counts with its own place, slope and intercept. Both readers turn slices in which 0 is white
    (MONOCHROME1) into brightness.

    Returns:
        Voxels ``(I, J, K)``; columns and origin ``(3, 4)``, axes to the left, back and top; and whether it is a
        segmentation, which may cover a part of its image.

    Raises:
        DataError: if the folder holds several series, or one with gaps; or a file cannot be used.
        RuntimeError: if SimpleITK cannot read a file.
    """
    import SimpleITK  # noqa: PLC0415

    series = SimpleITK.ImageSeriesReader.GetGDCMSeriesIDs(str(folder))
    if len(series) != 1:
        raise DataError(f"{folder}: found {len(series)} DICOM series; expected one in each folder.")
    files = SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(str(folder), series[0])
    headers = [DicomHeader(file) for file in files]
    for header in headers:
        if header.has_frames:
            if len(files) > 1:
                raise DataError(
                    f"{header.file}: found {header.frames} frames in one of {len(files)} files of a series; expected "
                    "such a file in a folder of its own."
                )
            return read_frames(header.file)
    return *_read_slices(folder, headers), False


def read_frames(file: Path) -> tuple[Array, Floats, bool]:
    """Read a DICOM file of several frames, as :func:`read_series` does; of a segmentation the numbers of its segments.

    Raises:
        DataError: if highdicom is not installed; the frames make no volume; or segments overlap.
    """
    header = DicomHeader(file)
    if header.voxels > MAX_VOXELS:
        raise DataError(f"{file}: found {header.voxels} voxels; expected at most {MAX_VOXELS}.")
    try:
        # An extra: few sites need it.
        import highdicom  # noqa: PLC0415
    except ImportError as error:
        raise DataError(
            f"{file}: found DICOM with {header.frames} frames, which needs highdicom: pip install 'highdicom>=0.24'"
        ) from error
    try:
        if header.is_segmentation:
            volume = highdicom.seg.segread(file).get_volume(combine_segments=True)
        else:
            volume = highdicom.imread(file).get_volume(apply_real_world_transform=False)
    except Exception as error:
        # It raises anything on files that others wrote; one of them is not to end an import.
        reason = " ".join(str(error).split()) or type(error).__name__
        what = "segmentation" if header.is_segmentation else "volume"
        raise DataError(f"{file}: its {header.frames} frames cannot be read as a {what} ({reason}).") from error
    # Frames, rows, columns, as columns, rows, frames.
    columns, frames = np.asarray(volume.affine, dtype=np.float64)[:3, [2, 1, 0, 3]], np.asarray(volume.array)
    if frames.ndim != 3:
        raise DataError(f"{file}: found {header.frames} frames in colours; expected one value per voxel.")
    return _in_small_type(frames.transpose(2, 1, 0)), columns, header.is_segmentation


def dicom_segment_names(source: Path) -> dict[int, str]:
    """Return what a DICOM segmentation calls its segments, by their numbers; empty of other DICOM.

    Args:
        source: the file, or a folder whose only DICOM file it is.
    """
    files = [source] if source.is_file() else sorted(dicom_files(source.iterdir()))
    if len(files) != 1:
        return {}
    try:
        # An extra, without which no segmentation is read.
        import pydicom  # noqa: PLC0415

        header = pydicom.dcmread(files[0], stop_before_pixels=True, specific_tags=["SegmentSequence"])
        segments = header.get("SegmentSequence") or ()
        return {int(item.SegmentNumber): str(item.get("SegmentLabel", "")).strip() for item in segments}
    except Exception:
        # It raises anything on files that others wrote; who reads the voxels says what is wrong.
        return {}


def check_extents(source: Path, reader: Any, voxels: int, *, values: int = 1) -> None:
    """Check what a header says before any voxel is read: it may be wrong by orders of magnitude.

    Args:
        source: to name in an error.
        reader: SimpleITK's, which has read the header.
        voxels: how many there are in all.
        values: how many each voxel may have.

    Raises:
        DataError: if there are not three axes with as many values, or too many voxels.
    """
    axes, found = reader.GetDimension(), reader.GetNumberOfComponents()
    if (axes, found) != (3, values):
        raise DataError(
            f"{source}: found {axes} axes with {found} values per voxel; expected three axes and one value."
        )
    if voxels > MAX_VOXELS:
        raise DataError(f"{source}: found {voxels} voxels; expected at most {MAX_VOXELS}.")


def _read_slices(folder: Path, headers: Sequence[DicomHeader]) -> tuple[Array, Floats]:
    """Voxels, and columns and origin, of slices in their order."""
    import SimpleITK  # noqa: PLC0415

    check_extents(folder, headers[0].reader, headers[0].voxels * len(headers))
    _check_places(headers)
    reader = SimpleITK.ImageSeriesReader()
    reader.SetFileNames([str(header.file) for header in headers])
    if len({header.reader.GetPixelID() for header in headers}) > 1:
        # It would cut off the values of all slices at the type of the first.
        reader.SetOutputPixelType(SimpleITK.sitkFloat64)
    image = reader.Execute()
    voxels = SimpleITK.GetArrayFromImage(image).transpose(2, 1, 0)
    columns = np.column_stack([np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing(), image.GetOrigin()])
    if len(headers) == 1:
        # SimpleITK takes 1 mm, or how far slices are apart, of which there are none.
        columns[:, 2] *= (headers[0].slice_thickness or image.GetSpacing()[2]) / image.GetSpacing()[2]
    else:
        columns[:, 2] = _slice_step(folder, np.array([header.position for header in headers], dtype=np.float64))
    return voxels if voxels.dtype.kind != "f" else _in_small_type(voxels), columns


def _check_places(headers: Sequence[DicomHeader]) -> None:
    """Check that all slices say where they lie, and run alike: SimpleITK would take 1 mm, or what the first says."""
    first = headers[0]
    for header in headers:
        for name, own, of_first in (
            ("ImagePositionPatient", header.position, None),
            ("ImageOrientationPatient", header.orientation, first.orientation),
            ("PixelSpacing", header.pixel_spacing, first.pixel_spacing),
        ):
            if own is None:
                raise DataError(
                    f"{header.file}: found no usable {name}; expected it in every slice of a series, which says where "
                    "it lies. Export the series again, or leave it out."
                )
            if of_first is not None and np.abs(np.subtract(own, of_first)).max() > _SAME_NUMBER:
                raise DataError(
                    f"{header.file}: found {name} {own}, in {first.file.name} {of_first}; expected the same in all "
                    "slices of a series. Put slices that run otherwise into a folder of their own."
                )


def _in_small_type(voxels: Array) -> Array:
    """The voxels as whole numbers where they are and a type of 32 bits has them, else as they are."""
    if voxels.dtype.kind != "f" or not (np.isfinite(voxels).all() and (voxels == np.rint(voxels)).all()):
        return voxels
    small = np.result_type(np.min_scalar_type(int(voxels.min())), np.min_scalar_type(int(voxels.max())))
    return voxels if small.kind == "f" or small.itemsize > 4 else voxels.astype(small)


def _slice_step(folder: Path, positions: Floats) -> Floats:
    """The way ``(3,)`` from slice to slice, of the positions ``(K, 3)`` of all slices.

    SimpleITK would spread slices evenly over a gap and straighten a tilted stack, so that voxels lie elsewhere.
    """
    steps = np.diff(positions, axis=0)
    step: Floats = steps.mean(axis=0)
    middle = np.median(steps, axis=0)
    length = float(np.linalg.norm(middle))
    worst = int(np.linalg.norm(steps - middle, axis=1).argmax())
    if np.linalg.norm(steps[worst] - middle) > _LARGEST_UNEVENNESS * length:
        raise DataError(
            f"{folder}: found {np.linalg.norm(steps[worst]):.3g} mm between the slices {worst + 1} and {worst + 2}, "
            f"elsewhere {length:.3g} mm; expected even steps. Add the missing slices, or leave the series out."
        )
    return step
