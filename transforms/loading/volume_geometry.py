"""Where the voxels of a NIfTI file lie: the one rule which of its header's transforms counts, in millimetres.

The sform counts if its voxel sizes are those of ``pixdim``. Otherwise the header contradicts itself:

- An sform of a template (codes 3 to 5) stretches the patient; the qform counts.
- Voxels of 1 × 1 × 1, and an identity matrix, are what programs write that know no better; the other side counts.
- Else nothing says which side is right, and the file is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from nibabel.nifti1 import Nifti1Header, Nifti1Image
from nibabel.orientations import io_orientation
from nibabel.spatialimages import HeaderDataError

from ..array_types import Array, Floats
from ..data_error import DataError

# Volume that three axes of length one must span.
_SINGULAR = 1e-6
# Voxel sizes that differ less than this, as a fraction, are rounded.
_SAME_SIZE = 0.01
# No voxel of a patient is longer, in millimetres; one without a unit is not shorter than the second.
LARGEST_VOXEL, _SMALLEST_WITHOUT_UNIT = 100.0, 0.01
_FIRST_TEMPLATE_CODE = 3
_AXIS_OF_LETTER = {letter: axis for axis, pair in enumerate(("RL", "AP", "SI")) for letter in pair}
_UNIT_BITS = 7
_GEOMETRY_FIELDS = (
    *("qform_code", "sform_code", "quatern_b", "quatern_c", "quatern_d", "qoffset_x", "qoffset_y", "qoffset_z"),
    *("srow_x", "srow_y", "srow_z", "xyzt_units"),
)


class Transform(StrEnum):
    """The part of a header that says where voxels lie."""

    SFORM = "sform"
    QFORM = "qform"
    SFORM_AXES = "pixdim along the axes of the sform"
    PIXDIM = "pixdim alone"


class Contradiction(StrEnum):
    """In what a header contradicts itself, or what it lacks."""

    DEFAULT_SFORM = "the sform is a default"
    DEFAULT_PIXDIM = "pixdim is a default"
    TEMPLATE_SFORM = "the sform leads to a template"
    UNUSABLE_SFORM = "the sform cannot be inverted"
    DIFFERENT_PLACES = "sform and qform lead to different places"
    NO_ORIENTATION = "neither sform nor qform is set"


class LengthUnit(StrEnum):
    """The unit of a header's lengths; without one they are millimetres."""

    UNKNOWN = "no unit"
    METRES = "metres"
    MILLIMETRES = "millimetres"
    MICRONS = "microns"

    @property
    def in_millimetres(self) -> float:
        """The unit in millimetres."""
        return {LengthUnit.METRES: 1e3, LengthUnit.MICRONS: 1e-3}.get(self, 1.0)


_UNITS = {1: LengthUnit.METRES, 2: LengthUnit.MILLIMETRES, 3: LengthUnit.MICRONS}


@dataclass(frozen=True)
class Placement:
    """Where the voxels of a file lie, and how its header says so.

    Attributes:
        affine: ``(4, 4)``, voxel indices → millimetres in the patient, axes to the right, front and top.
        taken: what of the header counts.
        unit: of the header's lengths.
        contradiction: None where the header agrees with itself.
        sform_spacing: size of a voxel by the sform in the header's unit, None where it is not set.
        pixdim_spacing: as above by ``pixdim``.
    """

    affine: Floats
    taken: Transform
    unit: LengthUnit
    contradiction: Contradiction | None
    sform_spacing: tuple[float, float, float] | None
    pixdim_spacing: tuple[float, ...]

    @property
    def says_orientation(self) -> bool:
        """Whether the header says how the axes run; an identity matrix is what programs write that do not know."""
        return self.contradiction is not Contradiction.NO_ORIENTATION and not np.array_equal(self.affine, np.eye(4))

    @property
    def remark(self) -> str | None:
        """What was found and what is taken, for a log or a note; None where there is nothing to say."""
        parts = []
        if self.contradiction is not None:
            sizes = f"{_numbers(self.pixdim_spacing)} by pixdim"
            if self.sform_spacing is not None:
                sizes = f"{_numbers(self.sform_spacing)} by the sform and {sizes}"
            parts.append(f"found voxels of {sizes}: {self.contradiction}; taken: {self.taken}")
        if self.unit.in_millimetres != 1:
            spacing = millimetres(voxel_spacing(self.affine))
            parts.append(f"found lengths in {self.unit}; converted to voxels of {spacing}")
        return "; ".join(parts) + "." if parts else None


