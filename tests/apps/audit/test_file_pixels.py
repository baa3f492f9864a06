import math
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.apps.audit import encoded_planes, file_pixels
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.encoded_planes import encoded_classes
from fedannot.apps.audit.file_grid import AXIAL, plane_of
from fedannot.apps.audit.file_pixels import FilePixels, PlaneRequest, TileRequest
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.suggested_files import SuggestedFiles
from fedannot.custom.audit.case_arrays import CaseArrays, write_case_arrays
from fedannot.custom.audit.findings import AuditedCase, Finding, Place, SiteAudit
from fedannot.custom.data.masks import read_classes

AFFINE = np.diag([-1.0, 1.0, 2.0, 1.0])


def decoded(content, shape):
    """Classes of a plane, by another way than the page's."""
    if content[:4] == bytes(4):
        return np.frombuffer(content[4:], np.uint8).reshape(shape)
    runs = np.frombuffer(content[4:], "<u4")
    return np.repeat(runs >> 24, runs & 0xFFFFFF).astype(np.uint8).reshape(shape)


def audited(folder: Path, description: str, image: Path, label: Path, arrays: CaseArrays, *findings: Finding):
    """An audit of one case with these files."""
    (folder / "data.yaml").write_text(f"classes: [lesion]\nlabels: {{0: 0, 1: 1}}\n{description}\n")
    names = [file.name for file in (image, label)]
    (folder / "datalist.json").write_text(f'{{"training": [{{"image": "{names[0]}", "label": "{names[1]}"}}]}}')
    write_case_arrays(folder / "case.npz", arrays)
    case = AuditedCase(image=names[0], label=names[1], unit="p", arrays="case.npz", findings=findings)
    audit = SiteAudit(
        site="s", data=str(folder), method="audit", made="", model_sha256="", predicted_by={"folds": 2},
        task="segmentation", classes=("lesion",), unit="px", num_cases=1, num_patients=1, cases=(case,),
    )  # fmt: skip
    reader = CaseReader(FoundAudit(folder, audit))
    return reader, case, FilePixels(reader, case, "v")


def picture(folder, pixels, given=None, suffix="png"):
    given = np.zeros(pixels.shape[:2], np.uint8) if given is None else given
    Image.fromarray(pixels).save(folder / f"image.{suffix}")
    Image.fromarray(given).save(folder / "label.png")
    return folder / f"image.{suffix}", folder / "label.png"


def nearest(length, scaled, offset):
    """By hand: which pixel of a fitted axis lies at the middle of each pixel of the file."""
    return [min(math.floor((own + 0.5) * scaled / length), scaled - 1) + offset for own in range(length)]


