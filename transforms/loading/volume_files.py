"""Reading NIfTI volumes with nibabel: intensities, label values and where the voxels lie in the patient."""

import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.nifti1 import Nifti1Image
from nibabel.orientations import aff2axcodes, apply_orientation, inv_ornt_aff
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from ..array_types import Array, Floats
from ..data_error import DataError, MissingFileError
from .image_files import check_intensities, file_exists, label_values
from .volume_geometry import (
    Placement,
    Transform,
    axis_order,
    corner_distance,
    image_like,
    millimetres,
    placement_of,
    smallest_type,
    voxel_spacing,
)
from .volume_suffixes import VOLUME_SUFFIXES

MAX_VOXELS = 2**30  # 4 GiB as float32

# A gzip stream holds at most this many times its own length.
_MAX_COMPRESSION = 1032
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
        placement: how the file's header says so, None of a volume that is in no file.
    """

    voxels: Array
    affine: Floats
    placement: Placement | None = None

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Size of a voxel along its three axes in millimetres."""
        return voxel_spacing(self.affine)

    @property
    def orientation(self) -> str:
        """Directions in which the axes grow, such as ``LPS``."""
        return "".join(str(code) for code in aff2axcodes(self.affine))


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
    voxels, placement = _read(file)
    with np.errstate(over="ignore"):
        voxels = voxels.astype(np.float32)
    check_intensities(voxels, file)
    return Volume(voxels, placement.affine, placement)


def read_channels(file: Path) -> tuple[Volume, ...]:
    """Read the intensities of every channel of a file as float32.

    Channels lie along the fourth axis, or as NIfTI's vectors along the fifth; a file of three axes has one.

    Raises:
        DataError: as :func:`read_volume`, or if more than one axis besides the three of space is longer than 1.
    """
    voxels, placement = _read(file, with_channels=True)
    with np.errstate(over="ignore"):
        voxels = voxels.astype(np.float32)
    check_intensities(voxels, file)
    return tuple(Volume(voxels[..., index], placement.affine, placement) for index in range(voxels.shape[-1]))


def read_first_channel(file: Path) -> Volume:
    """Read the intensities of a file's first channel as float32, and no others; see :func:`read_channels`.

    Raises:
        DataError: as above.
    """
    with _opened(file, with_channels=True) as image:
        placement = _placement(file, image)
        voxels = np.asarray(image.dataobj[(slice(None),) * 3 + (0,) * (len(image.shape) - 3)])
    with np.errstate(over="ignore"):
        voxels = voxels.astype(np.float32)
    check_intensities(voxels, file)
    return Volume(voxels, placement.affine, placement)


def count_channels(file: Path) -> int:
    """Return how many channels a file has, from its header; see :func:`read_channels`.

    Raises:
        DataError: as above, but for what is wrong with voxels.
    """
    with _opened(file, with_channels=True) as image:
        return math.prod(image.shape[3:])


def read_label_volume(file: Path, *, rounds: bool = False) -> Volume:
    """Read the values of a mask as they are in the file, int64.

    Args:
        file: the mask.
        rounds: see :func:`.image_files.label_values`.

    Raises:
        NearlyWholeError: as :func:`.image_files.label_values`.
        DataError: as for :func:`read_volume`, or if a value is no whole number.
    """
    voxels, placement = _read(file)
    return Volume(label_values(voxels, file, rounds=rounds), placement.affine, placement)


def read_placement(file: Path) -> Placement:
    """Read where a volume's voxels lie, and none of them.

    Raises:
        DataError: as for :func:`read_volume`, but for what is wrong with voxels.
    """
    with _opened(file, with_channels=True) as image:
        return _placement(file, image)


def write_label_volume(file: Path, labels: Array, affine: Floats) -> None:
    """Write label values ``(I, J, K)`` of a volume with this affine as NIfTI, in a small type that holds them."""
    nibabel.save(Nifti1Image(labels.astype(smallest_type(labels)), affine), file)


def write_labels_like(file: Path, labels: Array, like: Path) -> None:
    """Write label values ``(I, J, K)`` as NIfTI, where the voxels of another file lie for whatever reads both.

    Args:
        file: the file to write.
        labels: in the shape of the other file.
        like: a NIfTI file, whose transforms, voxel sizes and units are copied.

    Raises:
        DataError: if the other file cannot be read.
    """
    write_voxels_like(file, labels.astype(smallest_type(labels)), like)


def write_voxels_like(file: Path, voxels: Array, like: Path) -> None:
    """Write voxels ``(I, J, K)`` as NIfTI in their type, where the voxels of another file lie for whatever reads both.

    Args:
        file: the file to write.
        voxels: as above.
        like: as above.

    Raises:
        DataError: as above.
    """
    with _opened(like, with_channels=True) as image:
        nibabel.save(image_like(voxels, image), file)


