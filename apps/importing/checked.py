"""One case of a data set, read once: files that the pipelines can use, and what an import has to know of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...custom.data.description import SiteDescription, SliceDescription, VolumeDescription
from ...custom.data.whole_files import private_file, private_folder
from ...transforms.array_types import Array, Labels
from ...transforms.data_error import DataError, NearlyWholeError
from ...transforms.loading.image_files import Picture, check_same_size, read_picture, value_counts
from ...transforms.loading.picture_display import UPRIGHT
from ...transforms.loading.volume_files import (
    Volume,
    as_image_lies,
    is_turned,
    largest_offset,
    read_label_volume,
    read_volume,
    write_labels_like,
)
from ..checking.crop import inside_crop
from ..checking.digests import digest_of
from .dicom_pictures import as_picture
from .picture_masks import read_values, write_mask
from .several_readers import check_one_reader
from .source import SourceCase, SourceDataset
from .volumes import as_nifti

_TRUST = (
    "If the voxels do belong together, --trust-voxels imports the mask with its image's affine; else export it again."
)
_MIRRORED = (
    "Its axes run to {mask}, those of the image to {image}, so that --trust-voxels would turn or mirror it and does "
    "not apply. Export the mask again from its image."
)


Read = TypeVar("Read")


@dataclass(frozen=True)
class Reading:
    """How the files of a data set are read.

    Attributes:
        description: of a site's data as far as it is known before masks are read: size, and what is cropped.
        channels: of pictures; None for as many as each one's colours need.
        colours: of masks in colours, colour → class; see :func:`fedannot.transforms.loading.image_files.read_colours`.
        trust_voxels: take a mask of a volume's size to lie where its image lies, whatever its affine says.
        unites_masks: several masks of an image are parts of one annotation, also where they cover each other.
        round_labels: round label values that are not quite whole numbers, and write such masks again.
    """

    description: SiteDescription
    channels: int | None = None
    colours: Mapping[int, int] | None = None
    trust_voxels: bool = False
    unites_masks: bool = False
    round_labels: bool = False


@dataclass(frozen=True)
class ValueCount:
    """How often a mask has a value: in how many pixels or voxels, and how many of them the pipeline's crop keeps."""

    pixels: int
    kept: int


@dataclass(frozen=True)
class CheckedCase:
    """A case that can be read.

    Attributes:
        source: where it comes from.
        image: the image, converted where need be.
        label: the mask, as above, or the class.
        clean_label: as above.
        counts: value in the mask → how often it has it; none for classification.
        clean_values: the values in the clean mask, as above.
        digest: of the image's pixels; None where all are equal, as such images are alike whatever they show.
        offset: by how far its mask lay off its image where that was not believed, in millimetres; else 0.
        has_colours: whether the picture shows colours.
        is_turned_by_exif: whether EXIF says that the picture is shown otherwise than it is stored.
        is_turned: whether a mask is stored in another orientation than its image.
        is_rounded: whether label values of a mask were rounded.
        remarks: what of the headers of its image and masks counts where they contradict themselves.
    """

    source: SourceCase
    image: Path
    label: Path | int
    clean_label: Path | int | None
    counts: Mapping[int, ValueCount] = field(default_factory=dict)
    clean_values: tuple[int, ...] = ()
    digest: str | None = None
    offset: float = 0.0
    is_turned: bool = False
    remarks: tuple[str, ...] = ()
    has_colours: bool = False
    is_turned_by_exif: bool = False
    is_rounded: bool = False

    @property
    def name(self) -> str:
        """The name of its files in the federation."""
        return self.source.name or self.image.stem

    @property
    def values(self) -> tuple[int, ...]:
        """The values in the masks, sorted."""
        return tuple(sorted({*self.counts, *self.clean_values}))

    @property
    def pixels(self) -> int:
        """Pixels or voxels of the mask."""
        return sum(count.pixels for count in self.counts.values())

    @property
    def label_file(self) -> Path:
        """A file to name when the label is wrong."""
        label = self.source.label
        if isinstance(label, tuple):
            return label[0]
        return label if isinstance(label, Path) else self.source.image


