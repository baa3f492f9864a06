"""No two cases of an import share a file, whatever the names of their sources."""

import random
from pathlib import Path

import nibabel
import numpy as np
import pytest

from fedannot.apps.importing.case_names import case_names
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.masks import plain_name

MASK = Path("masks/any.png")


def case(image, channels=0):
    files = tuple(Path(image.replace("#", f"{number:04d}")) for number in range(channels))
    return SourceCase(files[0] if files else Path(image), MASK, channels=files)


@pytest.mark.parametrize(
    ("cases", "names"),
    [
        ([case("a/1.png"), case("a/2.png")], ["1", "2"]),
        # With the folder's name where it takes one; upper and lower case are the same on some disks.
        ([case("a/1.png"), case("b/1.png"), case("b/2.png")], ["a_1", "b_1", "2"]),
        ([case("a/x.png"), case("b/X.png")], ["a_x", "b_X"]),
        # With a number where the folder's does not tell them apart.
        ([case("p/a/1.png"), case("q/a/1.png"), case("r/a/1.png")], ["a_1", "a_1_2", "a_1_3"]),
        ([case("a/1.nii.gz"), case("b/1.NII.GZ")], ["a_1", "b_1"]),
        # Of several channels without that of the first.
        ([case("a/head_#.nii.gz", channels=2)], ["head"]),
        ([case("a/head_0000.nii.gz")], ["head_0000"]),
        # A channel of the first case and the image of the second must not share a file.
        ([case("a/p_#.nii", channels=2), case("b/p_0000.nii")], ["p", "p_0000_2"]),
        ([case("b/p_0000.nii"), case("a/p_#.nii", channels=2)], ["p_0000", "p_2"]),
        ([case("a/p_#.nii", channels=2), case("b/p_0002.nii")], ["p", "p_0002"]),
    ],
)
def test_names_are_those_of_the_images_and_differ(cases, names):
    assert case_names(cases) == names


def test_a_name_that_is_given_is_kept():
    assert case_names([SourceCase(Path("a/1.png"), MASK, name="patient 7")]) == ["patient 7"]


@pytest.mark.parametrize("letter", ["a", "ü", "肺"])
def test_a_name_leaves_space_for_suffixes_and_stays_its_own(letter):
    found = case_names([SourceCase(Path("a/1.png"), MASK, name=letter * 250) for _ in range(3)])
    assert len(set(found)) == 3
    assert all(len(f"{name}_0000.nii.gz.part".encode()) < 255 for name in found)


def written_names(cases, names):
    """What the files of all images and masks are called, as folders of disks compare them."""
    for own, name in zip(cases, names, strict=True):
        images = [f"{name}_{number:04d}" for number in range(len(own.channels))] or [name]
        yield from {text.casefold() for text in (*images, name)}


@pytest.mark.parametrize("seed", range(20))
def test_no_file_of_any_case_has_the_name_of_another(seed):
    draw = random.Random(seed)
    stems = ["p", "P", "p_2", "p_0000", "a_p", "p_0000_2", "p_2_0001"]
    cases = [
        case(f"{draw.choice('ab')}/{draw.choice(stems)}{suffix}", channels)
        for channels, suffix in (draw.choice([(0, ".nii"), (2, "_#.nii")]) for _ in range(30))
    ]
    found = list(written_names(cases, case_names(cases)))
    assert len(found) == len(set(found))


def volume(file, voxels):
    file.parent.mkdir(exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), file)
    return file


@pytest.mark.parametrize("order", [1, -1])
def test_no_image_of_several_files_overwrites_one_that_is_called_as_its_channel(tmp_path, order):
    values = np.random.default_rng(0).random((3, 8, 8, 8), np.float32)
    mask = np.zeros((8, 8, 8), np.uint8)
    mask[2:5, 2:5, 2:5] = 1
    labels = [volume(tmp_path / f"label_{index}.nii", np.roll(mask, index, axis=0)) for index in range(2)]
    files = tuple(volume(tmp_path / "files" / f"p_{number:04d}.nii", values[number]) for number in range(2))
    stacked = volume(tmp_path / "stacked" / "p_0000.nii", np.stack([values[2], values[0]], axis=-1))
    cases = (SourceCase(files[0], labels[0], channels=files), SourceCase(stacked, labels[1]))[::order]
    dataset = SourceDataset("any", "segmentation", volumes=True, cases=cases, classes=("a",), channels=("t1", "t2"))
    report = write_imported_federation(
        [dataset],
        tmp_path / "out",
        SiteChoice(1),
        ImportOptions(keys={"size": (8, 8, 8)}),
        test_share=0.0,
        validation_share=0.0,
        seed=0,
    )
    assert not report.excluded
    copies = read_datalist(tmp_path / "out" / "site-1" / "datalist.json").section("training")
    by_label = {nibabel.load(copy.label).get_fdata().tobytes(): copy for copy in copies}
    of_files, of_stacked = (by_label[nibabel.load(label).get_fdata().tobytes()] for label in labels)
    for number, file in enumerate(of_files.channels):
        assert np.array_equal(nibabel.load(file).get_fdata(), values[number])
    assert np.array_equal(nibabel.load(of_stacked.image).get_fdata(), np.stack([values[2], values[0]], axis=-1))
    assert len({plain_name(copy.label) for copy in copies}) == 2
