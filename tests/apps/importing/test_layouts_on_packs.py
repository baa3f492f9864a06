"""Real images and masks laid out as data sets are published, imported by the command as a new user would."""

import re
import shutil

import nibabel
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.importing.datalists import read_source_datalist
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.masks import read_classes


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["data", "import", *map(str, arguments)], env={"COLUMNS": "10000"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def labels_of(out):
    """Name → classes as the federation's sites and its test set describe them."""
    result = {}
    for folder in sorted(out.iterdir()):
        if folder.is_dir():
            description = read_site_description(folder)
            for cases in read_datalist(folder / "datalist.json").cases.values():
                result |= {case.image.name.partition(".")[0]: read_classes(case.label, description) for case in cases}
    return result


@pytest.fixture
def cells(real_data):
    """Name → image, mask with 0 and 255."""
    folder = real_data / "bubil-cells"
    files = sorted((folder / "images").iterdir())[::40]
    masks = {}
    for file in files:
        pixels = np.asarray(Image.open(folder / "labels" / file.name))
        masks[file] = (pixels > 0).astype(np.uint8) * 255
    return masks


def test_ultrasound_with_a_mask_of_each_lesion_beside_the_images(real_data, tmp_path):
    folder, source, expected = real_data / "busi-breast-us" / "seg", tmp_path / "source", {}
    source.mkdir()
    for image in sorted((folder / "images").glob("benign_*"))[:12]:
        mask = np.asarray(Image.open(folder / "labels" / image.name)) > 0
        shutil.copyfile(image, source / image.name)
        halves = [mask.copy(), mask.copy()]
        halves[0][:, mask.shape[1] // 2 :], halves[1][:, : mask.shape[1] // 2] = False, False
        for number, half in enumerate(half for half in halves if half.any()):
            name = f"{image.stem}_mask{f'_{number}' if number else ''}.png"
            Image.fromarray(half.astype(np.uint8) * 255).save(source / name)
        expected[image.stem] = mask
    said = run("--images", source, "--labels", source, "--label-suffix", "_mask", "--sites", 2, "--out", tmp_path / "o")
    assert re.search(r"Several masks: \d+ files of \d+ images became one mask each", said)
    result = labels_of(tmp_path / "o")
    assert result.keys() == expected.keys()
    for name, mask in expected.items():
        np.testing.assert_array_equal(result[name].classes, mask)


def test_cells_with_lossy_masks(cells, tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    grey = pixels = 0
    for file, mask in cells.items():
        shutil.copyfile(file, tmp_path / "images" / file.name)
        Image.fromarray(mask).save(tmp_path / "masks" / f"{file.stem}.jpg", quality=80)
        lossy = np.asarray(Image.open(tmp_path / "masks" / f"{file.stem}.jpg"))
        grey, pixels = grey + ((lossy > 0) & (lossy < 255)).sum(), pixels + lossy.size
    places = ("--images", tmp_path / "images", "--labels", tmp_path / "masks", "--sites", 2)
    refused = run(*places, "--out", tmp_path / "out", code=1)
    assert f"{grey / pixels:.2%} of the pixels" in refused
    (option,) = re.findall(r"--label-map (\S+?)\.?$", refused)
    said = run(*places, "--label-map", option, "--out", tmp_path / "out")
    assert f"Grey values: {grey / pixels:.2%} of the pixels, in {len(cells)} of {len(cells)} masks" in said
    result = labels_of(tmp_path / "out")
    for file, mask in cells.items():
        assert np.mean((result[file.stem].classes > 0) == (mask > 0)) > 0.995


def test_cells_with_masks_in_colours(cells, tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for file, mask in cells.items():
        shutil.copyfile(file, tmp_path / "images" / file.name)
        coloured = np.zeros((*mask.shape, 3), np.uint8)
        half = mask.shape[1] // 2
        coloured[:, :half][mask[:, :half] > 0] = (255, 0, 0)
        coloured[:, half:][mask[:, half:] > 0] = (0, 255, 0)
        Image.fromarray(coloured).save(tmp_path / "masks" / f"{file.stem}.png")
    options = ("--label-map", "#ff0000:1,#00ff00:2", "--classes", "left,right", "--sites", 1)
    run("--images", tmp_path / "images", "--labels", tmp_path / "masks", *options, "--out", tmp_path / "out")
    result = labels_of(tmp_path / "out")
    for file, mask in cells.items():
        expected = np.where(np.arange(mask.shape[1]) < mask.shape[1] // 2, 1, 2) * (mask > 0)
        np.testing.assert_array_equal(result[file.stem].classes, expected)


@pytest.fixture
def hippocampi(real_data):
    folder = real_data / "hippocampus-msd"
    return [(image, folder / "labels" / image.name) for image in sorted((folder / "images").iterdir())[:6]]


def test_volumes_with_a_mask_of_each_object_in_a_folder(hippocampi, tmp_path):
    for image, label in hippocampi:
        source = nibabel.load(label)
        for value in (1, 2):
            part = tmp_path / "masks" / image.name.removesuffix(".nii.gz") / f"part {value}.nii.gz"
            part.parent.mkdir(parents=True, exist_ok=True)
            voxels = (np.asarray(source.dataobj) == value).astype(np.uint8)
            nibabel.save(nibabel.Nifti1Image(voxels, source.affine), part)
        (tmp_path / "images").mkdir(exist_ok=True)
        shutil.copyfile(image, tmp_path / "images" / image.name)
    said = run("--images", tmp_path / "images", "--labels", tmp_path / "masks", "--sites", 2, "--out", tmp_path / "out")
    assert "Several masks: 12 files of 6 images became one mask each" in said
    result = labels_of(tmp_path / "out")
    for image, label in hippocampi:
        expected = np.asarray(nibabel.load(label).dataobj) > 0
        np.testing.assert_array_equal(result[image.name.partition(".")[0]].classes, expected)


def test_numbered_objects_in_volumes_half_a_voxel_off_in_resized_slices_with_a_stride(hippocampi, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for image, label in hippocampi:
        stem = image.name.removesuffix(".nii.gz")
        shutil.copyfile(image, source / f"{stem}_t1.nii.gz")
        mask = nibabel.load(label)
        moved = mask.affine.copy()
        moved[:3, 3] += 0.5
        nibabel.save(nibabel.Nifti1Image(np.asarray(mask.dataobj), moved), source / f"{stem}_parts.nii.gz")
    places = ("--images", source, "--labels", source, "--image-suffix", "_t1", "--label-suffix", "_parts")
    slices = ("--pipeline", "volume_slices", "--size", "32,32", "--fit", "resize", "--stride", 3, "--empty-slices", 0.2)
    options = (*places, *slices, "--sites", 2, "--instances")
    refused = run(*options, "--out", tmp_path / "out", code=1)
    assert "found a mask that lies up to 0.9 mm off its image" in refused
    assert "--trust-voxels imports the mask with its image's affine" in refused
    said = run(*options, "--trust-voxels", "--out", tmp_path / "out")
    assert "Trusted voxels: 6 masks lay up to 0.866 mm off their images" in said
    assert "Cut off" not in said
    result = labels_of(tmp_path / "out")
    for image, label in hippocampi:
        name = image.name.partition(".")[0]
        np.testing.assert_array_equal(result[name].classes, np.asarray(nibabel.load(label).dataobj) > 0)
        np.testing.assert_array_equal(result[name].affine, nibabel.load(image).affine)
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.fit, description.stride, description.empty_slices) == ("resize", 3, 0.2)


def test_blood_cells_in_folders_of_classes_below_folders_of_sections(real_data, tmp_path):
    dataset = read_source_datalist(real_data / "bloodcells-multicentre" / "datalist.json")
    chosen = dataset.cases[::60]
    for number, case in enumerate(chosen):
        section = "Test" if number % 5 == 0 else "Train"
        target = tmp_path / "cells" / section / f"type {case.label}" / case.image.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(case.image, target)
    run(
        "--class-folders", tmp_path / "cells", "--size", "32,32", "--channels", 3, "--sites", 2, "--out", tmp_path / "o"
    )
    description = read_site_description(tmp_path / "o" / "site-1")
    assert description.classes == tuple(f"type {label}" for label in sorted({case.label for case in chosen}))
    tested = read_datalist(tmp_path / "o" / "test" / "datalist.json").section("testing")
    assert {case.image.name for case in tested} == {case.image.name for case in chosen[::5]}
