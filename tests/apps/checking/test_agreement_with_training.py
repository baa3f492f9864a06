"""What the check calls unusable is exactly what `load_site_data` leaves out."""

import numpy as np
import pytest
from checked_sites import CLASSIFIED, PICTURES, VOLUMES, classified, picture, pixels, square, volume, write_site
from PIL import Image

from fedannot.apps.checking.checking import check_site
from fedannot.custom.data.site_data import load_site_data


def faulty_pictures(folder):
    items = [picture(folder, f"case_{index}", pixels(index), square()) for index in range(12)]
    images, labels = folder / "images", folder / "labels"
    (images / "case_0.png").write_bytes(b"damaged")
    (images / "case_1.png").unlink()
    (images / "case_2.png").write_bytes((images / "case_3.png").read_bytes()[:200])
    (labels / "case_4.png").unlink()
    Image.fromarray(square((8, 16))).save(labels / "case_5.png")
    Image.fromarray(square(value=1)).save(labels / "case_6.png")
    Image.fromarray(np.dstack([square(), square()[::-1], square()])).save(labels / "case_7.png")
    items[8]["label"] = 1
    items[9] |= {"clean_label": "labels/none.png"}
    items[10] |= {"clean_label": 1}
    items += [{"image": "../out.png", "label": "labels/case_9.png"}, {"image": "images/case_9.png"}, "text"]
    return PICTURES, items


def faulty_volumes(folder):
    shape = (8, 8, 8)
    items = [volume(folder, f"v{index}", pixels(index, shape), square(shape, 1)) for index in range(8)]
    (folder / "images" / "v0.nii.gz").write_bytes(b"damaged")
    damaged = folder / "images" / "v1.nii.gz"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    volume(folder, "v2", pixels(2, (8, 8, 8, 2)), square(shape, 1))
    volume(folder, "v3", np.full(shape, np.nan, np.float32), square(shape, 1))
    volume(folder, "v4", pixels(4, shape), square((8, 8, 9), 1))
    volume(folder, "v5", pixels(5, shape), square(shape, 9))
    volume(folder, "v6", pixels(6, shape), square(shape).astype(np.float32) / 255 + 0.5)
    return VOLUMES + "size: [8, 8, 8]\n", items


def faulty_classes(folder):
    labels = [0, 1, 3, -1, "1", 2, 2]
    items = [classified(folder, f"case_{index}", pixels(index), label) for index, label in enumerate(labels)]
    items[1]["clean_label"] = 7
    (folder / "images" / "case_5.png").write_bytes(b"damaged")
    return CLASSIFIED, items


@pytest.mark.parametrize(("make", "usable"), [(faulty_pictures, 4), (faulty_volumes, 1), (faulty_classes, 3)])
def test_the_check_excludes_what_training_excludes(tmp_path, make, usable):
    folder = tmp_path / "site"
    description, items = make(folder)
    write_site(folder, description, {"training": items})
    data = load_site_data(folder, tmp_path / "cache", site="site-1")
    report = check_site(folder, "site-1")
    assert {case.name for case in report.facts.cases if case.is_usable} == {
        (folder / "images" / case.name).relative_to(folder).as_posix() for case in data.cases
    }
    refused = [item.name for item in report.facts.refused["training"]]
    unusable = [str(case.case.image) for case in report.facts.cases if not case.is_usable]
    assert refused + unusable == [case.name for case in data.excluded]
    assert report.lists == {"training": (len(items), len(data.cases))}
    assert len(data.cases) == usable
