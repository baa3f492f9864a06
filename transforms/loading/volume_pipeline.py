"""The pipeline of NIfTI volumes, whole or sliced: from files to tensors, and from predictions back to the volume."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import (
    Compose,
    CropForegroundd,
    Orientationd,
    ResizeWithPadOrCropd,
    ScaleIntensityRanged,
    Spacingd,
    Transform,
)
from monai.transforms.utils import convert_applied_interp_mode
from nibabel.orientations import apply_orientation, axcodes2ornt, io_orientation, ornt_transform

from ..array_types import Classes, Floats
from .fitting import Fit, number_of_classes
from .image_channels import ImageChannels, ImageFiles
from .image_pipeline import CLEAN_LABEL, IMAGE, LABEL, decode_case
from .volume_files import Volume, read_first_channel
from .volume_geometry import voxel_spacing
from .volume_transforms import (
    CheckResampledSized,
    FitVolumed,
    NormalizeVolumed,
    ReadVolumed,
    ScaleChannelsd,
    as_meta_tensor,
    foreground,
)

_MASKS = (LABEL, CLEAN_LABEL)


@dataclass(frozen=True)
class VolumeSamples:
    """The samples of one volume: itself, or its slices in their order.

    Attributes:
        image: float32 ``(1, C, H, W, D)``, or of S slices ``(S, C, H, W)``.
        label: classes, uint8 ``(1, H, W, D)`` or ``(S, H, W)``; None where none was asked for.
        clean_label: as above.
        spacing: size of a voxel along the spatial axes of a sample in millimetres.
        slice_spacing: distance of neighbouring slices in millimetres, None for a whole volume.
    """

    image: torch.Tensor
    label: torch.Tensor | None
    clean_label: torch.Tensor | None
    spacing: tuple[float, ...]
    slice_spacing: float | None = None


class VolumePipeline:
    """Turns a volume and its masks into samples, and labels of such samples back into a volume like the file's.

    Read, orient, resample (trilinear; masks nearest), crop to the foreground, normalise each channel, bring to the
    size, cut into slices. What moves voxels are MONAI's transforms, whose record is used to go back.

    Args:
        labels: value in a mask file → class, 0 for background, 255 for ignored pixels.
        orientation: directions in which the axes grow, such as ``RAS``.
        spacing: voxel size in millimetres to resample to; None keeps each volume's own.
        crop: ``centre`` crops around the centre of the volume, ``foreground`` around that of the box that holds
            everything brighter than 0 in the first channel that is there.
        window: lower and upper intensity that become 0 and 1, what is beyond is cut off; None takes the z-score of each
            channel (after the crop to the foreground), zeros where it is constant.
        channel_windows: a window for each channel in place of one for all.
        size: extents: two for slices, three for whole volumes; None keeps the volume's own.
        fit: how the size is reached: ``crop`` cuts off what is larger and pads what is smaller, ``resize`` stretches
            each axis, ``pad`` scales all of them alike and pads.
        slice_axis: axis of the oriented volume across which it is cut; None keeps it whole.
        channels: that an image must have; by default one.
    """

    def __init__(
        self,
        *,
        labels: Mapping[int, int],
        orientation: str = "RAS",
        spacing: Sequence[float] | None = None,
        crop: Literal["centre", "foreground"] = "centre",
        window: tuple[float, float] | None = None,
        channel_windows: Sequence[tuple[float, float]] = (),
        size: Sequence[int] | None = None,
        fit: Fit = "crop",
        slice_axis: int | None = None,
        channels: ImageChannels | None = None,
    ) -> None:
        self._channels = channels or ImageChannels()
        self.slice_axis = slice_axis
        self._labels = dict(labels)
        self._orientation = orientation
        self._spacing = spacing
        self._crop = crop
        self._window = window
        self._channel_windows = tuple(channel_windows)
        if window is not None and self._channels.count > 1:
            self._channel_windows = (window,) * self._channels.count
        self._fit = fit
        self._size: list[int | None] | None = list(size) if size is not None else None
        if self._size is not None and slice_axis is not None:
            self._size.insert(slice_axis, None)
        # Orientation is corrected by itself, see _like_the_file.
        self._orienting = Compose(self._orient([IMAGE]))
        self._geometry = Compose([*self._place([IMAGE]), *self._fit_size([IMAGE])])
        self._pipeline = Compose(self._steps([IMAGE, *_MASKS]))

    def __call__(self, case: Mapping[str, ImageFiles]) -> VolumeSamples:
        """Load one case, a dictionary with the paths ``image`` and, where wanted, ``label`` and ``clean_label``.

        The image may be a path for each channel; see :data:`.image_channels.ImageFiles`.

        Raises:
            DataError: if a file is missing or unreadable, a mask does not fit its image or has an unknown label value,
                resampling would give many more voxels than the file has, or channels are not those that the image must
                have.
        """
        decoded = decode_case(self._pipeline, case)
        spacing = voxel_spacing(np.asarray(decoded[IMAGE].affine, dtype=np.float64))
        tensors = {key: self._cut(decoded[key].as_tensor()) for key in (IMAGE, *_MASKS) if key in decoded}
        masks = {key: tensors[key][:, 0].to(torch.uint8) for key in _MASKS if key in tensors}
        return VolumeSamples(
            tensors[IMAGE].contiguous(),
            masks.get(LABEL),
            masks.get(CLEAN_LABEL),
            tuple(step for axis, step in enumerate(spacing) if axis != self.slice_axis),
            None if self.slice_axis is None else spacing[self.slice_axis],
        )

    def reassemble(self, image: Path, labels: torch.Tensor) -> Volume:
        """Put labels of a volume's samples back into the geometry of its file.

        What a crop cut off is background; where volumes are resampled or resized, a voxel takes the nearest label.

        Args:
            image: the file of the volume that the samples come from; of its first channel that is there.
            labels: classes of the samples as a call gives them, ``(S, H, W)`` or ``(1, H, W, D)``.

        Returns:
            Classes, uint8, with the voxels and the affine of the file.

        Raises:
            DataError: if the file cannot be read.
            ValueError: if the labels are not those of this volume's samples.
        """
        volume = read_first_channel(image)
        oriented = self._orienting({IMAGE: as_meta_tensor(volume.voxels, volume.affine, image)})
        placed = decode_case(self._geometry, oriented)[IMAGE]
        together = labels[0] if self.slice_axis is None else torch.movedim(labels, 0, self.slice_axis)
        if together.shape != placed.shape[1:]:
            raise ValueError(
                f"{image}: expected labels that make up {tuple(placed.shape[1:])} voxels, but got {tuple(labels.shape)}"
            )
        prediction = MetaTensor(
            together[None].float(),
            affine=placed.affine,
            applied_operations=convert_applied_interp_mode(placed.applied_operations, mode="nearest"),
        )
        restored = self._geometry.inverse({IMAGE: prediction})[IMAGE] if self._geometry.transforms else prediction
        classes = restored.as_tensor()[0].round().to(torch.uint8).numpy()
        return Volume(self._like_the_file(classes, volume.affine), volume.affine)

    def _like_the_file(self, oriented: Classes, affine: Floats) -> Classes:
        """Revert the orientation of a volume whose file has this affine.

        MONAI would find the way back from the affine of the oriented volume, which may lead elsewhere where axes lie
        halfway between two directions.
        """
        back = ornt_transform(axcodes2ornt(self._orientation), io_orientation(affine))
        return np.ascontiguousarray(apply_orientation(oriented, back))

    def _cut(self, tensor: torch.Tensor) -> torch.Tensor:
        """``(C, H, W, D)`` as one sample or as slices, samples first."""
        if self.slice_axis is None:
            return tensor[None]
        return torch.movedim(tensor, self.slice_axis + 1, 0).contiguous()

    def _steps(self, keys: list[str]) -> list[Transform]:
        return [
            ReadVolumed(IMAGE, labels=None, channels=self._channels),
            ReadVolumed(_MASKS, labels=self._labels, image_key=IMAGE, allow_missing_keys=True),
            *self._orient(keys),
            *self._place(keys),
            self._intensity(),
            *self._fit_size(keys),
        ]

    def _orient(self, keys: list[str]) -> list[Transform]:
        return [Orientationd(keys, axcodes=self._orientation, labels=None, allow_missing_keys=True)]

    def _place(self, keys: list[str]) -> list[Transform]:
        steps: list[Transform] = []
        if self._spacing is not None:
            modes = ["bilinear" if key == IMAGE else "nearest" for key in keys]
            steps.append(CheckResampledSized(IMAGE, self._spacing))
            steps.append(Spacingd(keys, self._spacing, mode=modes, padding_mode="border", allow_missing_keys=True))
        if self._crop == "foreground":
            steps.append(CropForegroundd(keys, IMAGE, select_fn=foreground, allow_missing_keys=True))
        return steps

    def _intensity(self) -> Transform:
        if self._channel_windows:
            return ScaleChannelsd(IMAGE, self._channel_windows)
        if self._window is None:
            return NormalizeVolumed(IMAGE)
        low, high = self._window
        return ScaleIntensityRanged(IMAGE, a_min=low, a_max=high, b_min=0.0, b_max=1.0, clip=True)

    def _fit_size(self, keys: list[str]) -> list[Transform]:
        if self._size is None:
            return []
        if self._fit != "crop":
            num_classes = number_of_classes(self._labels)
            return [FitVolumed(keys, self._size, self._fit, image_key=IMAGE, num_classes=num_classes)]
        # Around an image its border goes on, around a mask there is background.
        modes = ["edge" if key == IMAGE else "constant" for key in keys]
        # MONAI keeps an axis as it is where the size is -1.
        size = [-1 if length is None else length for length in self._size]
        return [ResizeWithPadOrCropd(keys, size, mode=modes, allow_missing_keys=True)]
