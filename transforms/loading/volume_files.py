"""Reading NIfTI volumes with nibabel: intensities, label values and where the voxels lie in the patient."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.nifti1 import Nifti1Image
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from ..array_types import Array, Floats
from ..errors import DataError, MissingFileError
from .image_files import check_intensities, file_exists

VOLUME_SUFFIXES = (".nii", ".nii.gz")
MAX_VOXELS = 2**30  # 4 GiB as float32

# A gzip stream holds at most this many times its own length.
_MAX_COMPRESSION = 1032
# Volume that three axes of length one must span.
_SINGULAR = 1e-6
# What nibabel raises on damaged files.
_UNREADABLE = (
    ImageFileError,
    HeaderDataError,
    WrapStructError,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    TypeError,
    zlib.error,
)


@dataclass(frozen=True)
class Volume:
    """A volume as it lies in its file.

    Attributes:
        voxels: values ``(I, J, K)``, after the file's own scaling.
        affine: ``(4, 4)``, voxel indices → millimetres in the patient, axes to the right, front and top.
    """

    voxels: Array
    affine: Floats

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Size of a voxel along its three axes in millimetres."""
        return voxel_spacing(self.affine)


def is_volume(file: Path) -> bool:
    """Return whether the name is that of a NIfTI file."""
    return file.name.lower().endswith(VOLUME_SUFFIXES)


def read_volume(file: Path) -> Volume:
    """Read a volume's intensities as float32.

    Raises:
        DataError: if the file is missing, is no readable NIfTI volume of three axes with real numbers, claims more
            voxels than it can hold, has an affine that cannot be inverted, or intensities that are not finite or
            beyond what can be z-scored.

    Example:
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((4, 4, 2)), np.diag([1.5, 1.5, 4.0, 1.0])), "volume.nii.gz")
        >>> read_volume(Path("volume.nii.gz")).spacing
        (1.5, 1.5, 4.0)
    """
    voxels, affine = _read(file)
    with np.errstate(over="ignore"):
        voxels = voxels.astype(np.float32)
    check_intensities(voxels, file)
    return Volume(voxels, affine)


def read_label_volume(file: Path) -> Volume:
    """Read the values of a mask as they are in the file, int64.

    Raises:
        DataError: as for :func:`read_volume`, or if a value is no whole number.
    """
    voxels, affine = _read(file)
    if voxels.dtype.kind == "f" and not (np.isfinite(voxels).all() and (voxels == np.rint(voxels)).all()):
        raise DataError(f"{file}: found a mask with fractions; expected whole numbers, the labels.")
    return Volume(voxels.astype(np.int64), affine)


def write_label_volume(file: Path, labels: Array, affine: Floats) -> None:
    """Write label values ``(I, J, K)`` of a volume with this affine as NIfTI, in a small type that holds them."""
    kind = np.result_type(np.min_scalar_type(labels.min(initial=0)), np.min_scalar_type(labels.max(initial=0)))
    nibabel.save(Nifti1Image(labels.astype(kind), affine), file)


def check_same_geometry(file: Path, found: Volume, image: Volume, *, remedy: str = "") -> None:
    """Check that a mask has the voxels of its image.

    Args:
        file: the mask's file, to name in an error.
        found: the mask.
        image: its image.
        remedy: what to do if it has as many voxels elsewhere; empty for a copy of the affine.

    Raises:
        DataError: if the numbers of voxels differ, or a corner of the mask lies more than half a voxel off.
    """
    if found.voxels.shape != image.voxels.shape:
        raise DataError(
            f"{file}: found a mask of {_extents(found.voxels.shape)} voxels, expected the size of its image, "
            f"{_extents(image.voxels.shape)}. Resample the mask to its image, or export it again."
        )
    offset = largest_offset(found, image)
    if offset > 0.5 * min(image.spacing):
        raise DataError(
            f"{file}: found a mask that lies up to {offset:.1f} mm off its image (voxels of "
            f"{_millimetres(found.spacing)}, the image's {_millimetres(image.spacing)}); expected the same affine. "
            + (remedy or "If the voxels do belong together, copy the image's affine into the mask's header.")
        )


