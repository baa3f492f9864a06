"""Volumes in HDF5 files as NIfTI files that an import takes: a file for each channel, a folder for each annotator."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from ...custom.data.annotations import annotator_folder
from ...custom.data.whole_files import new_folder, private_file, private_folder
from ...transforms.array_types import Array, Floats
from ...transforms.errors import DataError, shown
from ...transforms.folded_names import folded
from ...transforms.natural_order import natural_order
from ...transforms.printable import printable
from .channel_files import channel_name

_SUFFIXES = (".h5", ".hdf5")
IMAGES, LABELS = "images", "labels"
# Of one volume, whatever it is compressed to.
_MOST_BYTES = 2**31
_KINDS = "biuf"
# A slice thicker than other voxels are long lies along the axis with the fewest voxels; thinner ones say nothing.
_THICK = 1.5


@dataclass(frozen=True)
class Hdf5Names:
    """What a file holds under which name.

    Attributes:
        images: volumes of intensities, one for each channel.
        labels: masks, one for each annotator, whose name it is.
        spacing: three lengths of a voxel: the name of a data set, or these numbers.
        axes: the axes of the arrays in the file, such as ``zyx``: the last one runs fastest; None if the arrays' own
            labels of their dimensions say it.
        spacing_axes: the axes of the three lengths in their order; None for that of the arrays.
    """

    images: tuple[str, ...]
    labels: tuple[str, ...]
    spacing: str | tuple[float, float, float]
    axes: str | None = None
    spacing_axes: str | None = None


@dataclass(frozen=True)
class ConvertedVolumes:
    """What was written, and why the other files were not."""

    count: int
    left_out: tuple[str, ...]


def convert_hdf5(source: Path, names: Hdf5Names, out: Path) -> ConvertedVolumes:
    """Write the volumes of all HDF5 files below a folder.

    A file is one case. HDF5 says nothing of where axes point, so the NIfTI files say no more than the spacing. What
    lies in other files, by links or as a virtual or external data set, is not read.

    Args:
        source: a folder, or one file.
        names: of the volumes in each file.
        out: absent or empty.

    Raises:
        DataError: if h5py is not installed, there is no such file, or none can be used.
    """
    h5py = _h5py()
    files = _files(source)
    left_out, taken = [], set[str]()
    with new_folder(out) as folder:
        for file in files:
            try:
                if folded(file.stem) in taken:
                    raise DataError(f"{file}: there is another file of its name; expected each once.")
                with ExitStack() as stack:
                    try:
                        content = stack.enter_context(h5py.File(file, "r", locking=False))
                    except OSError as error:
                        raise DataError(f"{file}: cannot be read as HDF5 ({error}).") from error
                    _write(folder, file, _read(content, file, names), names)
                taken.add(folded(file.stem))
            except DataError as error:
                left_out.append(str(error))
        if not taken:
            first = f" First reason: {left_out[0]}" if left_out else ""
            raise DataError(f"{source}: found no usable case in {len(files)} HDF5 files.{first}")
    return ConvertedVolumes(len(taken), tuple(left_out))


def _h5py() -> Any:
    try:
        import h5py  # noqa: PLC0415
    except ImportError as error:
        raise DataError("HDF5 files need h5py: pip install 'h5py>=3.11'") from error
    return h5py


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    inside = source.resolve()
    files = [
        file
        for file in source.rglob("*")
        if file.suffix.lower() in _SUFFIXES and file.is_file() and file.resolve().is_relative_to(inside)
    ]
    if not files:
        raise DataError(f"{source}: found no file that ends with {' or '.join(_SUFFIXES)}; expected HDF5 files.")
    return sorted(files, key=lambda file: natural_order(file.relative_to(source).as_posix()))


def _read(content: Any, file: Path, names: Hdf5Names) -> tuple[dict[str, Array], Floats]:
    """The volumes by their names with axes x, y, z, and their spacing, likewise."""
    axes = _axes(content, file, names)
    order = [axes.index(axis) for axis in "xyz"]
    spacing = np.asarray(
        _array(content, file, names.spacing, (1,)) if isinstance(names.spacing, str) else names.spacing, dtype=float
    )
    if spacing.shape != (3,) or not np.isfinite(spacing).all() or not (spacing > 0).all():
        raise DataError(f"{file}: found the spacing {shown(spacing.tolist())}; expected three lengths in millimetres.")
    volumes = {
        name: _array(content, file, name, (3,)).transpose(order)
        for name in (*names.images, *names.labels)
        if name in names.images or name.strip("/").partition("/")[0] in content
    }
    if not any(name in volumes for name in names.labels):
        raise DataError(f"{file}: found none of the masks {', '.join(names.labels)}; expected one at least.")
    first = volumes[names.images[0]].shape
    for name, volume in volumes.items():
        if volume.shape != first:
            raise DataError(
                f"{file}: found {printable(name)!r} of {volume.shape} voxels; expected {first}, as {names.images[0]!r}."
            )
    for name in names.labels:
        if name in volumes and not _are_classes(volumes[name]):
            raise DataError(f"{file}: found other values in {printable(name)!r}; expected classes from 0 to 32767.")
    return volumes, _in_order(spacing, first, axes, names, file)


def _axes(content: Any, file: Path, names: Hdf5Names) -> str:
    """The axes of all arrays of a file, as it is said, or as it says itself by labels of dimensions or their scales."""
    of_file = {}
    for name in (*names.images, *names.labels):
        if name in names.images or name.strip("/").partition("/")[0] in content:
            label = _labels(_dataset(content, file, name, (3,)))
            if sorted(label) == sorted("xyz"):
                of_file[name] = label
    known = {*of_file.values(), *filter(None, [names.axes])}
    if len(known) == 1:
        return known.pop()
    shape = _dataset(content, file, names.images[0], (3,)).shape
    shown_axes = ", ".join(f"{axes} in {printable(name)!r}" for name, axes in of_file.items()) or "no labels of axes"
    raise DataError(
        f"{file}: found {shown_axes}, of {shape} voxels{f', and --axes {names.axes}' if names.axes else ''}; expected "
        "one order of the axes: say it with --axes, such as zyx where the last axis is x."
    )


def _labels(data: Any) -> str:
    """The labels of an array's dimensions, or the names of their scales, one after the other."""
    try:
        return "".join(str(dim.label or next(iter(dim.keys()), "")) for dim in data.dims).lower()
    # Damaged references and texts say nothing.
    except (OSError, RuntimeError, KeyError, ValueError):
        return ""


