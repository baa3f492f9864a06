"""The patch that is suggested lies within every volume, as volumes are trained on."""

import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from fedannot.custom.data.description import ImageDescription, VolumeDescription, write_site_description
from fedannot.custom.data.volume_extents import suggested_patch
from fedannot.transforms.errors import DataError

ONE: dict[str, Any] = {"classes": ("a",), "labels": {0: 0, 1: 1}}


def site(folder: Path, *shapes: tuple[int, ...], voxel: tuple[float, ...] = (1, 1, 1), **values: Any) -> Path:
    """A site whose files' axes run to the back, the left and the top."""
    folder.mkdir()
    lying = np.array([[0, -voxel[1], 0, 0], [-voxel[0], 0, 0, 0], [0, 0, voxel[2], 0], [0, 0, 0, 1.0]])
    for number, shape in enumerate(shapes):
        nibabel.save(nibabel.Nifti1Image(np.zeros(shape, "u1"), lying), folder / f"{number}.nii")
    cases = [{"image": f"{number}.nii", "label": f"{number}.nii"} for number in range(len(shapes))]
    (folder / "datalist.json").write_text(json.dumps({"training": cases}))
    write_site_description(folder, VolumeDescription(**ONE, **values))
    return folder


@pytest.mark.parametrize(
    ("shapes", "values", "patch"),
    [
        # File axes (back, left, top) are (right, front, top) in the order 1, 0, 2.
        ([(35, 51, 36), (40, 50, 33)], {}, (48, 32, 32)),
        ([(300, 300, 300)], {}, (96, 96, 64)),
        ([(20, 19, 9)], {}, (16, 32, 16)),
        ([(64, 64, 20), (64, 40, 64)], {}, (32, 64, 16)),
        ([(64, 64, 40)], {"spacing": (2.0, 1.0, 1.0)}, (32, 64, 32)),
        ([(64, 64, 40)], {"spacing": (1.0, 1.0, 1.0), "voxel": (0.5, 1.0, 2.0)}, (64, 32, 64)),
        ([(300, 300, 300)], {"size": (48, 64, 40)}, (48, 64, 32)),
    ],
)
def test_the_patch_lies_in_every_volume(
    shapes: list[tuple[int, ...]], values: dict[str, Any], patch: tuple[int, ...], tmp_path: Path
) -> None:
    assert suggested_patch([site(tmp_path / "a", *shapes, **values)]) == patch


def test_all_sites_count_and_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    large, small = site(tmp_path / "a", (90, 90, 90)), site(tmp_path / "b", (64, 48, 48), (20, 20, 20))
    (small / "1.nii").write_bytes(b"damaged")
    assert suggested_patch([large, small]) == (48, 64, 48)
    pictures = tmp_path / "c"
    pictures.mkdir()
    write_site_description(pictures, ImageDescription(**ONE, channels=1, size=(16, 16)))
    with pytest.raises(DataError, match=r"data\.yaml: found no whole volumes"):
        suggested_patch([pictures])
