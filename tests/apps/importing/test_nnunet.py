"""nnU-Net's raw data sets: read as it reads them, and written so that reading them gives the same."""

import json

import nibabel
import numpy as np
import pytest
from miniatures import nnunet, text, volume
from PIL import Image

from fedannot.apps.functions.data import import_found
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.layouts import DATASETS
from fedannot.apps.importing.nnunet_export import export_nnunet
from fedannot.apps.importing.options import ImportOptions
from fedannot.transforms.errors import DataError


def found(folder):
    return DATASETS["nnunet"].read(folder, seed=0)


def change(folder, **changes):
    file = folder / "Dataset501_Hippocampus" / "dataset.json"
    content = json.loads(file.read_text(encoding="utf-8")) | changes
    text(file, {key: value for key, value in content.items() if value is not None})


def test_cases_classes_and_values_are_those_of_the_data_set(tmp_path):
    nnunet(tmp_path)
    dataset = found(tmp_path)
    assert [(case.name, case.section) for case in dataset.cases] == [
        ("hippocampus_001", "training"),
        ("hippocampus_004", "training"),
        ("hippocampus_009", "testing"),
    ]
    assert (dataset.classes, dataset.labels) == (("Anterior", "Posterior"), {0: 0, 1: 1, 2: 2})
    assert [*map(str, dataset.skipped)] == ["Dataset501_Hippocampus/imagesTs/hippocampus_002_0000.nii.gz: no mask"]
    # As its first version wrote it.
    change(tmp_path, channel_names=None, modality={"0": "MRI"}, labels={"0": "background", "3": "b", "1": "a"})
    assert (found(tmp_path).classes, found(tmp_path).labels) == (("a", "b"), {0: 0, 1: 1, 3: 2})


def test_regions_become_the_classes_that_are_drawn_last(tmp_path):
    nnunet(tmp_path)
    labels = {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3}
    change(tmp_path, labels=labels, regions_class_order=[1, 2, 3])
    dataset = found(tmp_path)
    assert (dataset.classes, dataset.labels) == (("whole", "core", "enhancing"), {0: 0, 1: 1, 2: 2, 3: 3})
    assert dataset.notes[0].startswith("Regions: whole, core, enhancing became exclusive classes")
    change(tmp_path, regions_class_order=None)
    with pytest.raises(DataError, match="found regions, and 'regions_class_order' is None; expected a value for each"):
        found(tmp_path)


def test_channels_in_files_of_their_own_are_found_by_their_numbers(tmp_path):
    nnunet(tmp_path)
    change(tmp_path, labels={"background": 0, "a": 1}, channel_names={"0": "T1", "1": "T2"})
    images = tmp_path / "Dataset501_Hippocampus" / "imagesTr"
    volume(images / "hippocampus_001_0001.nii.gz")
    dataset = found(tmp_path)
    first, second = images / "hippocampus_001_0000.nii.gz", images / "hippocampus_001_0001.nii.gz"
    assert (dataset.channels, dataset.cases[0].channels) == (("T1", "T2"), (first, second))
    assert dataset.cases[1].channels == (images / "hippocampus_004_0000.nii.gz", None)
    volume(images / "hippocampus_001_0002.nii.gz")
    with pytest.raises(
        DataError, match=r"_0002.nii.gz: found channel 2; expected those of dataset.json, 0 to 1 \(T1, T2\)"
    ):
        found(tmp_path)