def _in_order(spacing: Floats, shape: tuple[int, ...], axes: str, names: Hdf5Names, file: Path) -> Floats:
    """The lengths along x, y and z of volumes with these axes.

    Raises:
        DataError: if nobody has said their order, and the thickest voxels lie along an axis that has more than others.
    """
    order = names.spacing_axes or axes
    result = spacing[[order.index(axis) for axis in "xyz"]]
    thick, others = int(np.argmax(result)), sorted(result)[:-1]
    if names.spacing_axes is None and result[thick] > _THICK * others[-1] and shape[thick] > min(shape):
        in_file = tuple(shape["xyz".index(axis)] for axis in axes)
        raise DataError(
            f"{file}: found the spacing {shown(spacing.tolist())} and {in_file} voxels along {', '.join(axes)}: the "
            f"thickest voxels would lie along {'xyz'[thick]}, where there are more than along another axis; expected "
            f"the order of the three lengths: say it with --spacing-axes, such as {axes} or {axes[::-1]}."
        )
    return result


def _are_classes(values: Array) -> bool:
    return values.dtype.kind != "f" and bool((values >= 0).all() and (values <= np.iinfo(np.int16).max).all())


def _array(content: Any, file: Path, name: str, ndims: Sequence[int]) -> Array:
    """The values of a data set of the file itself."""
    data = _dataset(content, file, name, ndims)
    try:
        return np.asarray(data[()])
    except (OSError, RuntimeError, MemoryError) as error:
        raise DataError(f"{file}: {printable(name)!r} cannot be read ({error}).") from error


def _dataset(content: Any, file: Path, name: str, ndims: Sequence[int]) -> Any:
    """A data set of the file itself, unread."""
    h5py = _h5py()
    place, parts = content, name.strip("/").split("/")
    for number, part in enumerate(parts, start=1):
        link = place.get(part, getlink=True) if isinstance(place, h5py.Group) and part else None
        if link is None:
            held = ", ".join(printable(str(own)) for own in list(content)[:12])
            raise DataError(f"{file}: found no {printable(name)!r} among {held or 'nothing'}; expected it.")
        # A group on the way may be a link to another file, too.
        if not isinstance(link, h5py.HardLink):
            raise DataError(
                f"{file}: found a link as {printable('/'.join(parts[:number]))!r}; expected what is in the file itself."
            )
        place = place[part]
    data = place
    if not isinstance(data, h5py.Dataset) or data.is_virtual or data.external:
        raise DataError(f"{file}: found {printable(name)!r} outside of the file, or no data set; expected one in it.")
    if data.ndim not in ndims or data.dtype.kind not in _KINDS or not 0 < data.nbytes <= _MOST_BYTES:
        raise DataError(
            f"{file}: found {printable(name)!r} of {data.dtype} and {data.shape}; expected numbers along {ndims[0]} "
            f"axes, at most {_MOST_BYTES} bytes."
        )
    return data


def _write(folder: Path, file: Path, read: tuple[dict[str, Array], Floats], names: Hdf5Names) -> None:
    volumes, spacing = read
    for number, name in enumerate(names.images):
        own = channel_name(file.stem, number) if len(names.images) > 1 else file.stem
        _save(folder / IMAGES / f"{own}.nii.gz", volumes[name].astype(np.float32), spacing)
    for name in names.labels:
        if name in volumes:
            file_of = folder / LABELS / annotator_folder(name) / f"{file.stem}.nii.gz"
            _save(file_of, volumes[name].astype(np.int16), spacing)


def _save(target: Path, voxels: Array, spacing: Floats) -> None:
    private_folder(target.parent)
    image = nibabel.Nifti1Image(voxels, None)
    image.header.set_zooms(spacing.tolist())
    image.header.set_xyzt_units("mm")
    nibabel.save(image, private_file(target))
