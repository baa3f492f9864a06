import numpy as np
import pytest
from miniatures import mama_mia, volume
from PIL import Image

from fedannot.apps.importing.class_tables import TableColumns, read_class_table
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.folders import read_folders
from fedannot.apps.importing.layouts import DATASETS
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError


def picture(file, seed=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (16, 16), dtype=np.uint8)).save(file)


def mask(file, first=2):
    file.parent.mkdir(parents=True, exist_ok=True)
    values = np.zeros((16, 16), np.uint8)
    values[first : first + 6, 3:9] = 255
    Image.fromarray(values).save(file)


def named(dataset):
    return {case.image.stem: {one.annotator: one.file for one in case.annotations} for case in dataset.cases}


def test_annotators_are_named_behind_the_image_or_by_the_folder_in_which_masks_differ(tmp_path):
    for number in range(2):
        picture(tmp_path / "images" / f"case_{number}.png", number)
        for annotator in ("ann", "bo"):
            mask(tmp_path / "suffix" / f"case_{number}_{annotator}.png")
            mask(tmp_path / "folder" / "done" / annotator / f"case_{number}.png")
    mask(tmp_path / "suffix" / "case_1-reader 3.png")
    suffix, folder = tmp_path / "suffix", tmp_path / "folder" / "done"
    by_suffix = named(read_folders(tmp_path / "images", suffix, annotators="by-suffix"))
    assert by_suffix["case_0"] == {name: suffix / f"case_0_{name}.png" for name in ("ann", "bo")}
    assert list(by_suffix["case_1"]) == ["ann", "bo", "reader 3"]
    by_folder = named(read_folders(tmp_path / "images", tmp_path / "folder", annotators="by-folder"))
    assert by_folder["case_1"] == {name: folder / name / "case_1.png" for name in ("ann", "bo")}


def test_a_folder_with_the_name_of_an_image_holds_a_mask_of_each_annotator(tmp_path):
    picture(tmp_path / "images" / "a.png")
    for annotator in ("ann", "bo"):
        mask(tmp_path / "masks" / "a" / f"{annotator}.png")
    dataset = read_folders(tmp_path / "images", tmp_path / "masks", annotators="by-suffix")
    assert list(named(dataset)["a"]) == ["ann", "bo"]


@pytest.mark.parametrize(
    ("how", "files", "message"),
    [
        ("by-folder", ["x/a.png"], "no image with several masks"),
        ("by-folder", ["x/1/a.png", "y/2/a.png"], "expected that they differ in one folder"),
        ("by-suffix", ["a.png", "a_bo.png"], "names no annotator"),
        ("by-suffix", ["a_bo.png", "x/a-bo.png"], "two annotations by 'bo'"),
    ],
)
def test_masks_without_an_annotator_of_their_own_are_refused(tmp_path, how, files, message):
    picture(tmp_path / "images" / "a.png")
    for file in files:
        mask(tmp_path / "masks" / file)
    with pytest.raises(DataError, match=message):
        read_folders(tmp_path / "images", tmp_path / "masks", annotators=how)


@pytest.mark.parametrize(
    ("place", "how"),
    [({"datalist": "x.json"}, "by-folder"), ({"images": "i", "labels": "l"}, "reader"), ({"class_folders": "c"}, "r")],
)
def test_annotators_of_a_place_that_has_none_are_refused(place, how):
    with pytest.raises(DataError, match="--annotators: "):
        find_datasets(Named(**place, annotators=how))


