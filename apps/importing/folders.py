"""A data set from two folders, or from one: images and masks, paired by name."""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.loading.image_files import IMAGE_SUFFIXES
from ...transforms.natural_order import natural_order
from .source import SourceCase, SourceDataset
from .volumes import VOLUME_FILE_SUFFIXES, is_dicom_series

_SHOWN_NAMES = 5
# A number behind a mask's suffix: the second, third, … mask of its image.
_NUMBER = r"(?:[ _-]?\d+)?"


@dataclass(frozen=True)
class MaskNames:
    """How names tell masks from images, and which belong together.

    Attributes:
        label_suffix: what a mask's name has behind its image's, such as ``_segmentation``; a number may follow.
        image_suffix: what an image's name has that its mask's lacks, such as ``_ct`` beside ``_seg``.
        include: patterns of image file names such as ``benign_*``; empty takes all.
        label_include: patterns of mask file names, as above.
    """

    label_suffix: str = ""
    image_suffix: str = ""
    include: Sequence[str] = ()
    label_include: Sequence[str] = ()

    @property
    def tell_apart(self) -> bool:
        """Whether names tell masks from images that lie in the same folder."""
        return bool(self.label_suffix or self.image_suffix or self.label_include)

    def is_mask(self, file: Path, name: str) -> bool:
        """Return whether a file beside images is a mask, by its name with and without suffix."""
        if self.label_include:
            return fits(file, self.label_include)
        if self.label_suffix:
            return self.of_mask(name) is not None
        return not name.endswith(self.image_suffix)

    def is_asked_for(self, mask: Path) -> bool:
        """Return whether a mask's file name fits the patterns of masks, if there are any."""
        return not self.label_include or fits(mask, self.label_include)

    def of_mask(self, name: str) -> str | None:
        """Return what a mask shares with its image; None of a name without the suffix of masks."""
        if not self.label_suffix:
            return name
        result = re.fullmatch(f"(.+){re.escape(self.label_suffix)}{_NUMBER}", name)
        return None if result is None else result[1]

    def of_image(self, name: str) -> str | None:
        """Return what an image shares with its mask; None of a name without the suffix of images."""
        return name.removesuffix(self.image_suffix) if name.endswith(self.image_suffix) else None


def read_folders(
    images: Path,
    labels: Path,
    *,
    label_suffix: str = "",
    image_suffix: str = "",
    include: Sequence[str] = (),
    label_include: Sequence[str] = (),
) -> SourceDataset:
    """Find pairs of image and mask in two folders, or in one where names tell them apart.

    Pictures, volumes (NIfTI, NRRD, MHA, …) and folders with a DICOM series are found; all must be pictures or all
    volumes. A folder with an image's name among the masks holds its masks, one for each object.

    Args:
        images: folder of the images.
        labels: folder of the masks; may be the same where a suffix or a pattern tells masks apart.
        label_suffix: see :class:`MaskNames`.
        image_suffix: as above.
        include: as above.
        label_include: as above. Where masks have no suffix, what follows the image's name decides nothing.

    Raises:
        DataError: if a folder is missing, there is no pair, two images have one name, or pictures and volumes are
            mixed.
    """
    names = MaskNames(label_suffix, image_suffix, include, label_include)
    one_folder = images.resolve() == labels.resolve()
    for folder in (images, labels):
        if not folder.is_dir():
            raise DataError(f"{folder}: found no such folder; expected one with images.")
    if one_folder and not names.tell_apart:
        raise DataError(
            f"{images}: is given for images and for masks; expected two folders, or what tells masks apart: "
            "--label-suffix _seg, --label-include '*_mask*', or --image-suffix _ct."
        )
    left_out: list[str] = []
    image_files = _images(images, names, left_out, without_masks=one_folder)
    label_files = _masks(labels, names, set(image_files), left_out, only_masks=one_folder)
    paired = sorted(image_files.keys() & label_files.keys())
    if not paired:
        raise DataError(_no_pair(images, labels, names, image_files, label_files))
    kinds = {image_files[name].suffix.lower() in IMAGE_SUFFIXES for name in paired}
    if len(kinds) > 1:
        raise DataError(f"{images}: found pictures and volumes; expected one kind. Choose with --include.")
    left_out += [
        f"{images.resolve().name}/{file.name}: no mask" for name, file in image_files.items() if name not in label_files
    ]
    # Masks of images that were not asked for are not missed.
    if not include:
        lone = sorted(label_files.keys() - image_files.keys(), key=natural_order)
        left_out += [f"{labels.resolve().name}/{file.name}: no image" for name in lone for file in label_files[name]]
    return SourceDataset(
        name=" and ".join(dict.fromkeys((images.resolve().name, labels.resolve().name))),
        task="segmentation",
        volumes=not kinds.pop(),
        cases=tuple(_case(name, image_files[name], label_files[name]) for name in paired),
        channels=None,
        skipped=tuple(sorted(left_out, key=natural_order)),
    )


