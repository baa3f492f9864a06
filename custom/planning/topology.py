"""The levels of a U-Net for patches of a size, and what a step of it takes.

After nnU-Net (Isensee et al., Nature Methods 2021, "U-Net configuration"): an axis is halved until four voxels are left
of it, and only while its voxels are not twice as long as those of another axis. Along such an axis kernels have one
voxel. Features double from level to level up to 320, of pictures up to 512.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

_SMALLEST_EDGE = 4
_FEWEST_LEVELS = 3
_ROUNDING = 1e-6
# An axis with voxels longer than others' by more than this factor is anisotropic.
_ANISOTROPY = 2.0
_MOST_FEATURES = {2: 512, 3: 320}
_CONVOLUTIONS_OF_LEVEL = 2
# What a convolution, its normalisation and its activation keep for the gradient: two maps in float32; see the test
# that compares it with what PyTorch keeps.
_KEPT_MAPS = 2
_BYTES = 4
# Weights, gradients, momentum, and the copy that is sent.
_COPIES_OF_WEIGHTS = 4
# A backward pass takes twice the work of a forward pass.
_WORK_OF_STEP = 3


@dataclass(frozen=True)
class Topology:
    """A U-Net's levels.

    Attributes:
        patch: extents that it is trained on, multiples of the product of the strides of their axis.
        kernels: of each level's convolutions, from the first one down.
        strides: by which each level halves its axes; 1 throughout for the first.
        features: channels of each level.
    """

    patch: tuple[int, ...]
    kernels: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    features: tuple[int, ...]

    @classmethod
    def of(
        cls, extents: Sequence[float], spacing: Sequence[float], features: int, *, is_whole: bool = False
    ) -> "Topology":
        """Return the levels for patches no larger than given extents.

        Args:
            extents: the most that a patch may have, two or three axes.
            spacing: size of a voxel along them, in any unit.
            features: channels of the first level.
            is_whole: whether samples of just these extents are trained on, so that odd numbers are not halved.

        Raises:
            ValueError: if no axis can be halved twice.

        Example:
            >>> Topology.of((36, 50, 35), (1.0, 1.0, 1.0), 32).patch
            (32, 48, 32)
            >>> Topology.of((160, 160, 20), (0.6, 0.6, 3.6), 32).kernels[:4]
            ((3, 3, 1), (3, 3, 1), (3, 3, 3), (3, 3, 3))
        """
        # Means of logarithms are whole numbers but for rounding.
        whole = [int(extent + _ROUNDING) for extent in extents]
        sizes, lengths = list(whole), list(spacing)
        kernels: list[tuple[int, ...]] = []
        strides = [(1,) * len(sizes)]
        has_kernel = [False] * len(sizes)
        while True:
            has_kernel = [
                had or length <= _ANISOTROPY * min(lengths) for had, length in zip(has_kernel, lengths, strict=True)
            ]
            kernels.append(tuple(3 if has else 1 for has in has_kernel))
            halved = _axes_to_halve(sizes, lengths, is_whole=is_whole)
            if not halved:
                break
            for axis in halved:
                sizes[axis] //= 2
                lengths[axis] *= 2
            strides.append(tuple(2 if axis in halved else 1 for axis in range(len(sizes))))
        if len(strides) < _FEWEST_LEVELS:
            raise ValueError(
                f"Expected an axis of {_SMALLEST_EDGE * 2 ** (_FEWEST_LEVELS - 1)} pixels at least that can be halved "
                f"{_FEWEST_LEVELS - 1} times, but the extents are {', '.join(f'{extent:g}' for extent in extents)}."
            )
        steps = _total_strides(strides)
        patch = tuple(extent // step * step for extent, step in zip(whole, steps, strict=True))
        most = _MOST_FEATURES[len(sizes)]
        widths = tuple(min(features * 2**level, most) for level in range(len(strides)))
        return cls(patch, tuple(kernels), tuple(strides), widths)

    @property
    def total_strides(self) -> tuple[int, ...]:
        """How many voxels of the patch one of the last level is, along each axis."""
        return _total_strides(self.strides)

    @property
    def level_voxels(self) -> tuple[int, ...]:
        """Number of voxels of each level's maps."""
        sizes = list(self.patch)
        result = []
        for stride in self.strides:
            sizes = [size // step for size, step in zip(sizes, stride, strict=True)]
            result.append(prod(sizes))
        return tuple(result)

    def training_bytes(self, batch_size: int) -> int:
        """Return about how much memory a step of training takes, in bytes: maps kept for gradients, and weights."""
        voxels = self.level_voxels
        down = sum(count * width for count, width in zip(voxels, self.features, strict=True))
        # Up there is one level less, and the maps that are put together there are kept, too.
        up = 2 * sum(count * width for count, width in zip(voxels[:-1], self.features[:-1], strict=True))
        maps = _CONVOLUTIONS_OF_LEVEL * _KEPT_MAPS * (down + up / 2) + up
        weights = sum(self._weights())
        return round(_BYTES * (batch_size * maps + _COPIES_OF_WEIGHTS * weights))

    def step_operations(self, batch_size: int) -> int:
        """Return the floating operations of a step of training, those of convolutions."""
        weights, voxels = self._weights(), self.level_voxels
        of_levels = (2 * weight * count for weight, count in zip(weights, voxels, strict=True))
        return _WORK_OF_STEP * batch_size * sum(of_levels)

    def _weights(self) -> tuple[int, ...]:
        """Weights of the convolutions of each level, down and up."""
        result = []
        for level, (kernel, width) in enumerate(zip(self.kernels, self.features, strict=True)):
            before = self.features[level - 1] if level else 1
            down = prod(kernel) * width * (before + width)
            is_last = level == len(self.features) - 1
            up = 0 if is_last else prod(kernel) * width * (2 * width + width)
            result.append(down + up)
        return tuple(result)


def _total_strides(strides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(prod(of_axis) for of_axis in zip(*strides, strict=True))


def _axes_to_halve(sizes: Sequence[int], lengths: Sequence[float], *, is_whole: bool) -> list[int]:
    """The axes with enough voxels, those apart whose voxels are much longer than another's of these."""
    large = [axis for axis, size in enumerate(sizes) if size >= 2 * _SMALLEST_EDGE and not (is_whole and size % 2)]
    shortest = min((lengths[axis] for axis in large), default=0.0)
    return [axis for axis in large if lengths[axis] <= _ANISOTROPY * shortest]
