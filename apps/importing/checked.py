"""One case of a data set, read once: files that the pipelines can use, and what an import has to know of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...custom.data.annotations import UNDECIDED, Annotation, annotator_folder
from ...custom.data.description import SiteDescription, SliceDescription, VolumeDescription
from ...custom.data.noise.federation_copy import ANNOTATIONS
from ...transforms.array_types import Array, Labels
from ...transforms.data_error import DataError, MissingFileError
from ...transforms.loading.dicom_kind import is_structure_set
from ...transforms.loading.image_channels import ImageChannels, reference_file
from ...transforms.loading.image_files import Picture, check_same_size, read_picture, value_counts
from ...transforms.loading.picture_channels import read_picture_channels
from ...transforms.loading.picture_display import UPRIGHT
from ...transforms.loading.volume_channels import ImageVolume, read_image_volume
from ...transforms.loading.volume_files import Volume
from ..checking.crop import inside_crop
from ..checking.digests import digest_of
from .channel_files import channel_name
from .contour_masks import ContourFacts
from .dicom_pictures import as_picture
from .picture_masks import read_values, write_mask
from .placed_masks import MaskFacts, placed_mask, remarks_on, write_mask_like
from .reading import Reading, errors_name
from .several_readers import check_one_reader
from .source import GivenLabel, SourceCase, SourceDataset
from .volumes import as_nifti


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
        image: the image, converted where need be; of several files the first channel that is there.
        label: the mask, as above, or the class.
        clean_label: as above.
        counts: value in the mask → how often it has it; none for classification.
        clean_values: the values in the clean mask, as above.
        digest: of the image's pixels; None where all are equal, as such images are alike whatever they show.
        masks: of a volume, how each mask came onto the voxels of its image.
        has_colours: whether the picture shows colours.
        is_turned_by_exif: whether EXIF says that the picture is shown otherwise than it is stored.
        is_rounded: whether label values of a mask were rounded.
        remarks: what of the headers of its image and masks counts where they contradict themselves.
        channels: the file of every channel, as the image, None for one that is missing; empty of an image in one file.
        annotations: of several annotators, as the label; counts are then of all of them together.
    """

    source: SourceCase
    image: Path
    label: Path | int
    clean_label: Path | int | None
    counts: Mapping[int, ValueCount] = field(default_factory=dict)
    clean_values: tuple[int, ...] = ()
    digest: str | None = None
    masks: tuple[MaskFacts, ...] = ()
    remarks: tuple[str, ...] = ()
    has_colours: bool = False
    is_turned_by_exif: bool = False
    is_rounded: bool = False
    channels: tuple[Path | None, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def name(self) -> str:
        """The name of its files in the federation."""
        return self.source.name or self.image.stem

    @property
    def values(self) -> tuple[int, ...]:
        """The values in the masks, sorted."""
        return tuple(sorted({*self.counts, *self.clean_values}))

    @property
    def offset(self) -> float:
        """By how far its masks lay off its image where that was not believed, in millimetres; else 0."""
        return max((facts.trusted_offset for facts in self.masks), default=0.0)

    @property
    def is_turned(self) -> bool:
        """Whether a mask is stored in another orientation than its image."""
        return any(facts.is_turned for facts in self.masks)

    @property
    def kept_offset(self) -> float:
        """As above, by less than half a voxel, so that their voxels were taken as they are."""
        return max((facts.kept_offset for facts in self.masks), default=0.0)

    @property
    def resampled_from(self) -> float | None:
        """Distance in millimetres from which a label came at most, of masks on another grid; None if there are none."""
        return max((facts.resampled_from for facts in self.masks if facts.resampled_from is not None), default=None)

    @property
    def contours(self) -> tuple[ContourFacts, ...]:
        """What became of its structure sets."""
        return tuple(facts.contours for facts in self.masks if facts.contours is not None)

    @property
    def pixels(self) -> int:
        """Pixels or voxels of the mask."""
        return sum(count.pixels for count in self.counts.values())

    @property
    def label_file(self) -> Path:
        """A file to name when the label is wrong."""
        label: GivenLabel = self.source.label
        if self.source.annotations and label == UNDECIDED:
            label = self.source.annotations[0].file
        if isinstance(label, tuple):
            return label[0]
        if isinstance(label, int):
            return self.source.image
        return label if isinstance(label, Path) else label.file


def checked_case(case: SourceCase, dataset: SourceDataset, staging: Path, reading: Reading) -> CheckedCase:
    """Read a case's files, converting what the pipelines cannot read into the staging folder.

    Raises:
        SeveralReadersError: if an image has masks of several readers.
        DataError: if a file is missing or unreadable, a mask does not fit its image, or a class does not exist.
    """
    if dataset.task == "classification":
        image_file, picture, channels = _picture(case, staging, reading)
        annotations = tuple(one for one in case.annotations if isinstance(one, Annotation))
        annotated = [annotation.file for annotation in annotations]
        for label in (*annotated, *([] if annotated and case.label == UNDECIDED else [case.label]), case.clean_label):
            if label is not None and not (isinstance(label, int) and 0 <= label < len(dataset.classes)):
                raise DataError(
                    f"{case.image}: found the class {label}; expected 0 to {len(dataset.classes) - 1} for "
                    f"{', '.join(dataset.classes)}."
                )
        clean = case.clean_label if isinstance(case.clean_label, int) else None
        return CheckedCase(
            case,
            image_file,
            _class_of(case),
            clean,
            channels=channels,
            annotations=annotations,
            **_of_picture(picture),
        )
    return _checked_volume(case, staging, reading) if dataset.volumes else _checked_picture(case, staging, reading)


def _picture(case: SourceCase, staging: Path, reading: Reading) -> tuple[Path, Picture, tuple[Path | None, ...]]:
    """The picture of a case, the file that the pipelines read, and the files of its channels."""
    folder = staging / "images"
    if not case.channels:
        file = as_picture(case.image, folder / _name(case))
        with errors_name(case.image, file):
            if isinstance(channels := reading.description.picture_channels, ImageChannels):
                # One grey file of one named channel, or refused.
                read_picture_channels(file, channels)
                return file, read_picture(file, 1), ()
            return file, read_picture(file, reading.channels), ()
    files = _converted(case, lambda source, name: as_picture(source, folder / name))
    with _errors_name_all(case, files):
        parts = read_picture_channels(files, reading.description.picture_channels)
        first = reference_file(files)
        return first, replace(read_picture(first, 1), intensities=np.concatenate(parts)), files


def _name(case: SourceCase) -> str:
    return case.name or case.image.stem


def _converted(case: SourceCase, convert: Callable[[Path, str], Path]) -> tuple[Path | None, ...]:
    """The files of a case's channels as the pipelines read them, each converted to one of its name."""
    for source in case.channels:
        if source is not None and not source.exists():
            raise MissingFileError(f"{source}: found no such file; expected a channel of {case.name}.")
    return tuple(
        None if file is None else convert(file, channel_name(_name(case), number))
        for number, file in enumerate(case.channels)
    )


@contextmanager
def _errors_name_all(case: SourceCase, files: Sequence[Path | None]) -> Iterator[None]:
    """Name the person's own files in errors of the converted ones."""
    with ExitStack() as stack:
        for source, file in zip(case.channels, files, strict=True):
            if source is not None and file is not None:
                stack.enter_context(errors_name(source, file))
        yield


def _checked_picture(case: SourceCase, staging: Path, reading: Reading) -> CheckedCase:
    image_file, picture, channels = _picture(case, staging, reading)
    rounded = [False]

    def mask(label: GivenLabel, kind: str) -> tuple[Path, Labels]:
        if not isinstance(label, Path | tuple | int):
            drawn = label.draw(case.image, (picture.intensities.shape[1], picture.intensities.shape[2]))
            return write_mask(staging / kind / f"{case.name}.png", drawn), drawn
        files = _files(label, case)
        parts = []
        for file in files:
            if is_structure_set(file):
                raise DataError(
                    f"{file}: found contours (RTSTRUCT) of a picture; expected them of a volume, or a mask."
                )
            values, was_rounded = reading.rounded(partial(read_values, file, reading.colours))
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

    label, annotations, values = _labels(case, mask)
    clean = None if case.clean_label is None else mask(case.clean_label, "clean_labels")
    return CheckedCase(
        case,
        image_file,
        label,
        None if clean is None else clean[0],
        _counts(values),
        () if clean is None else tuple(_counts(clean[1])),
        is_rounded=any(rounded),
        channels=channels,
        annotations=annotations,
        **_of_picture(picture),
    )


def _checked_volume(case: SourceCase, staging: Path, reading: Reading) -> CheckedCase:
    whole = _volume(case, staging / "images", reading)
    image_file, image = whole.file, whole.first
    placed: list[MaskFacts] = []

    def mask(label: GivenLabel, kind: str) -> tuple[Path, Labels]:
        files, folder = _files(label, case), staging / kind / "parts"
        parts = [
            placed_mask(file, case.image, image, folder / f"{case.name}-{index}.nii.gz", reading)
            for index, file in enumerate(files)
        ]
        placed.extend(part.facts for part in parts)
        if not reading.unites_masks:
            check_one_reader(files, [part.values for part in parts])
        merged = np.maximum.reduce([part.values for part in parts])
        if len(parts) == 1 and (stored := parts[0].file) is not None:
            return stored, merged
        return write_mask_like(staging / kind / f"{case.name}.nii.gz", merged, image_file), merged

    label, annotations, values = _labels(case, mask)
    clean = None if case.clean_label is None else mask(case.clean_label, "clean_labels")
    return CheckedCase(
        case,
        image_file,
        label,
        None if clean is None else clean[0],
        _counts(values, image, reading.description),
        () if clean is None else tuple(_counts(clean[1])),
        _image_digest(np.stack(whole.voxels)) if len(whole.voxels) > 1 else _image_digest(image.voxels),
        masks=tuple(placed),
        remarks=(*remarks_on(case.image, image), *(remark for facts in placed for remark in facts.remarks)),
        is_rounded=any(facts.is_rounded for facts in placed),
        channels=whole.files if case.channels else (),
        annotations=annotations,
    )


def _labels(
    case: SourceCase, mask: Callable[[GivenLabel, str], tuple[Path, Labels]]
) -> tuple[Path | int, tuple[Annotation, ...], Labels]:
    """The label, the annotations of several annotators, and values of all of them, which are for counts alone.

    Args:
        case: the case.
        mask: reads a label, and stores it in a folder of the staging folder.
    """
    if not case.annotations:
        label, values = mask(case.label, "labels")
        return label, (), values
    read = [mask(one.file, f"{ANNOTATIONS}/{annotator_folder(one.annotator)}") for one in case.annotations]
    annotations = tuple(Annotation(file, one.annotator) for (file, _), one in zip(read, case.annotations, strict=True))
    values = np.maximum.reduce([values for _, values in read])
    return UNDECIDED if case.label == UNDECIDED else mask(case.label, "labels")[0], annotations, values


def _volume(case: SourceCase, folder: Path, reading: Reading) -> ImageVolume:
    """The volume of a case with its channels, from files that the pipelines read."""
    channels = reading.description.image_channels
    if not case.channels:
        file = as_nifti(case.image, folder / f"{_name(case)}.nii.gz")
        with errors_name(case.image, file):
            return read_image_volume(file, channels)
    files = _converted(case, lambda source, name: as_nifti(source, folder / f"{name}.nii.gz"))
    with _errors_name_all(case, files):
        return read_image_volume(files, channels)


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


def _files(label: GivenLabel, case: SourceCase) -> tuple[Path, ...]:
    if isinstance(label, int):
        raise DataError(f"{case.image}: found the class {label}; expected a mask.")
    if not isinstance(label, Path | tuple):
        raise DataError(f"{label.file}: found a drawing for a volume; expected a mask of its voxels.")
    return label if isinstance(label, tuple) else (label,)
