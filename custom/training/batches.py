"""What a site trains on in one round, batch by batch: its samples, or patches of its whole volumes."""

import math
from collections.abc import Iterator, Sequence

import torch

from ...transforms.errors import DataError
from ..consensus_rule import ConsensusKind
from ..data.site_data import LoadedCase, SiteData
from ..settings import ClassifierTrainingSettings, TrainingSettings
from .augmentation import AugmentedBatches, turned_and_mirrored
from .augmentation_at_once import AugmentedAtOnce
from .augmentation_components import TransformedBatches
from .augmentation_nnunet import NnunetBatches
from .batch import Batch, Batches, pixel_places
from .patches import PatchCentres, cut_patch, patch_places
from .several_annotations import FractionBatches, RandomAnnotationBatches
from .trained_sizes import is_single_pixel
from .trained_slices import trained_slices

# A site shares the GPU with the network's activations, and often with other sites.
_SHARE_OF_FREE_GPU_MEMORY = 0.25


def training_batches(
    data: SiteData,
    training: TrainingSettings | ClassifierTrainingSettings,
    device: torch.device,
    *,
    labels: Sequence[torch.Tensor] | torch.Tensor | None = None,
    used: torch.Tensor | None = None,
    with_places: bool = False,
) -> Batches:
    """Return the site's samples as batches, or patches of its volumes where the settings name a patch.

    Nothing is copied in main memory but the batch at hand. On a GPU all data go there at once where they take at most a
    quarter of its free memory; else every batch is sent by itself.

    Args:
        data: the site's data.
        training: batch size, patch, patches per volume and augmentation.
        device: where the network is.
        labels: in place of the given ones, one for each of the site's samples or volumes.
        used: which of the samples or volumes are trained on, ``(N,)`` booleans, or their numbers, ``(M,)`` int64, those
            that come twice twice; None for all, or the slices that the site's description names. Batches name them by
            their index among all.
        with_places: say where in its sample each pixel lies; of segmentation only.

    Raises:
        ValueError: if there are not as many `labels` or flags in `used` as samples, or none is used.
        DataError: if there are other labels than those that a rule for several annotations draws or counts.
    """
    kind = None if data.consensus is None else data.consensus.kind
    if kind not in (ConsensusKind.RANDOM_PER_EPOCH, ConsensusKind.SOFT):
        return _batches(data, training, device, labels=labels, used=used, with_places=with_places)
    if labels is not None:
        raise DataError(
            f"Site {data.site}: found corrected labels and the rule {kind.value!r} for several annotations; expected "
            "training.consensus = majority, staple or one:NAME with corrections."
        )
    if kind is ConsensusKind.SOFT:
        is_segmentation = isinstance(training, TrainingSettings)
        batches = _batches(data, training, device, used=used, with_places=with_places or is_segmentation)
        return FractionBatches(batches, _of_samples(data), len(data.classes) + is_segmentation)
    if used is None and isinstance(training, TrainingSettings) and training.patch is None:
        # The same slices in every epoch, whoever annotated them.
        used = trained_slices(data, data.labels)
    is_of_volumes = isinstance(training, TrainingSettings) and training.patch is not None

    def of_labels(drawn: Sequence[torch.Tensor]) -> Batches:
        given = [label[0] for label in drawn] if is_of_volumes else torch.cat(list(drawn))
        return _batches(data, training, device, labels=given, used=used, with_places=with_places)

    return RandomAnnotationBatches(data.cases, of_labels)


def _of_samples(data: SiteData) -> list[torch.Tensor | None]:
    """The annotations ``(R, …)`` of every sample, None of one or after a review; a volume is a sample."""
    samples: list[torch.Tensor | None] = []
    for case in data.cases:
        annotations = case.open_annotations
        samples += [None] * len(case.image) if annotations is None else list(annotations)
    return samples


def _batches(
    data: SiteData,
    training: TrainingSettings | ClassifierTrainingSettings,
    device: torch.device,
    *,
    labels: Sequence[torch.Tensor] | torch.Tensor | None = None,
    used: torch.Tensor | None = None,
    with_places: bool = False,
) -> Batches:
    """What :func:`training_batches` returns of labels as they are."""
    if isinstance(training, TrainingSettings) and training.patch is not None:
        volumes: Batches = PatchBatches(
            data.cases,
            training.patch,
            training.patches_per_volume,
            training.batch_size,
            device,
            labels=labels,
            foreground_share=training.foreground_share,
            used=used,
            with_places=with_places,
        )
        return _augmented(volumes, training)
    given = data.labels if labels is None else labels if isinstance(labels, torch.Tensor) else torch.stack([*labels])
    if isinstance(training, ClassifierTrainingSettings):
        return ClassBatches(
            data.images, given, training.batch_size, device, augmentation=training.augmentation, used=used
        )
    if used is None:
        used = trained_slices(data, given)
    samples = SampleBatches(data.images, given, training.batch_size, device, used=used, with_places=with_places)
    return _augmented(samples, training)


