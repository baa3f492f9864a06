"""Fingerprints pool exactly, and say of files what an independent reader finds in them."""

import json
import logging
import math
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.custom.data.description import ImageDescription, SliceDescription, VolumeDescription
from fedannot.custom.planning.fingerprint import CaseFingerprint, Fingerprint, site_fingerprint
from fedannot.custom.planning.lengths import INTENSITY_BINS
from fedannot.transforms.errors import DataError


def drawn(count: int, seed: int, *, known: bool = True) -> list[CaseFingerprint]:
    """Cases of drawn sizes and shares."""
    draw = np.random.default_rng(seed)
    return [
        CaseFingerprint(
            f"{seed}-{index // 2}",
            tuple(draw.uniform(0.5, 4, 3)) if known else (math.nan,) * 3,
            tuple(int(extent) for extent in draw.integers(10, 300, 3)),
            draw.uniform(0, 0.1, 2) * (draw.uniform(size=2) > 0.4),
            draw.dirichlet(np.ones(INTENSITY_BINS)),
        )
        for index in range(count)
    ]


def test_a_federation_has_the_fingerprint_of_its_pooled_cases() -> None:
    sites = [drawn(5, 0), drawn(12, 1), drawn(3, 2, known=False)]
    pooled = Fingerprint.pooled(Fingerprint.of_fields(Fingerprint.of_cases(cases).as_fields()) for cases in sites)
    together = Fingerprint.of_cases([case for cases in sites for case in cases])
    assert pooled.as_fields().keys() == together.as_fields().keys()
    for name, value in together.as_fields().items():
        np.testing.assert_allclose(pooled.as_fields()[name], value, rtol=1e-12, atol=1e-15)


def test_sizes_are_geometric_means_and_quantiles_of_logarithms() -> None:
    cases = drawn(400, 3)
    found = Fingerprint.of_cases(cases)
    spacings = np.array([case.spacing for case in cases])
    spacing, low = found.spacing(), found.spacing(0.1)
    assert spacing is not None
    assert low is not None
    np.testing.assert_allclose(spacing, np.exp(np.log(spacings).mean(axis=0)))
    np.testing.assert_allclose(np.log(spacing) - np.log(low), 1.2816 * np.log(spacings).std(axis=0), rtol=1e-3)
    assert Fingerprint.of_cases(drawn(3, 4, known=False)).spacing() is None


def write_site(folder: Path) -> VolumeDescription:
    """Two volumes whose axes run as in sagittal scans, and a file that is none."""
    affine = np.array([[0, 0, 3.0, 0], [1, 0, 0, 0], [0, 2.0, 0, 0], [0, 0, 0, 1]])
    for index, value in enumerate((100, 200)):
        image, mask = np.zeros((10, 12, 4), np.int16), np.zeros((10, 12, 4), np.uint8)
        mask[:5, :6, 1] = 1
        image[mask > 0] = value
        nibabel.save(nibabel.Nifti1Image(image, affine), folder / f"image{index}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask, affine), folder / f"mask{index}.nii.gz")
    (folder / "image2.nii.gz").write_bytes(b"none")
    cases = [{"image": f"image{i}.nii.gz", "label": f"mask{i % 2}.nii.gz", "group": f"p{i}"} for i in range(3)]
    (folder / "datalist.json").write_text(json.dumps({"training": cases}))
    return VolumeDescription(classes=("part",), labels={0: 0, 1: 1})


def test_volumes_are_described_along_the_axes_of_their_orientation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    description = write_site(tmp_path)
    with caplog.at_level(logging.WARNING):
        found = site_fingerprint(tmp_path, description, site="a")
    assert "image2.nii.gz is left out" in caplog.text
    assert (found.num_cases, found.num_patients) == (2, 2)
    # The first axis of the file runs to the front, the second up, the third to the right.
    assert found.spacing() == pytest.approx((3.0, 1.0, 2.0))
    assert found.extents() == pytest.approx((4, 10, 12))
    assert found.class_fractions == pytest.approx([30 / 480])
    assert found.class_presence == pytest.approx([1.0])
    middle = found.intensity(0.5)
    assert middle is not None
    assert middle == pytest.approx(math.sqrt(100 * 200), rel=0.5)
    slices = SliceDescription(classes=("part",), labels={0: 0, 1: 1}, size=(8, 8), slice_axis=0)
    assert site_fingerprint(tmp_path, slices, site="a").spacing() == pytest.approx((1.0, 2.0, 3.0))


def test_pictures_have_no_spacing(tmp_path: Path) -> None:
    Image.fromarray(np.full((20, 30), 7, np.uint8)).save(tmp_path / "image.png")
    mask = np.zeros((20, 30), np.uint8)
    mask[:10] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    (tmp_path / "datalist.json").write_text(json.dumps({"training": [{"image": "image.png", "label": "mask.png"}]}))
    description = ImageDescription(classes=("part",), labels={0: 0, 255: 1}, channels=1, size=(16, 16))
    found = site_fingerprint(tmp_path, description, site="a")
    assert found.spacing() is None
    assert found.extents() == pytest.approx((20, 30, 1))
    assert found.class_fractions == pytest.approx([0.5])


def test_a_site_without_a_readable_case_is_named(tmp_path: Path) -> None:
    (tmp_path / "datalist.json").write_text(json.dumps({"training": [{"image": "a.nii", "label": "b.nii"}]}))
    with pytest.raises(DataError, match=r"Site a: .*no training case that can be read"):
        site_fingerprint(tmp_path, VolumeDescription(classes=("part",), labels={0: 0, 1: 1}), site="a")
