"""The pipeline of 2D images: from an image file and its mask files to tensors of one size."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from monai.config import KeysCollection
from monai.transforms import Compose, EnsureTyped, MapTransform, NormalizeIntensityd, SqueezeDimd

from ..data_error import DataError
from .fitting import Fit, number_of_classes, padded, resize_image, resize_mask, scaled_extents
from .image_channels import ImageChannels
from .image_files import check_same_size, map_mask, read_mask
from .picture_channels import read_picture_channels

IMAGE, LABEL, CLEAN_LABEL = "image", "label", "clean_label"


def build_image_pipeline(
    *, channels: int | ImageChannels, size: Sequence[int], labels: Mapping[int, int], fit: Fit = "resize"
) -> Compose:
    """Build the transforms that turn the files of one case into tensors.

    A case is a dictionary with the paths ``image``, ``label`` and, where it is known, ``clean_label``. Images become
    grey or RGB, are resized (bilinear, with anti-aliasing where they shrink) and z-scored, jointly over red, green and
    blue, each by itself where channels have files of their own; a constant image or channel becomes zeros. Label values
    become classes and a pixel gets the class with the largest fraction of the area that it covers, foreground where
    shares are equal; ignored pixels count as a class of their own.

    Args:
        channels: 1 for grey, 3 for RGB; or those of an image with a grey file for each channel.
        size: rows and columns of the result.
        labels: value in a mask file → class, 0 for background, 255 for ignored pixels.
        fit: ``resize`` stretches both sides to the size; ``pad`` keeps the proportions and pads, an image with the
            intensities at its border, a mask with background.

    Returns:
        Transforms that give ``image`` float32 ``(C, H, W)`` and ``label`` and ``clean_label`` uint8 ``(H, W)``, plain
        tensors. Call them through :func:`decode_case`, which gives errors that a data manager can read.
    """
    masks = [LABEL, CLEAN_LABEL]
    return Compose(
        [
            ReadImaged(IMAGE, channels),
            ReadMaskd(masks, labels, image_key=IMAGE, allow_missing_keys=True),
            ResizeImaged(IMAGE, size, fit),
            ResizeMaskd(masks, size, fit, num_classes=number_of_classes(labels), allow_missing_keys=True),
            NormalizeIntensityd(IMAGE, channel_wise=isinstance(channels, ImageChannels)),
            *_padding(size, fit),
            SqueezeDimd(masks, dim=0, allow_missing_keys=True),
            EnsureTyped([IMAGE, *masks], track_meta=False, allow_missing_keys=True),
        ]
    )


def build_picture_pipeline(*, channels: int | ImageChannels, size: Sequence[int], fit: Fit = "resize") -> Compose:
    """Build the transforms of an image without masks; see :func:`build_image_pipeline` for what becomes of it."""
    return Compose(
        [
            ReadImaged(IMAGE, channels),
            ResizeImaged(IMAGE, size, fit),
            NormalizeIntensityd(IMAGE, channel_wise=isinstance(channels, ImageChannels)),
            *_padding(size, fit),
            EnsureTyped(IMAGE, track_meta=False),
        ]
    )


def _padding(size: Sequence[int], fit: Fit) -> list[MapTransform]:
    """What is padded after the z-score, to which it is not to count."""
    if fit != "pad":
        return []
    return [
        PadTod(IMAGE, size, border=True, allow_missing_keys=True),
        PadTod([LABEL, CLEAN_LABEL], size, border=False, allow_missing_keys=True),
    ]


def decode_case(pipeline: Compose, case: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a pipeline to one case.

    Raises:
        DataError: if a file is missing or unreadable, a mask has another size than its image or an unknown label value.
    """
    try:
        decoded: dict[str, Any] = pipeline(dict(case))
    except RuntimeError as error:
        # Compose wraps what a transform raises.
        if isinstance(error.__cause__, DataError):
            raise error.__cause__ from None
        raise
    return decoded