def checked_case(case: SourceCase, dataset: SourceDataset, staging: Path, reading: Reading) -> CheckedCase:
    """Read a case's files, converting what the pipelines cannot read into the staging folder.

    Raises:
        SeveralReadersError: if an image has masks of several readers.
        DataError: if a file is missing or unreadable, a mask does not fit its image, or a class does not exist.
    """
    if dataset.task == "classification":
        image_file, picture = _picture(case, staging, reading)
        for label in (case.label, case.clean_label):
            if label is not None and not (isinstance(label, int) and 0 <= label < len(dataset.classes)):
                raise DataError(
                    f"{case.image}: found the class {label}; expected 0 to {len(dataset.classes) - 1} for "
                    f"{', '.join(dataset.classes)}."
                )
        clean = case.clean_label if isinstance(case.clean_label, int) else None
        return CheckedCase(case, image_file, _class_of(case), clean, **_of_picture(picture))
    return _checked_volume(case, staging, reading) if dataset.volumes else _checked_picture(case, staging, reading)


@contextmanager
def _errors_name(source: Path, converted: Path) -> Iterator[None]:
    """Name the person's own file in errors of the converted one."""
    try:
        yield
    except DataError as error:
        raise type(error)(str(error).replace(str(converted), str(source))) from error


def _picture(case: SourceCase, staging: Path, reading: Reading) -> tuple[Path, Picture]:
    """The picture of a case, and the file that the pipelines read."""
    file = as_picture(case.image, staging / "images" / (case.name or case.image.stem))
    with _errors_name(case.image, file):
        return file, read_picture(file, reading.channels)


def _checked_picture(case: SourceCase, staging: Path, reading: Reading) -> CheckedCase:
    image_file, picture = _picture(case, staging, reading)
    rounded = [False]

    def mask(label: Path | tuple[Path, ...] | int, kind: str) -> tuple[Path, Labels]:
        files = _files(label, case)
        parts = []
        for file in files:
            values, was_rounded = _rounded(partial(read_values, file, reading.colours), reading)
            parts.append(values)
            rounded.append(was_rounded)
        for file, part in zip(files, parts, strict=True):
            check_same_size(file, part.shape, picture.intensities.shape[1:])
        if not reading.unites_masks:
            check_one_reader(files, parts)
        merged = np.maximum.reduce(parts)
        if len(files) == 1 and reading.colours is None and not any(rounded):
            return files[0], merged
        return write_mask(staging / kind / f"{case.name}.png", merged), merged

    label, values = mask(case.label, "labels")
    clean = None if case.clean_label is None else mask(case.clean_label, "clean_labels")
    return CheckedCase(
        case,
        image_file,
        label,
        None if clean is None else clean[0],
        _counts(values),
        () if clean is None else tuple(_counts(clean[1])),
        is_rounded=any(rounded),
        **_of_picture(picture),
    )