def _augmented(batches: Batches, training: TrainingSettings) -> Batches:
    if training.augmentation == "nnunet":
        return NnunetBatches(batches, training.mirror_axes)
    if training.transforms:
        return TransformedBatches(batches, training.transforms)
    if not training.augmentation:
        return batches
    changed = AugmentedBatches if training.augmentation_unit == "sample" else AugmentedAtOnce
    return changed(batches, training.augmentation_kinds)


class SampleBatches:
    """All samples once per epoch, in a random order.

    Of images that the network shrinks to a single pixel, one that would be left over goes with the batch before:
    normalisation over one value fails.

    Args:
        images: ``(N, C, H, W[, D])`` float32.
        labels: ``(N, H, W[, D])`` integers, 0 for background.
        batch_size: samples per batch; the last one of an epoch may have fewer.
        device: where batches are needed.
        used: which samples are trained on, ``(N,)`` booleans; None for all.
        with_places: say where in its sample each pixel lies.

    Raises:
        ValueError: if there are not as many labels or flags as images, or none is used.
    """

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        batch_size: int,
        device: torch.device,
        *,
        used: torch.Tensor | None = None,
        with_places: bool = False,
    ) -> None:
        self._used = _indices(used, len(images), len(labels))
        self.samples_per_epoch = len(self._used)
        self._images, self._labels = _placed([images, labels], device)
        self._batch_size = batch_size
        self._joins_last = all(is_single_pixel(extent) for extent in images.shape[2:])
        self.steps_per_epoch = len(self._split(self._used))
        self._device = device
        axes = [torch.arange(extent, device=device) for extent in images.shape[2:]]
        self._places = pixel_places(axes) if with_places else None

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; see :class:`Batches`."""
        for images, labels, samples in self._drawn(generator):
            places = None if self._places is None else self._places.expand(len(images), *self._places.shape)
            yield Batch(images, labels.unsqueeze(1), samples, places)

    def _drawn(self, generator: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Images and labels as they were given, on the training device, and the samples that they are of."""
        order = self._used[torch.randperm(self.samples_per_epoch, generator=generator)]
        # A GPU is waited for when numbers are sent to it: once an epoch.
        pairs = zip(self._split(order), self._split(order.to(self._images.device)), strict=True)
        for samples, selection in pairs:
            yield _sent(self._images[selection], self._device), _sent(self._labels[selection], self._device), samples

    def _split(self, order: torch.Tensor) -> Sequence[torch.Tensor]:
        parts = torch.split(order, self._batch_size)
        return _with_last_joined(parts) if self._joins_last else parts


