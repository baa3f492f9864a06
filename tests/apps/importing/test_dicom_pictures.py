"""X-rays and other DICOM of one frame are read with all their bits, as brightness."""

import json
from pathlib import Path

import numpy as np
import pydicom
import pytest
from dicom_files import X_RAY, write, write_frames, write_segmentation, write_slices
from PIL import Image

from fedannot.apps.importing.class_folders import read_class_folders
from fedannot.apps.importing.datalists import read_source_datalist
from fedannot.apps.importing.dicom_pictures import as_picture
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.folder_images import find_images
from fedannot.transforms.loading.image_files import read_image

STORED = np.random.default_rng(1).integers(0, 4096, (6, 9)).astype(np.uint16)
STORED[0, 0], STORED[0, 1] = 4095, 0
COLOURS = np.random.default_rng(2).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def scaled(slope, intercept):
    return {"RescaleSlope": slope, "RescaleIntercept": intercept, "RescaleType": "US"}


@pytest.mark.parametrize(
    ("values", "suffix", "expected"),
    [
        ({}, ".png", STORED),
        ({"PhotometricInterpretation": "MONOCHROME1"}, ".png", 4095 - STORED.astype(float)),
        (scaled(0.5, -3), ".tif", 0.5 * STORED - 3),
        (scaled(1, -1024), ".tif", STORED.astype(float) - 1024),
        (scaled(2, 0) | {"PhotometricInterpretation": "MONOCHROME1"}, ".png", 2 * (4095 - STORED.astype(float))),
    ],
)
def test_a_dicom_image_keeps_all_its_bits(tmp_path, values, suffix, expected):
    file = write(tmp_path / "a.dcm", STORED, X_RAY, "1.2.3.4.1", bits=12, **values)
    assert np.array_equal(pydicom.dcmread(file).pixel_array, STORED), "the independent reader gives what is stored"
    picture = as_picture(file, tmp_path / "out" / "a")
    assert picture == tmp_path / "out" / f"a{suffix}"
    assert np.array_equal(read_image(picture, 1)[0], expected.astype(np.float32))


def test_colours_are_kept(tmp_path):
    file = write(
        tmp_path / "a.dcm", COLOURS, X_RAY, "1.2.3.4.1", PhotometricInterpretation="RGB", PlanarConfiguration=0
    )
    assert np.array_equal(np.moveaxis(read_image(as_picture(file, tmp_path / "a"), 3), 0, -1), COLOURS)


def test_several_frames_and_damaged_files_are_refused_by_name(tmp_path):
    film = write_frames(tmp_path / "film.dcm", np.stack([STORED] * 3), [1] * 3, [0] * 3, (0, 1, 2))
    with pytest.raises(DataError, match=r"film\.dcm: found 3 frames; expected a picture of one"):
        as_picture(film, tmp_path / "out")
    (tmp_path / "cut.dcm").write_bytes(write(tmp_path / "a.dcm", STORED, X_RAY, "1.2.3.4.1").read_bytes()[:-30])
    (tmp_path / "text.dcm").write_text("no DICOM")
    for name in ("cut", "text"):
        with pytest.raises(DataError, match=rf"{name}\.dcm: cannot be read as a DICOM image"):
            as_picture(tmp_path / f"{name}.dcm", tmp_path / "out")


def test_x_rays_are_imported_with_masks_and_with_classes(tmp_path):
    items = []
    for index in range(4):
        name = f"{'benign' if index % 2 else 'malignant'}/{index}"
        shown = np.roll(STORED, index)
        write(tmp_path / f"{name}.dcm", shown, X_RAY, f"1.2.3.{index}.1", bits=12)
        Image.fromarray((shown > 2000).astype(np.uint8) * 255).save(tmp_path / f"{index}_mask.png")
        items.append({"image": f"{name}.dcm", "label": f"{index}_mask.png"})
    (tmp_path / "datalist.json").write_text(json.dumps(items))
    for name, dataset in (
        ("masks", read_source_datalist(tmp_path / "datalist.json")),
        ("classes", read_class_folders(tmp_path)),
    ):
        options = ImportOptions(keys={"size": (6, 9)})
        report = write_imported_federation([dataset], tmp_path / "out" / name, SiteChoice(1), options, test_share=0.0)
        assert report.excluded == ()
        cases = read_datalist(tmp_path / "out" / name / "site-1" / "datalist.json").section("training")
        assert sorted(case.image.name for case in cases) == [f"{index}.png" for index in range(4)]
        for case in cases:
            assert np.array_equal(read_image(case.image, 1)[0], np.roll(STORED, int(case.image.stem)))


def test_folders_tell_x_rays_from_series_and_files_of_many_frames(tmp_path):
    """X-rays beside each other are images of their own, also in a patient's folder; slices are a series."""
    for name in ("images/a.dcm", "images/patient/b.dcm", "images/patient/c.dcm"):
        write(tmp_path / name, STORED, X_RAY, f"1.2.3.{ord(name[-5])}.1", PatientID=name[-5])
        mask = tmp_path / name.replace("images", "labels").replace(".dcm", ".png")
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((STORED > 2000).astype(np.uint8)).save(mask)
    pictures = find_datasets(Named(images=tmp_path / "images", labels=tmp_path / "labels"))[0]
    assert [(case.image.name, case.group) for case in pictures.cases] == [(f"{n}.dcm", n) for n in "abc"]
    assert not pictures.volumes
    # One that is damaged is refused alone, and one that says where it lies is a picture among pictures.
    first, other = sorted((tmp_path / "images" / "patient").iterdir())
    content = first.read_bytes()
    for length in (200, len(content) - 30):
        first.write_bytes(content[:length])
        pictures = find_datasets(Named(images=tmp_path / "images", labels=tmp_path / "labels"))[0]
        assert [case.image.name for case in pictures.cases] == ["a.dcm", "b.dcm", "c.dcm"]
        name = f"pictures-{length}"
        options = ImportOptions(keys={"size": (6, 9)})
        report = write_imported_federation([pictures], tmp_path / name, SiteChoice(1), options, test_share=0.0)
        assert ["b.dcm" in str(left) for left in report.excluded] == [True]
        folder = find_images(str(tmp_path / "images"), pictures=True, without=str(tmp_path / "results"))
        assert [Path(file).name for file in folder.files] == ["a.dcm", "b.dcm", "c.dcm"]
        assert folder.left_out == ()
    first.write_bytes(content)
    placed = pydicom.dcmread(other)
    placed.ImagePositionPatient, placed.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
    placed.save_as(other)
    assert len(find_datasets(Named(images=tmp_path / "images", labels=tmp_path / "labels"))[0].cases) == 3

    stored = np.stack([STORED] * 4)
    series = write_slices(tmp_path / "volumes" / "s", stored, [1] * 4, [0] * 4)
    write_frames(tmp_path / "volumes" / "f.dcm", stored, [1] * 4, [0] * 4, range(4))
    for name in ("s", "f"):
        write_segmentation(tmp_path / "masks" / f"{name}.dcm", series, (stored > 2000).astype(np.uint8), range(4))
    volumes = find_datasets(Named(images=tmp_path / "volumes", labels=tmp_path / "masks"))[0]
    assert [case.image.name for case in volumes.cases] == ["f.dcm", "s"]
    assert volumes.volumes
    report = write_imported_federation([volumes], tmp_path / "out", SiteChoice(1), ImportOptions(), test_share=0.0)
    assert report.excluded == ()