class ReadImaged(MapTransform):  # type: ignore[misc]
    """Read image files to float32 ``(C, H, W)``; constant images, or channels with files of their own, become zeros.

    Args:
        keys: keys of the paths; a path, or one for each channel and None for one that is missing.
        channels: 1 for grey, 3 for RGB; or those of an image with a grey file for each channel.
    """

    def __init__(self, keys: KeysCollection, channels: int | ImageChannels) -> None:
        super().__init__(keys)
        self.channels = channels

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace paths by intensities.

        Raises:
            DataError: if a file is missing or unreadable, or the channels are not those that the image must have.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            # Resizing would leave rounding errors in a constant image, which the z-score would blow up to noise.
            parts = [
                torch.zeros(image.shape) if image.min() == image.max() else torch.from_numpy(image)
                for image in read_picture_channels(result[key], self.channels)
            ]
            result[key] = parts[0] if len(parts) == 1 else torch.cat(parts)
        return result


class ReadMaskd(MapTransform):  # type: ignore[misc]
    """Read mask files to classes, uint8 ``(1, H, W)``, and check them against the image.

    Args:
        keys: keys of the paths.
        labels: value in the file → class.
        image_key: key of the image ``(C, H, W)`` as read, whose size the masks must have.
        allow_missing_keys: pass over a key that the case does not have.
    """

    def __init__(
        self, keys: KeysCollection, labels: Mapping[int, int], *, image_key: str, allow_missing_keys: bool = False
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.labels = dict(labels)
        self.image_key = image_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace paths by classes.

        Raises:
            DataError: if a mask is missing, unreadable, of another size than the image or has an unknown value.
        """
        result = dict(data)
        expected = tuple(result[self.image_key].shape[1:])
        for key in self.key_iterator(result):
            file = Path(result[key])
            values = read_mask(file)
            check_same_size(file, values.shape, expected)
            result[key] = torch.from_numpy(map_mask(values, self.labels, file))[None]
        return result


class ResizeImaged(MapTransform):  # type: ignore[misc]
    """Resize images ``(C, H, W)``; see :func:`~fedannot.transforms.loading.fitting.resize_image`.

    Args:
        keys: keys of the images.
        size: rows and columns of the result.
        fit: ``resize``, or ``pad`` for what still has to be padded.
    """

    def __init__(self, keys: KeysCollection, size: Sequence[int], fit: Fit = "resize") -> None:
        super().__init__(keys)
        self.size, self.fit = tuple(size), fit

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Resize every image; one that has the size already stays as it is."""
        result = dict(data)
        for key in self.key_iterator(result):
            result[key] = resize_image(result[key], scaled_extents(result[key].shape[1:], self.size, self.fit))
        return result


class ResizeMaskd(MapTransform):  # type: ignore[misc]
    """Resize masks ``(1, H, W)``; see :func:`~fedannot.transforms.loading.fitting.resize_mask`.

    Args:
        keys: keys of the masks.
        size: rows and columns of the result.
        fit: as for :class:`ResizeImaged`.
        num_classes: number of classes with background.
        allow_missing_keys: pass over a key that the case does not have.
    """

    def __init__(
        self,
        keys: KeysCollection,
        size: Sequence[int],
        fit: Fit = "resize",
        *,
        num_classes: int,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.size, self.fit = tuple(size), fit
        self.num_classes = num_classes

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Resize every mask; one that has the size already stays as it is."""
        result = dict(data)
        for key in self.key_iterator(result):
            extents = scaled_extents(result[key].shape[1:], self.size, self.fit)
            result[key] = resize_mask(result[key], extents, self.num_classes)
        return result


class PadTod(MapTransform):  # type: ignore[misc]
    """Pad images or masks ``(C, H, W)``; see :func:`~fedannot.transforms.loading.fitting.padded`.

    Args:
        keys: their keys.
        size: rows and columns of the result.
        border: pad with what is at the border, else with 0.
        allow_missing_keys: pass over a key that the case does not have.
    """

    def __init__(
        self, keys: KeysCollection, size: Sequence[int], *, border: bool, allow_missing_keys: bool = False
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.size, self.border = tuple(size), border

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Pad everything that is smaller than the size."""
        result = dict(data)
        for key in self.key_iterator(result):
            result[key] = padded(result[key], self.size, border=self.border)
        return result