def test_all_annotations_come_into_the_federation_apart_and_none_is_united(tmp_path):
    for number in range(4):
        picture(tmp_path / "images" / f"{number}.png", number)
        for place, annotator in enumerate(("ann", "Bo Ä")):
            mask(tmp_path / "masks" / annotator / f"{number}.png", first=2 + place + number)
    (tmp_path / "masks" / "Bo Ä" / "3.png").unlink()
    dataset = read_folders(tmp_path / "images", tmp_path / "masks", annotators="by-folder")
    options = ImportOptions(keys={"size": (16, 16), "channels": 1})
    write_imported_federation([dataset], tmp_path / "out", SiteChoice(1), options, test_share=0.0)
    (site,) = (tmp_path / "out").glob("site*")
    cases = {case.image.stem: case for case in read_datalist(site / "datalist.json").section("training")}
    assert [one.annotator for one in cases["0"].annotations] == ["ann", "Bo Ä"]
    for one in cases["2"].annotations:
        source = tmp_path / "masks" / one.annotator / "2.png"
        assert np.array_equal(np.asarray(Image.open(one.file)), np.asarray(Image.open(source)))
        assert one.file.stat().st_mode & 0o077 == 0
    # One annotation needs no rule.
    assert (cases["3"].annotator, cases["3"].is_undecided, cases["3"].annotations) == ("ann", False, ())
    # The datalist is imported again as it is.
    again = find_datasets(Named(datalist=site / "datalist.json"))[0]
    assert {len(case.annotations) for case in again.cases} == {1, 2}


def test_a_table_may_have_a_row_by_each_annotator(tmp_path):
    for name in ("a", "b"):
        picture(tmp_path / "images" / f"{name}.png")
    table = tmp_path / "table.csv"
    table.write_text("image,class,reader\na,x,Ann\na,y,Bo\nb,y,Ann\n")
    columns = TableColumns("image", "class", annotator="reader")
    dataset = read_class_table(table, tmp_path / "images", columns)
    assert {key: dict(value) for key, value in named(dataset).items()} == {"a": {"Ann": 0, "Bo": 1}, "b": {"Ann": 1}}
    table.write_text("image,class,reader\na,x,Ann\na,y,Ann\nb,y,Ann\n")
    with pytest.raises(DataError, match=r"table\.csv: line 3: a has rows and two annotations by 'Ann'"):
        read_class_table(table, tmp_path / "images", columns)


def test_mama_mia_keeps_the_experts_mask_and_the_networks(tmp_path):
    mama_mia(tmp_path)
    (tmp_path / "segmentations" / "automatic" / "NACT_02.nii.gz").unlink()
    volume(tmp_path / "segmentations" / "expert" / "DUKE_009.nii.gz", tmp_path / "crops" / "DUKE_001_0001.nii.gz")
    dataset = DATASETS["mama-mia"].read(tmp_path, seed=0)
    shown = [
        (
            case.image.relative_to(tmp_path).as_posix(),
            case.source,
            [f"{one.annotator}: {one.file.relative_to(tmp_path).as_posix()}" for one in case.annotations],
        )
        for case in dataset.cases
    ]
    masks = {kind: f"{kind}: segmentations/{kind}/" for kind in ("expert", "automatic")}
    assert shown == [
        (f"images/{name}/{name}_0001.nii.gz", source, [f"{masks[kind]}{name}.nii.gz" for kind in kinds])
        for name, source, kinds in (
            ("DUKE_001", "duke", ("expert", "automatic")),
            ("ISPY1_1001", "ispy1", ("expert", "automatic")),
            ("NACT_02", "nact", ("expert",)),
        )
    ]
    assert tuple(map(str, dataset.skipped)) == ("segmentations/expert/DUKE_009.nii.gz: no image",)
    # A second file of a patient is named, never taken for a third annotator's.
    volume(tmp_path / "more" / "segmentations" / "expert" / "ISPY1_1001.nii.gz")
    again = DATASETS["mama-mia"].read(tmp_path, seed=0)
    assert len(again.cases[1].annotations) == 2
    assert any("more/segmentations/expert/ISPY1_1001.nii.gz" in str(left) for left in again.skipped)
    out = tmp_path / "out"
    write_imported_federation(
        [dataset], out, SiteChoice(1), ImportOptions(keys={"spacing": None}), test_share=0, seed=0
    )
    cases = read_datalist(out / "site-1" / "datalist.json").section("training")
    assert sorted(len(case.annotations) for case in cases) == [0, 2, 2]