def test_an_export_is_read_as_the_federation_was(tmp_path):
    """Volumes whose masks hold other values than classes, oblique to the axes: values, places and patients stay."""
    affine = np.array([[0, -2, 0, 5], [1.5, 0, 0, -3], [0, 0, 3, 7], [0, 0, 0, 1.0]])
    for index in range(6):
        voxels = np.random.default_rng(index).normal(size=(6, 5, 4)).astype(np.float32)
        mask = np.zeros((6, 5, 4), np.uint8)
        mask[1:4, 1:3, 1] = 40
        mask[1, 1, 2 + index % 2] = 7
        for kind, array in (("images", voxels), ("labels", mask)):
            (tmp_path / kind).mkdir(exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(array, affine), tmp_path / kind / f"pat{index // 2}_{index}.nii")
    wanted = Named(images=tmp_path / "images", labels=tmp_path / "labels", group="^(pat[0-9])")
    options = ImportOptions(labels={7: 1, 40: 2}, classes=("a", "b"))
    import_found(find_datasets(wanted), tmp_path / "mine", sites="2", test=0.3, options=options)
    made = export_nnunet(tmp_path / "mine", tmp_path / "Dataset501_Mine")
    assert (made.training, made.testing, made.folds) == (4, 2, 2)
    raw = tmp_path / "Dataset501_Mine"
    assert json.loads((raw / "dataset.json").read_text(encoding="utf-8")) == {
        "name": "Dataset501_Mine",
        "channel_names": {"0": "image"},
        "labels": {"background": 0, "a": 1, "b": 2},
        "numTraining": 4,
        "file_ending": ".nii.gz",
    }
    for fold in json.loads((raw / "splits_final.json").read_text(encoding="utf-8")):
        patients = [{name.split("_")[1] for name in fold[part]} for part in ("train", "val")]
        assert patients[0].isdisjoint(patients[1])
    dataset = found(raw)
    assert (dataset.classes, dataset.labels) == (("a", "b"), {0: 0, 1: 1, 2: 2})
    for case in dataset.cases:
        source = case.name.split("_", 1)[1]
        image, mask = nibabel.load(case.image), nibabel.load(case.label)
        given = nibabel.load(tmp_path / "labels" / f"{source}.nii")
        assert np.array_equal(image.get_fdata(), nibabel.load(tmp_path / "images" / f"{source}.nii").get_fdata())
        assert np.array_equal(
            np.asarray(mask.dataobj), np.select([given.get_fdata() == 7, given.get_fdata() == 40], [1, 2])
        )
        assert np.allclose(image.affine, affine)
        assert np.allclose(mask.affine, affine)


@pytest.mark.parametrize(
    "labels", [{"background": 0, "a": 2, "ignore": 3}, {"0": "background", "2": "a", "3": "ignore"}]
)
def test_ignored_pixels_are_read_by_their_name(tmp_path, labels):
    nnunet(tmp_path)
    change(tmp_path, labels=labels)
    dataset = found(tmp_path)
    assert (dataset.classes, dataset.labels, dataset.ignore) == (("a",), {0: 0, 2: 1}, (3,))


def exported(folder, out, description):
    """A site of one picture, whose mask has the values 0, 5, 6 and 2, as nnU-Net has it."""
    folder.mkdir()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(folder / "image.png")
    Image.fromarray(np.resize(np.array([0, 5, 6, 2], np.uint8), (8, 8))).save(folder / "mask.png")
    text(folder / "datalist.json", {"training": [{"image": "image.png", "label": "mask.png"}]})
    (folder / "data.yaml").write_text(f"channels: 1\nsize: [8, 8]\nclasses: [a, b]\n{description}")
    return export_nnunet(folder, out)


def test_ignored_pixels_are_written_with_the_highest_value_and_read_again(tmp_path):
    """The value of ignored pixels in the file is the number of a class, which must not become one of them."""
    raw = tmp_path / "Dataset501_Mine"
    exported(tmp_path / "site", raw, "labels: {0: 0, 5: 1, 6: 2}\nignore: [2]\n")
    content = json.loads((raw / "dataset.json").read_text(encoding="utf-8"))
    assert content["labels"] == {"background": 0, "a": 1, "b": 2, "ignore": 3}
    (mask,) = (raw / "labelsTr").iterdir()
    np.testing.assert_array_equal(np.asarray(Image.open(mask)), np.resize([0, 1, 2, 3], (8, 8)))
    assert (found(raw).labels, found(raw).ignore) == ({0: 0, 1: 1, 2: 2}, (3,))