@pytest.mark.parametrize("extents", [(11, 23), (30, 9)])
@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_a_prediction_lies_at_its_pixels_of_a_picture_that_is_not_square(tmp_path, fit, extents):
    size = (8, 12)
    rng = np.random.default_rng(0)
    prediction = rng.integers(0, 2, (1, *size), dtype=np.uint8)
    place = Place(sample=0, start=(2, 5), stop=(4, 8))
    found = Finding(id="f", kind="boundary", classes=("lesion",), score=0.5, place=place, has_suggestion=True)
    suggestion = 1 - prediction[0, 2:4, 5:8]
    files = picture(tmp_path, np.zeros(extents, np.uint8), rng.integers(0, 2, extents, dtype=np.uint8))
    description = f"pipeline: image2d\nchannels: 1\nsize: {list(size)}\nfit: {fit}"
    reader, case, pixels = audited(tmp_path, description, *files, CaseArrays(prediction, {"f": suggestion}), found)
    factor = min(size[0] / extents[0], size[1] / extents[1])
    scaled = size if fit == "resize" else tuple(round(own * factor) for own in extents)
    rows, columns = (nearest(extents[axis], scaled[axis], (size[axis] - scaled[axis]) // 2) for axis in range(2))
    expected = np.array([[prediction[0, row, column] for column in columns] for row in rows])
    np.testing.assert_array_equal(plane_of(pixels.classes("predicted"), AXIAL, 0), expected)
    # Where the finding is, with what is around it.
    (where,) = pixels.describe("", blind_first=False)["findings"]
    inside = np.argwhere([[2 <= row < 4 and 5 <= column < 8 for column in columns] for row in rows])
    top, left, bottom, right = where["box"]
    assert (top <= inside.min(0)[0], left <= inside.min(0)[1]) == (True, True)
    assert (bottom > inside.max(0)[0], right > inside.max(0)[1]) == (True, True)
    # What is suggested is what would be written were it accepted.
    written, _ = SuggestedFiles(reader, reader.description).write(tmp_path / "new", case, ["f"])
    suggested = plane_of(pixels.classes("suggested", 0), AXIAL, 0)
    np.testing.assert_array_equal(suggested, read_classes(written, reader.description).classes)
    assert (suggested != plane_of(pixels.classes("given"), AXIAL, 0)).any()


@pytest.mark.parametrize("fit", ["crop", "pad", "resize"])
def test_a_prediction_lies_at_its_voxels_of_a_volume(tmp_path, fit):
    extents, size = (9, 6, 5), (6, 8, 4)
    prediction = np.random.default_rng(0).integers(0, 2, (1, *size), dtype=np.uint8)
    for name in ("image", "label"):
        voxels = np.arange(np.prod(extents)).reshape(extents) % (2 if name == "label" else 999)
        nibabel.save(nibabel.Nifti1Image(voxels.astype(np.int16), AFFINE), tmp_path / f"{name}.nii")
    files = (tmp_path / "image.nii", tmp_path / "label.nii")
    description = f"pipeline: volume\nsize: {list(size)}\nfit: {fit}"
    _, _, pixels = audited(tmp_path, description, *files, CaseArrays(prediction, {}))
    factor = min(wanted / own for wanted, own in zip(size, extents, strict=True))
    scaled = {"crop": extents, "resize": size, "pad": tuple(max(1, round(own * factor)) for own in extents)}[fit]
    # What is cut off at the front, or padded there.
    before = [
        -((own - wanted) // 2) if own > wanted else (wanted - own) // 2
        for own, wanted in zip(scaled, size, strict=True)
    ]
    along = [nearest(extents[axis], scaled[axis], before[axis]) for axis in range(3)]
    # The pipeline counts from the left, the file from the right.
    along[0].reverse()
    expected = np.zeros(extents, np.uint8)
    for index in np.ndindex(*extents):
        own = tuple(along[axis][index[axis]] for axis in range(3))
        if all(0 <= place < length for place, length in zip(own, size, strict=True)):
            expected[index] = prediction[(0, *own)]
    np.testing.assert_array_equal(pixels.grid.to_file(pixels.classes("predicted")), expected)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "rgb"])
def test_tiles_are_the_pixels_of_the_file_and_their_means(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(file_pixels, "TILE", 8)
    shape = (19, 27, 3) if kind == "rgb" else (19, 27)
    values = np.random.default_rng(0).integers(0, 60000 if kind == "uint16" else 256, shape)
    values = values.astype("uint16" if kind == "uint16" else "uint8")
    description = f"pipeline: image2d\nchannels: {3 if kind == 'rgb' else 1}\nsize: [8, 8]"
    arrays = CaseArrays(np.zeros((1, 8, 8), np.uint8), {})
    _, _, pixels = audited(tmp_path, description, *picture(tmp_path, values), arrays)
    for scale in (1, 2):
        side = 8 * scale
        for row, column in np.ndindex(-(-19 // side), -(-27 // side)):
            part = values[row * side : (row + 1) * side, column * side : (column + 1) * side].astype(float)
            means = np.array(
                [
                    [part[y : y + scale, x : x + scale].mean((0, 1)) for x in range(0, part.shape[1], scale)]
                    for y in range(0, part.shape[0], scale)
                ]
            )
            sent = np.frombuffer(pixels.tile(TileRequest(AXIAL, 0, scale, row, column)), values.dtype.newbyteorder("<"))
            assert np.abs(sent.reshape(means.shape).astype(float) - means).max() <= 0.5
    for wrong in (
        (AXIAL, 0, 3, 0, 0),
        (AXIAL, 0, 1, 3, 0),
        (AXIAL, 1, 1, 0, 0),
        (0, 0, 1, 0, 0),
        (AXIAL, 0, 128, 0, 0),
    ):
        with pytest.raises(LookupError):
            pixels.tile(TileRequest(*wrong))
    for wrong in ((3, 0, AXIAL, 0), (2, 0, AXIAL, 0), (0, 0, AXIAL, 1), (0, 0, 3, 0)):
        with pytest.raises(LookupError):
            pixels.runs(PlaneRequest(*wrong))


def test_classes_come_through_either_form_and_runs_of_any_length(monkeypatch):
    rng = np.random.default_rng(0)
    noise, blocks = rng.integers(0, 256, (9, 7), np.uint8), np.repeat(rng.integers(0, 3, (40, 1), np.uint8), 90, axis=1)
    for plane in (noise, blocks, np.zeros((1, 1), np.uint8)):
        np.testing.assert_array_equal(decoded(encoded_classes(plane), plane.shape), plane)
    assert len(encoded_classes(blocks)) < blocks.size / 10
    monkeypatch.setattr(encoded_planes, "_LONGEST_RUN", 50)
    runs = encoded_classes(blocks)
    np.testing.assert_array_equal(decoded(runs, blocks.shape), blocks)
    assert (np.frombuffer(runs[4:], "<u4") & 0xFFFFFF).max() == 50


def test_windows_of_ct_are_offered_of_ct_alone(tmp_path):
    presets = {}
    for name, low, high in (("ct", -1000, 2000), ("mr", 0, 2000)):
        folder = tmp_path / name
        folder.mkdir()
        voxels = np.linspace(low, high, 60).round().astype(np.int16).reshape(5, 4, 3)
        for file, content in (("image", voxels), ("label", np.zeros_like(voxels))):
            nibabel.save(nibabel.Nifti1Image(content, AFFINE), folder / f"{file}.nii")
        arrays = CaseArrays(np.zeros((1, 5, 4, 3), np.uint8), {})
        _, _, pixels = audited(folder, "pipeline: volume", folder / "image.nii", folder / "label.nii", arrays)
        described = pixels.describe("", blind_first=True)
        assert (described["type"], described["range"], described["blindFirst"]) == ("int16", (low, high), True)
        presets[name] = {own["name"]: (own["low"], own["high"]) for own in described["presets"]}
    assert presets["mr"] == {}
    # Level and width in Hounsfield units, as radiologists set them.
    centres = {name: ((low + high) / 2, high - low) for name, (low, high) in presets["ct"].items()}
    assert centres == {"Soft tissue": (40, 400), "Lung": (-600, 1500), "Bone": (400, 1800), "Brain": (40, 80)}
