"""Patches of whole volumes: where they are centred, how they are cut out, and where in its volume each voxel lies."""

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from ...transforms.ignored_label import IGNORED_LABEL
from .batch import BEYOND_BORDER, pixel_places
from .label_runs import LabelRuns, label_runs


def cut_patch(volume: torch.Tensor, centre: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """Cut a patch ``(C, *extents)`` out of a volume ``(C, H, W, D)``, around a voxel or as near to it as it fits.

    Where the volume is smaller than the patch it lies in the patch's middle and its border goes on.
    """
    parts, margins = [slice(None)], []
    for middle, extent, length in zip(centre, extents, volume.shape[1:], strict=True):
        start, before = _patch_start(middle, extent, length)
        parts.append(slice(start, start + extent))
        margins.append((before, max(extent - length, 0) - before))
    cut = volume[tuple(parts)]
    if not any(map(any, margins)):
        return cut
    # PyTorch pads from the last axis on, and replicates floating numbers only.
    sides = [side for margin in reversed(margins) for side in margin]
    return pad(cut.float(), sides, mode="replicate").to(cut.dtype)


def patch_places(shape: Sequence[int], centre: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """Return where in a volume of shape ``(H, W, D)`` each voxel of a patch lies, ``(3, *extents)`` int32.

    It is -1 where the volume's border goes on; see :func:`cut_patch`.
    """
    axes = []
    for middle, extent, length in zip(centre, extents, shape, strict=True):
        start, before = _patch_start(middle, extent, length)
        axis = torch.arange(extent) + start - before
        axes.append(axis.masked_fill((axis < 0) | (axis >= length), BEYOND_BORDER))
    return pixel_places(axes)


def _patch_start(middle: int, extent: int, length: int) -> tuple[int, int]:
    """Along one axis, the volume's first voxel in a patch, and how many the patch has before it."""
    return min(max(middle - extent // 2, 0), max(length - extent, 0)), max(extent - length, 0) // 2


# Of large objects a random part of the voxels is kept, enough for the few patches that a round draws of a volume.
_KEPT_POSITIONS = 1000

# Voxels tried at once for one outside all objects; objects that fill a volume up to 90 % are missed by 1 in 1000 draws.
_TRIED_POSITIONS = 64


class PatchCentres:
    """Random centres of patches: on an object or on the background with equal chance, on an object, or anywhere.

    Among several classes that a volume has, each is as likely. Ignored voxels are neither object nor background;
    :meth:`draw` takes them only in a volume that has no others.

    Args:
        annotations: of each volume, ``(H, W, D)``, 0 for background, 255 for ignored voxels.
    """

    def __init__(self, annotations: Sequence[torch.Tensor]) -> None:
        self._annotations = annotations
        self._positions: dict[int, list[torch.Tensor]] = {}
        # None of a volume without any.
        self._backgrounds: dict[int, LabelRuns | None] = {}

    def draw(self, volume: int, generator: torch.Generator) -> tuple[int, ...]:
        """Return a voxel of the volume with this index, with equal chance on an object or on the background."""
        annotation = self._annotations[volume]
        classes = self._positions_of_classes(volume, generator)
        background = _draw_background(annotation, generator)
        position = background
        if classes and (background is None or _draw(2, generator)):
            positions = classes[_draw(len(classes), generator)]
            position = int(positions[_draw(len(positions), generator)])
        if position is None:
            position = self._draw_beside_ignored(volume, generator)
        return self._voxel(volume, position)

    def draw_on_object(self, volume: int, generator: torch.Generator) -> tuple[int, ...] | None:
        """Return a voxel of an object of a volume, of each class that it has as likely; None if it has no object."""
        classes = self._positions_of_classes(volume, generator)
        if not classes:
            return None
        positions = classes[_draw(len(classes), generator)]
        return self._voxel(volume, int(positions[_draw(len(positions), generator)]))

    def draw_anywhere(self, volume: int, extents: Sequence[int], generator: torch.Generator) -> tuple[int, ...]:
        """Return the centre of a patch that lies anywhere in a volume, with equal chance for each of its positions."""
        lengths = self._annotations[volume].shape
        return tuple(
            _draw(max(length - extent, 0) + 1, generator) + extent // 2
            for length, extent in zip(lengths, extents, strict=True)
        )

    def _voxel(self, volume: int, position: int) -> tuple[int, ...]:
        shape = self._annotations[volume].shape
        return tuple(int(index) for index in torch.unravel_index(torch.tensor(position), shape))

    def _positions_of_classes(self, volume: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Some voxels, as flat positions, of each class that a volume has; looked for once per round."""
        if volume not in self._positions:
            runs = label_runs(self._annotations[volume])
            classes = [of_class for label, of_class in runs.items() if label > 0 and label != IGNORED_LABEL]
            self._positions[volume] = [_some(of_class, generator) for of_class in classes]
        return self._positions[volume]

    def _draw_beside_ignored(self, volume: int, generator: torch.Generator) -> int:
        """Draw the flat position of a background voxel of a volume mostly ignored; of any if it is wholly."""
        annotation = self._annotations[volume]
        if volume not in self._backgrounds:
            self._backgrounds[volume] = label_runs(annotation).get(0)
        if (background := self._backgrounds[volume]) is None:
            return _draw(annotation.numel(), generator)
        return int(background.positions(torch.tensor([_draw(len(background), generator)])))


def _draw(number: int, generator: torch.Generator) -> int:
    return int(torch.randint(number, (), generator=generator))


def _draw_background(annotation: torch.Tensor, generator: torch.Generator) -> int | None:
    """Draw the flat position of a voxel outside all objects; None if none of those tried is."""
    tried = torch.randint(annotation.numel(), (_TRIED_POSITIONS,), generator=generator)
    outside = tried[annotation.flatten()[tried] == 0]
    return int(outside[0]) if len(outside) else None


def _some(runs: LabelRuns, generator: torch.Generator) -> torch.Tensor:
    if len(runs) <= _KEPT_POSITIONS:
        return runs.positions(torch.arange(len(runs)))
    return runs.positions(torch.randint(len(runs), (_KEPT_POSITIONS,), generator=generator))
