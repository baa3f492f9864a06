"""Reading volumes of several channels: from one file with an axis of channels, or from a file for each, on one grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..array_types import Booleans, Floats, SingleFloats
from ..data_error import DataError
from .image_channels import ImageChannels, ImageFiles, check_channel_files, reference_file
from .volume_files import Volume, is_volume, read_channels, read_volume
from .volume_geometry import corner_distance, millimetres

# A channel that covers a smaller fraction of the first one's voxels is named.
LEAST_COVERED = 0.99
# One that covers less than this fraction lies elsewhere.
_ELSEWHERE = 0.1
# Grids that differ by less than this fraction of a voxel are the same.
_SAME_GRID = 1e-3


@dataclass(frozen=True)
class ImageVolume:
    """A volume of C channels on one grid.

    Attributes:
        voxels: intensities ``(I, J, K)`` of every channel, zeros of one that is missing.
        affine: ``(4, 4)`` of the first channel that is there, voxel indices → millimetres.
        files: the file of every channel, None of one that is missing.
        covered: of every channel the fraction of the grid's voxels that lie within its file's, 1 of one that is
            missing.
        read: every file that was read, with its volume as it lies there.
    """

    voxels: tuple[SingleFloats, ...]
    affine: Floats
    files: tuple[Path | None, ...]
    covered: tuple[float, ...]
    read: tuple[tuple[Path, Volume], ...]

    @property
    def file(self) -> Path:
        """The file that gives the grid."""
        return self.read[0][0]

    @property
    def first(self) -> Volume:
        """The volume that gives the grid."""
        return self.read[0][1]

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the channels that are missing, from 0."""
        return tuple(index for index, file in enumerate(self.files) if file is None)


def read_image_volume(
    files: ImageFiles, channels: ImageChannels, read_one: Callable[[Path], Volume] = read_volume
) -> ImageVolume:
    """Read a volume with its channels on the grid of the first one that is there.

    A channel on another grid is resampled linearly, by where its voxels lie in millimetres. Voxels that it does not
    cover get its smallest intensity.

    Args:
        files: one file with all channels, or one of three axes for each.
        channels: that the image must have.
        read_one: reads a volume with one channel.

    Raises:
        DataError: if a file is missing or cannot be read, the image has more or fewer channels, or a channel lies
            elsewhere than the first one.
    """
    if isinstance(files, Path):
        return _of_one_file(files, channels, read_one)
    check_channel_files(files, channels)
    file = reference_file(files)
    first = read_one(file)
    empty = np.zeros_like(first.voxels)
    voxels, covered, read = list[SingleFloats](), list[float](), [(file, first)]
    for index, channel_file in enumerate(files):
        if channel_file is None or channel_file == file:
            voxels.append(empty if channel_file is None else first.voxels)
            covered.append(1.0)
            continue
        volume = read_one(channel_file)
        placed, fraction = _placed(channel_file, volume, file, first, channels.label(index))
        voxels.append(placed)
        covered.append(fraction)
        read.append((channel_file, volume))
    return ImageVolume(tuple(voxels), first.affine, files, tuple(covered), tuple(read))


def _of_one_file(file: Path, channels: ImageChannels, read_one: Callable[[Path], Volume]) -> ImageVolume:
    has_one = channels.count == 1 or not is_volume(file)
    volumes = (read_one(file),) if has_one else read_channels(file)
    if len(volumes) != channels.count:
        raise DataError(
            f"{file}: found {ImageChannels(len(volumes)).shown}; expected {channels.shown}. Correct 'channels' in "
            "data.yaml, or list a file for each channel in the datalist."
        )
    count = len(volumes)
    voxels = tuple(volume.voxels for volume in volumes)
    return ImageVolume(voxels, volumes[0].affine, (file,) * count, (1.0,) * count, ((file, volumes[0]),))


def _placed(file: Path, volume: Volume, first_file: Path, first: Volume, label: str) -> tuple[SingleFloats, float]:
    """A channel's intensities on the grid of the first one, and the fraction of its voxels that they cover."""
    shape = first.voxels.shape
    if volume.voxels.shape == shape:
        distance = corner_distance(volume.affine, first.affine, shape)
        if distance <= _SAME_GRID * min(first.spacing):
            return volume.voxels, 1.0
    _check_place_is_known(file, volume, first_file, first, label)
    to_channel = np.linalg.inv(volume.affine) @ first.affine
    inside = _inside(to_channel, shape, volume.voxels.shape)
    covered = float(inside.mean())
    if covered < _ELSEWHERE:
        raise DataError(
            f"{file}: found {label} over {covered:.0%} of the voxels of {first_file.name} (voxels of "
            f"{millimetres(volume.spacing)} and {millimetres(first.spacing)}); expected images of the same place. "
            "Export the channels again, or correct the affine in the header."
        )
    return resampled(volume.voxels, to_channel, shape, inside), covered


def _check_place_is_known(file: Path, volume: Volume, first_file: Path, first: Volume, label: str) -> None:
    for own, known in ((file, volume), (first_file, first)):
        if known.placement is not None and not known.placement.says_orientation:
            raise DataError(
                f"{file}: found {label} with another grid than {first_file.name}, and the header of {own.name} says "
                "nothing of where its voxels lie; expected a header that does, or the same voxels. Resample the "
                "channel to the first one, or export it again."
            )


def resampled(voxels: SingleFloats, to_source: Floats, shape: Sequence[int], inside: Booleans) -> SingleFloats:
    """Interpolate a volume linearly on another grid.

    Args:
        voxels: intensities.
        to_source: ``(4, 4)``, voxel indices of the grid → voxel indices of the volume.
        shape: of the grid.
        inside: where the grid lies within the volume; elsewhere is its smallest intensity.
    """
    # A bundle needs SciPy only for channels on other grids.
    from scipy import ndimage  # noqa: PLC0415

    result: SingleFloats = ndimage.affine_transform(
        voxels, to_source[:3, :3], to_source[:3, 3], tuple(shape), order=1, mode="nearest"
    )
    result[~inside] = voxels.min()
    return result


def _inside(to_source: Floats, shape: Sequence[int], source: Sequence[int]) -> Booleans:
    """Where voxels of a grid lie within the voxels, not only their centres, of a volume."""
    inside: Booleans = np.ones(shape, dtype=bool)
    indices = np.ogrid[tuple(slice(length) for length in shape)]
    for axis, length in enumerate(source):
        place = to_source[axis, 3] + sum(to_source[axis, own] * indices[own] for own in range(3))
        inside &= (place >= -0.5 - _SAME_GRID) & (place <= length - 0.5 + _SAME_GRID)
    return inside
