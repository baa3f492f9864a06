"""What is done to masks, in pictures and in volumes slice by slice, and the account of it."""

import json
import math

import nibabel
import numpy as np
import pytest
from scipy import ndimage
from skimage.morphology import disk

from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.description import ImageDescription, SliceDescription, VolumeDescription
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.masks import Mask
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.label_changes import (
    ContourNoiseChange,
    MissingLesionsChange,
    ProtocolChange,
    trained_extents,
)
from fedannot.custom.data.noise.noisy_copy import add_contour_noise, follow_protocols, leave_lesions_out
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.noise.federation_noise import ContourNoise
from fedannot.transforms.noise.follow_protocol import FollowProtocol
from fedannot.transforms.noise.site_protocol import SiteProtocol

CHOICE = NoiseChoice("M(25,-25,5,0.5)", exact=True, stratified=0.5)


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


# The file's axes lead to the front, the bottom and the left: slices across bottom–top lie across its second axis.
PERMUTED = np.array([[0, 0, -0.9, 5], [1.1, 0, 0, -6], [0, -3.5, 0, 7], [0, 0, 0, 1.0]])
VOLUMES = (
    "pipeline: volume_slices\nclasses: [a, b]\nlabels: {0: 0, 40: 1, 500: 2, 41: 1}\nsize: [64, 64]\nslice_axis: 2\n"
)


def write_volumes(folder, description=VOLUMES, affine=PERMUTED):
    """A federation of one site with a volume: two boxes, a gap of empty slices on either side of the second axis."""
    site = folder / "site-1"
    site.mkdir(parents=True)
    labels = np.zeros((60, 9, 50), np.int16)
    labels[10:50, 2:7, 8:24], labels[20:45, 3:6, 28:42] = 40, 500
    image = np.random.default_rng(0).normal(size=labels.shape).astype("f4")
    nibabel.save(nibabel.Nifti1Image(image, affine), site / "image.nii.gz")
    nibabel.save(nibabel.Nifti1Image(labels, affine), site / "label.nii")
    (site / "data.yaml").write_text(description)
    (site / "datalist.json").write_text(json.dumps({"training": [{"image": "image.nii.gz", "label": "label.nii"}]}))
    (folder / "federation.yaml").write_text("name: x\nsites: [site-1]\n")
    return labels


def test_noise_of_a_volume_lies_in_its_slices_and_keeps_affine_and_values(tmp_path):
    labels = write_volumes(tmp_path / "source")
    add_contour_noise(tmp_path / "source", tmp_path / "noisy", NoiseChoice("M(0,-20,6,0)", stratified=0.9), seed=1)
    site = tmp_path / "noisy" / "site-1"
    image = nibabel.load(site / "labels" / "label.nii.gz")
    noisy = np.asarray(image.dataobj)
    np.testing.assert_array_equal(image.affine, nibabel.load(site / "images" / "image.nii.gz").affine)
    assert set(np.unique(noisy)) == {0, 40, 500}
    assert (noisy != labels).any()
    for value in (40, 500):
        # Drawn smaller: inside the clean object, and in every slice that had it, to its very ends.
        assert not (noisy == value)[labels != value].any()
        slices = (noisy == value).any((0, 2))
        np.testing.assert_array_equal(slices, (labels == value).any((0, 2)))
        # All slices of the box are alike when clean; each has noise of its own.
        drawn = [(noisy == value)[:, index].tobytes() for index in np.flatnonzero(slices)]
        assert len(set(drawn)) > 1
    data = load_site_data(site, tmp_path / "cache", site="site-1")
    assert (data.num_samples, data.excluded) == (9, ())
    assert int(data.clean_labels.ne(0).sum()) == np.count_nonzero(labels)
    noise = read_manifest(site).noise
    assert noise.mean < 0
    assert noise.area_ratio == pytest.approx(np.count_nonzero(noisy) / np.count_nonzero(labels))
    clean = nibabel.load(site / "clean_labels" / "label.nii")
    np.testing.assert_array_equal(np.asarray(clean.dataobj), labels)


