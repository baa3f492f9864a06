"""Added lesions are reverted and restored one by one; what counts is read from the files, pixel by pixel."""

import hashlib

import numpy as np
import pytest
from PIL import Image
from support.corrected_runs import made_corrections

from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.export import export_corrections
from fedannot.custom.corrections.kinds import LesionsAdded
from fedannot.custom.corrections.lesions import added_lesions, set_lesions
from fedannot.custom.corrections.model import CaseCorrection, CorrectionState, NewMask
from fedannot.custom.corrections.store import CorrectionStore, StoredCorrections, read_corrections, write_corrections
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.transforms.errors import DataError

ADDED = (LesionsAdded(threshold=0.8),)
GIVEN = np.zeros((12, 16), dtype=np.uint8)
GIVEN[1:4, 1:4] = 200
# Rows and columns of what was added: growth of the given lesion, and two new ones.
PARTS = {1: np.s_[1:4, 4:6], 2: np.s_[1:3, 10:14], 3: np.s_[8:11, 2:7]}


def with_parts(*numbers):
    pixels = GIVEN.copy()
    for number in numbers:
        pixels[PARTS[number]] = 200
    return pixels


@pytest.fixture
def corrected(tmp_path):
    """A site's data and its corrections: of a.png three parts were added, of b.png one, of c.png none."""
    data, folder = tmp_path / "site", tmp_path / "corrections" / "round_3"
    (data / "labels").mkdir(parents=True)
    (folder / "labels").mkdir(parents=True)
    labels = []
    for index, (name, numbers) in enumerate({"a": (1, 2, 3), "b": (2,), "c": ()}.items(), start=1):
        Image.fromarray(GIVEN).save(data / "labels" / f"{name}.png")
        label = CaseCorrection(label=f"labels/{name}.png", image=f"images/{name}.png")
        if numbers:
            pixels = with_parts(*numbers)
            file = f"labels/{index:04d}_{name}.png"
            Image.fromarray(pixels).save(folder / file)
            lesions = added_lesions(((pixels != GIVEN) * 1).astype(np.uint8))
            mask = NewMask(file=file, added_voxels=sum(lesion.voxels for lesion in lesions), lesions=lesions)
            label = label.model_copy(update={"mask": mask})
        labels.append(label)
    write_site_description(
        data, ImageDescription(channels=1, size=(12, 16), labels={0: 0, 200: 1}, classes=("lesion",))
    )
    write_corrections(folder, made_corrections(data, labels, method="fedia", round_number=3, corrections=ADDED))
    return data, folder


def counting(data, folder, name="a"):
    """The pixels that count; None where the given ones do."""
    file = in_use(folder, data).get(data / "labels" / f"{name}.png")
    return None if file is None else np.asarray(Image.open(file))


def in_use(folder, data):
    return CorrectionStore(folder.parent.parent, 3).files_in_use(data)


def label_of(folder, name="a"):
    return next(case for case in read_corrections(folder).cases if case.label == f"labels/{name}.png")


def test_parts_are_numbered_with_size_and_centre():
    added = np.zeros((12, 16), dtype=np.uint8)
    for number, place in PARTS.items():
        added[place] = number
    result = added_lesions(added)
    assert [(item.number, item.voxels, item.centre) for item in result] == [
        (1, 6, (2, 4)),
        (2, 8, (1, 11)),
        (3, 15, (9, 4)),
    ]
    assert added_lesions(np.zeros((4, 4, 4), dtype=np.uint8)) == ()


def test_one_lesion_is_reverted_and_restored_and_no_other(corrected):
    data, folder = corrected
    before = {
        file: hashlib.sha256(file.read_bytes()).hexdigest() for file in [*data.rglob("*.png"), *folder.rglob("*.png")]
    }
    other = counting(data, folder, "b")
    label = set_lesions(folder, "a.png", [2], reverted=True)
    np.testing.assert_array_equal(counting(data, folder), with_parts(1, 3))
    assert label.mask.counting_voxels == 6 + 15
    set_lesions(folder, "a.png", [3], reverted=True)
    np.testing.assert_array_equal(counting(data, folder), with_parts(1))
    set_lesions(folder, "labels/a.png", [2], reverted=False)
    np.testing.assert_array_equal(counting(data, folder), with_parts(1, 2))
    set_lesions(folder, "a.png", [3], reverted=False)
    np.testing.assert_array_equal(counting(data, folder), with_parts(1, 2, 3))
    assert label_of(folder).mask.partial_file == ""
    np.testing.assert_array_equal(counting(data, folder, "b"), other)
    assert {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in before} == before


