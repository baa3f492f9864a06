"""One case of a data set, read once: files that the pipelines can use, and the values in its mask."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ...transforms.errors import DataError
from ...transforms.loading.image_files import check_same_size, distinct_values, map_mask, read_image, read_mask
from ...transforms.loading.volume_files import check_same_geometry, read_label_volume, read_volume
from .source import SourceCase, SourceDataset
from .volumes import as_nifti


@dataclass(frozen=True)
class CheckedCase:
    """A case that can be read.

    Attributes:
        source: where it comes from.
        image: the image, converted where need be.
        label: the mask, likewise, or the class.
        clean_label: likewise.
        values: the values in the masks, none for classification.
    """

    source: SourceCase
    image: Path
    label: Path | int
    clean_label: Path | int | None
    values: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of its files in the federation."""
        return self.source.name or self.image.stem

    @property
    def label_file(self) -> Path:
        """A file to name when the label is wrong."""
        label = self.source.label
        if isinstance(label, tuple):
            return label[0]
        return label if isinstance(label, Path) else self.source.image


def checked_case(case: SourceCase, dataset: SourceDataset, staging: Path) -> CheckedCase:
    """Read a case's files, converting what the pipelines cannot read into the staging folder.

    Raises:
        DataError: if a file is missing or unreadable, a mask does not fit its image, or a class does not exist.
    """
    if dataset.task == "classification":
        read_image(case.image, channels=1)
        for label in (case.label, case.clean_label):
            if label is not None and not (isinstance(label, int) and 0 <= label < len(dataset.classes)):
                raise DataError(
                    f"{case.image}: found the class {label}; expected 0 to {len(dataset.classes) - 1} for "
                    f"{', '.join(dataset.classes)}."
                )
        clean = case.clean_label if isinstance(case.clean_label, int) else None
        return CheckedCase(case, case.image, _class_of(case), clean, ())
    return _checked_volume(case, staging) if dataset.volumes else _checked_picture(case, staging)


@contextmanager
def _errors_name(source: Path, converted: Path) -> Iterator[None]:
    """Name the person's own file in errors of the converted one."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace(str(converted), str(source))) from error


def unusable_values(case: CheckedCase, labels: Mapping[int, int]) -> str | None:
    """Return why the values in a case's mask cannot be used with this mapping, None if they can."""
    try:
        map_mask(np.asarray(case.values, dtype=np.int64), labels, case.label_file)
    except DataError as error:
        return str(error)
    return None


def _checked_picture(case: SourceCase, staging: Path) -> CheckedCase:
    size = read_image(case.image, channels=1).shape[1:]
    found: set[int] = set()

    def mask(label: Path | tuple[Path, ...] | int, kind: str) -> Path:
        files = _files(label, case)
        parts = [read_mask(file) for file in files]
        for file, part in zip(files, parts, strict=True):
            check_same_size(file, part.shape, size)
        merged = np.maximum.reduce(parts)
        found.update(int(value) for value in distinct_values(merged))
        if len(files) == 1:
            return files[0]
        target = staging / kind / f"{case.name}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(merged.astype(np.uint8 if merged.max() <= 255 else np.uint16)).save(target)
        return target

    label = mask(case.label, "labels")
    clean = None if case.clean_label is None else mask(case.clean_label, "clean_labels")
    return CheckedCase(case, case.image, label, clean, tuple(sorted(found)))


def _checked_volume(case: SourceCase, staging: Path) -> CheckedCase:
    image_file = as_nifti(case.image, staging / "images" / f"{case.name}.nii.gz")
    with _errors_name(case.image, image_file):
        image = read_volume(image_file)
    found: set[int] = set()

    def mask(label: Path | tuple[Path, ...] | int, kind: str) -> Path:
        files = _files(label, case)
        if len(files) != 1:
            raise DataError(f"{case.image}: found {len(files)} masks of a volume; expected one.")
        file = as_nifti(files[0], staging / kind / f"{case.name}.nii.gz")
        with _errors_name(files[0], file):
            volume = read_label_volume(file)
        check_same_geometry(files[0], volume, image)
        found.update(int(value) for value in distinct_values(volume.voxels))
        return file

    label = mask(case.label, "labels")
    clean = None if case.clean_label is None else mask(case.clean_label, "clean_labels")
    return CheckedCase(case, image_file, label, clean, tuple(sorted(found)))


def _class_of(case: SourceCase) -> int:
    assert isinstance(case.label, int)
    return case.label


def _files(label: Path | tuple[Path, ...] | int, case: SourceCase) -> Sequence[Path]:
    if isinstance(label, int):
        raise DataError(f"{case.image}: found the class {label}; expected a mask.")
    return label if isinstance(label, tuple) else (label,)
