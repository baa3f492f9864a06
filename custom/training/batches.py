"""What a site trains on in one round, batch by batch: its samples, or patches of its whole volumes."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch.nn.functional import pad

from ..data.site_data import LoadedCase, SiteData
from ..settings import TrainingSettings
from .augmentation import AugmentedBatches

# A site shares the GPU with the network's activations, and often with other sites.
_SHARE_OF_FREE_GPU_MEMORY = 0.25

# Of large objects a random part of the voxels is kept, enough for the few patches that a round draws of a volume.
_KEPT_POSITIONS = 1000

# Voxels tried at once for one outside all objects; objects that fill a volume up to 90 % are missed by 1 in 1000 draws.
_TRIED_POSITIONS = 64

Batch = tuple[torch.Tensor, torch.Tensor]


class Batches(Protocol):
    """A source of batches for training.

    Attributes:
        samples_per_epoch: how many samples or patches an epoch has.
        samples_at_hand: which of the site's samples the batch that was yielded last is of, ``(B,)`` in main memory; for
            patches, which of its volumes.
    """

    samples_per_epoch: int

    @property
    def samples_at_hand(self) -> torch.Tensor:
        """See above."""

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield images ``(B, C, H, W[, D])`` and labels ``(B, 1, H, W[, D])`` on the training device."""


def training_batches(data: SiteData, settings: TrainingSettings, device: torch.device) -> Batches:
    """Return the site's samples as batches, or patches of its volumes where the settings name a patch.

    Nothing is copied in main memory but the batch at hand. On a GPU all data go there at once where they take at most a
    quarter of its free memory; else every batch is sent by itself.

    Args:
        data: the site's data.
        settings: batch size, patch, patches per volume and augmentation.
        device: where the network is.
    """
    batches: Batches
    if settings.patch is None:
        batches = SampleBatches(data.images, data.labels, settings.batch_size, device)
    else:
        batches = PatchBatches(data.cases, settings.patch, settings.patches_per_volume, settings.batch_size, device)
    return AugmentedBatches(batches, settings.augmentation) if settings.augmentation else batches


class SampleBatches:
    """All samples once per epoch, in a random order.

    Args:
        images: ``(N, C, H, W[, D])`` float32.
        labels: ``(N, H, W[, D])`` integers, 0 for background.
        batch_size: samples per batch; the last one of an epoch may have fewer.
        device: where batches are needed.
    """

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, batch_size: int, device: torch.device) -> None:
        self.samples_per_epoch = len(images)
        self.samples_at_hand = torch.empty(0, dtype=torch.int64)
        self._images, self._labels = _placed([images, labels], device)
        self._batch_size = batch_size
        self._device = device

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; see :class:`Batches`."""
        for images, labels in self._drawn(generator):
            yield images, labels.unsqueeze(1)

    def _drawn(self, generator: torch.Generator) -> Iterator[Batch]:
        """The batches of an epoch with labels as they were given, on the training device."""
        for chosen in self._split(torch.randperm(self.samples_per_epoch, generator=generator)):
            self.samples_at_hand = chosen
            selection = chosen.to(self._images.device)
            yield _sent(self._images[selection], self._device), _sent(self._labels[selection], self._device)

    def _split(self, order: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.split(order, self._batch_size)


class ClassBatches(SampleBatches):
    """All samples of a classification once per epoch in a random order, turned and mirrored at random where wanted.

    A single sample that would be left over goes with the batch before: normalisation over one says nothing.

    Args:
        images: ``(N, C, H, W)`` float32.
        labels: classes ``(N,)``.
        batch_size: samples per batch.
        device: where batches are needed.
        augmentation: turn images by multiples of 90° and mirror them.
    """

    def __init__(
        self, images: torch.Tensor, labels: torch.Tensor, batch_size: int, device: torch.device, *, augmentation: bool
    ) -> None:
        super().__init__(images, labels.long(), batch_size, device)
        self._augmentation = augmentation

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield images ``(B, C, H, W)`` and classes ``(B,)``."""
        for images, labels in self._drawn(generator):
            yield turned_and_mirrored(images, generator) if self._augmentation else images, labels

    def _split(self, order: torch.Tensor) -> Sequence[torch.Tensor]:
        parts = list(torch.split(order, self._batch_size))
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]
        return parts


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