def test_without_any_lesion_the_given_annotation_counts(corrected):
    data, folder = corrected
    assert set_lesions(folder, "a.png", [1, 2, 3], reverted=True).is_reverted
    assert counting(data, folder) is None
    restore(folder, ["a.png"])
    np.testing.assert_array_equal(counting(data, folder), with_parts(1, 2, 3))


def test_a_reverted_annotation_remembers_which_lesions_counted(corrected):
    data, folder = corrected
    set_lesions(folder, "a.png", [1], reverted=True)
    revert(folder)
    assert counting(data, folder) is None
    restore(folder)
    np.testing.assert_array_equal(counting(data, folder), with_parts(2, 3))


def test_of_an_annotation_that_counts_as_given_a_restored_lesion_counts_alone(corrected):
    data, folder = corrected
    revert(folder)
    set_lesions(folder, "a.png", [3], reverted=False)
    np.testing.assert_array_equal(counting(data, folder), with_parts(3))


def test_what_waits_counts_when_somebody_has_decided(corrected):
    data, folder = corrected
    corrections = read_corrections(folder)
    names = [case.name for case in corrections.cases if case.mask is not None]
    write_corrections(folder, corrections.with_states(names, CorrectionState.PROPOSED))
    assert in_use(folder, data) == {}
    # A lesion that is refused does not let the others count.
    assert set_lesions(folder, "a.png", [1], reverted=True).state is CorrectionState.PROPOSED
    assert in_use(folder, data) == {}
    restore(folder, ["a.png"])
    np.testing.assert_array_equal(counting(data, folder), with_parts(2, 3))
    assert counting(data, folder, "b") is None
    set_lesions(folder, "b.png", [1], reverted=False)
    np.testing.assert_array_equal(counting(data, folder, "b"), with_parts(2))


def test_what_counts_is_written_as_a_new_annotation(corrected, tmp_path):
    _, folder = corrected
    set_lesions(folder, "a.png", [2], reverted=True)
    (tmp_path / "new").mkdir()
    written = export_corrections(tmp_path / "new", StoredCorrections(folder, read_corrections(folder)))
    first = written.annotations[0]
    assert (first.given, first.changed) == ("labels/a.png", 6 + 15)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "new" / first.file)), with_parts(1, 3))


def test_what_is_not_there_is_an_error_that_says_what_is(corrected):
    _, folder = corrected
    with pytest.raises(DataError, match=r"labels/a\.png has no added lesion 4; expected a number of: 1 to 3"):
        set_lesions(folder, "a.png", [1, 4], reverted=True)
    with pytest.raises(DataError, match=r"found no corrected case 'c\.png'"):
        set_lesions(folder, "c.png", [1], reverted=True)
    with pytest.raises(DataError, match=r"corrections\.json: found no such file"):
        set_lesions(folder / "labels", "a.png", [1], reverted=True)
    assert not label_of(folder).mask.lesions[0].is_reverted


def test_lesions_of_a_given_annotation_that_has_changed_since_are_left_alone(corrected):
    data, folder = corrected
    Image.fromarray(with_parts(1)).save(data / "labels" / "a.png")
    record = (folder / "corrections.json").read_bytes()
    with pytest.raises(DataError, match="is no longer as it was corrected"):
        set_lesions(folder, "a.png", [2], reverted=True)
    assert (folder / "corrections.json").read_bytes() == record


def test_many_lesions_have_a_name_that_a_file_can_have(tmp_path):
    pixels = np.zeros((60, 60), dtype=np.uint8)
    pixels[::2, ::2] = 200
    lesions = added_lesions(pixels)
    assert len(lesions) == 900
    data, folder = tmp_path / "site", tmp_path / "corrections" / "round_3"
    for made in (data / "labels", folder / "labels"):
        made.mkdir(parents=True)
    Image.fromarray(np.zeros_like(pixels)).save(data / "labels" / "a.png")
    Image.fromarray(pixels).save(folder / "labels" / "0001_a.png")
    write_site_description(
        data, ImageDescription(channels=1, size=(60, 60), labels={0: 0, 200: 1}, classes=("lesion",))
    )
    mask = NewMask(file="labels/0001_a.png", added_voxels=900, lesions=lesions)
    case = CaseCorrection(label="labels/a.png", image="images/a.png", mask=mask)
    write_corrections(folder, made_corrections(data, [case], round_number=3, corrections=ADDED))
    one = set_lesions(folder, "a.png", range(1, 400), reverted=True).mask.partial_file
    other = set_lesions(folder, "a.png", [400], reverted=True).mask.partial_file
    assert one != other
    assert np.count_nonzero(counting(data, folder)) == 500
