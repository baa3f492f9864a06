"""Reading pictures with their channels: colours of one file, or a grey file for each channel."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..array_types import SingleFloats
from ..data_error import DataError
from .image_channels import ImageChannels, ImageFiles, check_channel_files, reference_file
from .image_files import read_image

# Reads a picture ``(C, H, W)`` of so many channels.
ReadPicture = Callable[[Path, int], SingleFloats]


def read_picture_channels(
    files: ImageFiles, channels: int | ImageChannels, read: ReadPicture = read_image
) -> list[SingleFloats]:
    """Read a picture: one array ``(1, H, W)`` or ``(3, H, W)`` of a file, or one ``(1, H, W)`` of every channel's file.

    A channel that is missing is zeros.

    Args:
        files: a path, or one for each channel and None for one that is missing.
        channels: 1 for grey, 3 for RGB; or those of an image with a grey file for each channel.
        read: reads a file with so many channels.

    Raises:
        DataError: if a file is missing or unreadable, the channels differ in size, or are not those of the image.
    """
    if isinstance(channels, int):
        if not isinstance(files, str | Path):
            raise DataError(
                f"{reference_file(files)}: found an image of {len(files)} files; expected one file. To read a grey "
                "file for each channel, name the channels in data.yaml: channels: [NAME, NAME]."
            )
        return [read(Path(files), channels)]
    given = (Path(files),) if isinstance(files, str | Path) else files
    check_channel_files(given, channels)
    first_file = reference_file(given)
    first = read(first_file, 1)
    parts = []
    for index, file in enumerate(given):
        part = first if file == first_file else np.zeros_like(first) if file is None else read(file, 1)
        if part.shape != first.shape:
            raise DataError(
                f"{file}: found {channels.label(index)} of {_pixels(part)}; expected the size of {first_file.name}, "
                f"{_pixels(first)}. Export the channels of an image at one size."
            )
        parts.append(part)
    return parts


def _pixels(image: SingleFloats) -> str:
    return f"{image.shape[1]} × {image.shape[2]} pixels (rows × columns)"
