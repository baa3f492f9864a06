"""Exports of CVAT become masks: by hand-worked cases; what an attacker could send is refused before it is unpacked."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedannot.apps.commands.data import data_app
from fedannot.apps.importing import cvat
from fedannot.apps.importing.cvat import is_cvat_export, read_cvat
from fedannot.apps.importing.cvat_masks import write_cvat_masks
from fedannot.transforms.errors import DataError

NUMBERS = {"lesion": 1, "cyst": 2}
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version><meta><task><labels/></task></meta>'


def xml(*shapes, head=HEAD, size='width="6" height="4"'):
    inside = "".join(shapes)
    return f'{head}<image id="0" name="ward/a.png" {size}>{inside}<tag label="done"></tag></image></annotations>'


def polygon(points, label="lesion", z=0):
    return f'<polygon label="{label}" source="manual" points="{points}" z_order="{z}"><attribute name="a"/></polygon>'


def mask(rle, label="cyst", box=(1, 1, 3, 2), z=0):
    left, top, width, height = box
    where = f'left="{left}" top="{top}" width="{width}" height="{height}"'
    return f'<mask label="{label}" occluded="0" rle="{rle}" {where} z_order="{z}"></mask>'


def drawn(tmp_path, *shapes):
    (tmp_path / "annotations.xml").write_text(xml(*shapes))
    (image,) = read_cvat(tmp_path)
    assert image.name == "ward/a.png"
    return image.classes(NUMBERS)


def test_a_pixel_belongs_to_a_polygon_by_its_centre(tmp_path):
    result = drawn(tmp_path, polygon("1,1;4,1;4,3;1,3"))
    expected = np.zeros((4, 6), np.uint8)
    expected[1:3, 1:4] = 1
    np.testing.assert_array_equal(result, expected)
    # Half of a pixel to the right, and beyond the image.
    np.testing.assert_array_equal(drawn(tmp_path, polygon("1.6,-5;9.0,-5;9.0,9;1.6,9"))[0], [0, 0, 1, 1, 1, 1])
    triangle = drawn(tmp_path, polygon("0,0;6,0;0,4"))
    rows, columns = np.indices((4, 6)) + 0.5
    np.testing.assert_array_equal(triangle == 1, columns / 6 + rows / 4 < 1)


def test_runs_of_a_mask_begin_with_what_does_not_belong_to_it(tmp_path):
    result = drawn(tmp_path, mask("0, 2, 2, 2"))
    np.testing.assert_array_equal(result[1:3, 1:4], [[2, 2, 0], [0, 2, 2]])
    assert result.sum() == 8


def test_the_larger_z_order_counts_then_the_later_shape(tmp_path):
    whole = polygon("0,0;6,0;6,4;0,4", z=1)
    assert drawn(tmp_path, whole, mask("0,6")).max() == 1
    assert (drawn(tmp_path, whole, mask("0,6", z=1)) == 2).sum() == 6


def test_colours_are_labels_by_the_table(tmp_path):
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[1, 1], pixels[2, 3:5] = (10, 20, 30), (0, 128, 0)
    image, stream = Image.fromarray(pixels), io.BytesIO()
    image.save(stream, "PNG")
    table = "# label:color_rgb:parts:actions\nbackground:0,0,0::\nlesion:10,20,30::\ncyst:0,128,0::\n"
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("labelmap.txt", table)
        archive.writestr("SegmentationClass/ward/a.png", stream.getvalue())
        archive.writestr("SegmentationObject/ward/a.png", b"no picture")
    for source in (tmp_path / "export.zip", tmp_path / "unpacked"):
        if source.suffix != ".zip":
            zipfile.ZipFile(tmp_path / "export.zip").extractall(source)
        assert is_cvat_export(source)
        (result,) = read_cvat(source)
        assert result.name == "ward/a"
        classes = result.classes(NUMBERS)
        assert (classes[1, 1], classes[2, 3], classes.sum()) == (1, 2, 5)
    with pytest.raises(DataError, match="found the label 'cyst'; expected one of 'lesion'"):
        result.classes({"lesion": 1})
    (tmp_path / "unpacked" / "labelmap.txt").write_text("lesion:10,20,30::\n")
    (result,) = read_cvat(tmp_path / "unpacked")
    with pytest.raises(DataError, match=r"SegmentationClass/ward/a\.png: found the colour #008000; expected those"):
        result.classes(NUMBERS)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (polygon("1,1;2,2"), "a polygon with the points"),
        (polygon("1,1;2,2;nan,3"), "a polygon with the points"),
        (polygon("1,1;2,2;3,3,4"), "a polygon with the points"),
        (mask("0,7"), "lengths that are 6 in all"),
        (mask("0,99999999999999999999"), "lengths that are 6 in all"),
        (mask("7,-1"), "lengths that are 6 in all"),
        (mask("0,6", box=(4, 1, 3, 2)), "a box in the image"),
        (mask("0,6", box=(1.5, 1, 3, 2)), "a box in the image"),
        (mask("0,6", box=("", 1, 3, 2)), "'left'"),
        (polygon("1,1;4,1;4,3", label="spleen"), "the label 'spleen'; expected one of 'lesion', 'cyst'"),
    ],
)
def test_shapes_that_cannot_be_drawn_are_named(tmp_path, shape, reason):
    with pytest.raises(DataError, match=rf"image ward/a\.png: found .*{reason}"):
        drawn(tmp_path, shape)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (xml('<box label="lesion" xtl="0" ytl="0" xbr="1" ybr="1"/>'), "found a 'box' in the image 'ward/a.png'"),
        (xml(polygon("0,0;1,0;1,1"), size='width="99999999" height="4"'), "without a size"),
        (xml(size='width="999999" height="999999"'), "found an image of"),
        (f"{HEAD}<track id='0' label='lesion'></track></annotations>", "found tracks of a video"),
        ("<annotations>", "is not XML"),
        (f"{HEAD}</annotations>", "found no image"),
        (xml(head='<?xml version="1.0" encoding="utf-7"?><annotations>'), "is not XML"),
        (xml(head='<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotations>'), "declares a document type"),
        (xml(head='<!DOCTYPE a [<!ENTITY x "x"><!ENTITY y "&x;&x;">]><annotations>'), "declares a document type"),
    ],
)
def test_other_xml_is_refused(tmp_path, text, reason):
    (tmp_path / "export.xml").write_text(text)
    with pytest.raises(DataError, match=reason):
        read_cvat(tmp_path / "export.xml")


def test_an_archive_is_bounded_and_writes_nothing_beside_itself(tmp_path, monkeypatch):
    table = "lesion:10,20,30::\n"
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labelmap.txt", table)
        archive.writestr("SegmentationClass/../../../escaped.png", b"x" * 5000)
        archive.writestr(".", b"a part without a name")
    (image,) = read_cvat(tmp_path / "a.zip")
    monkeypatch.setattr(cvat, "MOST_MASK_BYTES", 1000)
    with pytest.raises(DataError, match="found 5000 bytes; expected at most 1000"):
        image.classes(NUMBERS)
    monkeypatch.setattr(cvat, "MOST_MASK_BYTES", 10000)
    with pytest.raises(DataError, match=r"escaped\.png: cannot be read as an image"):
        image.classes(NUMBERS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
    (tmp_path / "b.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"b\.zip: cannot be read as \.zip"):
        read_cvat(tmp_path / "b.zip")


def test_masks_of_an_export_are_files_by_the_names_of_images(tmp_path):
    """Of an image without a shape nothing is written: nobody may have looked at it."""
    second = '<image id="1" name="b.jpg" width="6" height="4"></image></annotations>'
    text = xml(polygon("1,1;4,1;4,3;1,3"), mask("0,6", box=(3, 2, 3, 2), z=1)).replace("</annotations>", second)
    (tmp_path / "export.xml").write_text(text)
    arguments = ["cvat", str(tmp_path / "export.xml"), "--classes", "lesion,cyst", "--out", str(tmp_path / "masks")]
    result = CliRunner().invoke(data_app, arguments)
    assert result.exit_code == 0, result.output
    assert "1 masks in" in result.output
    assert "which have no mask: b.jpg" in " ".join(result.output.split())
    (file,) = (path for path in (tmp_path / "masks").rglob("*") if path.is_file())
    assert file == tmp_path / "masks" / "ward" / "a.png"
    expected = np.zeros((4, 6), np.uint8)
    expected[1:3, 1:4], expected[2:4, 3:6] = 1, 2
    np.testing.assert_array_equal(np.asarray(Image.open(file)), expected)


@pytest.mark.parametrize("name", ["../a.png", "/a.png", "a/../../b.png", "..\\a.png"])
def test_a_mask_is_not_written_outside(tmp_path, name):
    (tmp_path / "export.xml").write_text(xml(polygon("1,1;4,1;4,3;1,3")).replace("ward/a.png", name))
    arguments = ["cvat", str(tmp_path / "export.xml"), "--classes", "lesion", "--out", str(tmp_path / "in" / "masks")]
    result = CliRunner().invoke(data_app, arguments)
    assert result.exit_code == 1
    assert "expected a path inside of the export" in " ".join(result.output.split())
    assert not list((tmp_path / "in").rglob("*.png"))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["export.xml"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("a.png", "a.png/b.png"), "a second image or folder 'a.png/b.png'"),
        (("a.png/b.png", "a.png"), "a second image or folder 'a.png'"),
        (("a.png", "a.jpg"), "a second image or folder 'a.png'"),
        ((f"{'a' * 300}.png",), "a name that a file can have"),
        (("..png",), "a name that a file can have"),
    ],
)
def test_names_that_no_two_files_can_have_are_refused_and_nothing_is_written(tmp_path, names, reason):
    of_image = xml(polygon("1,1;4,1;4,3;1,3"), head="").removesuffix("</annotations>")
    images = "".join(of_image.replace("ward/a.png", name) for name in names)
    (tmp_path / "export.xml").write_text(f"{HEAD}{images}</annotations>")
    with pytest.raises(DataError, match=reason):
        write_cvat_masks(tmp_path / "export.xml", ["lesion"], tmp_path / "masks")
    assert [path.name for path in tmp_path.iterdir()] == ["export.xml"]
