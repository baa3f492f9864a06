"""The images of a folder for a bundle: read as import, check and run read them; what cannot be used is named.

A bundle carries a copy of this module and of those that it imports.
"""

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from monai.config import KeysCollection
from monai.transforms import MapTransform
from torch.utils.data import IterableDataset, get_worker_info

from ..printable import printable
from .dicom_header import DICOM_SUFFIX
from .folder_search import Reason, known_suffix, search_folder
from .image_channels import ImageChannels, files_of, first_channels, numbered_case

# A path, or one for each channel and None for one that is missing.
NamedImage = str | Sequence[str | None]

FILE, SHOWN, NAME = "file", "shown", "name"
# Where a volume's affine is kept, as its file has it.
FILE_AFFINE = "file_affine"


@dataclass(frozen=True)
class ImagesFound:
    """The images below a folder.

    Attributes:
        files: their paths; of a DICOM series that of its folder.
        left_out: what is not used, each with its reason.
    """

    files: tuple[str, ...]
    left_out: tuple[str, ...]


def find_images(folder: str, *, pictures: bool, without: str, channels: int = 1) -> ImagesFound:
    """Find the pictures or the volumes below a folder, as an import finds them.

    Args:
        folder: the folder; where there is none, nothing is found.
        pictures: whether pictures are wanted, or volumes.
        without: the folder of results, which may lie below it.
        channels: of an image; of files called ``CASE_0000``, ``CASE_0001``, … the first one stands for several.

    Raises:
        SystemExit: if results would lie among the images, where a later run would take them for images; or there is
            DICOM, and SimpleITK is not installed.
    """
    if Path(folder).resolve() == Path(without).resolve():
        sys.exit(f"{folder}: found one folder for images and results; expected two. Name another --output_dir.")
    try:
        content = search_folder(Path(folder), without=Path(without))
        usable = [found for found in content.usable if not found.is_structure_set]
        wanted = [found.is_picture == pictures for found in usable]
    except ImportError as error:
        sys.exit(f"{folder}: found DICOM, which needs another package: pip install {error.name}")
    files = [found.file for found, is_wanted in zip(usable, wanted, strict=True) if is_wanted]
    other_kind = "a volume, not a picture" if pictures else "a picture, not a volume"
    left_out = [
        f"{found.file}: left out, it is {other_kind}."
        for found, is_wanted in zip(usable, wanted, strict=True)
        if not is_wanted
    ]
    left_out += [
        f"{found.file}: left out, it holds contours, no image." for found in content.usable if found.is_structure_set
    ]
    for other in content.others:
        if other.reason is Reason.NO_IMAGE and other.file.suffix.lower() == DICOM_SUFFIX:
            # Damaged: the reader says in what way, and it counts as refused.
            files.append(other.file)
        else:
            left_out.append(f"{other.file}: left out, it is {other.reason}.")
    names = first_channels([*map(str, files)], channels)
    return ImagesFound(tuple(names), tuple(map(printable, left_out)))


def result_name(image: NamedImage, folder: str, channels: int = 1) -> str:
    """Return how results of an image are called: its path below the folder, without suffix; elsewhere its name.

    Of the files ``CASE_0000.nii.gz``, ``CASE_0001.nii.gz``, … of an image it is ``CASE``.

    Args:
        image: the image.
        folder: where the images lie.
        channels: of an image.
    """
    file = _first(image)
    shown, path = _shown(file, folder), Path(file)
    if path.is_dir():
        return shown
    if (case := numbered_case(image, ImageChannels(channels))) is not None:
        return Path(shown).with_name(case).as_posix()
    return shown[: -len(known_suffix(path) or path.suffix)] if path.suffix else shown


def shared_names(files: Sequence[NamedImage], folder: str, channels: int = 1) -> tuple[str, ...]:
    """Return the images whose results would be called as another's, in order.

    Args:
        files: the images.
        folder: where they lie.
        channels: of an image.
    """
    names = [result_name(file, folder, channels) for file in files]
    counts = Counter(names)
    return tuple(printable(_first(file)) for file, name in zip(files, names, strict=True) if counts[name] > 1)


