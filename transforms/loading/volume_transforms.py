"""The steps of the pipeline of NIfTI volumes that MONAI does not have, as its transforms."""

import math
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import MapTransform, NormalizeIntensity
from monai.utils import ImageMetaKey
from numpy.typing import NDArray

from ..errors import DataError
from .image_files import map_mask
from .volume_files import (
    MAX_VOXELS,
    Volume,
    check_same_geometry,
    read_label_volume,
    read_volume,
    voxel_spacing,
)

# More than that is no finer grid but a damaged header.
_MAX_VOXELS_FROM_ONE = 1000
# Relative error of single precision after interpolation.
ROUNDING = 1e-6


class ReadVolumed(MapTransform):  # type: ignore[misc]
    """Read NIfTI volumes to ``(1, I, J, K)`` with their affine.

    Args:
        keys: keys of the paths.
        labels: value in the file → class; None reads intensities.
        image_key: key of the image as read, whose geometry masks must have and are given.
        allow_missing_keys: pass over a key that the case does not have.
    """

    def __init__(
        self,
        keys: KeysCollection,
        labels: Mapping[int, int] | None,
        *,
        image_key: str = "image",
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.labels = labels
        self.image_key = image_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Replace paths by tensors.

        Raises:
            DataError: if a file is missing or unreadable, or a mask does not fit its image.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            file = Path(result[key])
            result[key] = self._image(file) if self.labels is None else self._mask(file, result[self.image_key])
        return result

    def _image(self, file: Path) -> MetaTensor:
        volume = read_volume(file)
        return as_meta_tensor(volume.voxels, volume.affine, file)

    def _mask(self, file: Path, image: MetaTensor) -> MetaTensor:
        assert self.labels is not None
        affine = np.asarray(image.affine, dtype=np.float64)
        volume = read_label_volume(file)
        check_same_geometry(file, volume, Volume(image[0].numpy(), affine))
        return as_meta_tensor(map_mask(volume.voxels, self.labels, file).astype(np.float32), affine, file)


class CheckResampledSized(MapTransform):  # type: ignore[misc]
    """Refuse volumes ``(1, H, W, D)`` that resampling would make much larger than they are.

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
    """Give volumes ``(1, H, W, D)`` mean 0 and standard deviation 1; constant ones become zeros.

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
            # Resampling leaves rounding errors in a constant image, which the z-score would blow up to noise.
            constant = image.max() - image.min() <= ROUNDING * image.abs().max()
            result[key] = torch.zeros_like(image) if bool(constant) else self.normalize(image)
        return result


def as_meta_tensor(voxels: NDArray[Any], affine: NDArray[np.float64], file: Path) -> MetaTensor:
    """Return voxels ``(I, J, K)`` of a file as a tensor ``(1, I, J, K)`` that knows where they lie.

    Args:
        voxels: intensities or classes.
        affine: ``(4, 4)``, voxel indices → millimetres.
        file: to name in an error.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(voxels))[None]
    return MetaTensor(tensor, affine=torch.from_numpy(affine), meta={ImageMetaKey.FILENAME_OR_OBJ: str(file)})
