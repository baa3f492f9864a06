"""Generated volumes written as a site's files: NIfTI images and masks, the datalist, the description."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray

from ....transforms.loading.volume_files import write_label_volume
from ..datalist import Case, write_datalist
from ..description import SliceDescription, write_site_description

# Intensities are written as whole numbers, as scanners do.
_GREY_LEVELS = 200


@dataclass(frozen=True)
class PhantomVolume:
    """One generated volume.

    Attributes:
        image: intensities ``(H, W, D)``.
        label: the given annotation, boolean, of the same shape.
        clean_label: the annotation without what is wrong with it, where it is kept beside.
        source: the centre that it is from, where that says something.
    """

    image: NDArray[np.float32]
    label: NDArray[np.bool_]
    clean_label: NDArray[np.bool_] | None = None
    source: str | None = None


def write_phantom_volumes(
    folder: Path,
    sections: Mapping[str, Sequence[PhantomVolume]],
    description: SliceDescription,
    spacing: Sequence[float],
) -> None:
    """Write volumes into a site's folder, which exists and is empty; they are numbered through all sections.

    Args:
        folder: the site's folder.
        sections: the volumes of each section of the datalist.
        description: the site's description.
        spacing: size of a voxel in millimetres.
    """
    affine = np.diag([*spacing, 1.0])
    cases: dict[str, list[Case]] = {}
    number = 0
    for section, volumes in sections.items():
        cases[section] = []
        for volume in volumes:
            number += 1
            name = f"volume_{number:03d}.nii.gz"
            levels = np.rint(volume.image * _GREY_LEVELS).astype(np.int16)
            nibabel.save(nibabel.Nifti1Image(levels, affine), _file(folder, "images", name))
            masks = {"labels": volume.label, "clean_labels": volume.clean_label}
            for kind, mask in masks.items():
                if mask is not None:
                    write_label_volume(_file(folder, kind, name), mask.astype(np.uint8), affine)
            cases[section].append(
                Case(
                    image=folder / "images" / name,
                    label=folder / "labels" / name,
                    clean_label=None if volume.clean_label is None else folder / "clean_labels" / name,
                    source=volume.source,
                )
            )
    write_datalist(folder / description.datalist, cases)
    write_site_description(folder, description)


def _file(folder: Path, kind: str, name: str) -> Path:
    (folder / kind).mkdir(exist_ok=True)
    return folder / kind / name
