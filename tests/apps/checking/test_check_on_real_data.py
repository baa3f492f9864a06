"""The check on real packs: problems that are known to be in them are found, and little else."""

import json
import shutil

import pytest
from checked_sites import summary, write_site

from fedannot.apps.checking.checking import check_site

BUSI = "pipeline: classification\nchannels: 1\nsize: [128, 128]\nclasses: [normal, benign, malignant]\n"
CELLS = "channels: 1\nsize: [128, 128]\nlabels: {0: 0, 255: 1}\nclasses: [cell]\n"
HIPPOCAMPUS = "pipeline: volume\nsize: [48, 64, 48]\nlabels: {0: 0, 1: 1, 2: 2}\nclasses: [anterior, posterior]\n"

CHOSEN = ("001", "003", "004", "006", "033")


@pytest.fixture
def copied_site(real_data, tmp_path):
    """Copies some cases of a pack into a site and checks it."""

    def copy(pack, key, description, chosen):
        items = [
            item
            for item in json.loads((real_data / pack / "datalist.json").read_text(encoding="utf-8"))[key]
            if chosen(item)
        ]
        for item in items:
            for name in (item["image"], item["label"]):
                if isinstance(name, str):
                    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(real_data / pack / name, tmp_path / name)
        kept = [{"image": item["image"], "label": item["label"]} for item in items]
        write_site(tmp_path, description, {"training": kept})
        return check_site(tmp_path, "site-1")

    return copy


def test_the_same_ultrasound_image_with_two_labels_is_found(copied_site):
    report = copied_site("busi-breast-us", "classification", BUSI, lambda item: int(item["image"][-7:-4]) % 12 == 1)
    pair = ("cls/benign_433.jpg", "cls/malignant_145.jpg")
    assert summary(report) == [("warning", "conflicting-labels", pair)]
    assert "cls/benign_433.jpg: benign, cls/malignant_145.jpg: malignant" in report.findings[0].found


def test_mixed_intensity_types_of_the_hippocampus_volumes_are_found(copied_site):
    report = copied_site("hippocampus-msd", "items", HIPPOCAMPUS, lambda item: item["image"][-10:-7] in CHOSEN)
    rarer = ("images/hippocampus_001.nii.gz", "images/hippocampus_033.nii.gz")
    assert summary(report) == [("warning", "mixed-voxel-types", rarer)]
    assert "3 of float32 and 2 of uint8" in report.findings[0].found
    assert report.lists == {"training": (5, 5)}


def test_the_source_of_tiny_cell_crops_is_found(copied_site):
    report = copied_site("bubil-cells", "items", CELLS, lambda item: item["source"] == "bubil_d6")
    ((severity, kind, files),) = summary(report)
    assert (severity, kind, len(files)) == ("warning", "small-images", 35)
    assert "35 of 35 images" in report.findings[0].found


def test_cells_of_an_ordinary_source_have_nothing_wrong(copied_site):
    assert summary(copied_site("bubil-cells", "items", CELLS, lambda item: item["source"] == "bubil_d1")) == []
