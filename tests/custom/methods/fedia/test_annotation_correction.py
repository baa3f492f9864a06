"""Corrections of annotations: only background changes, in the file's own geometry, and all can be reverted."""

import hashlib
import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.kinds import LesionsAdded
from fedannot.custom.corrections.model import CORRECTIONS_FILE, CORRECTIONS_FOLDER
from fedannot.custom.corrections.store import CorrectionStore, read_corrections
from fedannot.custom.data.datalist import TRAINING, Case, write_datalist
from fedannot.custom.data.description import ImageDescription, SliceDescription, write_site_description
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.fedia.annotation_correction import correct_annotations
from fedannot.custom.methods.fedia.correction import confident_classes
from fedannot.custom.networks.hashing import model_hash
from fedannot.transforms.errors import DataError

SHAPE = (20, 16, 5)


class Bright(nn.Module):
    """Foreground probability 0.9 where the image is brighter than one standard deviation, 0.1 elsewhere."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([np.log(9.0)]))

    def forward(self, images):
        foreground = torch.where(images[:, :1] > 1, 0.5, -0.5) * self.weight
        return torch.cat([-foreground, foreground], dim=1)


def write_volumes(folder, *, affine, values=(0, 7), names=("a", "b")):
    """Volumes with two bright boxes, of which the annotations have the first, half of it."""
    cases = []
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for name in names:
        image, label = np.zeros(SHAPE, dtype=np.int16), np.zeros(SHAPE, dtype=np.uint8)
        image[2:6, 2:6, 1:3] = image[12:17, 8:14, 2:5] = 100
        label[2:4, 2:6, 1:3] = values[1]
        label[18:, :2, 4] = values[1]  # where the image is dark
        for kind, array in (("images", image), ("labels", label)):
            nibabel.save(nibabel.Nifti1Image(array, affine), folder / kind / f"{name}.nii.gz")
        cases.append(Case(folder / "images" / f"{name}.nii.gz", folder / "labels" / f"{name}.nii.gz"))
    write_datalist(folder / "datalist.json", {TRAINING: cases})
    write_site_description(
        folder, SliceDescription(size=(24, 24), labels={values[0]: 0, values[1]: 1}, classes=("lesion",))
    )
    return folder


def corrected(folder, out, threshold=0.8, data=None, smallest_lesion=None):
    data = data or load_site_data(folder, out.parent / "cache", site="site-1")
    return correct_annotations(
        Bright(),
        data,
        out,
        data_folder=folder,
        method="fedia",
        round_number=9,
        threshold=threshold,
        inference=Inference(3),
        smallest_lesion=smallest_lesion,
    )


def digests(folder):
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


AFFINES = {
    "RAS": np.diag([1.0, 2.0, 3.0, 1.0]),
    "LPS": np.diag([-1.0, -2.0, 3.0, 1.0]),
    "axes confused": np.array([[0, 0, 1.5, -4], [-1, 0, 0, 7], [0, 2, 0, 1], [0, 0, 0, 1.0]]),
}


def record_of(run):
    """The folder of the record that is made before round 9."""
    return run / CORRECTIONS_FOLDER / "round_9"


def in_use(run, data):
    return CorrectionStore(run, 9).files_in_use(data)


@pytest.mark.parametrize("affine", AFFINES.values(), ids=list(AFFINES))
def test_what_the_model_is_sure_of_is_added_in_the_geometry_of_the_file(tmp_path, affine):
    folder = write_volumes(tmp_path / "site", affine=affine)
    before = digests(folder)
    corrections = corrected(folder, record_of(tmp_path))
    assert digests(folder) == before, "the given files are untouched, to the byte"
    assert [case.label for case in corrections.cases] == ["labels/a.nii.gz", "labels/b.nii.gz"]
    for label in corrections.cases:
        given, now = (nibabel.load(file) for file in (folder / label.label, record_of(tmp_path) / label.mask.file))
        np.testing.assert_array_equal(now.affine, given.affine)
        expected = np.asarray(given.dataobj).copy()
        expected[2:6, 2:6, 1:3] = expected[12:17, 8:14, 2:5] = 7
        np.testing.assert_array_equal(np.asarray(now.dataobj), expected)
        # Half of the first box grows by 2 × 4 × 2 voxels, the second box of 5 × 6 × 3 is new.
        assert (label.mask.added_voxels, label.mask.new_lesions) == (2 * 4 * 2 + 5 * 6 * 3, 1)


def test_whole_lesions_are_added_and_nothing_grows(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["LPS"])
    corrections = corrected(folder, record_of(tmp_path), 0.5, smallest_lesion=5)
    assert corrections.corrections == (LesionsAdded(threshold=0.5, smallest_lesion=5),)
    for label in corrections.cases:
        given = np.asarray(nibabel.load(folder / label.label).dataobj)
        now = np.asarray(nibabel.load(record_of(tmp_path) / label.mask.file).dataobj)
        expected = given.copy()
        # The half of the first box that is not annotated stays so.
        expected[12:17, 8:14, 2:5] = 7
        np.testing.assert_array_equal(now, expected)
        assert (label.mask.added_voxels, label.mask.new_lesions) == (5 * 6 * 3, 1)
    assert read_corrections(record_of(tmp_path)) == corrections


def test_lesions_below_the_smallest_size_are_not_added(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    assert corrected(folder, record_of(tmp_path), smallest_lesion=5 * 6 * 3 + 1).used_masks == ()


def test_below_the_threshold_nothing_is_added(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    corrections = corrected(folder, record_of(tmp_path), threshold=0.95)
    assert corrections.used_masks == ()
    assert [case.mask for case in corrections.cases] == [None, None]
    assert in_use(tmp_path, folder) == {}
    assert read_corrections(record_of(tmp_path)) == corrections


def test_resampled_volumes_are_corrected_voxel_by_voxel_of_the_file(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    write_site_description(
        folder,
        SliceDescription(size=(32, 48), labels={0: 0, 7: 1}, classes=("lesion",), spacing=(0.5, 1.0, 3.0)),
    )
    corrections = corrected(folder, record_of(tmp_path))
    for label in corrections.cases:
        given = np.asarray(nibabel.load(folder / label.label).dataobj)
        now = np.asarray(nibabel.load(record_of(tmp_path) / label.mask.file).dataobj)
        assert now.shape == SHAPE
        assert (now[given == 7] == 7).all()
        # Linear resampling moves the edge by up to a voxel; the inside of the new box is there.
        assert (now[13:16, 9:13, 2:5] == 7).all()
        assert not now[8:11].any()


def test_pictures_of_another_size_are_corrected_pixel_by_pixel_of_the_file(tmp_path):
    folder = tmp_path / "site"
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    pixels, mask = np.zeros((48, 32), dtype=np.uint8), np.zeros((48, 32), dtype=np.uint8)
    pixels[4:12, 4:12] = pixels[28:44, 16:28] = 200
    mask[4:12, 4:12] = 255
    mask[20:22, 2:4] = 128  # another value of the same class
    Image.fromarray(pixels).save(folder / "images" / "a.png")
    Image.fromarray(mask).save(folder / "labels" / "a.png")
    write_datalist(
        folder / "datalist.json", {TRAINING: [Case(folder / "images" / "a.png", folder / "labels" / "a.png")]}
    )
    write_site_description(
        folder, ImageDescription(channels=1, size=(24, 16), labels={0: 0, 255: 1, 128: 1}, classes=("lesion",))
    )
    (label,) = corrected(folder, record_of(tmp_path)).cases
    now = np.array(Image.open(record_of(tmp_path) / label.mask.file))
    expected = mask.copy()
    expected[28:44, 16:28] = 255
    np.testing.assert_array_equal(now, expected)
    assert label.mask.new_lesions == 1


def test_training_takes_the_corrected_annotations_unless_they_are_reverted(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])

    def labels():
        replaced = in_use(tmp_path, folder)
        return load_site_data(folder, tmp_path / "cache", site="site-1", replaced_labels=replaced).labels.clone()

    given = labels()
    corrected(folder, record_of(tmp_path))
    now = labels()
    added = (now != given).flatten(1).sum(1)
    assert (now[given == 1] == 1).all()
    assert added.sum() == 2 * (2 * 4 * 2 + 5 * 6 * 3)
    revert(record_of(tmp_path), ["b.nii.gz"])
    assert torch.equal(labels()[5:], given[5:])
    assert torch.equal(labels()[:5], now[:5])
    reverted = revert(record_of(tmp_path))
    assert all(case.is_reverted for case in reverted.cases)
    assert torch.equal(labels(), given)
    restore(record_of(tmp_path), ["b.nii.gz"])
    assert torch.equal(labels()[5:], now[5:])
    assert torch.equal(labels()[:5], given[:5])
    restore(record_of(tmp_path))
    assert torch.equal(labels(), now)


def test_the_record_says_where_each_correction_comes_from(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    corrections = corrected(folder, record_of(tmp_path))
    assert (corrections.site, corrections.provenance.method, corrections.round_number) == ("site-1", "fedia", 9)
    assert (corrections.of(LesionsAdded).threshold, Path(corrections.data)) == (0.8, folder)
    assert corrections.provenance.model_sha256 == model_hash(Bright().state_dict())
    assert json.loads((record_of(tmp_path) / CORRECTIONS_FILE).read_text(encoding="utf-8"))["site"] == "site-1"


def test_a_model_hash_depends_on_names_types_shapes_and_values():
    state = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    assert model_hash(state) == model_hash(dict(reversed(state.items())))
    others = [
        {"a": torch.zeros(3, 2), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3, dtype=torch.float64), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3), "c": torch.ones(1)},
        {"a": torch.zeros(2, 3), "b": torch.full((1,), 1.0000001)},
    ]
    assert len({model_hash(state), *map(model_hash, others)}) == 5


def test_a_case_that_cannot_be_corrected_keeps_its_annotation_and_the_others_go_on(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    data = load_site_data(folder, tmp_path / "cache", site="site-1")
    (folder / "labels" / "a.nii.gz").unlink()
    corrections = corrected(folder, record_of(tmp_path), data=data)
    ((name, reason),) = corrections.failed
    assert name == "labels/a.nii.gz"
    assert "a.nii.gz" in reason
    assert [case.label for case in corrections.used_masks] == ["labels/b.nii.gz"]


def test_an_interrupted_correction_leaves_nothing(tmp_path, monkeypatch):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])

    def interrupt(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedannot.custom.methods.fedia.annotation_correction.write_corrections", interrupt)
    with pytest.raises(KeyboardInterrupt):
        corrected(folder, record_of(tmp_path))
    assert not (record_of(tmp_path)).exists()
    assert list(tmp_path.glob(".corrections*")) == []


def test_a_continued_run_takes_over_what_was_corrected_before_its_round(tmp_path):
    folder, moved = (write_volumes(tmp_path / name, affine=AFFINES["RAS"]) for name in ("site", "moved"))
    corrected(folder, record_of(tmp_path / "earlier"))
    store = CorrectionStore(tmp_path / "now", 12)
    assert store.adopt([tmp_path / "absent"], 9, moved) is None
    assert store.adopt([tmp_path / "earlier"], 8, moved) is None
    assert store.latest() is None
    assert store.adopt([tmp_path / "absent", tmp_path / "earlier"], 9, moved) == tmp_path / "earlier"
    assert store.adopt([tmp_path / "earlier"], 9, moved) is None
    used = store.files_in_use(moved)
    assert set(used) == {moved / "labels" / "a.nii.gz", moved / "labels" / "b.nii.gz"}
    for file in used.values():
        assert file.read_bytes() == (record_of(tmp_path / "earlier") / "labels" / file.name).read_bytes()


def test_corrections_of_which_a_file_is_absent_are_not_taken_over(tmp_path, caplog):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    corrections = corrected(folder, record_of(tmp_path / "earlier"))
    absent = corrections.used_masks[0].mask.file
    (record_of(tmp_path / "earlier") / absent).unlink()
    store = CorrectionStore(tmp_path / "now", 12)
    assert store.adopt([tmp_path / "earlier"], 9, folder) is None
    assert store.latest() is None
    assert absent in caplog.text


def test_reverting_what_is_not_there_says_what_is(tmp_path):
    folder = write_volumes(tmp_path / "site", affine=AFFINES["RAS"])
    with pytest.raises(DataError, match=r"corrections\.json: found no such file"):
        revert(record_of(tmp_path))
    corrected(folder, record_of(tmp_path))
    with pytest.raises(DataError, match=r"no corrected case 'c\.nii'; expected one of: labels/a\.nii\.gz, labels/b"):
        revert(record_of(tmp_path), ["c.nii"])
    assert not any(case.is_reverted for case in read_corrections(record_of(tmp_path)).cases)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ('{"site": 1}', "corrections.json"), ('{"sites": "a"}', "'sites'")],
)
def test_a_damaged_record_is_an_error_that_names_the_file(tmp_path, text, message):
    (tmp_path / CORRECTIONS_FILE).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_corrections(tmp_path)
    assert str(tmp_path / CORRECTIONS_FILE) in str(caught.value)


def test_confident_classes_by_hand():
    probabilities = torch.tensor([[0.1, 0.85, 0.05], [0.1, 0.1, 0.8], [0.0, 0.2, 0.8001], [0.9, 0.1, 0.0]])
    logits = probabilities.log().T[None, :, :, None]
    assert confident_classes(0.8)(logits)[0, :, 0].tolist() == [1, 0, 2, 0]
    assert confident_classes(0.5)(logits)[0, :, 0].tolist() == [1, 2, 2, 0]
    for threshold in (0.4, 1.0):
        with pytest.raises(ValueError, match=r"from 0\.5 to below 1"):
            confident_classes(threshold)
