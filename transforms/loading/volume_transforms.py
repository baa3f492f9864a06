"""The steps of the pipeline of NIfTI volumes that MONAI does not have, as its transforms."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import InvertibleTransform, MapTransform, NormalizeIntensity, ScaleIntensityRange
from monai.utils import ImageMetaKey

from ..array_types import Array, Floats
from ..data_error import DataError
from ..printable import printable_logger
from .fitting import Fit, fitted_mask, labels_at, padded, resize_image, scaled_extents
from .image_channels import ImageChannels, ImageFiles
from .image_files import map_mask
from .volume_channels import LEAST_COVERED, ImageVolume, read_image_volume
from .volume_files import MAX_VOXELS, Volume, as_image_lies, read_label_volume
from .volume_geometry import voxel_spacing

_LOGGER = printable_logger(__name__)

# More than that is no finer grid but a damaged header.
_MAX_VOXELS_FROM_ONE = 1000
# Relative error of single precision after interpolation.
ROUNDING = 1e-6
# Of an image's meta data: the numbers of its channels that are missing and filled.
MISSING_CHANNELS = "missing_channels"


class ReadVolumed(MapTransform):  # type: ignore[misc]
    """Read NIfTI volumes to ``(C, I, J, K)`` with their affine; masks have one channel.

    Args:
        keys: keys of the paths; of an image a path, or one for each channel and None for one that is missing.
        labels: value in the file → class; None reads intensities.
        image_key: key of the image as read, whose geometry masks must have and are given.
        allow_missing_keys: pass over a key that the case does not have.
        channels: that an image must have.
    """

    def __init__(
        self,
        keys: KeysCollection,
        labels: Mapping[int, int] | None,
        *,
        image_key: str = "image",
        allow_missing_keys: bool = False,
        channels: ImageChannels | None = None,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.labels = labels
        self.image_key = image_key
        self.channels = channels or ImageChannels()

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace paths by tensors.

        Raises:
            DataError: if a file is missing or unreadable, a mask does not fit its image, or channels are not those that
                the image must have.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            if self.labels is None:
                result[key] = self._image(result[key])
            else:
                result[key] = self._mask(Path(result[key]), result[self.image_key])
        return result

    def _image(self, files: ImageFiles) -> MetaTensor:
        volume = read_image_volume(files, self.channels)
        log_image_remarks(volume, self.channels)
        return as_image_tensor(volume)

    def _mask(self, file: Path, image: MetaTensor) -> MetaTensor:
        assert self.labels is not None
        affine = np.asarray(image.affine, dtype=np.float64)
        volume = as_image_lies(file, read_label_volume(file), Volume(image[0].numpy(), affine))
        log_remark(file, volume)
        return as_meta_tensor(map_mask(volume.voxels, self.labels, file).astype(np.float32), affine, file)


class CheckResampledSized(MapTransform):  # type: ignore[misc]
    """Refuse volumes ``(C, H, W, D)`` that resampling would make much larger than they are.

    Args:
        keys: keys of the oriented volumes.
        spacing: voxel size in millimetres that they will be resampled to.
    """

    def __init__(self, keys: KeysCollection, spacing: Sequence[float]) -> None:
        super().__init__(keys)
        self.spacing = tuple(spacing)

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the data as they are.

        Raises:
            DataError: if a volume would have too many voxels.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            volume = result[key]
            found = voxel_spacing(np.asarray(volume.affine, dtype=np.float64))
            extents = [
                max(1.0, length * step / wanted)
                for length, step, wanted in zip(volume.shape[1:], found, self.spacing, strict=True)
            ]
            if math.prod(extents) > min(MAX_VOXELS, _MAX_VOXELS_FROM_ONE * volume.numel()):
                raise DataError(
                    f"{volume.meta[ImageMetaKey.FILENAME_OR_OBJ]}: found voxels of "
                    f"{' × '.join(f'{step:.3g}' for step in found)} mm, which resampling to "
                    f"{' × '.join(f'{step:.3g}' for step in self.spacing)} mm would make {math.prod(extents):.1e} "
                    f"voxels; expected at most {MAX_VOXELS} and {_MAX_VOXELS_FROM_ONE} for each of the file's. Correct "
                    "the file's affine or 'spacing' in data.yaml."
                )
        return result


class NormalizeVolumed(MapTransform):  # type: ignore[misc]
    """Give each channel of ``(C, H, W, D)`` mean 0 and standard deviation 1; constant ones become zeros.

    Args:
        keys: keys of the volumes.
    """

    def __init__(self, keys: KeysCollection) -> None:
        super().__init__(keys)
        self.normalize = NormalizeIntensity()

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace intensities by their z-scores."""
        result = dict(data)
        for key in self.key_iterator(result):
            image = result[key]
            several = [self._normalized] * len(image)
            result[key] = self._normalized(image) if len(image) == 1 else by_channel(image, several)
        return result

    def _normalized(self, image: torch.Tensor) -> torch.Tensor:
        # Resampling leaves rounding errors in a constant image, which the z-score would blow up to noise.
        constant = image.max() - image.min() <= ROUNDING * image.abs().max()
        result: torch.Tensor = torch.zeros_like(image) if bool(constant) else self.normalize(image)
        return result


