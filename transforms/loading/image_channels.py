"""The channels that an image must have, and the files that hold them: one with all of them, or one for each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..data_error import DataError, MissingFileError
from .volume_suffixes import VOLUME_SUFFIXES

MAX_CHANNELS = 16

# One file with all channels, or the file of every channel in order, None for one that is missing.
ImageFiles = Path | tuple[Path | None, ...]

# A name, the number of a channel, and suffixes.
_NUMBERED_FILE = re.compile(r"(.+)_(\d{4})((?:\.[^.]+){0,2})", re.DOTALL)


@dataclass(frozen=True)
class ImageChannels:
    """The channels that an image must have.

    Attributes:
        count: how many, 1 to 16.
        names: their names in order; empty where only the number is known.
        fills_missing: whether a channel that a case lacks is zeros; else the case is refused.
    """

    count: int = 1
    names: tuple[str, ...] = ()
    fills_missing: bool = False

    def label(self, index: int) -> str:
        """Name a channel, counted from 0, for an error: ``channel 'FLAIR' (2 of 4)``."""
        if self.names:
            return f"channel {self.names[index]!r} ({index + 1} of {self.count})"
        return f"channel {index + 1} of {self.count}"

    @property
    def shown(self) -> str:
        """Number and names, for an error: ``4 channels: T1, T2, FLAIR, PD``."""
        number = "1 channel" if self.count == 1 else f"{self.count} channels"
        return f"{number}: {', '.join(self.names)}" if self.names else number


def reference_file(files: ImageFiles) -> Path:
    """Return the file that gives an image its grid: the first channel that is there.

    Raises:
        DataError: if no channel has a file.
    """
    if isinstance(files, Path):
        return files
    result = next((file for file in files if file is not None), None)
    if result is None:
        raise DataError(f"An image: found {len(files)} channels without a file; expected at least one with a file.")
    return result


def check_channel_files(files: Sequence[Path | None], channels: ImageChannels) -> None:
    """Check that there is a file for every channel, or that a missing one may be filled.

    A file that is named must exist, whether missing channels are filled or not.

    Raises:
        MissingFileError: if a file that is named does not exist.
        DataError: if there are more or fewer files than channels, or one is missing that may not be.
    """
    # Pillow takes a moment, and the names of channels need none of it.
    from .image_files import file_exists  # noqa: PLC0415

    first = reference_file(tuple(files))
    if len(files) != channels.count:
        raise DataError(
            f"{first}: found an image of {len(files)} files; expected one for each of {channels.shown}. Correct "
            "'channels' in data.yaml or the list in the datalist, null for a channel that is missing."
        )
    for index, file in enumerate(files):
        if file is None and not channels.fills_missing:
            raise DataError(
                f"{first}: found no file for {channels.label(index)}; expected one. To fill it with zeros, import with "
                "--missing-channels zeros, or write missing_channels: zeros into data.yaml."
            )
        if file is not None and not file_exists(file):
            raise MissingFileError(
                f"{file}: found no such file; expected {channels.label(index)} of the image {first.name}."
            )


def files_of(image: str | Path | Sequence[str | None], channels: ImageChannels) -> ImageFiles:
    """Return the files of an image that a person names: a list of them, or one file with all that belong to it.

    Files called ``CASE_0000.nii.gz``, ``CASE_0001.nii.gz``, … in a folder belong together. If one of them has several
    channels itself, or the numbers go on beyond those of the channels, they count patients.

    Args:
        image: a path, of numbered files that of the first one; or a path for each channel.
        channels: that the image must have.
    """
    if not isinstance(image, str | Path):
        return tuple(None if file is None else Path(file) for file in image)
    file = Path(image)
    match = _NUMBERED_FILE.fullmatch(file.name)
    if match is None or channels.count == 1 or int(match[2]) >= channels.count:
        return file
    names = [f"{match[1]}_{number:04d}{match[3]}" for number in range(channels.count + 1)]
    *files, beyond = (path if (path := file.with_name(name)).exists() else None for name in names)
    are_channels = beyond is None and sum(path is not None for path in files) > 1 and not _has_channels(file)
    return tuple(files) if are_channels else file


def _has_channels(file: Path) -> bool:
    """Whether a volume has several channels itself; one that cannot be read has not."""
    if not file.name.lower().endswith(VOLUME_SUFFIXES):
        return False
    # Pictures need no nibabel.
    from .volume_files import count_channels  # noqa: PLC0415

    try:
        return count_channels(file) > 1
    except DataError:
        return False


def numbered_case(image: str | Path | Sequence[str | None], channels: ImageChannels) -> str | None:
    """Return how the case of numbered files is called, ``CASE`` of ``CASE_0000.nii.gz``; None for any other image.

    Args:
        image: see :func:`files_of`.
        channels: that the image must have.
    """
    files = files_of(image, channels)
    if isinstance(files, Path):
        return None
    matches = [_NUMBERED_FILE.fullmatch(file.name) for file in files if file is not None]
    cases = {None if match is None else match[1] for match in matches}
    return cases.pop() if len(cases) == 1 else None


def first_channels(files: Sequence[str], count: int) -> list[str]:
    """Return files without those that are further channels of another one, see :func:`files_of`."""
    further = set[str]()
    for file in files:
        channels = files_of(file, ImageChannels(count))
        if not isinstance(channels, Path):
            further |= {str(path) for path in [path for path in channels if path is not None][1:]}
    return [file for file in files if file not in further]
