"""From the files of a case to tensors, by the pipeline that a site's description names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...transforms.array_types import Classes
from ...transforms.errors import DataError
from ...transforms.loading.image_channels import ImageFiles
from .datalist import Case
from .description import (
    ClassificationDescription,
    ImageDescription,
    SegmentationDescription,
    SiteDescription,
    SliceDescription,
    VolumeDescription,
)
from .prepared_pack import PreparedCase

# Counts up when a change of a pipeline makes prepared tensors wrong.
PREPARATION_VERSION = 3

IMAGE, LABEL, CLEAN_LABEL, GIVEN_LABEL = "image", "label", "clean_label", "given_label"
# Of several annotators, samples first: (S, R, …).
ANNOTATIONS = "annotations"
KINDS = {IMAGE: torch.float32} | dict.fromkeys((LABEL, CLEAN_LABEL, GIVEN_LABEL, ANNOTATIONS), torch.uint8)

Preparation = Callable[[Case], PreparedCase]


def build_preparation(description: SiteDescription) -> Preparation:
    """Build what turns a case into its samples.

    The result has the tensors ``image`` ``(S, C, H, W[, D])`` float32, ``label`` and, where the case has one,
    ``clean_label`` ``(S, H, W[, D])`` uint8 (``(S,)`` for classification). S is the number of slices, else 1.

    Raises:
        TypeError: if there is no pipeline for the description.
    """
    match description:
        case ImageDescription():
            return _image_preparation(description)
        case SliceDescription() | VolumeDescription():
            return _volume_preparation(description)
        case ClassificationDescription():
            return _classification_preparation(description)
    raise TypeError(f"Expected the description of a pipeline, but got {type(description).__name__}.")


def _image_preparation(description: ImageDescription) -> Preparation:
    # MONAI takes 2 s, and a site whose cases are prepared needs none of it; also below.
    from ...transforms.loading.image_pipeline import build_image_pipeline, decode_case  # noqa: PLC0415

    pipeline = build_image_pipeline(
        channels=description.picture_channels,
        size=description.size,
        labels=description.labels_of_values,
        fit=description.fit,
    )

    def prepare(case: Case) -> PreparedCase:
        decoded = decode_case(pipeline, _mask_files(case))
        return PreparedCase({kind: decoded[kind][None] for kind in KINDS if kind in decoded})

    return prepare


def _volume_preparation(description: SliceDescription | VolumeDescription) -> Preparation:
    pipeline = build_volume_pipeline(description)

    def prepare(case: Case) -> PreparedCase:
        samples = pipeline(_mask_files(case))
        tensors = {IMAGE: samples.image, LABEL: samples.label, CLEAN_LABEL: samples.clean_label}
        known = {kind: tensor for kind, tensor in tensors.items() if tensor is not None}
        return PreparedCase(known, samples.spacing, samples.slice_spacing)

    return prepare


def fitted_picture_mask(classes: Classes, description: ImageDescription) -> Classes:
    """Return the classes ``(H, W)`` of a picture's mask as a preparation gives them, ``(1, rows, columns)``."""
    from ...transforms.loading.fitting import fitted_mask, number_of_classes  # noqa: PLC0415

    num_classes = number_of_classes(description.labels_of_values)
    fitted: Classes = fitted_mask(
        torch.from_numpy(classes)[None], description.size, description.fit, num_classes
    ).numpy()
    return fitted


def build_restoration(
    description: SegmentationDescription, extents: Sequence[int] | None = None
) -> Callable[[Path, Path, torch.Tensor], Classes]:
    """Build what puts classes of a case's samples back into the case's files, the way back of a preparation.

    Args:
        description: the site's.
        extents: of a picture's mask, where they are known; else it is read for them.

    Returns:
        A function of the image (:attr:`.datalist.Case.image`), the mask and classes ``(S, H, W[, D])``, which returns
        classes with the shape of the mask's file. Where images were resized or resampled a voxel takes the nearest
        class; what a crop cut off is 0.
        It raises DataError if a file cannot be read.
    """
    if isinstance(description, SliceDescription | VolumeDescription):
        from ...transforms.loading.volume_files import in_order_of  # noqa: PLC0415

        pipeline = build_volume_pipeline(description)

        def restore_volume(image: Path, mask: Path, classes: torch.Tensor) -> Classes:
            # A mask may be stored in another orientation than its image.
            return in_order_of(pipeline.reassemble(image, classes), mask)

        return restore_volume

    def restore_picture(image: Path, mask: Path, classes: torch.Tensor) -> Classes:
        from ...transforms.loading.fitting import labels_at  # noqa: PLC0415
        from ...transforms.loading.image_files import read_mask  # noqa: PLC0415

        del image
        assert isinstance(description, ImageDescription)
        own = read_mask(mask).shape if extents is None else extents
        restored: Classes = labels_at(classes, own, description.size, description.fit)[0].numpy()
        return restored.astype(np.uint8, copy=False)

    return restore_picture


def build_volume_pipeline(description: SliceDescription | VolumeDescription) -> Any:
    """Build the pipeline of volumes; see :class:`fedannot.transforms.loading.volume_pipeline.VolumePipeline`."""
    from ...transforms.loading.volume_pipeline import VolumePipeline  # noqa: PLC0415

    return VolumePipeline(
        labels=description.labels_of_values,
        orientation=description.orientation,
        spacing=description.spacing,
        crop=description.crop,
        window=description.window,
        channel_windows=description.channel_windows or (),
        size=description.size,
        fit=description.fit,
        slice_axis=description.slice_axis if isinstance(description, SliceDescription) else None,
        channels=description.image_channels,
    )


def _classification_preparation(description: ClassificationDescription) -> Preparation:
    from ...transforms.loading.image_pipeline import build_picture_pipeline, decode_case  # noqa: PLC0415

    pipeline = build_picture_pipeline(channels=description.picture_channels, size=description.size, fit=description.fit)

    def class_index(case: Case, value: Path | int) -> torch.Tensor:
        if not isinstance(value, int) or not 0 <= value < len(description.classes):
            last = len(description.classes) - 1
            raise DataError(
                f"{case.image}: found the class {str(value)!r}; expected a whole number from 0 to {last}, the position "
                "in 'classes' of data.yaml."
            )
        return torch.tensor([value], dtype=torch.uint8)

    def prepare(case: Case) -> PreparedCase:
        tensors = {LABEL: class_index(case, case.label)}
        if case.clean_label is not None:
            tensors[CLEAN_LABEL] = class_index(case, case.clean_label)
        return PreparedCase({IMAGE: decode_case(pipeline, {IMAGE: case.image_files})[IMAGE][None]} | tensors)

    return prepare


def _mask_files(case: Case) -> dict[str, ImageFiles]:
    """The files of a case with masks, by kind."""
    files: dict[str, ImageFiles] = {IMAGE: case.image_files}
    for kind, file in ((LABEL, case.label), (CLEAN_LABEL, case.clean_label)):
        if isinstance(file, int):
            raise DataError(f"{case.image}: found {kind!r} = {file}; expected the path of a mask.")
        if file is not None:
            files[kind] = file
    return files