def placement_of(file: Path, header: Nifti1Header) -> Placement:
    """Return where the voxels of a NIfTI file lie.

    Args:
        file: to name in an error.
        header: of the file.

    Raises:
        DataError: if the header contradicts itself and nothing says which side is right, it has no transform that can
            be inverted, or its voxels have no plausible size.
    """
    unit = _UNITS.get(int(header["xyzt_units"]) & _UNIT_BITS, LengthUnit.UNKNOWN)
    sform = np.asarray(header.get_sform(), dtype=np.float64) if int(header["sform_code"]) > 0 else None
    pixdim = np.abs(np.asarray(header["pixdim"][1:4], dtype=np.float64))
    affine, taken, contradiction = _chosen(file, header, sform, _qform(header), pixdim)
    if not is_usable(affine):
        raise DataError(f"{file}: found an affine that cannot be inverted; expected one that says where voxels lie.")
    _check_size(file, voxel_spacing(affine), unit)
    scale = np.diag([*[unit.in_millimetres] * 3, 1.0])
    by_sform = None if sform is None else voxel_spacing(sform)
    return Placement(scale @ affine, taken, unit, contradiction, by_sform, tuple(float(step) for step in pixdim))


def _chosen(
    file: Path, header: Nifti1Header, sform: Floats | None, qform: Floats | None, pixdim: Floats
) -> tuple[Floats, Transform, Contradiction | None]:
    """The transform that counts, in the header's own unit."""
    if sform is None:
        if qform is not None or int(header["qform_code"]) > 0:
            return _known(file, qform), Transform.QFORM, None
        return np.asarray(header.get_base_affine()), Transform.PIXDIM, Contradiction.NO_ORIENTATION
    if not is_usable(sform):
        return (
            (sform, Transform.SFORM, None) if qform is None else (qform, Transform.QFORM, Contradiction.UNUSABLE_SFORM)
        )
    sizes = np.array(voxel_spacing(sform))
    agrees = bool((np.abs(sizes - pixdim) <= _SAME_SIZE * sizes).all()) or not _is_positive(pixdim)
    if agrees:
        if qform is None or corner_distance(sform, qform, header.get_data_shape()[:3]) <= 0.5 * sizes.min():
            return sform, Transform.SFORM, None
        if np.array_equal(sform, np.eye(4)):
            return qform, Transform.QFORM, Contradiction.DEFAULT_SFORM
        return sform, Transform.SFORM, Contradiction.DIFFERENT_PLACES
    if _is_default(sizes):
        if qform is not None:
            return qform, Transform.QFORM, Contradiction.DEFAULT_SFORM
        return sform @ np.diag([*(pixdim / sizes), 1.0]), Transform.SFORM_AXES, Contradiction.DEFAULT_SFORM
    if qform is not None and int(header["sform_code"]) >= _FIRST_TEMPLATE_CODE:
        return qform, Transform.QFORM, Contradiction.TEMPLATE_SFORM
    if _is_default(pixdim):
        return sform, Transform.SFORM, Contradiction.DEFAULT_PIXDIM
    raise DataError(
        f"{file}: found voxels of {_numbers(sizes)} by the sform and {_numbers(pixdim)} by pixdim; expected a header "
        "that agrees with itself. Correct the one that is wrong, or export the file again."
    )


def _qform(header: Nifti1Header) -> Floats | None:
    """The qform, None where it is not set or cannot be used."""
    if int(header["qform_code"]) <= 0:
        return None
    try:
        qform = np.asarray(header.get_qform(), dtype=np.float64)
    except HeaderDataError:
        return None
    return qform if is_usable(qform) else None


def _known(file: Path, qform: Floats | None) -> Floats:
    if qform is None:
        raise DataError(f"{file}: found a qform that cannot be used; expected one that says where voxels lie.")
    return qform


