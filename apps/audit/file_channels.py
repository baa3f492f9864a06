"""The channels of an image in the pixels of its files: the first is read at once, others when they are asked for."""

import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np

from ...custom.data.description import AnyDescription, SliceDescription, VolumeDescription
from ...transforms.array_types import Array
from ...transforms.errors import DataError
from ...transforms.loading.image_channels import ImageChannels, ImageFiles, reference_file
from ...transforms.loading.image_files import read_displayed
from .encoded_planes import in_small_type
from .file_grid import FileGrid, picture_grid, volume_grid

_SAMPLED = 2**20
# Darkest and brightest hundredth, as everywhere in the page.
_QUANTILES = (0.01, 0.99)
_CT_AIR, _CT_BONE = -500, 500
_CT_PRESETS = (("Soft tissue", -160, 240), ("Lung", -1350, 150), ("Bone", -500, 1300), ("Brain", 0, 80))


class Preset(TypedDict):
    """A window by its name: what is black, and what is white."""

    name: str
    low: float
    high: float


class ChannelDescription(TypedDict):
    """What the page needs before it asks for pixels of a channel."""

    channel: int
    type: str
    colours: bool
    window: tuple[float, float]
    range: tuple[float, float]
    presets: list[Preset]


class FileChannels:
    """The channels of one image, all on the grid of the first that is there.

    Args:
        files: of the image.
        description: of the site's data.

    Attributes:
        first: number of the channel that gives the grid.
        grid: of all channels.

    Raises:
        DataError: if the first channel cannot be read.
    """

    def __init__(self, files: ImageFiles, description: AnyDescription) -> None:
        self._files, self._description = files, description
        self._is_volume = isinstance(description, SliceDescription | VolumeDescription)
        self.first = 0 if isinstance(files, Path) else files.index(reference_file(files))
        self._reading, self._keeping = threading.Lock(), threading.Lock()
        self.grid, values = self._read_first()
        self._values = OrderedDict({self.first: self.grid.from_file(in_small_type(values))})

    @property
    def names(self) -> list[str]:
        """The names of the channels; empty where there is one alone, or colours."""
        channels = self._channels
        if channels is None:
            return []
        names = channels.names or tuple(f"channel {number}" for number in range(1, channels.count + 1))
        files = (None,) * channels.count if isinstance(self._files, Path) else self._files
        is_missing = [not isinstance(self._files, Path) and file is None for file in files]
        return [f"{name} (missing)" if gone else name for name, gone in zip(names, is_missing, strict=True)]

    @property
    def nbytes(self) -> int:
        """What the channels that are kept hold in memory."""
        with self._keeping:
            return sum(values.nbytes for values in self._values.values())

    def forget_one(self) -> bool:
        """Let go of the channel that was not asked for the longest; return whether there was one besides the last."""
        with self._keeping:
            if len(self._values) < 2:
                return False
            self._values.popitem(last=False)
            return True

    def values(self, number: int) -> Array:
        """Return a channel in the grid, ``(X, Y, Z)``, of colours ``(X, Y, Z, 3)``; zeros of one that is missing.

        Raises:
            LookupError: if there is no such channel.
            DataError: if it cannot be read, or does not lie where the first one lies.
        """
        if not 0 <= number < max(1, len(self.names)):
            raise LookupError
        kept = self._kept(number)
        if kept is not None:
            return kept
        # One at a time, and each once: a large one takes much memory.
        with self._reading:
            kept = self._kept(number)
            if kept is None:
                kept = self.grid.from_file(in_small_type(self._read(number)))
                with self._keeping:
                    self._values[number] = kept
            return kept

    def _kept(self, number: int) -> Array | None:
        with self._keeping:
            if number in self._values:
                self._values.move_to_end(number)
            return self._values.get(number)

    def window(self, number: int) -> tuple[float, float]:
        """Return what is black and what is white at first; colours stay as they are. Errors as :meth:`values`."""
        values = self.values(number)
        if values.ndim == 4:
            return 0.0, 255.0
        own = getattr(self._description, "window", None)
        if (windows := getattr(self._description, "channel_windows", None)) is not None:
            own = windows[number]
        if own is not None:
            return float(own[0]), float(own[1])
        step = max(1, round((values.size / _SAMPLED) ** 0.5))
        first, last = (float(value) for value in np.quantile(values[::step, ::step], _QUANTILES))
        return first, last if last > first else first + 1

    def describe(self, number: int) -> ChannelDescription:
        """Return what the page needs of a channel. Errors as :meth:`values`."""
        values = self.values(number)
        low, high = float(values.min()), float(values.max())
        return {
            "channel": number,
            "type": values.dtype.name,
            "colours": values.ndim == 4,
            "window": self.window(number),
            "range": (low, high),
            "presets": self._presets(low, high),
        }

    @property
    def _channels(self) -> ImageChannels | None:
        """The channels that the image must have; None where there is no choice."""
        if not self._is_volume and isinstance(self._files, Path):
            return None
        channels = self._description.image_channels
        return channels if channels.count > 1 else None

    def _read_first(self) -> tuple[FileGrid, Array]:
        file = reference_file(self._files)
        if self._is_volume:
            from ...transforms.loading.volume_files import read_first_channel  # noqa: PLC0415

            volume = read_first_channel(file)
            assert volume.placement is not None
            return volume_grid(volume.voxels.shape, volume.placement), volume.voxels
        values = read_displayed(file, self._description.shown_channels)
        return picture_grid(*values.shape[:2]), values

    def _read(self, number: int) -> Array:
        if number == self.first:
            return self._read_first()[1]
        channels = self._channels
        assert channels is not None
        return self._read_voxels(number, channels) if self._is_volume else self._read_picture(number, channels)

    def _read_voxels(self, number: int, channels: ImageChannels) -> Array:
        """A channel of a volume on the grid of the first one, of no more files than these two."""
        from ...transforms.loading.volume_channels import read_image_volume  # noqa: PLC0415

        files = self._files
        if not isinstance(files, Path):
            files = tuple(file if own in (self.first, number) else None for own, file in enumerate(files))
            channels = replace(channels, fills_missing=True)
        return read_image_volume(files, channels).voxels[number]

    def _read_picture(self, number: int, channels: ImageChannels) -> Array:
        assert not isinstance(self._files, Path)
        file, (width, height, _) = self._files[number], self.grid.extents
        if file is None:
            return np.zeros((height, width), np.uint8)
        values: Array = read_displayed(file, 1)
        if values.shape != (height, width):
            found, expected = (" × ".join(map(str, shape)) for shape in (values.shape, (height, width)))
            raise DataError(
                f"{file}: found {channels.label(number)} of {found} pixels; expected the size of "
                f"{reference_file(self._files).name}, {expected}. Export the channels of an image at one size."
            )
        return values

    def _presets(self, low: float, high: float) -> list[Preset]:
        """Windows of CT where the image is one by its intensities, which no other kind has."""
        is_ct = self.grid.affine is not None and low <= _CT_AIR and high >= _CT_BONE
        return [{"name": name, "low": start, "high": stop} for name, start, stop in _CT_PRESETS] if is_ct else []