@pytest.mark.parametrize(
    ("description", "axis"),
    [
        (VOLUMES, 1),
        (VOLUMES.replace("slice_axis: 2", "slice_axis: 0"), 2),
        (VOLUMES.replace("slice_axis: 2", "slice_axis: 0\norientation: PSL"), 0),
        ("pipeline: volume\nclasses: [a, b]\nlabels: {0: 0, 40: 1, 500: 2, 41: 1}\n", 1),
    ],
)
def test_the_axis_of_the_slices_comes_from_the_affine(tmp_path, description, axis):
    # Lengths are scaled with the file's thin planes, in which no object vanishes.
    labels = write_volumes(tmp_path / "source", f"{description.rstrip()}\nfit: resize\n")
    add_contour_noise(tmp_path / "source", tmp_path / "noisy", NoiseChoice("M(0,-20,6,0)", stratified=0.9), seed=1)
    noisy = np.asarray(nibabel.load(tmp_path / "noisy" / "site-1" / "labels" / "label.nii.gz").dataobj)
    # Only across the slices is the extent of the smaller object that of the clean one.
    same = [
        bool(((noisy == 40).any(others) == (labels == 40).any(others)).all()) for others in ((1, 2), (0, 2), (0, 1))
    ]
    assert same == [index == axis for index in range(3)]


def test_same_seed_same_bits_in_volumes(tmp_path):
    write_volumes(tmp_path / "source")
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        add_contour_noise(tmp_path / "source", tmp_path / name / "noisy", CHOICE, seed=seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    label = "noisy/site-1/labels/label.nii.gz"
    assert contents(tmp_path / "a")[label] != contents(tmp_path / "c")[label]


def test_lesions_are_left_out_of_whole_volumes_and_of_pictures(tmp_path):
    """Each site keeps round(c a) of the c lesions of every case; a lesion over several slices is one."""
    write_phantom_federation(tmp_path / "clean", LesionVolumes(), num_sites=3, images_per_site=3, test_images=1)
    before = contents(tmp_path / "clean")
    shares = (0.0, 0.5, 1.0)
    leave_lesions_out(tmp_path / "clean", tmp_path / "less", shares, seed=3)
    assert contents(tmp_path / "clean") == before
    for index, share in enumerate(shares):
        site = tmp_path / "less" / f"site-{index + 1}"
        counts = []
        for case in read_datalist(site / "datalist.json").section("training"):
            label, clean = (np.asarray(nibabel.load(file).dataobj) for file in (case.label, case.clean_label))
            assert not (label & ~clean).any()
            counts.append((label_lesions(label)[1], label_lesions(clean)[1]))
        assert counts == [(int(share * lesions + 0.5), lesions) for _, lesions in counts]
        missing = read_manifest(site).missing_lesions
        assert missing.completeness == share
        assert (missing.num_kept, missing.num_lesions) == tuple(map(sum, zip(*counts, strict=True)))
    assert read_federation(tmp_path / "less").noise == "completeness 0,0.5,1"
    leave_lesions_out(tmp_path / "clean", tmp_path / "again" / "less", shares, seed=3)
    assert contents(tmp_path / "again" / "less") == contents(tmp_path / "less")


def test_protocols_change_training_labels_wholly_and_validation_labels_systematically(tmp_path):
    """Along the slices of the file's own geometry; the test set and the source stay."""
    write_phantom_federation(tmp_path / "clean", Chambers(), num_sites=2, images_per_site=1, test_images=1)
    before = contents(tmp_path / "clean")
    follow_protocols(tmp_path / "clean", tmp_path / "drawn", "0-C(12,8)", seed=3)
    assert contents(tmp_path / "clean") == before
    systematic = FollowProtocol(SiteProtocol.parse("C(12,8)"), systematic_only=True)
    datalist = read_datalist(tmp_path / "drawn" / "site-2" / "datalist.json")
    given, generic = (
        {
            section: [np.asarray(nibabel.load(getattr(case, kind)).dataobj) for case in datalist.section(section)]
            for section in ("training", "validation")
        }
        for kind in ("label", "clean_label")
    )
    for drawn, clean in zip(given["validation"], generic["validation"], strict=True):
        assert np.array_equal(drawn, systematic(clean))
    drawn, expected = given["training"][0], np.asarray(systematic(generic["training"][0]))
    assert np.all(drawn <= expected)
    assert drawn.sum() < expected.sum()
    manifest = read_manifest(tmp_path / "drawn" / "site-2").protocol
    dice = 2 * drawn.sum() / (drawn.sum() + generic["training"][0].sum())
    assert (manifest.protocol, manifest.dice) == ("C(12,8,4,0.25)", pytest.approx(float(dice)))
    for label in (tmp_path / "drawn" / "site-1" / "labels").iterdir():
        clean = label.parents[1] / "clean_labels" / label.name
        assert np.array_equal(nibabel.load(label).dataobj, nibabel.load(clean).dataobj)
    assert contents(tmp_path / "drawn" / "test" / "labels") == contents(tmp_path / "clean" / "test" / "labels")
    assert read_federation(tmp_path / "drawn").noise == "protocols 0-C(12,8)"


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (ContourNoiseChange(ContourNoise(20.0, 3.0), CHOICE, 0), "M(25,-25,5,0.5), here 20 ± 3 pixels"),
        (ContourNoiseChange(ContourNoise(0.0, 0.0), CHOICE, 0), None),
        (MissingLesionsChange(0.4, 0), "completeness 0.4"),
        (MissingLesionsChange(1.0, 0), None),
        (ProtocolChange(SiteProtocol.parse("C(12,8)"), 0), "C(12,8,4,0.25)"),
        (ProtocolChange(SiteProtocol(), 0), None),
    ],
)
def test_a_site_was_asked_for_noise_or_for_none(change, asked):
    assert change.asked_for() == asked