def _first(image: NamedImage) -> str:
    """The file of an image, of several channels the first one that is there."""
    return image if isinstance(image, str) else next((file for file in image if file is not None), "")


def _shown(file: str, folder: str) -> str:
    path = Path(file)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


class UsableImages(IterableDataset[dict[str, Any]]):
    """The prepared images of a folder, in the order of their files; what cannot be used is named at once.

    Args:
        files: paths of the images, or of each a list with a path for every channel; hidden files, which some systems
            write beside others, are named and left out.
        prepare: turns ``{key: path}`` into ``{key: image}``.
        key: of the image.
        folder: where the images lie; their results are called by their paths below it.
        left_out: what is named first.
        channels: of an image.

    Attributes:
        refused: the reasons for files that cannot be used, as far as the images were read.
        used: number of the others.
    """

    def __init__(
        self,
        files: Sequence[NamedImage],
        prepare: Callable[[dict[str, Any]], dict[str, Any]],
        key: str,
        *,
        folder: str = ".",
        left_out: Sequence[str] = (),
        channels: int = 1,
    ) -> None:
        self.files, self.prepare, self.key = tuple(files), prepare, key
        self.folder, self.left_out, self.channels = folder, tuple(left_out), channels
        self.refused: list[str] = []
        self.used = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the usable images: ``file``, its path below the folder as ``shown``, and the ``name`` of its results.

        Raises:
            RuntimeError: in a worker process, whose refusals nobody would learn of.
        """
        if get_worker_info() is not None:
            raise RuntimeError("Expected num_workers = 0, as refused files are counted in this process.")
        self.refused, self.used = [], 0
        for text in self.left_out:
            self._say(text)
        for image in self.files:
            file = _first(image)
            if Path(file).name.startswith("."):
                self._say(printable(f"{file}: left out, it is {Reason.HIDDEN}."))
                continue
            try:
                item = self._prepared(image, file)
            except _UnusableError as error:
                self.refused.append(str(error))
                self._say(str(error))
            else:
                self.used += 1
                yield item

    def finish(self) -> None:
        """End the program with an error if a file was refused, or none was used.

        Raises:
            SystemExit: with the number of refused files.
        """
        if self.refused or not self.used:
            total = len(self.refused) + self.used
            sys.exit(
                "\n".join([f"{len(self.refused)} of {total} images were refused, {self.used} used.", *self.refused])
            )

    def _prepared(self, image: NamedImage, file: str) -> dict[str, Any]:
        try:
            item = self.prepare({self.key: image})
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            # MONAI wraps what a transform raises.
            cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
            reason = str(cause).replace("\n", " ")
            raise _UnusableError(printable(reason if file in reason else f"{file}: {reason}")) from error
        if not bool(torch.isfinite(item[self.key]).all()):
            raise _UnusableError(
                printable(f"{file}: found intensities that are not finite; expected numbers. Export it again.")
            )
        name = result_name(image, self.folder, self.channels)
        return {**item, FILE: file, SHOWN: _shown(file, self.folder), NAME: name}

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _UnusableError(Exception):
    """A file cannot be used; says which and why."""


class ReadAnyVolumed(MapTransform):  # type: ignore[misc]
    """Read volumes of any format to ``(C, I, J, K)`` with their affine; what of a header counts is said in the log.

    Args:
        keys: keys of the paths; see :func:`.image_channels.files_of`.
        channels: that an image must have; one if None.
    """

    def __init__(self, keys: KeysCollection, channels: ImageChannels | None = None) -> None:
        super().__init__(keys)
        self.channels = channels or ImageChannels()

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace paths by tensors.

        Raises:
            DataError: if a file is missing or cannot be used.
        """
        # Pictures need no nibabel.
        from .other_volumes import read_any_volume  # noqa: PLC0415
        from .volume_channels import read_image_volume  # noqa: PLC0415
        from .volume_transforms import as_image_tensor, log_image_remarks  # noqa: PLC0415

        result = dict(data)
        for key in self.key_iterator(result):
            volume = read_image_volume(files_of(result[key], self.channels), self.channels, read_any_volume)
            log_image_remarks(volume, self.channels)
            result[key] = as_image_tensor(volume)
            result[key].meta[FILE_AFFINE] = volume.affine
        return result
