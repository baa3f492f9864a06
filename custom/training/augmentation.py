"""Samples changed at random before they are trained on, annotations as their images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..settings import AugmentationKind
from .batch import BEYOND_BORDER, Batch, Batches, ChangedBatches

# Keys of a sample for transforms.
IMAGE, LABEL = "image", "label"
_BOTH = (IMAGE, LABEL)
PROBABILITY = 0.5
MAX_ANGLE = math.pi / 12
MAX_NOISE = 0.1

# Of the longer side of a slice: how far the nodes of a deformation are apart, and by how much one moves (standard
# deviation), at least and at most; 32 and 1 to 4 pixels of 256.
NODE_DISTANCE = 1 / 8
MOVES = (1 / 256, 4 / 256)


class AugmentedBatches(ChangedBatches):
    """Batches whose samples are changed at random, each by itself.

    Each kind is done to half of the samples: turning by up to 15° in the plane of the slices (the first two axes);
    mirroring, along each axis for itself; elastic deformation whose nodes are an eighth of the longer side of a slice
    apart and move by 0.4 to 1.6 % of it, of patches along all three axes; white noise on the image with a standard
    deviation of up to 0.1. Samples are turned and deformed at once, so that they are interpolated once. What comes in
    from beyond the border is the border in the image and background in the annotation. The transforms are MONAI's.
    Places go with the annotation, by the nearest pixel; what is drawn is the same with and without them.

    Args:
        batches: the samples as they are.
        kinds: what is done.
    """

    def __init__(self, batches: Batches, kinds: Sequence[AugmentationKind]) -> None:
        super().__init__(batches)
        self._kinds = tuple(kinds)
        self._steps: Any = None

    def _changed_batch(self, batch: Batch, generator: torch.Generator) -> Batch:
        if self._steps is None:
            self._steps = self._built(batch.images.shape[2:])
        self._steps.set_random_state(seed=int(torch.randint(2**31, (), generator=generator)))
        pairs = zip(batch.images, labels_with_places(batch), strict=True)
        changed = [self._changed({IMAGE: image, LABEL: label}) for image, label in pairs]
        images, labels = _stacked(changed, IMAGE), _stacked(changed, LABEL)
        return replace(
            batch,
            images=images.to(batch.images.dtype),
            labels=labels[:, :1].to(batch.labels.dtype),
            places=None if batch.places is None else labels[:, 1:].to(batch.places.dtype) + BEYOND_BORDER,
        )

    def _built(self, extents: Sequence[int]) -> Any:
        """The transforms of samples with such sides, as one."""
        return _steps(self._kinds, extents)

    def _changed(self, sample: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """A sample after the transforms."""
        result: Mapping[str, torch.Tensor] = self._steps(sample)
        return result


def labels_with_places(batch: Batch) -> torch.Tensor:
    """Return labels, and places as further channels of theirs, ``(B, 1 + d, H, W[, D])`` float32 with places.

    MONAI draws again for every entry that it changes, and one resampling is faster than two. From beyond the border
    come zeros, hence the shift of places by 1; float32 holds indices and labels exactly.
    """
    if batch.places is None:
        return batch.labels
    return torch.cat([batch.labels.float(), (batch.places - BEYOND_BORDER).float()], dim=1)


def _stacked(samples: Sequence[Mapping[str, torch.Tensor]], key: str) -> torch.Tensor:
    """The batch of what is at a key, without MONAI's record of the changes."""
    return torch.stack([torch.as_tensor(sample[key]).as_subclass(torch.Tensor) for sample in samples])


def _steps(kinds: Sequence[AugmentationKind], extents: Sequence[int]) -> Any:
    # MONAI takes 2 s, and a site process starts without it; also below.
    from monai.transforms import Compose, RandAffined, RandFlipd, RandGaussianNoised  # noqa: PLC0415

    steps: list[Any] = []
    if "flip" in kinds:
        steps += [RandFlipd(_BOTH, prob=PROBABILITY, spatial_axis=axis) for axis in range(len(extents))]
    angle = MAX_ANGLE if "rotation" in kinds else 0.0
    resampling = {
        "keys": _BOTH,
        "prob": PROBABILITY,
        "mode": ("bilinear", "nearest"),
        "padding_mode": ("border", "zeros"),
        "rotate_range": (angle,) if len(extents) == 2 else (0.0, 0.0, angle),
    }
    if "elastic" in kinds:
        steps.append(_elastic(extents, resampling))
    elif "rotation" in kinds:
        steps.append(RandAffined(**resampling))
    if "noise" in kinds:
        steps.append(RandGaussianNoised([IMAGE], prob=PROBABILITY, std=MAX_NOISE))
    return Compose(steps)


def _elastic(extents: Sequence[int], resampling: Mapping[str, Any]) -> Any:
    from monai.transforms import Rand2DElasticd, Rand3DElasticd  # noqa: PLC0415

    side = max(extents[:2])
    distance = NODE_DISTANCE * side
    low, high = (move * side for move in MOVES)
    if len(extents) == 2:
        return Rand2DElasticd(spacing=(distance, distance), magnitude_range=(low, high), **resampling)
    # In three dimensions MONAI smooths uniform noise from -1 to 1 of every voxel with a Gaussian, which leaves this of
    # its standard deviation.
    width = distance / 2
    left = math.sqrt(1 / 3) / (2 * math.sqrt(math.pi) * width) ** 1.5
    return Rand3DElasticd(sigma_range=(width, width), magnitude_range=(low / left, high / left), **resampling)


def turned_and_mirrored(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Turn each image ``(B, C, H, W)`` by a random multiple of 90°, of 180° where sides differ, and mirror half of
    them.
    """
    turns = torch.randint(4, (len(images),), generator=generator)
    mirrored = torch.randint(2, (len(images),), generator=generator).bool()
    if images.shape[-1] != images.shape[-2]:
        turns = turns - turns % 2
    changed = torch.empty_like(images)
    for turn in range(4):
        for mirror in (False, True):
            chosen = ((turns == turn) & (mirrored == mirror)).nonzero().flatten().to(images.device)
            if len(chosen):
                part = torch.rot90(images[chosen], turn, (2, 3))
                changed[chosen] = part.flip(3) if mirror else part
    return changed