def largest_offset(first: Volume, second: Volume) -> float:
    """Return the largest distance between where two volumes have a corner, in millimetres.

    Both have the voxels of the first.
    """
    corners = np.array(np.meshgrid(*[(0, length - 1) for length in first.voxels.shape[:3]])).reshape(3, -1)
    homogeneous = np.vstack([corners, np.ones(corners.shape[1])])
    difference: Floats = ((first.affine - second.affine) @ homogeneous)[:3]
    return float(np.sqrt((difference**2).sum(axis=0)).max())


def voxel_spacing(affine: Floats) -> tuple[float, float, float]:
    """Return the size of a voxel along the axes of an affine ``(4, 4)``, in millimetres."""
    first, second, third = (float(length) for length in np.sqrt((affine[:3, :3] ** 2).sum(axis=0)))
    return first, second, third


def _read(file: Path) -> tuple[Array, Floats]:
    """Voxel values with three axes, not complex, and the affine."""
    if not file_exists(file):
        raise MissingFileError(f"{file}: found no such file; expected a NIfTI volume.")
    if not is_volume(file):
        raise DataError(f"{file}: found another name than that of a NIfTI volume; expected .nii or .nii.gz.")
    try:
        image = nibabel.load(file)
        if not isinstance(image, Nifti1Image):
            raise DataError(f"{file}: found a {type(image).__name__}; expected NIfTI (.nii or .nii.gz).")
        _check_header(file, image)
        voxels = np.asarray(image.dataobj)
    except _UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).replace(str(file), "the file").replace("\n", " ")
        raise DataError(
            f"{file}: cannot be read as a NIfTI volume ({reason}); expected an undamaged .nii or .nii.gz."
        ) from error
    return voxels.reshape(voxels.shape[:3]), np.asarray(image.affine, dtype=np.float64)


def _check_header(file: Path, image: Nifti1Image) -> None:
    """Check what the header says before any voxel is read: it may be wrong by orders of magnitude."""
    shape, kind = tuple(int(length) for length in image.shape), image.get_data_dtype()
    if len(shape) < 3 or any(length != 1 for length in shape[3:]):
        raise DataError(
            f"{file}: found a volume with {len(shape)} axes, {_extents(shape)}; expected three. Save one channel or "
            "time point per file."
        )
    if kind.kind not in "iuf":
        raise DataError(f"{file}: found voxels of type {kind}; expected real numbers.")
    if min(shape) < 1 or math.prod(shape) > MAX_VOXELS:
        raise DataError(f"{file}: found {_extents(shape)} voxels; expected at least one and at most {MAX_VOXELS}.")
    claimed, held = math.prod(shape) * kind.itemsize, file.stat().st_size
    if claimed > held * (_MAX_COMPRESSION if file.name.lower().endswith(".gz") else 1):
        raise DataError(
            f"{file}: its header claims {_extents(shape)} voxels, {claimed} bytes, which a file of {held} bytes cannot "
            "hold; expected a complete file. Copy or export it again."
        )
    affine = np.asarray(image.affine, dtype=np.float64)
    if not np.isfinite(affine).all() or _is_singular(affine):
        raise DataError(f"{file}: found an affine that cannot be inverted; expected one that says where voxels lie.")


def _is_singular(affine: Floats) -> bool:
    """Return whether the axes of an affine have no length or lie, but for rounding, in a plane."""
    steps = voxel_spacing(affine)
    return min(steps) == 0 or abs(float(np.linalg.det(affine[:3, :3] / steps))) < _SINGULAR


def _extents(shape: Sequence[int]) -> str:
    return " × ".join(str(length) for length in shape)


def _millimetres(spacing: Sequence[float]) -> str:
    return " × ".join(f"{step:.3g}" for step in spacing) + " mm"
