"""Masks from MONAI Label and CVAT take the places of the given ones of their images, by the names of the classes."""

import json
import shutil
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.custom.audit.decisions import Decisions
from fedannot.transforms.errors import DataError


def applied(result, source, tmp_path):
    return apply_decisions(CaseReader(result), Decisions(site=result.site), tmp_path / "new", edited=source)


def test_polygons_of_cvat_are_edited_masks_of_the_images_that_have_some(audit_of, tmp_path):
    result = audit_of("images")
    first, second = result.audit.cases[:2]
    height, width = np.asarray(Image.open(Path(result.audit.data) / first.label)).shape
    shape = '<polygon label="Lesion" points="2,3;9,3;9,8;2,8" z_order="0"/>'
    images = "".join(
        f'<image id="0" name="{Path(case.image).name}" width="{width}" height="{height}">{inside}</image>'
        for case, inside in ((first, shape), (second, ""))
    )
    (tmp_path / "export.xml").write_text(f"<annotations>{images}</annotations>")
    (one,) = applied(result, tmp_path / "export.xml", tmp_path).record.cases
    assert (one.label, one.review.origin, one.review.is_reviewed) == (first.label, "edited", True)
    expected = np.zeros((height, width), np.uint8)
    expected[3:8, 2:9] = 255
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "new" / one.mask.file)), expected)
    (tmp_path / "export.xml").write_text(
        f"<annotations>{images.replace(Path(first.image).name, 'other.png')}</annotations>"
    )
    with pytest.raises(DataError, match=r"image other\.png: 0 audited cases have an image 'other\.png'"):
        applied(result, tmp_path / "export.xml", tmp_path / "again")
    small = images.replace(f'height="{height}"', 'height="12"')
    (tmp_path / "export.xml").write_text(f"<annotations>{small}</annotations>")
    with pytest.raises(DataError, match="found a mask of the shape"):
        applied(result, tmp_path / "export.xml", tmp_path / "again")


def studies(result, folder, name="lesion", value=5):
    """A datastore with the final annotation of the first case changed, that of the second as it was given."""
    data, objects = Path(result.audit.data), {}
    for number, case in enumerate(result.audit.cases):
        key = Path(case.image).name.removesuffix(".nii.gz")
        final = folder / "labels" / "final" / f"{key}.nii.gz"
        final.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / case.image, folder / f"{key}.nii.gz")
        shutil.copyfile(data / case.label, final)
        if number == 0:
            given = nibabel.load(data / case.label)
            voxels = np.asarray(given.dataobj).copy() * value
            voxels[0, :3, 0] = value
            nibabel.save(nibabel.Nifti1Image(voxels.astype(np.uint8), given.affine), final)
        info = {"label_info": [{"name": name, "idx": value}]}
        objects[key] = {"image": {"ext": ".nii.gz"}, "labels": {"final": {"ext": ".nii.gz", "info": info}}}
    content = {"name": "a", "description": "", "images_dir": ".", "labels_dir": "labels", "objects": objects}
    (folder / "datastore_v2.json").write_text(json.dumps(content))
    return folder


def test_changed_final_annotations_of_monai_label_are_edited_masks_by_the_names_of_labels(audit_of, tmp_path):
    result = audit_of("slices")
    case = result.audit.cases[0]
    (one,) = applied(result, studies(result, tmp_path / "studies"), tmp_path).record.cases
    assert (one.label, one.review.origin) == (case.label, "edited")
    expected = np.asarray(nibabel.load(Path(result.audit.data) / case.label).dataobj).copy()
    expected[0, :3, 0] = 1
    np.testing.assert_array_equal(np.asarray(nibabel.load(tmp_path / "new" / one.mask.file).dataobj), expected)


def test_another_label_of_monai_label_is_refused_by_its_name(audit_of, tmp_path):
    result = audit_of("slices")
    with pytest.raises(DataError, match="found the label 'spleen'; expected one of 'lesion'"):
        applied(result, studies(result, tmp_path / "studies", name="spleen"), tmp_path)
    assert not (tmp_path / "new").exists()