def test_masks_are_counted_and_those_that_changed():
    """Of two squares at completeness 0.5 one stays; an empty mask cannot lose any."""
    squares = np.zeros((20, 20), np.uint8)
    squares[2:6, 2:6] = squares[12:16, 12:16] = 1
    description = ImageDescription(channels=1, size=(20, 20), labels={0: 0, 1: 1}, classes=("a",))
    change = MissingLesionsChange(0.5, seed=1)
    kept = change(Mask(squares, None), Mask(squares, None), description, "site-1", "training", "a.png")
    assert kept.classes.sum() == 16
    empty = Mask(np.zeros_like(squares), None)
    change(empty, empty, description, "site-1", "training", "b.png")
    assert (change.num_masks, change.num_changed) == (2, 1)
    missing = change.manifest()["missing_lesions"]
    assert (missing.num_lesions, missing.num_kept) == (2, 1)
    # Dice of 16 among 32 pixels: 2 · 16 / (16 + 32).
    assert missing.dice == pytest.approx(2 / 3)


@pytest.mark.parametrize("orientation", ["RAS", "ASL"])
def test_lengths_are_those_of_what_a_crop_trains_on_however_large_the_file_is(orientation):
    """A disc of radius 8 at 256 × 256 is one of 8 pixels of a crop to 256, in a file of 640 × 640 as well."""
    labels, affine = np.zeros((640, 640, 1), np.uint8), np.diag([0.625, 0.625, 1.25, 1])
    labels[200:400, 200:400], labels[290:300, 400:460] = 1, 1
    values = {"classes": ("atrium",), "labels": {0: 0, 1: 1}, "orientation": orientation}
    axis = orientation.index("S")
    cropped = SliceDescription(**values, slice_axis=axis, size=(256, 256))
    given = Mask(labels, affine)
    assert trained_extents(given, cropped) == (256, 256)
    change = ProtocolChange(SiteProtocol("C", radius=8, num_squares=0), seed=0)
    drawn = change(given, given, cropped, "site-1", "training", "a")
    expected = ndimage.binary_opening(labels[..., 0], disk(8))
    # Rounded corners may differ by a pixel; the bar, ten pixels thick, goes with discs of both radii.
    assert np.count_nonzero(drawn.classes[..., 0] != expected) <= 8
    resized = cropped.model_copy(update={"fit": "resize"})
    assert trained_extents(given, resized) == (640, 640)
    resampled = cropped.model_copy(update={"spacing": (1.25, 1.25, 1.25)})
    assert trained_extents(given, resampled) == (512, 512)
    whole = VolumeDescription(**values, size=(96, 128, 64))
    sides = dict(zip(orientation, (96, 128, 64), strict=True))
    assert trained_extents(given, whole) == (sides.get("R", sides.get("L")), sides["A"])


def test_contour_noise_of_a_crop_is_as_large_as_in_a_file_of_its_size():
    """The same disc moved outward by 12 pixels at 256 × 256, in a file of the size and in a larger one."""
    description = SliceDescription(classes=("a",), labels={0: 0, 1: 1}, size=(256, 256))
    grown = []
    for side in (256, 640):
        rows, columns = np.mgrid[:side, :side] - side // 2
        mask = Mask((np.hypot(rows, columns) < 50).astype(np.uint8)[..., None], np.eye(4))
        change = ContourNoiseChange(ContourNoise(12, 0), CHOICE, seed=0)
        grown.append(math.sqrt(change(mask, mask, description, "a").classes.sum() / math.pi))
    np.testing.assert_allclose(grown, 62, atol=0.7)
