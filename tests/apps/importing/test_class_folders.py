import shutil

import numpy as np
import pytest
from PIL import Image

from fedannot.apps.importing.class_folders import read_class_folders
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.transforms.errors import DataError


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / name)


def test_the_folder_is_the_class_in_natural_order(tmp_path):
    write(tmp_path, "grade 2/a.png", "grade 10/b.jpg", "grade 2/c.png", "loose.png")
    dataset = read_class_folders(tmp_path)
    assert dataset.classes == ("grade 2", "grade 10")
    assert [(case.image.name, case.label) for case in dataset.cases] == [("a.png", 0), ("c.png", 0), ("b.jpg", 1)]
    assert {case.section for case in dataset.cases} == {None}
    assert dataset.task == "classification"


def test_folders_above_may_name_the_section(tmp_path):
    write(tmp_path, "train/normal/1.png", "train/pneumonia/2.png", "test/normal/3.png", "val/pneumonia/4.png")
    result = {case.image.name: (case.label, case.section) for case in read_class_folders(tmp_path).cases}
    assert result == {
        "1.png": (0, "training"),
        "2.png": (1, "training"),
        "3.png": (0, "testing"),
        "4.png": (1, None),
    }


def test_names_give_the_order_and_leave_other_folders_out(tmp_path):
    write(tmp_path, "a/1.png", "b/2.png", "c/3.png")
    dataset = read_class_folders(tmp_path, names=("c", "a"))
    assert [(case.image.name, case.label) for case in dataset.cases] == [("1.png", 1), ("3.png", 0)]
    assert tuple(map(str, dataset.skipped)) == ("b/2.png: its folder is none of the classes",)
    with pytest.raises(DataError, match=r"--classes: found d; expected names of folders with images in .*: a, b, c"):
        read_class_folders(tmp_path, names=("a", "d"))


def test_masks_beside_the_images_are_no_images(tmp_path):
    write(tmp_path, "benign/benign (1).png", "benign/benign (1)_mask.png", "malignant/malignant (1).png")
    dataset = read_class_folders(tmp_path, masks=["*_mask*"])
    assert [case.image.name for case in dataset.cases] == ["benign (1).png", "malignant (1).png"]


@pytest.mark.parametrize("names", [(), ("one/a.png",), ("a.png", "b.png")])
def test_one_class_is_none(tmp_path, names):
    write(tmp_path, *names)
    with pytest.raises(DataError, match="expected at least two classes, a folder of pictures for every class"):
        read_class_folders(tmp_path)


def test_real_ultrasound_in_folders_of_three_classes(real_data, tmp_path):
    """The pack's images laid out as they are published: a folder for each class; every part has its fraction of
    each.
    """
    for source in sorted((real_data / "busi-breast-us" / "cls").iterdir()):
        target = tmp_path / "busi" / source.stem.partition("_")[0] / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (dataset,) = find_datasets(Named(class_folders=tmp_path / "busi"))
    assert dataset.classes == ("benign", "malignant", "normal")
    options = ImportOptions(keys={"size": (32, 32)})
    report = write_imported_federation([dataset], tmp_path / "out", SiteChoice(4), options)
    places, shares = {}, []
    for part in [*read_federation(tmp_path / "out").sites, "test"]:
        section = "testing" if part == "test" else "training"
        cases = read_datalist(tmp_path / "out" / part / "datalist.json").section(section)
        labels = [case.label for case in cases]
        shares.append([labels.count(label) / len(labels) for label in range(3)])
        places |= {case.image.stem: part for case in cases}
    assert len(places) == 780
    assert np.ptp(shares, axis=0).max() < 0.02
    # The pair of identical images with two classes that the pack warns of.
    assert places["benign_433"] == places["malignant_145"]
    (note,) = report.notes
    assert note.startswith("Pixel-identical images: 1 group of 2 cases")
    assert "benign_433 = malignant_145 (of different classes)" in note