def _checked_volume(case: SourceCase, staging: Path, reading: Reading) -> CheckedCase:
    image_file = as_nifti(case.image, staging / "images" / f"{case.name}.nii.gz")
    with _errors_name(case.image, image_file):
        image = read_volume(image_file)
    offsets, turned, rounded, remarks = [0.0], [False], [False], _remarks(case.image, image)

    def mask(label: Path | tuple[Path, ...] | int, kind: str) -> tuple[Path, Labels]:
        files = _files(label, case)
        parts = []
        for index, file in enumerate(files):
            nifti = as_nifti(file, staging / kind / "parts" / f"{case.name}-{index}.nii.gz", onto=image)
            with _errors_name(file, nifti):
                volume, was_rounded = _rounded(partial(read_label_volume, nifti), reading)
            rounded.append(was_rounded)
            placed, offset = _placed(file, volume, image, trusted=reading.trust_voxels)
            offsets.append(offset)
            turned.append(placed is not volume)
            remarks.extend(_remarks(file, volume))
            parts.append((nifti, placed.voxels))
        if not reading.unites_masks:
            check_one_reader(files, [voxels for _, voxels in parts])
        merged = np.maximum.reduce([voxels for _, voxels in parts])
        if len(files) == 1 and not any((*offsets, *turned, *rounded)):
            return parts[0][0], merged
        target = staging / kind / f"{case.name}.nii.gz"
        private_folder(target.parent)
        write_labels_like(private_file(target), merged, image_file)
        return target, merged

    label, values = mask(case.label, "labels")
    clean = None if case.clean_label is None else mask(case.clean_label, "clean_labels")
    return CheckedCase(
        case,
        image_file,
        label,
        None if clean is None else clean[0],
        _counts(values, image, reading.description),
        () if clean is None else tuple(_counts(clean[1])),
        _image_digest(image.voxels),
        max(offsets),
        any(turned),
        tuple(remarks),
        is_rounded=any(rounded),
    )


def _rounded(read: Callable[..., Read], reading: Reading) -> tuple[Read, bool]:
    """What is read of a mask, and whether its label values were rounded."""
    try:
        return read(), False
    except NearlyWholeError as error:
        if not reading.round_labels:
            raise NearlyWholeError(f"{error} --round-labels takes the nearest ones.") from error
    return read(rounds=True), True


def _remarks(file: Path, volume: Volume) -> list[str]:
    placement = volume.placement
    return [] if placement is None or placement.remark is None else [f"{file.name}: {placement.remark}"]


def _placed(file: Path, mask: Volume, image: Volume, *, trusted: bool) -> tuple[Volume, float]:
    """A mask as its image lies; by how many millimetres it lies off where that is not believed, else 0."""
    has_size = mask.voxels.shape == image.voxels.shape
    # A header that says nothing of its axes may be of any voxels.
    says = all(volume.placement is None or volume.placement.says_orientation for volume in (mask, image))
    would_mirror = says and is_turned(mask, image)
    remedy = _MIRRORED.format(mask=mask.orientation, image=image.orientation) if would_mirror else _TRUST
    try:
        return as_image_lies(file, mask, image, remedy=remedy), 0.0
    except DataError:
        if not trusted or would_mirror or not has_size:
            raise
    return mask, largest_offset(mask, image)


def _counts(
    values: Labels, image: Volume | None = None, description: SiteDescription | None = None
) -> dict[int, ValueCount]:
    """How often a mask has each of its values, and how often inside the pipeline's crop."""
    counts = value_counts(values)
    kept = counts
    if image is not None and isinstance(description, SliceDescription | VolumeDescription) and _crops(description):
        places = np.nonzero(values)
        kept = {0: counts.get(0, 0)} | value_counts(values[places][inside_crop(places, image, description)])
    return {value: ValueCount(count, kept.get(value, 0)) for value, count in counts.items()}


def _crops(description: SliceDescription | VolumeDescription) -> bool:
    return description.crop == "foreground" or (description.size is not None and description.fit == "crop")


def _of_picture(picture: Picture) -> dict[str, Any]:
    """What a checked case keeps of its picture."""
    is_turned_by_exif = picture.orientation != UPRIGHT
    digest = _image_digest(picture.intensities)
    return {"digest": digest, "has_colours": picture.has_colours, "is_turned_by_exif": is_turned_by_exif}


def _image_digest(pixels: Array) -> str | None:
    return None if pixels.min() == pixels.max() else digest_of(pixels)


def _class_of(case: SourceCase) -> int:
    assert isinstance(case.label, int)
    return case.label


def _files(label: Path | tuple[Path, ...] | int, case: SourceCase) -> tuple[Path, ...]:
    if isinstance(label, int):
        raise DataError(f"{case.image}: found the class {label}; expected a mask.")
    return label if isinstance(label, tuple) else (label,)
