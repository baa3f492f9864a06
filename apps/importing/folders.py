"""A data set from two folders: images and masks, paired by name."""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.loading.image_files import IMAGE_SUFFIXES
from .source import SourceCase, SourceDataset
from .volumes import VOLUME_FILE_SUFFIXES, is_dicom_series

_SHOWN_NAMES = 5


def read_folders(images: Path, labels: Path, *, label_suffix: str = "", include: Sequence[str] = ()) -> SourceDataset:
    """Find pairs of image and mask with the same name in two folders.

    Pictures, volumes (NIfTI, NRRD, MHA, …) and folders with a DICOM series are found; all must be pictures or all
    volumes.

    Args:
        images: folder of the images.
        labels: folder of the masks; may be the same where masks have a suffix.
        label_suffix: what a mask's name has behind its image's, such as ``_segmentation``.
        include: patterns of image file names such as ``benign_*``; empty takes all.

    Raises:
        DataError: if there is no pair, two files have one name, or pictures and volumes are mixed.
    """
    image_files = _files_by_name(images, include)
    label_files = _files_by_name(labels, ())
    if images.resolve() == labels.resolve():
        image_files, label_files = _parted(image_files, label_files, label_suffix, images)
    partners = {name.removesuffix(label_suffix): name for name in label_files if name.endswith(label_suffix)}
    names = sorted(image_files.keys() & partners.keys())
    if not names:
        chosen = f" that fit {', '.join(include)}" if include else ""
        raise DataError(
            f"Found no pair: {_some_names(image_files)} in {images}{chosen}, {_some_names(label_files)} in {labels}; "
            f"expected an image and a mask of the same name without suffix{label_suffix and f', plus {label_suffix}'}."
        )
    kinds = {image_files[name].suffix.lower() in IMAGE_SUFFIXES for name in names}
    if len(kinds) > 1:
        raise DataError(f"{images}: found pictures and volumes; expected one kind. Choose with --include.")
    unpaired = [
        f"{images.resolve().name}/{file.name}: no mask" for name, file in image_files.items() if name not in partners
    ]
    # Masks of images that were not asked for are not missed.
    if not include:
        used = {partners[name] for name in names}
        masks = labels.resolve().name
        unpaired += [f"{masks}/{file.name}: no image" for name, file in label_files.items() if name not in used]
    return SourceDataset(
        name=" and ".join(dict.fromkeys((images.resolve().name, labels.resolve().name))),
        task="segmentation",
        volumes=not kinds.pop(),
        cases=tuple(SourceCase(image_files[name], label_files[partners[name]], name=name) for name in names),
        skipped=tuple(unpaired),
    )


def _parted(
    image_files: Mapping[str, Path], label_files: Mapping[str, Path], label_suffix: str, folder: Path
) -> tuple[dict[str, Path], dict[str, Path]]:
    """Images and masks that lie in one folder, by the suffix of masks."""
    if not label_suffix:
        raise DataError(f"{folder}: is given for images and for masks; expected two folders, or a suffix of masks.")
    return (
        {name: file for name, file in image_files.items() if not name.endswith(label_suffix)},
        {name: file for name, file in label_files.items() if name.endswith(label_suffix)},
    )


def _files_by_name(folder: Path, include: Sequence[str]) -> dict[str, Path]:
    """The images of a folder whose file name fits a pattern, by name without suffix."""
    if not folder.is_dir():
        raise DataError(f"{folder}: found no such folder; expected one with images.")
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        name = _name_of(file)
        if name is None or (include and not any(fnmatch.fnmatchcase(file.name, pattern) for pattern in include)):
            continue
        if name in found:
            raise DataError(f"{folder}: found {found[name].name} and {file.name}; expected one file of each name.")
        found[name] = file
    return found


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


def _some_names(files: Mapping[str, Path]) -> str:
    names = [file.name for file in files.values()]
    if not names:
        return "no images"
    return ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