class ClassBatches(SampleBatches):
    """All samples of a classification once per epoch in a random order, turned and mirrored at random where wanted.

    A single sample that would be left over goes with the batch before: normalisation over one says nothing.

    Args:
        images: ``(N, C, H, W)`` float32.
        labels: classes ``(N,)``.
        batch_size: samples per batch.
        device: where batches are needed.
        augmentation: turn images by multiples of 90° and mirror them.
        used: which samples are trained on, ``(N,)`` booleans; None for all.

    Raises:
        ValueError: if there are not as many labels or flags as images, or none is used.
    """

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        batch_size: int,
        device: torch.device,
        *,
        augmentation: bool,
        used: torch.Tensor | None = None,
    ) -> None:
        super().__init__(images, labels.long(), batch_size, device, used=used)
        self._augmentation = augmentation

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield images ``(B, C, H, W)`` and classes ``(B,)``."""
        for images, labels, samples in self._drawn(generator):
            yield Batch(turned_and_mirrored(images, generator) if self._augmentation else images, labels, samples)

    def _split(self, order: torch.Tensor) -> Sequence[torch.Tensor]:
        return _with_last_joined(torch.split(order, self._batch_size))


class PatchBatches:
    """Random patches of every volume in every epoch, in a random order.

    A patch is centred with equal chance on an object or on the background (as MONAI's ``RandCropByPosNegLabel`` does);
    see :class:`fedannot.custom.training.patches.PatchCentres`. With a foreground share, that part of each batch,
    rounded to whole patches (of a single patch, with that chance), is centred on objects; the others lie anywhere, as
    in nnU-Net. A patch is moved inward
    where it would reach beyond the volume; where the volume is smaller, its border goes on, in image and annotation.

    Args:
        cases: whole volumes, of any sizes.
        patch: extents of a patch.
        patches_per_volume: patches of each volume per epoch.
        batch_size: patches per batch; the last one of an epoch may have fewer.
        device: where batches are needed.
        foreground_share: part of the patches of a batch that are centred on objects; None for equal chance.
        labels: annotations ``(H, W, D)`` in place of the given ones, one for each volume.
        used: which volumes are trained on, ``(N,)`` booleans; None for all.
        with_places: say where in its volume each voxel lies.

    Raises:
        ValueError: if there are not as many `labels` or flags as volumes, or none is used.
    """

    def __init__(
        self,
        cases: Sequence[LoadedCase],
        patch: Sequence[int],
        patches_per_volume: int,
        batch_size: int,
        device: torch.device,
        *,
        foreground_share: float | None = None,
        labels: Sequence[torch.Tensor] | torch.Tensor | None = None,
        used: torch.Tensor | None = None,
        with_places: bool = False,
    ) -> None:
        self._foreground_share = foreground_share
        self._annotations = [case.label[0] for case in cases] if labels is None else list(labels)
        self._used = _indices(used, len(cases), len(self._annotations))
        self.samples_per_epoch = len(self._used) * patches_per_volume
        placed = _placed([*(case.image[0] for case in cases), *(label[None] for label in self._annotations)], device)
        self._images, self._labels = placed[: len(cases)], placed[len(cases) :]
        self._centres = PatchCentres(self._annotations)
        self._patch = tuple(patch)
        self._patches_per_volume = patches_per_volume
        self._batch_size = batch_size
        self.steps_per_epoch = math.ceil(self.samples_per_epoch / batch_size)
        self._device = device
        self._with_places = with_places

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; see :class:`Batches`."""
        for chosen in torch.split(torch.randperm(self.samples_per_epoch, generator=generator), self._batch_size):
            samples = self._used[chosen // self._patches_per_volume]
            centres = self._drawn_centres(samples.tolist(), generator)
            images, labels = (
                torch.stack([cut_patch(tensors[volume], centre, self._patch) for volume, centre in centres])
                for tensors in (self._images, self._labels)
            )
            yield Batch(_sent(images, self._device), _sent(labels, self._device), samples, self._places_of(centres))

    def _drawn_centres(self, volumes: Sequence[int], generator: torch.Generator) -> list[tuple[int, tuple[int, ...]]]:
        """The volume and the centre of every patch of a batch."""
        share = self._foreground_share
        if share is None:
            return [(volume, self._centres.draw(volume, generator)) for volume in volumes]
        # As nnU-Net rounds: of two patches a share of a third makes one. Of one patch it would make none.
        anywhere = round(len(volumes) * (1 - share))
        if len(volumes) == 1:
            anywhere = int(torch.rand((), generator=generator) >= share)
        centres = []
        for number, volume in enumerate(volumes):
            centre = None if number < anywhere else self._centres.draw_on_object(volume, generator)
            centres.append((volume, centre or self._centres.draw_anywhere(volume, self._patch, generator)))
        return centres

    def _places_of(self, centres: Sequence[tuple[int, tuple[int, ...]]]) -> torch.Tensor | None:
        if not self._with_places:
            return None
        sizes = ((self._annotations[volume].shape, centre) for volume, centre in centres)
        return torch.stack([patch_places(size, centre, self._patch) for size, centre in sizes]).to(self._device)


def _with_last_joined(parts: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The parts of an epoch, of which a last one of a single sample goes with the part before."""
    if len(parts) < 2 or len(parts[-1]) > 1:
        return parts
    return [*parts[:-2], torch.cat([*parts[-2:]])]


def _indices(used: torch.Tensor | None, number: int, number_of_labels: int) -> torch.Tensor:
    """Which of so many samples are trained on, ``(M,)`` int64; as often as they come, where they are numbered."""
    if number_of_labels != number:
        raise ValueError(f"Expected a label for each of {number} samples, but got {number_of_labels}.")
    if used is None:
        return torch.arange(number)
    if used.dtype == torch.int64:
        if used.ndim != 1 or not len(used) or int(used.min()) < 0 or int(used.max()) >= number:
            raise ValueError(f"Expected numbers of samples from 0 to {number - 1}, at least one, but got {used}.")
        return used.cpu()
    if used.shape != (number,) or not used.any():
        raise ValueError(
            f"Expected a flag for each of {number} samples, one of them set, but got {int(used.sum())} set of shape "
            f"{tuple(used.shape)}."
        )
    return used.cpu().nonzero().flatten()


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
