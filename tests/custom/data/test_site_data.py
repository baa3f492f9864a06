import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms import image_pipeline
from fedannot.transforms.errors import DataError

DESCRIPTION = "pipeline: image2d\nchannels: 1\nsize: [8, 10]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]\n"


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site-3"
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    items = []
    for index in range(4):
        generator = np.random.default_rng(index)
        name = f"case_{index}.png"
        Image.fromarray(generator.integers(0, 255, (8, 10), dtype=np.uint8)).save(folder / "images" / name)
        mask = np.zeros((8, 10), np.uint8)
        mask[index : index + 3, 2:6] = 255
        Image.fromarray(mask).save(folder / "labels" / name)
        items.append({"image": f"images/{name}", "label": f"labels/{name}"})
    # Not in alphabetical order: the datalist decides.
    (folder / "datalist.json").write_text(json.dumps({"training": items[::-1]}))
    (folder / "data.yaml").write_text(DESCRIPTION)
    return folder


def load(site, **options):
    return load_site_data(site, site.parent / "cache", site="site-3", **options)


def test_cases_come_in_the_order_of_the_datalist(site):
    data = load(site)
    assert data.images.shape == (4, 1, 8, 10)
    assert data.images.dtype == torch.float32
    assert data.labels.dtype == torch.uint8
    assert [int(label.any(1).nonzero()[0]) for label in data.labels] == [3, 2, 1, 0]
    assert (data.site, data.classes, data.channels, data.num_samples) == ("site-3", ("lesion",), 1, 4)
    assert data.excluded == ()
    assert data.clean_labels is None


def test_second_load_reads_the_prepared_file(site, monkeypatch):
    first = load(site)

    def fail(*args):
        raise AssertionError("decoded again")

    monkeypatch.setattr(image_pipeline, "decode_case", fail)
    second = load(site)
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.labels, second.labels)
    assert [file.suffix for file in (site.parent / "cache").iterdir()] == [".pt"]


def test_a_changed_file_or_setting_is_decoded_again(site):
    before = load(site)
    file = site / "labels" / "case_0.png"
    status = file.stat()
    Image.fromarray(np.full((8, 10), 255, np.uint8)).save(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert load(site).labels[3].all()
    assert not before.labels[3].all()
    (site / "data.yaml").write_text(DESCRIPTION.replace("[8, 10]", "[4, 5]"))
    assert load(site).images.shape == (4, 1, 4, 5)


def test_a_damaged_prepared_file_is_made_again(site):
    before = load(site)
    (prepared,) = (site.parent / "cache").iterdir()
    prepared.write_bytes(b"damaged")
    assert torch.equal(load(site).images, before.images)


def test_bad_cases_are_left_out_and_listed(site, caplog):
    (site / "images" / "case_1.png").write_bytes(b"damaged")
    Image.fromarray(np.zeros((5, 10), np.uint8)).save(site / "labels" / "case_2.png")
    (site / "labels" / "case_3.png").unlink()
    for data in (load(site), load(site)):
        assert data.num_samples == 1
        assert [int(label.any(1).nonzero()[0]) for label in data.labels] == [0]
        reasons = {os.path.basename(case.file): case.reason for case in data.excluded}  # noqa: PTH119
        assert list(reasons) == ["case_3.png", "case_2.png", "case_1.png"]
        assert "found no such file" in reasons["case_3.png"]
        assert "5 × 10" in reasons["case_2.png"]
        assert "8 × 10" in reasons["case_2.png"]
        assert "cannot be read" in reasons["case_1.png"]
    # Said once, when the files were decoded.
    assert sum("case_1.png is left out" in record.message for record in caplog.records) == 1


def test_a_site_without_usable_case_says_how_many_and_why(site):
    (site / "data.yaml").write_text(DESCRIPTION.replace("255: 1", "1: 1"))
    with pytest.raises(
        DataError,
        match=r"^Site site-3: no usable case in .*datalist\.json: 4 of 4 excluded: .*case_3\.png: found the label "
        r"values 0, 255, expected only 0, 1\..*\{0: 0, 255: 1\}",
    ):
        load(site)


def test_an_absent_section_is_named(site):
    with pytest.raises(DataError, match=r"^Site site-3: .*datalist\.json has no case in the list 'validation'"):
        load(site, section="validation")


def test_a_wrong_key_names_site_file_key_and_the_nearest(site):
    (site / "data.yaml").write_text(DESCRIPTION + "lables: {0: 0}\n")
    with pytest.raises(DataError, match=r"^Site site-3: .*data\.yaml: unknown key 'lables'.*did you mean 'labels'"):
        load(site)


def test_clean_labels_are_known_for_all_cases_or_not_at_all(site):
    content = json.loads((site / "datalist.json").read_text())
    for item in content["training"]:
        item["clean_label"] = item["label"]
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site)
    assert data.clean_labels is not None
    assert torch.equal(data.clean_labels, data.labels)
    content["training"][0]["clean_label"] = "labels/none.png"
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site)
    assert data.clean_labels is None
    assert data.num_samples == 4
    assert data.excluded == ()