class ScaleChannelsd(MapTransform):  # type: ignore[misc]
    """Scale each channel of ``(C, H, W, D)`` so that its window becomes 0 to 1; missing channels become zeros.

    Args:
        keys: keys of the volumes.
        windows: lower and upper end of the window of every channel; what is beyond is cut off.
    """

    def __init__(self, keys: KeysCollection, windows: Sequence[tuple[float, float]]) -> None:
        super().__init__(keys)
        self.scales = [ScaleIntensityRange(low, high, 0.0, 1.0, clip=True) for low, high in windows]

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace intensities by their place in the window."""
        result = dict(data)
        for key in self.key_iterator(result):
            image = result[key]
            scaled = by_channel(image, self.scales)
            for index in image.meta.get(MISSING_CHANNELS, ()):
                scaled[index] = 0.0
            result[key] = scaled
        return result


def by_channel(image: MetaTensor, changes: Sequence[Callable[[torch.Tensor], torch.Tensor]]) -> MetaTensor:
    """Change every channel ``(1, H, W, D)`` of ``(C, H, W, D)``, each in its own way."""
    values = image.as_tensor()
    parts = [change(values[index : index + 1]) for index, change in enumerate(changes)]
    changed = torch.cat([torch.as_tensor(part).as_subclass(torch.Tensor) for part in parts])
    return MetaTensor(changed).copy_meta_from(image)


def foreground(image: MetaTensor) -> torch.Tensor:
    """Return where the first channel that is there is brighter than 0, ``(1, H, W, D)``; everywhere if nowhere."""
    missing = image.meta.get(MISSING_CHANNELS, ()) if isinstance(image, MetaTensor) else ()
    first = next((index for index in range(len(image)) if index not in missing), 0)
    bright: torch.Tensor = image[first : first + 1] > 0
    return bright if bool(bright.any()) else torch.ones_like(bright)


class FitVolume(InvertibleTransform):  # type: ignore[misc]
    """Bring a volume ``(C, H, W, D)`` or its mask to a size with all that is in it; labels go back by the record.

    Args:
        size: extents of the result; None for an axis that keeps its own.
        fit: ``resize`` or ``pad``; see :data:`~fedannot.transforms.loading.fitting.Fit`.
        num_classes: of a mask, with background; None for intensities.
    """

    def __init__(self, size: Sequence[int | None], fit: Fit, num_classes: int | None) -> None:
        self.size, self.fit, self.num_classes = tuple(size), fit, num_classes

    def __call__(self, volume: MetaTensor) -> MetaTensor:
        """Return the volume at its new extents, with its affine there."""
        extents = tuple(volume.shape[1:])
        scaled = scaled_extents(extents, self.size, self.fit)
        wanted = [own if length is None else length for own, length in zip(scaled, self.size, strict=True)]
        values = volume.as_tensor()
        if self.num_classes is None:
            fitted = padded(resize_image(values, scaled), wanted, border=True)
        else:
            fitted = fitted_mask(values, self.size, self.fit, self.num_classes).to(values.dtype)
        result = MetaTensor(fitted.contiguous()).copy_meta_from(volume)
        result.affine = volume.affine @ _fitted_affine(extents, scaled, wanted)
        self.push_transform(result, orig_size=extents, extra_info={"affine": volume.affine})
        return result

    def inverse(self, labels: MetaTensor) -> MetaTensor:
        """Put labels back to the volume's extents and affine; where it was resized a voxel takes the nearest one."""
        record = self.pop_transform(labels)
        restored = labels_at(labels.as_tensor(), record["orig_size"], self.size, self.fit)
        result = MetaTensor(restored).copy_meta_from(labels)
        result.affine = record["extra_info"]["affine"]
        return result


