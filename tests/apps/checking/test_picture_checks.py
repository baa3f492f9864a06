"""Pictures that training reads otherwise than somebody may expect are notes of the check; so are masks without end."""

import numpy as np
from checked_sites import PICTURES, only, picture, picture_site, pixels, square, write_site
from PIL import Image

from fedannot.apps.checking.checking import check_site


def test_colours_turned_pictures_and_full_masks_are_found(tmp_path):
    rgb = np.stack([pixels(0), pixels(0) // 2, pixels(0)], axis=-1)
    items = [
        picture(tmp_path, "colour", rgb, square()),
        picture(tmp_path, "full", pixels(1), np.full((16, 16), 255, np.uint8)),
        picture(tmp_path, "turned", pixels(2)[::-1, ::-1], square()),
    ]
    exif = Image.Exif()
    exif[0x0112] = 3
    file = tmp_path / "images" / "turned.png"
    Image.open(file).save(file, exif=exif)
    write_site(tmp_path, PICTURES, {"training": items})
    report = check_site(tmp_path, "a")
    assert only(report, "colours-left-out").files == ("images/colour.png",)
    assert only(report, "turned-image").files == ("images/turned.png",)
    assert only(report, "foreground-everywhere").files == ("labels/full.png",)
    write_site(tmp_path, PICTURES.replace("channels: 1", "channels: 3"), {"training": items})
    assert "colours-left-out" not in [finding.kind for finding in check_site(tmp_path, "a").findings]


def test_plain_grey_pictures_have_none_of_it(tmp_path):
    picture_site(tmp_path)
    assert not check_site(tmp_path, "a").findings
