"""Drawn cases written as files: images as PNG, volumes as NIfTI, masks next to them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image

from ....transforms.array_types import Array, Booleans, Floats
from ....transforms.loading.volume_files import write_label_volume
from ..datalist import Case
from ..whole_files import private_file, private_folder

# Intensities of volumes are written as whole numbers, as scanners do.
_GREY_LEVELS = 200

Annotation = Booleans | int


@dataclass(frozen=True)
class DrawnCase:
    """One generated case.

    Attributes:
        image: grey levels ``(H, W)``, or intensities ``(H, W, D)``.
        label: the given annotation, a boolean mask of the same shape or the index of a class.
        clean_label: the annotation without what is wrong with it, where it is kept as well.
        source: the centre that it is from, where that says something.
    """

    image: Array
    label: Annotation
    clean_label: Annotation | None = None
    source: str | None = None


@dataclass(frozen=True)
class Storage(ABC):
    """Writes the files of a case.

    Args:
        names: name of a file by the case's number, ``lesion_{:03d}.png``.
    """

    names: str

    def store(self, folder: Path, number: int, case: DrawnCase) -> Case:
        """Write a case into a site's folder, which exists.

        Args:
            folder: the site's folder.
            number: the case's number, from 1.
            case: the case.
        """
        name = self.names.format(number)
        image = _file(folder, "images", name)
        self.write_image(image, case.image)
        return Case(
            image=image,
            label=self._stored(folder, "labels", name, case.label),
            clean_label=(
                None if case.clean_label is None else self._stored(folder, "clean_labels", name, case.clean_label)
            ),
            source=case.source,
        )

    @abstractmethod
    def write_image(self, file: Path, image: Array) -> None:
        """Write an image of a :class:`DrawnCase`."""

    @abstractmethod
    def write_mask(self, file: Path, mask: Booleans) -> None:
        """Write a mask of the image's shape."""

    def _stored(self, folder: Path, kind: str, name: str, label: Annotation) -> Path | int:
        """Write a mask; the index of a class goes into the datalist."""
        if isinstance(label, int):
            return label
        file = _file(folder, kind, name)
        self.write_mask(file, label)
        return file


@dataclass(frozen=True)
class ImageStorage(Storage):
    """Writes grey levels and masks ``(H, W)`` as PNG; a mask is 255 where something is annotated."""

    def write_image(self, file: Path, image: Array) -> None:
        """Write grey levels, 0 to 255."""
        Image.fromarray(image).save(private_file(file))

    def write_mask(self, file: Path, mask: Booleans) -> None:
        """Write a mask."""
        Image.fromarray(mask.astype(np.uint8) * 255).save(private_file(file))


@dataclass(frozen=True)
class VolumeStorage(Storage):
    """Writes intensities and masks ``(H, W, D)`` as NIfTI.

    Args:
        spacing: size of a voxel in millimetres.
    """

    spacing: tuple[float, float, float]

    def write_image(self, file: Path, image: Array) -> None:
        """Write intensities as whole numbers."""
        levels = np.rint(image * _GREY_LEVELS).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(levels, self._affine), private_file(file))

    def write_mask(self, file: Path, mask: Booleans) -> None:
        """Write a mask."""
        write_label_volume(private_file(file), mask.astype(np.uint8), self._affine)

    @property
    def _affine(self) -> Floats:
        return np.diag([*self.spacing, 1.0])


def _file(folder: Path, kind: str, name: str) -> Path:
    return private_folder(folder / kind) / name