def _check_size(file: Path, spacing: Sequence[float], unit: LengthUnit) -> None:
    """Check that lengths with a unit that is seldom meant, or without one, are those of a patient's voxels."""
    largest = max(spacing) * unit.in_millimetres
    is_too_small = unit is LengthUnit.UNKNOWN and min(spacing) < _SMALLEST_WITHOUT_UNIT
    is_too_large = unit in (LengthUnit.UNKNOWN, LengthUnit.METRES) and largest > LARGEST_VOXEL
    if is_too_small or is_too_large:
        raise DataError(
            f"{file}: found voxels of {_numbers(spacing)} with {unit}; expected millimetres, or a unit that fits. "
            "Correct the unit in the header (xyzt_units), or export the file again."
        )


def is_usable(affine: Floats) -> bool:
    """Return whether an affine is finite and its axes have a length and do not lie, but for rounding, in a plane."""
    if not np.isfinite(affine).all():
        return False
    steps = voxel_spacing(affine)
    return min(steps) > 0 and abs(float(np.linalg.det(affine[:3, :3] / steps))) >= _SINGULAR


def _is_positive(pixdim: Floats) -> bool:
    return bool(np.isfinite(pixdim).all() and (pixdim > 0).all())


def _is_default(sizes: Floats) -> bool:
    return bool((np.abs(sizes - 1) < 1e-6).all())


def voxel_spacing(affine: Floats) -> tuple[float, float, float]:
    """Return the size of a voxel along the axes of an affine ``(4, 4)``, in its unit."""
    first, second, third = (float(length) for length in np.sqrt((affine[:3, :3] ** 2).sum(axis=0)))
    return first, second, third


def corner_distance(first: Floats, second: Floats, shape: Sequence[int]) -> float:
    """Return the largest distance between the places that two affines give a corner of a volume, in their unit."""
    corners = np.array(np.meshgrid(*[(0, length - 1) for length in shape[:3]])).reshape(3, -1)
    homogeneous = np.vstack([corners, np.ones(corners.shape[1])])
    difference: Floats = ((first - second) @ homogeneous)[:3]
    return float(np.sqrt((difference**2).sum(axis=0)).max())


def axis_order(source: Floats, target: Floats) -> Array:
    """Return which axes of a volume run along those of another, as nibabel's orientations.

    Args:
        source: affine ``(4, 4)`` of the volume.
        target: affine of the other.

    Returns:
        ``(3, 2)``: for each axis of the volume the other's axis, and -1 where it runs the other way.
    """
    order: Array = io_orientation(np.linalg.inv(target) @ source)
    return order


def axes_in_orientation(affine: Floats, orientation: str) -> tuple[int, ...]:
    """Return the axes of a volume in the order of an orientation, whichever way they run.

    Args:
        affine: ``(4, 4)``, voxel indices → millimetres in the patient.
        orientation: a letter of R/L, A/P and S/I for each axis, such as ``RAS``.

    Example:
        >>> axes_in_orientation(np.diag([2.0, 1.0, 1.0, 1.0]), "SAL")
        (2, 1, 0)
    """
    runs_along = io_orientation(affine)[:, 0].tolist()
    return tuple(runs_along.index(_AXIS_OF_LETTER[letter]) for letter in orientation)


def image_like(voxels: Array, like: Nifti1Image) -> Nifti1Image:
    """Return voxels ``(I, J, K)`` as an image of their type whose header says where voxels lie as another does.

    Both transforms with their codes, voxel sizes and units are those of the other, contradictions included: whatever
    reads one file reads the other at the same place. Nothing else of its header comes along.
    """
    header = type(like.header)()
    for field in _GEOMETRY_FIELDS:
        header[field] = like.header[field]
    header.set_data_dtype(voxels.dtype)
    header["pixdim"][:4] = like.header["pixdim"][:4]
    return type(like)(voxels, None, header)


def smallest_type(labels: Array) -> np.dtype[np.generic]:
    """Return a small integer type that holds all values."""
    return np.result_type(np.min_scalar_type(labels.min(initial=0)), np.min_scalar_type(labels.max(initial=0)))


def _numbers(spacing: Sequence[float] | Floats) -> str:
    return " × ".join(f"{step:.3g}" for step in spacing)


def millimetres(spacing: Sequence[float]) -> str:
    """Return the size of a voxel in words."""
    return f"{_numbers(spacing)} mm"