def test_a_site_that_does_not_annotate_a_class_is_not_exported(tmp_path):
    with pytest.raises(DataError, match=r"data\.yaml: found that a is not annotated; expected all classes"):
        exported(tmp_path / "site", tmp_path / "raw", "labels: {0: 0, 6: 2}\nannotated_classes: [b]\nignore: [2, 5]\n")
    assert not (tmp_path / "raw").exists()


def test_pictures_are_written_as_png_of_their_depth(tmp_path):
    for index in range(4):
        image = np.full((8, 8), 300 + index, np.uint16)
        image[0, 0] = 0
        for kind, array in (("images", image), ("labels", np.eye(8, dtype=np.uint8) * 255)):
            (tmp_path / kind).mkdir(exist_ok=True)
            Image.fromarray(array).save(tmp_path / kind / f"{index}.png")
    wanted = Named(images=tmp_path / "images", labels=tmp_path / "labels")
    import_found(find_datasets(wanted), tmp_path / "mine", sites="2", options=ImportOptions(keys={"size": (32, 32)}))
    export_nnunet(tmp_path / "mine", tmp_path / "raw")
    for case in found(tmp_path / "raw").cases:
        number = int(case.name.split("_")[1])
        assert np.asarray(Image.open(case.image)).max() == 300 + number
        assert np.unique(np.asarray(Image.open(case.label))).tolist() == [0, 1]
    export_nnunet(tmp_path / "mine" / "site-1", tmp_path / "one")
    assert not (tmp_path / "one" / "imagesTs").exists()


def test_names_of_the_background_and_of_files_that_do_not_fit(tmp_path):
    nnunet(tmp_path)
    raw = tmp_path / "Dataset501_Hippocampus"
    change(tmp_path, labels={"rest": 0, "a": 1, "b": 2})
    volume(raw / "imagesTr" / "scan.nii.gz")
    (raw / "labelsTr" / "scan.mha").write_text("")
    dataset = found(tmp_path)
    assert (dataset.classes, dataset.labels) == (("a", "b"), {0: 0, 1: 1, 2: 2})
    named = [one.name for one in dataset.skipped if one.reason.startswith("not called CASE_0000.nii.gz")]
    assert named == ["Dataset501_Hippocampus/imagesTr/scan.nii.gz", "Dataset501_Hippocampus/labelsTr/scan.mha"]


def test_a_mask_that_is_stored_otherwise_than_its_image_is_exported_on_its_voxels(tmp_path):
    affine = np.diag([1.5, 2, 3, 1.0])
    mask = np.zeros((6, 5, 4), np.uint8)
    mask[1:4, 1:3, 1] = 1
    items = []
    for index in range(3):
        voxels = np.random.default_rng(index).normal(size=mask.shape).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(voxels, affine), tmp_path / f"{index}.nii.gz")
        turned = nibabel.Nifti1Image(mask, affine).as_reoriented([[1, -1], [0, 1], [2, -1]])
        nibabel.save(turned, tmp_path / f"{index}_mask.nii.gz")
        items.append({"image": f"{index}.nii.gz", "label": f"{index}_mask.nii.gz"})
    text(tmp_path / "datalist.json", {"training": [*items, {"image": "../0.nii.gz", "label": "0_mask.nii.gz"}]})
    (tmp_path / "data.yaml").write_text("pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\n")
    with pytest.raises(DataError, match=r"datalist\.json: training\[3\].*leads out"):
        export_nnunet(tmp_path, tmp_path / "raw")
    assert not (tmp_path / "raw").exists()
    text(tmp_path / "datalist.json", {"training": items})
    export_nnunet(tmp_path, tmp_path / "raw")
    for case in found(tmp_path / "raw").cases:
        written = nibabel.load(case.label)
        assert np.array_equal(written.dataobj, mask)
        np.testing.assert_allclose(written.affine, nibabel.load(case.image).affine)
