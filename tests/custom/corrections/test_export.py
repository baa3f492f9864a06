"""Annotations that count as new files: they load as what training has, and say where they come from."""

import hashlib
import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from support.corrected_runs import corrections_of, made_corrections, stored, write_corrected_run

from fedannot.custom.corrections.case_states import revert
from fedannot.custom.corrections.export import (
    PROVENANCE_FILE,
    ExportedAnnotation,
    ExportedAnnotations,
    export_corrections,
)
from fedannot.custom.corrections.in_files import IgnoredObject
from fedannot.custom.corrections.kinds import CasesRelabelled, LesionsAdded, MaskShift, PixelsReplaced
from fedannot.custom.corrections.model import CaseCorrection, Corrections, CorrectionState, NewClass, NewMask
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses
from fedannot.custom.corrections.store import StoredCorrections, read_corrections
from fedannot.custom.corrections.targets import corrected_labels
from fedannot.custom.data.datalist import TRAINING, Case, write_datalist
from fedannot.custom.data.description import (
    ImageDescription,
    SegmentationDescription,
    SliceDescription,
    VolumeDescription,
    write_site_description,
)
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_site
from fedannot.custom.data.site_data import load_site_data

SIDE = 16


def write_pictures(folder: Path, values: dict[int, int] | None = None, count: int = 3) -> Path:
    """Pictures with a square of value 200 (class 2), a corner of 170 (class 2, too) and a spot of 85 (class 1)."""
    cases = []
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for index in range(1, count + 1):
        mask = np.zeros((SIDE, SIDE), np.uint8)
        mask[4:12, 4:12] = 200
        mask[4:6, 4:6] = 170
        mask[13:15, 1:3] = 85
        for kind in ("images", "labels"):
            Image.fromarray(mask).save(folder / kind / f"a{index}.png")
        cases.append(Case(folder / "images" / f"a{index}.png", folder / "labels" / f"a{index}.png"))
    write_datalist(folder / "datalist.json", {TRAINING: cases})
    labels = values or {0: 0, 85: 1, 170: 2, 200: 2}
    description = ImageDescription(channels=1, size=(SIDE, SIDE), labels=labels, classes=("spot", "square"))
    write_site_description(folder, description)
    return folder


def digests(folder: Path) -> dict[Path, str]:
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def written(tmp_path: Path, record: Path) -> tuple[Path, ExportedAnnotations]:
    out = tmp_path / "out"
    out.mkdir()
    return out, export_corrections(out, StoredCorrections(record, read_corrections(record)))