def fits(file: Path, patterns: Sequence[str]) -> bool:
    """Return whether a file's name fits one of the patterns."""
    return any(fnmatch.fnmatchcase(file.name, pattern) for pattern in patterns)


def _case(name: str, image: Path, masks: Sequence[Path]) -> SourceCase:
    return SourceCase(image, masks[0] if len(masks) == 1 else tuple(masks), name=name)


def _images(folder: Path, names: MaskNames, left_out: list[str], *, without_masks: bool) -> dict[str, Path]:
    """The images of a folder by what they share with their masks."""
    result: dict[str, Path] = {}
    for file, name in _named_files(folder):
        if (without_masks and names.is_mask(file, name)) or (names.include and not fits(file, names.include)):
            continue
        key = names.of_image(name)
        if key is None:
            left_out.append(f"{folder.resolve().name}/{file.name}: its name does not end with {names.image_suffix}")
            continue
        if key in result:
            raise DataError(f"{folder}: found {result[key].name} and {file.name}; expected one file of each name.")
        result[key] = file
    return result


def _masks(
    folder: Path, names: MaskNames, images: set[str], left_out: list[str], *, only_masks: bool
) -> dict[str, list[Path]]:
    """The masks of a folder by what they share with their images, those of one image in natural order."""
    result: dict[str, list[Path]] = {}
    seen: dict[str, Path] = {}
    for file, name in _named_files(folder):
        if (only_masks and not names.is_mask(file, name)) or not names.is_asked_for(file):
            continue
        if name in seen:
            raise DataError(f"{folder}: found {seen[name].name} and {file.name}; expected one file of each name.")
        seen[name] = file
        key = names.of_mask(name)
        if key is None:
            left_out.append(f"{folder.resolve().name}/{file.name}: no image")
            continue
        if names.label_include and not names.label_suffix:
            key = _longest_beginning(key, images)
        result.setdefault(key, []).append(file)
    for part in folder.iterdir():
        # A folder for each image, with a mask of each of its objects.
        if part.is_dir() and part.name in images and not is_dicom_series(part) and (files := _named_files(part)):
            result.setdefault(part.name, []).extend(file for file, _ in files if names.is_asked_for(file))
    return {key: sorted(files, key=lambda file: natural_order(file.name)) for key, files in result.items() if files}


def _longest_beginning(name: str, images: set[str]) -> str:
    """The longest name of an image that a mask's name begins with, no letter or digit following; else its own."""
    ends = [end for end in range(len(name), 0, -1) if end == len(name) or not name[end].isalnum()]
    return next((name[:end] for end in ends if name[:end] in images), name)


def _named_files(folder: Path) -> list[tuple[Path, str]]:
    """The pictures and volumes of a folder with their names without suffix."""
    named = ((file, _name_of(file)) for file in sorted(folder.iterdir()))
    return [(file, name) for file, name in named if name is not None]


def _name_of(file: Path) -> str | None:
    """The name of a picture or volume without its suffix, None of anything else."""
    if file.name.startswith("."):
        return None
    if file.is_dir():
        return file.name if is_dicom_series(file) else None
    for suffix in (*IMAGE_SUFFIXES, *VOLUME_FILE_SUFFIXES):
        if file.name.lower().endswith(suffix):
            return file.name[: -len(suffix)]
    return None


def _no_pair(
    images: Path,
    labels: Path,
    names: MaskNames,
    image_files: Mapping[str, Path],
    label_files: Mapping[str, Sequence[Path]],
) -> str:
    chosen = f" that fit {', '.join(names.include)}" if names.include else ""
    plus = (names.image_suffix and f", the image's plus {names.image_suffix}") + (
        names.label_suffix and f", plus {names.label_suffix}"
    )
    masks = [file for files in label_files.values() for file in files]
    return (
        f"Found no pair: {_some_names(list(image_files.values()))} in {images}{chosen}, {_some_names(masks)} in "
        f"{labels}; expected an image and a mask of the same name without suffix{plus}. What the names have in "
        "addition: --label-suffix, --image-suffix."
    )


def _some_names(files: list[Path]) -> str:
    names = [file.name for file in files]
    if not names:
        return "no images"
    return ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
