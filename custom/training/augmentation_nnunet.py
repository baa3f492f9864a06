"""The augmentation of nnU-Net, of a whole batch at once on the training device, by its paper's supplement.

Isensee et al., *nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation*, Nature
Methods 18 (2021), Supplementary Note 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import affine_grid, grid_sample

from .augmentation import labels_with_places
from .augmentation_intensity import at_low_resolution, blurred, with_brightness, with_contrast, with_gamma
from .batch import BEYOND_BORDER, Batch, Batches, ChangedBatches

# Probabilities for a sample, and of the changes of single channels for each of its channels then.
_TURNED = _SCALED = 0.2
_NOISY, _BLURRED, _BRIGHTENED, _CONTRASTED, _LOW_RESOLUTION, _GAMMA = 0.15, 0.2, 0.15, 0.15, 0.25, 0.15
_OF_CHANNELS = 0.5
_MIRRORED = 0.5

# Ranges from which values are drawn uniformly: degrees, factors, variances, pixels, exponents.
_ANGLES_IN_SPACE = (-30.0, 30.0)
_ANGLES_IN_PLANE = (-180.0, 180.0)
_ANGLES_IN_LONG_PLANE = (-15.0, 15.0)
_SCALES = (0.7, 1.4)
_NOISE_VARIANCES = (0.0, 0.1)
_BLUR_WIDTHS = (0.5, 1.5)
_BRIGHTNESSES = (0.7, 1.3)
_CONTRASTS = (0.65, 1.5)
_RESOLUTIONS = (1.0, 2.0)
_EXPONENTS = (0.7, 1.5)

# A patch is anisotropic whose longest side is more than so many times its shortest; a plane is long from here on.
_ANISOTROPIC, _LONG_PLANE = 3.0, 1.5


@dataclass(frozen=True)
class Drawn:
    """What is drawn for some samples of a batch, or for some of their channels; in main memory.

    Attributes:
        index: ``(n,)`` int64: the sample, or of channels the sample times the number of channels plus the channel.
        values: ``(n, ...)`` float32, one for each.
    """

    index: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True)
class NnunetDraws:
    """Everything random in what is done to a batch; see :class:`NnunetBatches`.

    Attributes:
        maps: of samples ``(n, d, d)``: from the offset of a pixel from the middle to that of the pixel that it shows.
        noise: of samples ``(n, C, H, W[, D])``: what is added.
        widths: of channels: standard deviation of the blur in pixels.
        brightnesses: of channels: factors.
        contrasts: of channels: factors.
        resolutions: of channels: factors.
        exponents: of channels: of gamma.
        inverted_exponents: of channels: of gamma of the inverted image.
        mirrored: ``(B, d)``: along which axes a sample is mirrored.
    """

    maps: Drawn
    noise: Drawn
    widths: Drawn
    brightnesses: Drawn
    contrasts: Drawn
    resolutions: Drawn
    exponents: Drawn
    inverted_exponents: Drawn
    mirrored: torch.Tensor

    @classmethod
    def of(
        cls, shape: Sequence[int], generator: torch.Generator, mirror_axes: Sequence[int] | None = None
    ) -> "NnunetDraws":
        """Draw for images of a shape ``(B, C, H, W[, D])``; the same on every device."""
        number, channels, extents = shape[0], shape[1], shape[2:]

        def of_channels(probability: float, limits: tuple[float, float], of_each: float = 1.0) -> Drawn:
            chosen = _happens(probability, (number, 1), generator) & _happens(of_each, (number, channels), generator)
            values = _uniform(limits, (number * channels,), generator)
            index = chosen.flatten().nonzero().flatten()
            return Drawn(index, values[index])

        allowed = torch.tensor([mirror_axes is None or axis in mirror_axes for axis in range(len(extents))])
        return cls(
            maps=_drawn_maps(number, extents, generator),
            noise=_drawn_noise(shape, generator),
            widths=of_channels(_BLURRED, _BLUR_WIDTHS, _OF_CHANNELS),
            brightnesses=of_channels(_BRIGHTENED, _BRIGHTNESSES),
            contrasts=of_channels(_CONTRASTED, _CONTRASTS),
            resolutions=of_channels(_LOW_RESOLUTION, _RESOLUTIONS, _OF_CHANNELS),
            exponents=of_channels(_GAMMA, _EXPONENTS),
            inverted_exponents=of_channels(_GAMMA, _EXPONENTS),
            mirrored=_happens(_MIRRORED, (number, len(extents)), generator) & allowed,
        )


class NnunetBatches(ChangedBatches):
    """Batches whose samples are changed at random as nnU-Net changes them, all of a batch at once.

    In this order, each with a probability of its own (in brackets for a sample):

    - turning (0.2) and scaling (0.2) by a factor of 0.7 to 1.4, in one resampling. Patches are turned by up to 30°
      about each axis; images, and patches of which one side is less than a third of the longest, in their plane by any
      angle, or by up to 15° where its sides differ by more than a half. Such patches are not scaled across the plane;
    - white noise (0.15) with a variance of up to 0.1;
    - Gaussian blur (0.2, each channel 0.5) with a standard deviation of 0.5 to 1.5 pixels;
    - brightness (0.15): times 0.7 to 1.3;
    - contrast (0.15): times 0.65 to 1.5 about the mean, clipped to the range that there was;
    - low resolution (0.25, each channel 0.5): 1 to 2 times fewer pixels, in the plane alone where there is one;
    - gamma (0.15), and gamma of the inverted image (0.15), with exponents of 0.7 to 1.5;
    - mirroring along each axis (0.5), or along those that are given.

    What comes in from beyond the border is the border in the image and background in the annotation, as in
    :class:`fedannot.custom.training.augmentation.AugmentedBatches`. Images are interpolated linearly; annotations and
    places are those of the nearest pixel.

    Args:
        batches: the samples as they are.
        mirror_axes: axes of a sample that may be mirrored; None for all.
    """

    def __init__(self, batches: Batches, mirror_axes: Sequence[int] | None = None) -> None:
        super().__init__(batches)
        self._mirror_axes = mirror_axes

    def _changed_batch(self, batch: Batch, generator: torch.Generator) -> Batch:
        return changed_batch(batch, NnunetDraws.of(batch.images.shape, generator, self._mirror_axes))


def changed_batch(batch: Batch, draws: NnunetDraws) -> Batch:
    """Return a batch with what was drawn done to it; the given one stays as it is."""
    images = batch.images.clone(memory_format=torch.contiguous_format)
    labels = labels_with_places(batch)
    labels = labels.float() if len(draws.maps.index) else labels.clone()
    _resample(images, labels, draws.maps)
    _change_intensities(images, draws)
    for axis in range(draws.mirrored.shape[1]):
        index = draws.mirrored[:, axis].nonzero().flatten().to(images.device)
        for tensor in (images, labels):
            tensor[index] = tensor[index].flip(axis + 2)
    places = None if batch.places is None else labels[:, 1:].to(batch.places.dtype) + BEYOND_BORDER
    return replace(batch, images=images, labels=labels[:, :1].to(batch.labels.dtype), places=places)


def through_plane_axis(extents: Sequence[int]) -> int | None:
    """Return the axis of an anisotropic patch ``(H, W, D)`` across its plane; None for others and for images.

    >>> through_plane_axis((64, 64, 16)), through_plane_axis((64, 64, 32)), through_plane_axis((64, 16))
    (2, None, None)
    """
    if len(extents) == 2 or max(extents) <= _ANISOTROPIC * min(extents):
        return None
    return min(range(len(extents)), key=lambda axis: extents[axis])


def _resample(images: torch.Tensor, labels: torch.Tensor, maps: Drawn) -> None:
    """Turn and scale some samples in place; labels ``(B, ·, H, W[, D])`` are float32 if there are any."""
    if not len(maps.index):
        return
    index, extents = maps.index.to(images.device), images.shape[2:]
    chosen = [tensor[index] for tensor in (images, labels)]
    across = through_plane_axis(extents)
    plane = [axis for axis in range(len(extents)) if axis != across]
    if across is not None:
        # Slices are channels of an image of the plane.
        chosen = [tensor.movedim(across + 2, 2).flatten(1, 2) for tensor in chosen]
    grid = sampling_grid(maps.values[:, plane][:, :, plane], [extents[axis] for axis in plane]).to(images.device)
    for target, source, mode, beyond in zip(
        (images, labels), chosen, ("bilinear", "nearest"), ("border", "zeros"), strict=True
    ):
        sampled = grid_sample(source, grid, mode=mode, padding_mode=beyond, align_corners=False)
        if across is not None:
            slices = sampled.reshape(len(index), target.shape[1], extents[across], *sampled.shape[2:])
            sampled = slices.movedim(2, across + 2)
        target[index] = sampled


def sampling_grid(maps: torch.Tensor, extents: Sequence[int]) -> torch.Tensor:
    """Return the grid of :func:`torch.nn.functional.grid_sample` for maps ``(n, d, d)`` of pixels about the middle."""
    half = torch.tensor([extent / 2 for extent in extents])
    # PyTorch counts axes from the last one on, in halves of an image's sides.
    scaled = (maps * half / half[:, None]).flip(1, 2)
    affine = torch.cat([scaled, scaled.new_zeros(len(maps), len(extents), 1)], dim=2)
    return affine_grid(affine, [len(maps), 1, *extents], align_corners=False)


def _change_intensities(images: torch.Tensor, draws: NnunetDraws) -> None:
    """Change the intensities of some samples and channels in place."""
    across = through_plane_axis(images.shape[2:])
    if len(draws.noise.index):
        images[draws.noise.index.to(images.device)] += draws.noise.values.to(images.device)
    channels = images.flatten(0, 1)
    steps: tuple[tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], Drawn], ...] = (
        (blurred, draws.widths),
        (with_brightness, draws.brightnesses),
        (with_contrast, draws.contrasts),
        (lambda some, factors: at_low_resolution(some, factors, kept_axis=across), draws.resolutions),
        (lambda some, exponents: with_gamma(some, exponents, inverted=True), draws.inverted_exponents),
        (with_gamma, draws.exponents),
    )
    for change, drawn in steps:
        if len(drawn.index):
            index = drawn.index.to(images.device)
            channels[index] = change(channels[index], drawn.values.to(images.device))


def _drawn_maps(number: int, extents: Sequence[int], generator: torch.Generator) -> Drawn:
    turned, scaled = (_happens(probability, (number,), generator) for probability in (_TURNED, _SCALED))
    angles = torch.deg2rad(_uniform(_angle_limits(extents), (number, 3), generator)) * turned[:, None]
    scales = torch.where(scaled, _uniform(_SCALES, (number,), generator), 1.0)
    index = (turned | scaled).nonzero().flatten()
    return Drawn(index, _turns(angles, extents)[index] / scales[index, None, None])


def _angle_limits(extents: Sequence[int]) -> tuple[float, float]:
    across = through_plane_axis(extents)
    if len(extents) == 3 and across is None:
        return _ANGLES_IN_SPACE
    plane = [extent for axis, extent in enumerate(extents) if axis != across]
    return _ANGLES_IN_LONG_PLANE if max(plane) > _LONG_PLANE * min(plane) else _ANGLES_IN_PLANE


def _turns(angles: torch.Tensor, extents: Sequence[int]) -> torch.Tensor:
    """Rotations ``(n, d, d)``: about each axis by its angle, in a plane by one angle alone."""
    across = through_plane_axis(extents)
    whole = torch.eye(len(extents)).expand(len(angles), -1, -1)
    for axis in range(3) if len(extents) == 3 and across is None else (across,):
        plane = [other for other in range(len(extents)) if other != axis]
        angle = angles[:, 0 if axis is None else axis]
        turn = torch.eye(len(extents)).repeat(len(angles), 1, 1)
        turn[:, plane[0], plane[0]] = turn[:, plane[1], plane[1]] = angle.cos()
        turn[:, plane[0], plane[1]], turn[:, plane[1], plane[0]] = -angle.sin(), angle.sin()
        whole = whole @ turn
    return whole


def _drawn_noise(shape: Sequence[int], generator: torch.Generator) -> Drawn:
    index = _happens(_NOISY, (shape[0],), generator).nonzero().flatten()
    deviations = _uniform(_NOISE_VARIANCES, (shape[0],), generator).sqrt()[index]
    noise = torch.randn(len(index), *shape[1:], generator=generator)
    return Drawn(index, noise * deviations.view(-1, *[1] * (len(shape) - 1)))


def _happens(probability: float, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator) < probability


def _uniform(limits: tuple[float, float], shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    low, high = limits
    return low + (high - low) * torch.rand(shape, generator=generator)
