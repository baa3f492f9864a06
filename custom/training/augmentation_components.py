"""Augmentation by MONAI's dictionary transforms that the settings name, and a look before a run at what they do."""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.strict_files import parse_json
from ..components.building import build_component
from ..components.component import TARGET, Component, ComponentError, first_line, read_component
from ..components.roles import Role
from .augmentation import IMAGE, LABEL, AugmentedBatches
from .batch import Batches

# Samples of noise on which transforms are tried at least, as many of them choose at random what they do.
_TRIED = 4

# Where MONAI has what moves pixels, and what is elsewhere or moves none all the same.
_OF_PLACES = ("monai.transforms.spatial.", "monai.transforms.croppad.")
_MOVES, _MOVES_NOTHING = ("RandSmoothDeformd",), ("RandSimulateLowResolutiond",)


class TransformedBatches(AugmentedBatches):
    """Batches whose samples go through transforms of MONAI one by one, each sample with random numbers of its own.

    Transforms get ``{"image": (C, H, W[, D]), "label": (1, H, W[, D])}`` and keep shapes. Places, where they are
    asked for, are further channels of the label.

    Args:
        batches: the samples as they are.
        components: dictionary transforms in MONAI's form, in their order.
    """

    def __init__(self, batches: Batches, components: Sequence[Component]) -> None:
        super().__init__(batches, ())
        self._components = tuple(components)

    def _built(self, extents: Sequence[int]) -> Any:
        del extents
        return build_transforms(self._components)

    def _changed(self, sample: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        result: Mapping[str, torch.Tensor] = self._steps(dict(sample))
        _check(sample, result)
        return result


def build_transforms(components: Sequence[Component]) -> Any:
    """Build transforms as one, a ``monai.transforms.Compose``.

    Raises:
        ComponentError: if one cannot be built, is no dictionary transform, has other keys than image and label, or
            moves the pixels of one of them alone.
    """
    # MONAI takes 2 s, and a site process starts without it.
    from monai.transforms import Compose, MapTransform  # noqa: PLC0415

    transforms = []
    for component in components:
        transform = build_component(component, Role.AUGMENTATION)
        if not isinstance(transform, MapTransform):
            raise ComponentError(
                f"{TARGET} is {component.target!r}, which is no dictionary transform; expected one whose name ends in "
                f"d, such as monai.transforms.RandFlipd, with keys = [{IMAGE}, {LABEL}]."
            )
        if others := [key for key in transform.keys if key not in (IMAGE, LABEL)]:
            raise ComponentError(f"{component.target} has the keys {others!r}; expected {IMAGE!r}, {LABEL!r} or both.")
        if _moves_pixels(transform) and (missing := [key for key in (IMAGE, LABEL) if key not in transform.keys]):
            raise ComponentError(
                f"{component.target} moves pixels, but its keys {list(transform.keys)!r} lack {missing[0]!r}, so that "
                f"image and mask would no longer fit; expected keys = [{IMAGE}, {LABEL}]."
            )
        transforms.append(transform)
    return Compose(transforms)


def _moves_pixels(transform: Any) -> bool:
    kinds = type(transform).__mro__
    if any(kind.__name__ in _MOVES_NOTHING for kind in kinds):
        return False
    return any(f"{kind.__module__}.".startswith(_OF_PLACES) or kind.__name__ in _MOVES for kind in kinds)


def try_transforms(components: Sequence[Component], shape: Sequence[int], num_classes: int = 1) -> None:
    """Send some samples of noise through transforms, whose probabilities are 1 for it.

    Args:
        components: dictionary transforms in MONAI's form.
        shape: of an image, ``(C, H, W[, D])``.
        num_classes: foreground classes of the labels.

    Raises:
        ComponentError: if they cannot be built, fail, or do not keep shapes and classes.
    """
    _try(json.dumps([component.table() for component in components]), tuple(shape), num_classes)


@functools.lru_cache(maxsize=8)
def _try(tables: str, shape: tuple[int, ...], num_classes: int) -> None:
    """A site asks for the same trial before every task."""
    read = parse_json(tables, "the transforms")
    steps = build_transforms([read_component(table, Role.AUGMENTATION) for table in read])
    for transform in steps.transforms:
        if hasattr(transform, "prob"):
            transform.prob = 1.0
    generator = torch.Generator().manual_seed(0)
    steps.set_random_state(seed=0)
    for classes in _tried_classes(num_classes):
        chosen = torch.randint(len(classes), (1, *shape[1:]), generator=generator)
        label = torch.tensor(classes, dtype=torch.uint8)[chosen]
        sample = {IMAGE: torch.rand(shape, generator=generator), LABEL: label}
        try:
            result = steps(dict(sample))
        except Exception as error:
            # Whatever a transform makes of a sample.
            raise ComponentError(
                f"The transforms fail on an image of the shape {shape}: {first_line(error)}."
            ) from error
        _check(sample, result)
        _check_classes(classes, torch.as_tensor(result[LABEL]))


def _tried_classes(num_classes: int) -> list[list[int]]:
    """The classes of each tried mask: all of them, and halves, so that any two are apart in some."""
    every = range(num_classes + 1)
    halves = [
        [label for label in every if label >> bit & 1 == is_set]
        for bit in range(num_classes.bit_length())
        for is_set in (1, 0)
    ]
    return [list(every)] * max(_TRIED - len(halves), 1) + halves


def _check_classes(before: Sequence[int], label: torch.Tensor) -> None:
    """Raises ComponentError if a mask has classes that were not in it; background may come in from its border."""
    new = sorted(set(map(int, label.flatten().tolist())) - {0, IGNORED_LABEL, *before})
    if new:
        raise ComponentError(
            f"The transforms make the classes {new} of a mask with the classes {list(before)}; expected those alone. "
            f"Let no change of classes or intensities have the key {LABEL!r}."
        )


def _check(before: Mapping[str, torch.Tensor], after: Any) -> None:
    """Check what became of a sample.

    Raises:
        ComponentError: if it has other shapes, or labels that are no classes.
    """
    for key, tensor in before.items():
        found = after.get(key) if isinstance(after, Mapping) else None
        shape = None if found is None else tuple(found.shape)
        if shape != tuple(tensor.shape):
            raise ComponentError(
                f"The transforms make {shape} of the {key} of the shape {tuple(tensor.shape)}; expected the same shape."
            )
    label = torch.as_tensor(after[LABEL])
    if label.is_floating_point() and bool((label != label.round()).any()):
        raise ComponentError(
            "The transforms make labels between the classes; give those that move pixels mode = [bilinear, nearest] "
            f"for the keys [{IMAGE}, {LABEL}], and let no change of intensities have the key {LABEL!r}."
        )