def as_image_lies(file: Path, mask: Volume, image: Volume, *, remedy: str = "") -> Volume:
    """Return a mask with its axes in the order and direction of its image's, at the same place in the patient.

    No label is interpolated: axes are exchanged and reverted, or the mask is refused.

    Args:
        file: the mask's file, to name in an error.
        mask: the mask.
        image: its image.
        remedy: see :func:`check_same_geometry`.

    Raises:
        DataError: if the mask does not have the voxels of its image.
    """
    if is_turned(mask, image):
        order = axis_order(mask.affine, image.affine)
        affine = mask.affine @ inv_ornt_aff(order, mask.voxels.shape)
        turned = Volume(np.ascontiguousarray(apply_orientation(mask.voxels, order)), affine, mask.placement)
        if turned.voxels.shape == image.voxels.shape and _is_near(turned, image):
            return turned
    check_same_geometry(file, mask, image, remedy=remedy)
    return mask


def is_turned(first: Volume, second: Volume) -> bool:
    """Return whether the axes of two volumes run in different orders or directions."""
    return not np.array_equal(axis_order(first.affine, second.affine), [[0, 1], [1, 1], [2, 1]])


def in_order_of(classes: Volume, file: Path) -> Array:
    """Return the voxels of a volume with their axes in the order and direction of a file's at the same place.

    Raises:
        DataError: if the file cannot be read.
    """
    return as_axes_run(classes, read_placement(file).affine)


def as_axes_run(volume: Volume, affine: Floats) -> Array:
    """Return the voxels of a volume with their axes in the order and direction of an affine ``(4, 4)`` at its place."""
    return np.ascontiguousarray(apply_orientation(volume.voxels, axis_order(volume.affine, affine)))


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
    if not _is_near(found, image):
        raise DataError(
            f"{file}: found a mask that lies up to {largest_offset(found, image):.1f} mm off its image (voxels of "
            f"{millimetres(found.spacing)}, the image's {millimetres(image.spacing)}); expected the same affine. "
            + (remedy or "If the voxels do belong together, copy the image's affine into the mask's header.")
        )


def largest_offset(first: Volume, second: Volume) -> float:
    """Return the largest distance between where two volumes have a corner, in millimetres.

    Both have the voxels of the first.
    """
    return corner_distance(first.affine, second.affine, first.voxels.shape)


def _is_near(mask: Volume, image: Volume) -> bool:
    return largest_offset(mask, image) <= 0.5 * min(image.spacing)


def read_extents(file: Path) -> tuple[tuple[int, int, int], Placement]:
    """Read how many voxels a volume has along its file's axes and where they lie, and none of them.

    Raises:
        DataError: as for :func:`read_placement`.
    """
    with _opened(file, with_channels=True) as image:
        rows, columns, slices = (int(length) for length in image.shape[:3])
        return (rows, columns, slices), _placement(file, image)


def _read(file: Path, *, with_channels: bool = False) -> tuple[Array, Placement]:
    """Voxel values with three axes, with channels a fourth, not complex, and where they lie."""
    with _opened(file, with_channels=with_channels) as image:
        placement = _placement(file, image)
        voxels = np.asarray(image.dataobj)
    return voxels.reshape((*voxels.shape[:3], -1) if with_channels else voxels.shape[:3]), placement


def _placement(file: Path, image: Nifti1Image) -> Placement:
    placement = placement_of(file, image.header)
    if placement.taken is Transform.SFORM:
        return placement
    # nibabel makes 1 of a size of 0 when it reads a header with its check.
    with image.file_map["image"].get_prepare_fileobj("rb") as stream:
        stored = type(image.header).from_fileobj(stream, check=False)["pixdim"][1:4]
    if (stored == 0).any():
        raise DataError(
            f"{file}: found voxels of {' × '.join(f'{step:.3g}' for step in stored)} by pixdim, and no sform that "
            "counts; expected sizes above 0. Correct pixdim in the header, or export the file again."
        )
    return placement


@contextmanager
def _opened(file: Path, *, with_channels: bool = False) -> Iterator[Nifti1Image]:
    """A file with a header that can be used; what goes wrong while it is read becomes an error that names it."""
    if not file_exists(file):
        raise MissingFileError(f"{file}: found no such file; expected a NIfTI volume.")
    if not is_volume(file):
        raise DataError(f"{file}: found another name than that of a NIfTI volume; expected .nii or .nii.gz.")
    try:
        image = nibabel.load(file)
        if not isinstance(image, Nifti1Image):
            raise DataError(f"{file}: found a {type(image).__name__}; expected NIfTI (.nii or .nii.gz).")
        _check_header(file, image, with_channels=with_channels)
        yield image
    except _UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).replace(str(file), "the file").replace("\n", " ")
        raise DataError(
            f"{file}: cannot be read as a NIfTI volume ({reason}); expected an undamaged .nii or .nii.gz."
        ) from error


def _check_header(file: Path, image: Nifti1Image, *, with_channels: bool) -> None:
    """Check what the header says before any voxel is read: it may be wrong by orders of magnitude."""
    shape, kind = tuple(int(length) for length in image.shape), image.get_data_dtype()
    if len(shape) < 3 or sum(length != 1 for length in shape[3:]) > with_channels:
        raise DataError(
            f"{file}: found a volume with {len(shape)} axes, {_extents(shape)}; expected three"
            + (" and one of channels" if with_channels else "")
            + ". Save one channel or time point per file, or give the number of 'channels' in data.yaml."
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


def _extents(shape: Sequence[int]) -> str:
    return " × ".join(str(length) for length in shape)
