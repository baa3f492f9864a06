"""What all importers of public data sets have in common."""

import subprocess
import sys
from pathlib import Path

import pytest
from miniatures import MINIATURES, picture, text

from fedannot.apps.importing.layouts import DATASETS
from fedannot.apps.importing.layouts.listing import list_files
from fedannot.custom.data.annotations import UNDECIDED
from fedannot.transforms.errors import DataError

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "datasets.md"
each_dataset = pytest.mark.parametrize("name", DATASETS)


@pytest.fixture
def miniature(tmp_path):
    def make(name):
        folder = tmp_path / name
        MINIATURES[name](folder)
        return folder

    return make


def files_of(given):
    if isinstance(given, tuple):
        return given
    return (given,) if isinstance(given, Path) else (given.file,)


def test_every_dataset_has_a_miniature():
    assert DATASETS.keys() == MINIATURES.keys()
    assert [layout.name for layout in DATASETS.values()] == list(DATASETS)


@each_dataset
def test_what_is_found_fits_the_registry_and_exists(name, miniature):
    dataset = DATASETS[name].read(miniature(name), seed=0)
    assert (dataset.name, dataset.task) == (name, DATASETS[name].task)
    for case in dataset.cases:
        assert case.image.is_file()
        if dataset.task == "classification":
            assert 0 <= case.label < len(dataset.classes)
        else:
            masks = case.label if isinstance(case.label, tuple) else (case.label,)
            if case.annotations:
                assert case.label == UNDECIDED
                masks = [file for annotation in case.annotations for file in files_of(annotation.file)]
            assert all(mask.is_file() for mask in masks)
            assert set(dataset.labels.values()) == set(range(len(dataset.classes) + 1))


@each_dataset
def test_reading_twice_gives_the_same(name, miniature):
    folder = miniature(name)
    assert DATASETS[name].read(folder, seed=3) == DATASETS[name].read(folder, seed=3)


@each_dataset
def test_files_of_operating_systems_change_nothing(name, miniature):
    folder = miniature(name)
    clean = DATASETS[name].read(folder, seed=0)
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        text(file.parent / "Thumbs.db", "x")
        text(file.parent / ".DS_Store", "x")
        text(file.with_name(f"._{file.name}"), "x")
        text(folder / "__MACOSX" / file.relative_to(folder), "x")
    assert DATASETS[name].read(folder, seed=0) == clean


@each_dataset
def test_another_folder_is_an_error_that_says_what_was_found_and_expected(name, tmp_path):
    picture(tmp_path / "holiday" / "beach.png")
    with pytest.raises(DataError) as caught:
        DATASETS[name].read(tmp_path, seed=0)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: found no case of {name} (1 files: holiday/beach.png); expected ")
    assert DATASETS[name].expected in message


@each_dataset
def test_an_empty_folder_an_archive_and_no_folder_are_errors(name, tmp_path):
    with pytest.raises(DataError, match=r"found no case of .* \(no files\); expected .*If there are archives, unpack"):
        DATASETS[name].read(tmp_path, seed=0)
    text(tmp_path / "data.zip", "x")
    with pytest.raises(
        DataError, match=r"data\.zip: found a file; if it is an archive, unpack it; expected the folder"
    ):
        DATASETS[name].read(tmp_path / "data.zip", seed=0)
    with pytest.raises(DataError, match=r"absent: found no such folder"):
        DATASETS[name].read(tmp_path / "absent", seed=0)


@each_dataset
def test_the_documentation_describes_the_dataset(name):
    page = DOCUMENTATION.read_text(encoding="utf-8")
    assert f"| `{name}` |" in page
    assert f"--dataset {name}=DIR" in page


def test_links_are_followed_inside_the_folder_only(tmp_path):
    picture(tmp_path / "elsewhere" / "private.png")
    folder = tmp_path / "data"
    picture(folder / "a.png")
    (folder / "b.png").symlink_to("a.png")
    (folder / "c.png").symlink_to(tmp_path / "elsewhere" / "private.png")
    (folder / "d").symlink_to(tmp_path / "elsewhere")
    listing = list_files(folder)
    assert [file.name for file in listing.files] == ["a.png", "b.png"]
    assert tuple(map(str, listing.refused)) == tuple(
        f"{name}: a link that leads out of the folder" for name in ("c.png", "d")
    )


def test_files_that_only_links_lead_to_are_reported_with_the_error(tmp_path):
    MINIATURES["busi"](tmp_path / "elsewhere")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"Left out first: linked: a link that leads out of the folder\."):
        DATASETS["busi"].read(tmp_path / "data", seed=0)


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("ISIC-2017_Test_v2_Data/x.jpg", "testing"),
        ("train/Validation/x.jpg", "validation"),
        ("Training Set/latest/x.jpg", "training"),
        ("contest/x.jpg", None),
        ("train.jpg", None),
    ],
)
def test_the_nearest_folder_with_such_a_name_gives_the_section(path, section, tmp_path):
    assert list_files(tmp_path).section(tmp_path / path) == section


def test_the_registry_is_imported_without_heavy_packages():
    program = "import sys, fedannot.apps.importing.layouts; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "monai", "nibabel", "SimpleITK", "PIL", "nvflare"} & set(loaded)