def test_values_of_the_file_stay_and_given_files_too(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data")
    before = digests(data)
    corrections = corrections_of(data, bias={2: 1.0})
    out, result = written(tmp_path, write_corrected_run(tmp_path / "run", corrections))
    assert digests(data) == before
    given = np.asarray(Image.open(data / "labels" / "a1.png"))
    expected = np.zeros_like(given)
    expected[5:11, 5:11] = given[5:11, 5:11]
    expected[13:15, 1:3] = 85
    np.testing.assert_array_equal(np.asarray(Image.open(out / "labels" / "0001_a1.png")), expected)
    assert {170, 200} <= set(np.unique(expected).tolist())
    assert result.annotations[0] == ExportedAnnotation(
        given="labels/a1.png",
        given_sha256=before[data / "labels" / "a1.png"],
        file="labels/0001_a1.png",
        changed=28,
    )


def test_what_grows_takes_the_first_value_of_its_class(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data")
    corrections = corrections_of(data, bias={2: -1.0})
    out, _ = written(tmp_path, write_corrected_run(tmp_path / "run", corrections))
    values, given = (
        np.asarray(Image.open(file)) for file in (out / "labels" / "0001_a1.png", data / "labels" / "a1.png")
    )
    assert values[3, 8] == values[12, 8] == 170
    np.testing.assert_array_equal(values[given != 0], given[given != 0])


def test_the_provenance_says_what_was_moved_by_which_model(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data")
    corrections = corrections_of(data, bias={1: -0.5, 2: 1.0}, missed={1: 0.3})
    record = write_corrected_run(tmp_path / "run", corrections)
    out, result = written(tmp_path, record)
    content = json.loads((out / PROVENANCE_FILE).read_text())
    assert ExportedAnnotations.model_validate(content) == result
    expected = {"site": "site-1", "data": str(data), "record": str(record), "method": "auto", "round_number": 5}
    expected |= {"model_sha256": "ab" * 32, "decided": "2026-01-01T00:00:00+00:00", "unit": "px", "threshold": None}
    expected |= {"moved": {"spot": 0.5, "square": -1.0}, "as_given": [], "failed": []}
    assert {key: content[key] for key in expected} == expected
    assert len(content["annotations"]) == 3


def test_reverted_and_unchanged_annotations_are_not_written(tmp_path: Path) -> None:
    """What is only ignored is listed: a mask cannot say it."""
    data = write_pictures(tmp_path / "data")
    pixels = np.zeros((1, SIDE, SIDE), bool)
    pixels[0, 0:2, 0:4] = True
    corrections = corrections_of(data, bias={}, missed={1: 0.3}, ignored_objects={"labels/a2.png": 1})
    ignored = {"labels/a2.png": pixels, "labels/a3.png": pixels}
    record = write_corrected_run(tmp_path / "run", corrections, ignored)
    revert(record, ["a3.png"])
    out, result = written(tmp_path, record)
    (annotation,) = result.annotations
    assert (annotation.given, annotation.file, annotation.changed) == ("labels/a2.png", "", 0)
    assert annotation.ignored == (IgnoredObject(pixels=8, centre=(0.5, 1.5)),)
    assert result.as_given == ("labels/a1.png", "labels/a3.png")
    assert [file.name for file in out.iterdir()] == [PROVENANCE_FILE]


def test_a_bad_file_does_not_lose_the_others(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", count=4)
    corrections = corrections_of(data, bias={2: 1.0})
    record = write_corrected_run(tmp_path / "run", corrections, {"labels/a4.png": np.ones((1, 8, 8), bool)})
    (data / "labels" / "a1.png").write_bytes(b"no picture")
    (data / "labels" / "a2.png").unlink()
    out, result = written(tmp_path, record)
    assert [annotation.file for annotation in result.annotations] == ["labels/0003_a3.png"]
    assert [file.name for file in (out / "labels").iterdir()] == ["0003_a3.png"]
    assert [label for label, _ in result.failed] == [f"labels/a{index}.png" for index in (1, 2, 4)]
    for (label, reason), said in zip(result.failed, ("cannot be read", "No such file", "the corrections"), strict=True):
        assert reason.startswith("Site site-1: ")
        assert (label in reason, said in reason) == (True, True)


def test_objects_of_another_class_are_written_as_training_has_them(tmp_path: Path) -> None:
    """The square of class 2 becomes class 1, before its contour moves; the other picture stays."""
    data = write_pictures(tmp_path / "data", count=2)
    given = load_site_data(data, tmp_path / "cache", site="site-1")
    classes = np.zeros((1, SIDE, SIDE), np.uint8)
    classes[0, 4:12, 4:12] = 1
    corrections = corrections_of(data, bias={1: 1.0}, relabelled=0.5)
    cases = tuple(case.model_copy(update={"relabelled_objects": 1}) for case in corrections.cases[:1])
    corrections = corrections.model_copy(update={"cases": (*cases, *corrections.cases[1:])})
    pixels = {corrections.cases[0].label: CasePixels(relabelled=OtherClasses(2 * classes, classes))}
    out, result = written(tmp_path, stored(tmp_path / "run", corrections, pixels).folder)
    assert [annotation.relabelled for annotation in result.annotations] == [1, 0]
    files = {data / annotation.given: out / annotation.file for annotation in result.annotations}
    loaded = load_site_data(data, tmp_path / "other", site="site-1", replaced_labels=files)
    training = corrected_labels(corrections, pixels, given.cases, data)
    assert all(np.array_equal(case.label[0], one) for case, one in zip(loaded.cases, training, strict=True))
    assert set(np.unique(loaded.cases[0].label)) == {0, 1}


VALUES, NAMES = {0: 0, 50: 1, 100: 2, 150: 3}, ("a", "b", "c")
KINDS = {
    "pictures": ImageDescription(channels=1, size=(SIDE, SIDE), labels=VALUES, classes=NAMES),
    "slices": SliceDescription(size=(SIDE, SIDE), labels=VALUES, classes=NAMES),
    "whole volumes": VolumeDescription(labels=VALUES, classes=NAMES),
}


def save_mask(file: Path, classes: NDArray[np.uint8], description: SegmentationDescription) -> None:
    """Write classes as a picture, or as the middle of five slices of a volume."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(description, ImageDescription):
        Image.fromarray(50 * classes).save(file)
        return
    voxels = np.zeros((*classes.shape, 5), np.uint8)
    voxels[..., 1:4] = 50 * classes[..., None]
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), file)


@pytest.mark.parametrize("description", KINDS.values(), ids=KINDS)
def test_what_is_written_is_trained_on_before_and_after_an_object_was_corrected_by_hand(
    tmp_path: Path, description: SegmentationDescription
) -> None:
    """Three objects of class 2 were to become class 1; then somebody makes one of them class 3, and removes another."""
    data = tmp_path / "data"
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[1:5, 1:5] = mask[1:5, 8:14] = mask[9:14, 9:14] = 2
    mask[9:14, 2:6] = 3
    suffix = ".png" if isinstance(description, ImageDescription) else ".nii.gz"
    image, label = (data / kind / f"a{suffix}" for kind in ("images", "labels"))
    for file in (image, label):
        save_mask(file, mask, description)
    write_datalist(data / "datalist.json", {TRAINING: [Case(image, label)]})
    write_site_description(data, description)
    given = load_site_data(data, tmp_path / "cache", site="site-1").cases[0].label.numpy()
    corrections = corrections_of(data, bias={}, relabelled=0.5)
    predicted = np.where(given == 2, given, 0)
    decided = {f"labels/a{suffix}": CasePixels(relabelled=OtherClasses(predicted, predicted // 2))}
    record = stored(tmp_path, corrections, decided)

    def trained_on_and_written(name: str) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]], int]:
        out = tmp_path / name
        out.mkdir()
        (found,) = export_corrections(out, record).annotations
        loaded = load_site_data(data, out / "cache", site="site-1", replaced_labels={label: out / found.file})
        now = load_site_data(data, out / "again", site="site-1")
        trained = corrected_labels(corrections, record.pixels(3), now.cases, data)
        return [item.numpy() for item in trained], list(loaded.cases[0].label.numpy()), found.relabelled

    objects = 3 * (3 if isinstance(description, SliceDescription) else 1)
    trained, files, count = trained_on_and_written("before")
    np.testing.assert_array_equal(trained, np.where(given == 2, 1, given))
    np.testing.assert_array_equal(files, trained)
    assert count == objects
    mask[1:5, 1:5], mask[9:14, 9:14] = 3, 0
    save_mask(label, mask, description)
    trained, files, count = trained_on_and_written("after")
    save_mask(tmp_path / "expected" / label.name, np.where(mask == 2, 1, mask).astype(np.uint8), description)
    expected = {label: tmp_path / "expected" / label.name}
    loaded = load_site_data(data, tmp_path / "other", site="site-1", replaced_labels=expected)
    np.testing.assert_array_equal(trained, loaded.cases[0].label)
    np.testing.assert_array_equal(files, trained)
    assert count == objects // 3


@pytest.mark.parametrize("description", KINDS.values(), ids=KINDS)
def test_replaced_pixels_are_written_as_training_has_them(tmp_path: Path, description: SegmentationDescription) -> None:
    data, suffix = tmp_path / "data", ".png" if isinstance(description, ImageDescription) else ".nii.gz"
    mask = np.random.default_rng(0).integers(0, 4, (SIDE, SIDE), dtype=np.uint8)
    image, label = (data / kind / f"a{suffix}" for kind in ("images", "labels"))
    for file in (image, label):
        save_mask(file, mask, description)
    write_datalist(data / "datalist.json", {TRAINING: [Case(image, label)]})
    write_site_description(data, description)
    (given,) = load_site_data(data, tmp_path / "cache", site="site-1").cases
    kind = PixelsReplaced(rounds={2: 3, 1: 5}, foreground_threshold=0.8, background_threshold=0.9)
    decided = np.random.default_rng(1).integers(0, 3, (2, *given.label.shape), dtype=np.uint8)
    corrections = corrections_of(data, corrections=(kind,))
    record = stored(tmp_path, corrections, {f"labels/a{suffix}": CasePixels(replaced=decided)})
    out, result = written(tmp_path, record.folder)
    (annotation,) = result.annotations
    assert (annotation.changed > 20, result.threshold) == (True, 0.8)
    (loaded,) = load_site_data(
        data, tmp_path / "other", site="site-1", replaced_labels={label: out / annotation.file}
    ).cases
    trained = corrected_labels(corrections, record.pixels(3), [given], data)
    np.testing.assert_array_equal(loaded.label, np.stack(trained))
    assert not np.array_equal(loaded.label, given.label)


@pytest.mark.parametrize("is_whole", [False, True], ids=["slices", "whole volumes"])
def test_written_volumes_load_as_what_training_has(tmp_path: Path, is_whole: bool) -> None:
    data = tmp_path / "data"
    write_phantom_site(data, 0, LesionVolumes((0.5,)), num_sites=1, num_images=2)
    if is_whole:
        write_site_description(data, VolumeDescription(labels={0: 0, 1: 1}, classes=("lesion",)))
    corrections = corrections_of(data, bias={1: -2.0})
    record = write_corrected_run(tmp_path / "run", corrections)
    out, result = written(tmp_path, record)
    given = load_site_data(data, tmp_path / "cache", site="site-1")
    training = corrected_labels(corrections, {}, given.cases, data)
    files = {data / annotation.given: out / annotation.file for annotation in result.annotations}
    assert len(files) == 2
    for old, new in files.items():
        np.testing.assert_array_equal(nibabel.load(new).affine, nibabel.load(old).affine)
    loaded = load_site_data(data, tmp_path / "other", site="site-1", replaced_labels=files)
    samples = [sample for case in loaded.cases for sample in case.label]
    assert len(samples) == len(training)
    assert all(np.array_equal(one, two) for one, two in zip(samples, training, strict=True))
    assert any(
        not np.array_equal(one, two)
        for one, two in zip(samples, (sample for case in given.cases for sample in case.label), strict=True)
    )


@pytest.mark.parametrize("is_whole", [False, True], ids=["slices", "whole volumes"])
def test_a_shift_of_all_masks_is_written_along_the_axes_of_the_file(tmp_path: Path, is_whole: bool) -> None:
    """The file's axes run to the top, to the left and to the back; training sees axes to the right, front and top."""
    data, shape = tmp_path / "data", (6, 14, 15)
    affine = np.array([[0, -2.0, 0, 0], [0, 0, -1.0, 0], [3.0, 0, 0, 0], [0, 0, 0, 1]])
    voxels = np.zeros(shape, np.uint8)
    voxels[2:4, 5:9, 6:9] = 7
    for kind in ("images", "labels"):
        (data / kind).mkdir(parents=True)
        nibabel.save(nibabel.Nifti1Image(voxels, affine), data / kind / "a.nii.gz")
    case = Case(data / "images" / "a.nii.gz", data / "labels" / "a.nii.gz")
    write_datalist(data / "datalist.json", {TRAINING: [case]})
    values = {"labels": {0: 0, 7: 1}, "classes": ("lesion",)}
    description = VolumeDescription(**values) if is_whole else SliceDescription(**values, size=(14, 15))
    write_site_description(data, description)
    shift = MaskShift(shift=(2.0, -3.0, 3.0) if is_whole else (2.0, -3.0))
    corrections = corrections_of(data, corrections=(shift,))

    out, result = written(tmp_path, write_corrected_run(tmp_path / "run", corrections))

    # Annotated 2 mm too far right, 3 mm too far back and 3 mm too high: one voxel left, three to the front, one down.
    new = out / result.annotations[0].file
    expected = np.roll(voxels, (-1 if is_whole else 0, 1, -3), (0, 1, 2))
    np.testing.assert_array_equal(nibabel.load(new).get_fdata(), expected)
    assert result.moved_as_a_whole == tuple(-length for length in shift.shift)
    assert result.unit == "mm"
    given = load_site_data(data, tmp_path / "cache", site="site-1")
    training = corrected_labels(corrections, {}, given.cases, data)
    loaded = load_site_data(data, tmp_path / "other", site="site-1", replaced_labels={data / "labels/a.nii.gz": new})
    np.testing.assert_array_equal(np.stack(training), loaded.cases[0].label)


def test_a_cropped_and_resampled_volume_moves_everywhere_by_the_same_millimetres(tmp_path: Path) -> None:
    """Training sees 8 of 24 columns at twice the size of a voxel."""
    data = tmp_path / "data"
    shape, affine = (24, 24, 3), np.diag([0.5, 0.5, 4.0, 1.0])
    voxels = np.zeros(shape, np.uint8)
    voxels[2:9, 2:9, 1] = voxels[12:22, 14:22, 2] = 7
    for kind in ("images", "labels"):
        (data / kind).mkdir(parents=True)
        nibabel.save(nibabel.Nifti1Image(voxels, affine), data / kind / "a.nii.gz")
    write_datalist(
        data / "datalist.json", {TRAINING: [Case(data / "images" / "a.nii.gz", data / "labels" / "a.nii.gz")]}
    )
    write_site_description(
        data, SliceDescription(size=(8, 8), spacing=(1, 1, 4), labels={0: 0, 7: 1}, classes=("lesion",))
    )
    corrections = corrections_of(data, bias={1: 1.0})
    out, _ = written(tmp_path, write_corrected_run(tmp_path / "run", corrections))
    expected = np.zeros_like(voxels)
    expected[4:7, 4:7, 1] = expected[14:20, 16:20, 2] = 7
    np.testing.assert_array_equal(np.asarray(nibabel.load(out / "labels" / "0001_a.nii.gz").dataobj), expected)


def added_of(data: Path, folder: Path) -> Corrections:
    """The first is corrected, the second reverted, the third unchanged, the fourth gone."""
    (folder / "labels").mkdir(parents=True)
    cases = []
    for index in (1, 2, 3, 4):
        name, file = f"labels/a{index}.png", f"labels/{index:04d}_a{index}.png"
        if index in (1, 2):
            (folder / file).write_bytes(b"corrected " + bytes([index]))
        cases.append(
            CaseCorrection(
                label=name,
                image=name.replace("label", "image"),
                state=CorrectionState.REVERTED if index == 2 else CorrectionState.ACTIVE,
                mask=None if index == 3 else NewMask(file=file, added_voxels=5),
            )
        )
    return made_corrections(
        data,
        cases,
        site="site-2",
        method="fedia",
        round_number=14,
        corrections=(LesionsAdded(threshold=0.8),),
        failed=(("labels/a5.png", "cannot be read"),),
    )


def test_corrected_annotations_are_copied_with_their_provenance(tmp_path: Path) -> None:
    data, record, out = write_pictures(tmp_path / "data", count=5), tmp_path / "record", tmp_path / "out"
    out.mkdir()
    corrections = added_of(data, record)
    before = digests(data) | digests(record)
    result = export_corrections(out, StoredCorrections(record, corrections))
    assert digests(data) | digests(record) == before
    assert (out / "labels" / "0001_a1.png").read_bytes() == b"corrected \x01"
    assert [(annotation.given, annotation.file, annotation.changed) for annotation in result.annotations] == [
        ("labels/a1.png", "labels/0001_a1.png", 5)
    ]
    assert result.annotations[0].given_sha256 == before[data / "labels" / "a1.png"]
    assert (result.site, result.method, result.round_number, result.threshold) == ("site-2", "fedia", 14, 0.8)
    assert (result.moved, result.unit) == ({}, None)
    assert result.as_given == ("labels/a2.png", "labels/a3.png", "labels/a5.png")
    ((label, reason),) = result.failed
    assert label == "labels/a4.png"
    assert reason.startswith("Site site-2: ")
    assert "0004_a4.png" in reason


def test_other_classes_are_listed_and_no_file_is_written(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", count=2), tmp_path / "out"
    out.mkdir()
    cases = [
        CaseCorrection(image="images/a1.png", new_class=NewClass(given="a", becomes="b", predicted="b")),
        CaseCorrection(image="images/a2.png", new_class=NewClass(given="a", becomes="", predicted="b")),
    ]
    corrections = made_corrections(data, cases, corrections=(CasesRelabelled(noise_level=0.2),))
    result = export_corrections(out, StoredCorrections(tmp_path, corrections))
    assert [
        (annotation.given, annotation.given_class, annotation.new_class, annotation.file)
        for annotation in result.annotations
    ] == [
        ("images/a1.png", "a", "b", ""),
        ("images/a2.png", "a", "", ""),
    ]
    assert [file.name for file in out.iterdir()] == [PROVENANCE_FILE]
