import numpy as np
import pytest
from PIL import Image

from fedannot.apps.importing.class_tables import TableColumns, read_class_table
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.transforms.errors import DataError

COLUMNS = TableColumns("image", "dx")


@pytest.fixture
def images(tmp_path):
    for name in ("a/one.jpg", "a/two.jpg", "b/three.PNG"):
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(file)
    return tmp_path / "images"


@pytest.fixture
def table(tmp_path):
    def write(*rows):
        file = tmp_path / "labels.csv"
        file.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return file

    return write


def found(dataset):
    return [(case.image.name, dataset.classes[case.label]) for case in dataset.cases]


@pytest.mark.parametrize(
    "names",
    [("a/one.jpg", "b/three.png"), ("one.jpg", "three.PNG"), ("one", "three"), ("./a/one", r"b\three")],
    ids=["paths", "names", "stems", "paths without suffix"],
)
def test_pictures_are_named_in_many_ways(images, table, names):
    file = table("image,dx", f"{names[0]},nevus", f"{names[1]},melanoma")
    dataset = read_class_table(file, images, COLUMNS)
    assert dataset.classes == ("melanoma", "nevus")
    assert found(dataset) == [("one.jpg", "nevus"), ("three.PNG", "melanoma")]
    assert tuple(map(str, dataset.skipped)) == ("a/two.jpg: not in labels.csv",)


def test_patients_and_centres_come_along(images, table):
    file = table("image;dx;patient;site", "one;x;p1;north", "two;y;p1;", "three;x;;south")
    dataset = read_class_table(file, images, TableColumns("image", "dx", "patient", "site"))
    assert [(case.group, case.source) for case in dataset.cases] == [("p1", "north"), ("p1", None), (None, "south")]


def test_given_names_are_the_table_s_or_its_numbers(images, table):
    named = table("image,dx", "one,nevus", "two,melanoma")
    assert read_class_table(named, images, COLUMNS, names=("nevus", "melanoma", "other")).cases[0].label == 0
    numbered = table("image,dx", "one,1", "two,0")
    dataset = read_class_table(numbered, images, COLUMNS, names=("nevus", "melanoma"))
    assert found(dataset) == [("one.jpg", "melanoma"), ("two.jpg", "nevus")]
    assert read_class_table(numbered, images, COLUMNS).classes == ("0", "1")
    mixed = table("image,dx", "one,2", "two,nevus")
    with pytest.raises(DataError, match=r"column 'dx' has '2', 'nevus'; expected the names of --classes, nevus, mela"):
        read_class_table(mixed, images, COLUMNS, names=("nevus", "melanoma"))


def test_rows_that_cannot_be_used_are_named(images, table):
    dataset = read_class_table(table("image,dx", "one,x", "nowhere,y", "two,", ",y", "three,y"), images, COLUMNS)
    assert found(dataset) == [("one.jpg", "x"), ("three.PNG", "y")]
    assert tuple(map(str, dataset.skipped)) == (
        "nowhere: no such picture",
        "two: no class",
        "labels.csv, line 5: no name of a picture",
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("image,diagnosis", "one,x"), r"labels\.csv: found the columns image, diagnosis; expected also dx"),
        (("image,dx", "one,x", "two,x"), "column 'dx' has 1 classes; expected at least two"),
        (("image,dx", "one,x", "one.jpg,y"), "line 3: gives one.jpg the classes 'x' and 'y'; expected one class"),
        (("image,dx", "nowhere,x", "neither,y"), "found no picture of its column 'image' in .*First row: nowhere: no"),
    ],
)
def test_what_cannot_be_read_is_said(images, table, rows, message):
    with pytest.raises(DataError, match=message):
        read_class_table(table(*rows), images, COLUMNS)


def test_names_that_two_pictures_have_are_refused(images, table):
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(images / "b" / "one.png")
    with pytest.raises(DataError, match=r"names one, and there are a/one\.jpg, b/one\.png; expected paths"):
        read_class_table(table("image,dx", "one,x", "two,y"), images, COLUMNS)


def test_images_lie_beside_the_table_unless_their_folder_is_named(images, table):
    file = table("image,dx", "one,x", "two,y")
    columns = {"classes_csv": file, "image_column": "image", "class_column": "dx"}
    for folder in (None, images):
        (dataset,) = find_datasets(Named(**columns, images=folder))
        assert len(dataset.cases) == 2
    with pytest.raises(DataError, match="--classes-csv: expected --image-column and --class-column with it"):
        find_datasets(Named(classes_csv=file, images=images))


def test_real_blood_cells_by_a_table(real_data, tmp_path):
    """Sections are folders in the pack; names are paths, patients are not known, sources are a column."""
    folder = real_data / "bloodcells-multicentre" / "images"
    files = sorted(folder.rglob("*.jpg"))[::40]
    rows = [f"{file.relative_to(folder)},{file.stem[:2]},{file.parent.name}" for file in files]
    (tmp_path / "cells.csv").write_text("\n".join(["path,kind,centre", *rows]) + "\n", encoding="utf-8")
    columns = TableColumns("path", "kind", source="centre")
    dataset = read_class_table(tmp_path / "cells.csv", folder, columns)
    assert [case.image for case in dataset.cases] == files
    assert {case.source for case in dataset.cases} == {file.parent.name for file in files}
