"""What a bundle writes for the images of a folder: labels and probabilities, where their images lie.

A bundle carries a copy of this module and of those that it imports.
"""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import MapTransform
from PIL import Image

from ..array_types import Array, Floats
from .folder_images import FILE, FILE_AFFINE, NAME


class WriteLabelsd(MapTransform):  # type: ignore[misc]
    """Write labels ``(1, H, W)`` as PNG, ``(1, I, J, K)`` as NIfTI where the voxels of their image's file lie.

    Args:
        keys: of the labels; of volumes in any order of the file's axes, with their affine in millimetres.
        output_dir: folder of the results, made if need be.
        postfix: is added to the image's name.
        image_key: of the image, which knows where its file's voxels lie.
    """

    def __init__(self, keys: KeysCollection, output_dir: str, postfix: str, image_key: str = "image") -> None:
        super().__init__(keys)
        self.folder, self.postfix, self.image_key = Path(output_dir), postfix, image_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Write ``NAME_POSTFIX.png`` or ``NAME_POSTFIX.nii.gz`` and return the data as they are.

        Raises:
            DataError: if the image's file can no longer be read.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            classes = result[key].as_tensor()[0].round().to(torch.uint8).cpu().numpy()
            self.write(f"{result[NAME]}_{self.postfix}", classes, result[key], result)
        return result

    def write(self, name: str, values: Array, lying: MetaTensor, data: Mapping[Hashable, Any]) -> None:
        """Write values of one image.

        Args:
            name: of the file below the folder, without suffix.
            values: ``(H, W)`` or ``(I, J, K)``, classes or probabilities.
            lying: what they come from, with their affine.
            data: of the image.
        """
        if values.ndim == 2:
            suffix = ".png" if values.dtype == np.uint8 else ".tif"
            Image.fromarray(values).save(self._target(f"{name}{suffix}"))
            return
        affine = np.asarray(lying.affine, dtype=np.float64)
        of_file = np.asarray(data[self.image_key].meta[FILE_AFFINE], dtype=np.float64)
        _write_volume(self._target(f"{name}.nii.gz"), values, affine, Path(data[FILE]), of_file)

    def _target(self, name: str) -> Path:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


class WriteProbabilitiesd(WriteLabelsd):
    """Write probabilities ``(C, H, W)`` as TIFF, ``(C, I, J, K)`` as NIfTI, one file of float32 for each class.

    Args:
        keys: as above.
        output_dir: as above.
        postfix: as above; the number of the class follows.
        image_key: as above.
    """

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Write ``NAME_POSTFIX_CLASS.tif`` or ``NAME_POSTFIX_CLASS.nii.gz`` and return the data as they are.

        What a crop cut off is background for certain, as in the labels.

        Raises:
            DataError: as above.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            values = result[key].as_tensor().to(torch.float32).cpu().numpy()
            values[0][values.sum(axis=0) == 0] = 1
            for label, of_class in enumerate(values):
                self.write(f"{result[NAME]}_{self.postfix}_{label}", of_class, result[key], result)
        return result


def class_probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Return the probabilities ``(C, ...)`` of classes, float32, whose largest is that of the largest logit.

    Where rounding makes classes equal, the one of the largest logit gets the next larger number.
    """
    probabilities = torch.softmax(logits.float(), dim=0)
    best = logits.argmax(dim=0, keepdim=True)
    largest = probabilities.amax(dim=0, keepdim=True)
    next_larger = torch.nextafter(largest, torch.full_like(largest, 2.0))
    is_rounded = probabilities.argmax(dim=0, keepdim=True) != best
    winner = torch.where(is_rounded, next_larger, probabilities.gather(0, best))
    return probabilities.scatter(0, best, winner)


def _write_volume(file: Path, values: Array, affine: Floats, like: Path, of_file: Floats) -> None:
    """Write values ``(I, J, K)`` where the voxels of an image's file lie for whatever reads both."""
    import nibabel  # noqa: PLC0415

    from .other_volumes import as_nifti_image  # noqa: PLC0415
    from .volume_files import Volume, as_axes_run, is_volume, write_voxels_like  # noqa: PLC0415

    lying = as_axes_run(Volume(values, affine), of_file)
    if is_volume(like):
        write_voxels_like(file, lying, like)
    else:
        nibabel.save(as_nifti_image(lying, of_file), file)