class FitVolumed(MapTransform, InvertibleTransform):  # type: ignore[misc]
    """Dictionary version of :class:`FitVolume`.

    Args:
        keys: keys of the volumes and masks.
        size: see :class:`FitVolume`.
        fit: as above.
        image_key: which of them is no mask.
        num_classes: of the masks, with background.
    """

    def __init__(
        self, keys: KeysCollection, size: Sequence[int | None], fit: Fit, *, image_key: str, num_classes: int
    ) -> None:
        super().__init__(keys, allow_missing_keys=True)
        self.fits = {key: FitVolume(size, fit, None if key == image_key else num_classes) for key in self.keys}

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Bring every volume and mask to the size."""
        result = dict(data)
        for key in self.key_iterator(result):
            result[key] = self.fits[key](result[key])
        return result

    def inverse(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Put labels back."""
        result = dict(data)
        for key in self.key_iterator(result):
            result[key] = self.fits[key].inverse(result[key])
        return result


def log_remark(file: Path, volume: Volume) -> None:
    """Say in the log what of a header counts that contradicts itself, or is not in millimetres."""
    if volume.placement is not None and (remark := volume.placement.remark):
        _LOGGER.warning("%s: %s", file, remark)


def log_image_remarks(image: ImageVolume, channels: ImageChannels) -> None:
    """As :func:`log_remark` for every file of an image; and which channels cover less than the first one."""
    for own, volume in image.read:
        log_remark(own, volume)
    for index, covered in enumerate(image.covered):
        file = image.files[index]
        if file is not None and covered < LEAST_COVERED:
            _LOGGER.warning(
                "%s: %s covers %.0f %% of the voxels of %s; beyond it is its smallest intensity.",
                file,
                channels.label(index),
                100 * covered,
                image.file.name,
            )


def _fitted_affine(extents: Sequence[int], scaled: Sequence[int], wanted: Sequence[int]) -> torch.Tensor:
    """Affine ``(4, 4)`` from the voxels of a fitted volume to those of the volume itself."""
    affine = torch.eye(4, dtype=torch.float64)
    for axis, (own, between, length) in enumerate(zip(extents, scaled, wanted, strict=True)):
        step, before = own / between, (length - between) // 2
        affine[axis, axis], affine[axis, 3] = step, (0.5 - before) * step - 0.5
    return affine


def as_image_tensor(image: ImageVolume) -> MetaTensor:
    """Return an image of several channels as a tensor ``(C, I, J, K)`` that knows where they lie."""
    if len(image.voxels) == 1:
        return as_meta_tensor(image.voxels[0], image.affine, image.file)
    meta = {ImageMetaKey.FILENAME_OR_OBJ: str(image.file), MISSING_CHANNELS: image.missing}
    stacked = torch.stack([torch.from_numpy(np.ascontiguousarray(channel)) for channel in image.voxels])
    return MetaTensor(stacked, affine=torch.from_numpy(image.affine), meta=meta)


def as_meta_tensor(voxels: Array, affine: Floats, file: Path) -> MetaTensor:
    """Return voxels ``(I, J, K)`` of a file as a tensor ``(1, I, J, K)`` that knows where they lie.

    Args:
        voxels: intensities or classes.
        affine: ``(4, 4)``, voxel indices → millimetres.
        file: to name in an error.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(voxels))[None]
    return MetaTensor(tensor, affine=torch.from_numpy(affine), meta={ImageMetaKey.FILENAME_OR_OBJ: str(file)})