class PatchBatches:
    """Random patches of every volume in every epoch, in a random order.

    A patch is centred with equal chance on an object or on the background (as MONAI's ``RandCropByPosNegLabel`` does);
    among several classes that a volume has, each is as likely. A patch is moved inward where it would reach beyond the
    volume; where the volume is smaller, its border goes on, in the image and in the annotation.

    Args:
        cases: whole volumes, of any sizes.
        patch: extents of a patch.
        patches_per_volume: patches of each volume per epoch.
        batch_size: patches per batch; the last one of an epoch may have fewer.
        device: where batches are needed.
    """

    def __init__(
        self,
        cases: Sequence[LoadedCase],
        patch: Sequence[int],
        patches_per_volume: int,
        batch_size: int,
        device: torch.device,
    ) -> None:
        self.samples_per_epoch = len(cases) * patches_per_volume
        self.samples_at_hand = torch.empty(0, dtype=torch.int64)
        self._annotations = [case.label[0] for case in cases]
        placed = _placed([*(case.image[0] for case in cases), *(label[None] for label in self._annotations)], device)
        self._images, self._labels = placed[: len(cases)], placed[len(cases) :]
        self._positions: dict[int, list[torch.Tensor]] = {}
        self._patch = tuple(patch)
        self._patches_per_volume = patches_per_volume
        self._batch_size = batch_size
        self._device = device

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; see :class:`Batches`."""
        for chosen in torch.split(torch.randperm(self.samples_per_epoch, generator=generator), self._batch_size):
            self.samples_at_hand = chosen // self._patches_per_volume
            places = [(volume, self._draw_centre(volume, generator)) for volume in self.samples_at_hand]
            images, labels = (
                torch.stack([cut_patch(tensors[volume], centre, self._patch) for volume, centre in places])
                for tensors in (self._images, self._labels)
            )
            yield _sent(images, self._device), _sent(labels, self._device)

    def _draw_centre(self, volume: torch.Tensor, generator: torch.Generator) -> tuple[int, ...]:
        annotation = self._annotations[volume]
        classes = self._positions_of_classes(int(volume), generator)
        background = _draw_background(annotation, generator)
        position = background
        if classes and (background is None or _draw(2, generator)):
            positions = classes[_draw(len(classes), generator)]
            position = int(positions[_draw(len(positions), generator)])
        assert position is not None, "a voxel is background or of a class"
        return tuple(int(index) for index in torch.unravel_index(torch.tensor(position), annotation.shape))

    def _positions_of_classes(self, volume: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Some voxels, as flat positions, of each class that a volume has; looked for once per round."""
        if volume not in self._positions:
            flat = self._annotations[volume].flatten()
            found = [(flat == label).nonzero().flatten() for label in range(1, int(flat.max()) + 1)]
            self._positions[volume] = [_some(positions, generator) for positions in found if len(positions)]
        return self._positions[volume]


def cut_patch(volume: torch.Tensor, centre: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """Cut a patch ``(C, *extents)`` out of a volume ``(C, H, W, D)``, around a voxel or as near to it as it fits.

    Where the volume is smaller than the patch it lies in the patch's middle and its border goes on.
    """
    places, margins = [slice(None)], []
    for middle, extent, length in zip(centre, extents, volume.shape[1:], strict=True):
        start = min(max(middle - extent // 2, 0), max(length - extent, 0))
        places.append(slice(start, start + extent))
        missing = max(extent - length, 0)
        margins.append((missing // 2, missing - missing // 2))
    cut = volume[tuple(places)]
    if not any(map(any, margins)):
        return cut
    # PyTorch pads from the last axis on, and replicates floating numbers only.
    sides = [side for margin in reversed(margins) for side in margin]
    return pad(cut.float(), sides, mode="replicate").to(cut.dtype)


def _draw(number: int, generator: torch.Generator) -> int:
    return int(torch.randint(number, (), generator=generator))


def _draw_background(annotation: torch.Tensor, generator: torch.Generator) -> int | None:
    """Draw the flat position of a voxel outside all objects; None if none of those tried is."""
    tried = torch.randint(annotation.numel(), (_TRIED_POSITIONS,), generator=generator)
    outside = tried[annotation.flatten()[tried] == 0]
    return int(outside[0]) if len(outside) else None


def _some(positions: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if len(positions) <= _KEPT_POSITIONS:
        return positions
    return positions[torch.randint(len(positions), (_KEPT_POSITIONS,), generator=generator)]


def _placed(tensors: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Move tensors to the device where they fit well, else leave them where they are."""
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if device.type == "cuda" and num_bytes > _SHARE_OF_FREE_GPU_MEMORY * _free_gpu_memory(device):
        return list(tensors)
    return [tensor.to(device) for tensor in tensors]


def _free_gpu_memory(device: torch.device) -> int:
    """Free bytes, with those that PyTorch holds for later use."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _sent(batch: torch.Tensor, device: torch.device) -> torch.Tensor:
    if device.type == "cuda" and batch.device.type == "cpu":
        return batch.pin_memory().to(device, non_blocking=True)
    return batch.to(device)
