import json
import shutil
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image
from scans import write_series

from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.source import LeftOut, SourceCase, SourceDataset
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError

ONE_SITE = SiteChoice(1)


def picture(file, pixels):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file)
    return file


def square(value=1, row=0, column=0, size=(4, 5)):
    mask = np.zeros(size, np.uint8)
    mask[row : row + 2, column : column + 2] = value
    return mask


@pytest.fixture
def pair(tmp_path):
    """Makes an image and a mask, whose first pixel and marked place say which case they are."""

    def make(name, mask=None, folder="data", **others):
        shade = sum(map(ord, f"{folder}/{name}")) % 200
        image = picture(tmp_path / folder / "images" / name, np.full((4, 5), shade))
        label = picture(tmp_path / folder / "masks" / name, square() if mask is None else mask)
        return SourceCase(image, label, **others)

    return make


def segmentation(*cases, **others):
    return SourceDataset(**({"name": "any", "task": "segmentation", "volumes": False, "cases": cases} | others))


def classification(*cases, classes=("benign", "malignant"), **others):
    values = {"name": "any", "task": "classification", "volumes": False, "cases": cases, "classes": classes}
    return SourceDataset(**(values | others))


def import_to(out, *datasets, sites=ONE_SITE, test_share=0.0, validation_share=0.0, seed=0, **options):
    return write_imported_federation(
        datasets,
        out,
        sites,
        ImportOptions(**options),
        test_share=test_share,
        validation_share=validation_share,
        seed=seed,
    )


def read_cases(folder, section="training"):
    return read_datalist(folder / "datalist.json").section(section)


def pixels(file):
    return np.asarray(Image.open(file))


def test_several_masks_of_an_image_become_their_union(pair, tmp_path):
    case = pair("a.png")
    parts = [picture(tmp_path / f"part{index}.png", square(255, row=index, column=2 * index)) for index in (0, 1)]
    single = pair("b.png", square(255))
    import_to(tmp_path / "out", segmentation(SourceCase(case.image, tuple(parts)), single))
    label = next(case.label for case in read_cases(tmp_path / "out" / "site-1") if case.image.stem == "a")
    expected = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0]]) * 255
    assert label.name == "a.png"
    assert np.array_equal(pixels(label), expected)
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["federation.yaml", "import.json", "site-1"]


def test_masks_of_different_size_are_not_united(pair, tmp_path):
    parts = (picture(tmp_path / "good.png", square(255)), picture(tmp_path / "other.png", square(255, size=(5, 4))))
    broken = SourceCase(pair("a.png").image, parts)
    report = import_to(tmp_path / "out", segmentation(broken, pair("b.png", square(255))))
    assert len(report.excluded) == 1
    assert "other.png: found a mask of 5 × 4 pixels" in str(report.excluded[0])


def test_cases_of_one_name_all_come_along_and_keep_their_masks(pair, tmp_path):
    places = [("one", "a.png"), ("two", "a.png"), ("three/one", "a.png"), ("three/one", "A.png"), ("x", "one_a.png")]
    cases = [
        pair(name, square(row=index % 3, column=index // 2), folder) for index, (folder, name) in enumerate(places)
    ]
    # All images lie in folders named "images".
    import_to(tmp_path / "out", segmentation(*cases), sites=SiteChoice(2))
    copies = [case for site in ("site-1", "site-2") for case in read_cases(tmp_path / "out" / site)]
    assert len(copies) == len({copy.image.name.casefold() for copy in copies}) == 5
    assert all(copy.image.stem == copy.label.stem for copy in copies)
    belongings = {(copy.image.read_bytes(), copy.label.read_bytes()) for copy in copies}
    assert belongings == {(case.image.read_bytes(), case.label.read_bytes()) for case in cases}


def test_a_name_made_up_is_never_that_of_another_case(tmp_path):
    cases = []
    for index, file in enumerate(("f/a.png", "g/f/a.png", "h/f_a_2.png", "h/f_a.png")):
        image = picture(tmp_path / file, np.full((4, 5), index))
        cases.append(SourceCase(image, index % 2))
    import_to(tmp_path / "out", classification(*cases))
    copies = read_cases(tmp_path / "out" / "site-1")
    assert len({copy.image for copy in copies}) == 4
    assert {(int(pixels(copy.image)[0, 0]), copy.label) for copy in copies} == {(0, 0), (1, 1), (2, 0), (3, 1)}


def test_clean_labels_lie_beside_at_sites_and_are_the_labels_of_the_test_set(pair, tmp_path):
    cases = []
    for index in range(4):
        clean = picture(tmp_path / "clean" / f"{index}.png", square(row=1))
        cases.append(SourceCase(*[getattr(pair(f"{index}.png"), key) for key in ("image", "label")], clean))
    import_to(tmp_path / "out", segmentation(*cases), test_share=0.5)
    for case in read_cases(tmp_path / "out" / "site-1"):
        assert np.array_equal(pixels(case.label), square())
        assert np.array_equal(pixels(case.clean_label), square(row=1))
    tested = read_cases(tmp_path / "out" / "test", "testing")
    assert len(tested) == 2
    for case in tested:
        assert np.array_equal(pixels(case.label), square(row=1))
        assert case.clean_label is None


def test_clean_classes_as_above(pair, tmp_path):
    cases = [SourceCase(pair(f"{index}.png").image, 0, 1) for index in range(4)]
    import_to(tmp_path / "out", classification(*cases), test_share=0.5)
    assert [(case.label, case.clean_label) for case in read_cases(tmp_path / "out" / "site-1")] == [(0, 1)] * 2
    assert [(case.label, case.clean_label) for case in read_cases(tmp_path / "out" / "test", "testing")] == [
        (1, None)
    ] * 2
    # A clean class 0 is one, too.
    shutil.rmtree(tmp_path / "out")
    cases = [SourceCase(pair(f"{index}.png").image, 1, 0) for index in range(4)]
    import_to(tmp_path / "out", classification(*cases), test_share=0.5)
    assert [case.label for case in read_cases(tmp_path / "out" / "test", "testing")] == [0, 0]


def test_group_and_source_are_written(pair, tmp_path):
    import_to(
        tmp_path / "out", segmentation(pair("a.png", group="p1", source="Hôpital A/2")), sites=SiteChoice(None, True)
    )
    (case,) = read_cases(tmp_path / "out" / "Hopital-A-2")
    assert (case.group, case.source) == ("p1", "Hôpital A/2")
    federation = read_federation(tmp_path / "out")
    assert (federation.sites, federation.task, federation.name) == (("Hopital-A-2",), "segmentation", "out")


def test_classes_out_of_range_are_named(pair, tmp_path):
    cases = [SourceCase(pair(f"{index}.png").image, label) for index, label in enumerate((0, 1, 2, -1))]
    cases.append(SourceCase(pair("4.png").image, 0, 7))
    report = import_to(tmp_path / "out", classification(*cases))
    for index, label, text in zip((2, 3, 4), (2, -1, 7), map(str, report.excluded), strict=True):
        assert f"{index}.png: found the class {label}; expected 0 to 1 for benign, malignant" in text
    assert report.labels == {}
    assert sorted(case.label for case in read_cases(tmp_path / "out" / "site-1")) == [0, 1]
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.pipeline, description.classes, description.channels) == (
        "classification",
        ("benign", "malignant"),
        1,
    )


@pytest.mark.parametrize(
    ("said", "values", "expected", "num_excluded"),
    [
        (None, (0, 1), {0: 0, 1: 1}, 0),
        (None, (0, 255), {0: 0, 255: 1}, 0),
        (None, (255,), {0: 0, 255: 1}, 0),
        # What the data set says counts, unless its one class is written as 255.
        ({0: 0, 1: 1}, (0, 1), {0: 0, 1: 1}, 0),
        ({0: 0, 1: 1}, (0,), {0: 0, 1: 1}, 0),
        ({0: 0, 1: 1}, (0, 255), {0: 0, 255: 1}, 0),
        ({0: 0, 1: 1}, (0, 1, 7), {0: 0, 1: 1}, 1),
        ({0: 0, 1: 1}, (0, 1, 255), {0: 0, 1: 1}, 1),
        ({0: 0, 1: 1, 255: 1}, (0, 1, 255), {0: 0, 1: 1, 255: 1}, 0),
        ({0: 0, 85: 1}, (0, 85), {0: 0, 85: 1}, 0),
    ],
)
def test_meaning_of_label_values(pair, tmp_path, said, values, expected, num_excluded):
    cases = [pair(f"{value}.png", np.full((4, 5), value)) for value in values]
    report = import_to(tmp_path / "out", segmentation(*cases, labels=said))
    assert report.labels == expected
    assert read_site_description(tmp_path / "out" / "site-1").labels == expected
    assert len(report.excluded) == num_excluded
    assert all(f"{values[-1]}.png: found the label values {values[-1]}" in text for text in map(str, report.excluded))
    assert len(read_cases(tmp_path / "out" / "site-1")) == len(values) - num_excluded


def test_masks_that_do_not_explain_themselves_need_a_map(pair, tmp_path):
    dataset = segmentation(pair("a.png", square(85) + square(170, row=2)), pair("b.png", square(255)))
    with pytest.raises(DataError, match=r"a\.png: found the label values 0, 85, 170.*--label-map"):
        import_to(tmp_path / "out", dataset)
    report = import_to(tmp_path / "out", dataset, labels={85: 1, 170: 2, 255: 1}, classes=("lesion", "cyst"))
    assert report.excluded == ()
    description = read_site_description(tmp_path / "out" / "site-1")
    assert description.labels == {0: 0, 85: 1, 170: 2, 255: 1}
    assert description.classes == ("lesion", "cyst")


def test_masks_of_0_and_1_and_masks_of_0_and_255_do_not_explain_each_other(pair, tmp_path):
    dataset = segmentation(pair("a.png", square(1)), pair("b.png", square(255)))
    with pytest.raises(DataError, match=r"b\.png: .* 0, 255, in all masks 0, 1, 255; .* --label-map 1:1,255:1\."):
        import_to(tmp_path / "out", dataset)
    assert import_to(tmp_path / "out", dataset, labels={1: 1, 255: 1}).excluded == ()


def test_masks_with_values_that_a_map_leaves_out_are_named(pair, tmp_path):
    dataset = segmentation(pair("a.png", square(85)), pair("b.png", square(7)))
    report = import_to(tmp_path / "out", dataset, labels={85: 1})
    assert len(report.excluded) == 1
    said = "b.png: found the label values 7 (4 of 20 pixels) besides those of the label map (85:1)"
    assert said in str(report.excluded[0])
    assert str(report.excluded[0]).endswith("--label-map 85:1,7:0.")


@pytest.fixture
def volumes(tmp_path):
    """Two volumes of 4 × 5 × 6 voxels, NRRD with NIfTI masks."""
    cases = []
    for index in range(2):
        voxels = np.random.default_rng(index).normal(size=(6, 5, 4)).astype(np.float32)
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(voxels), str(tmp_path / f"{index}.nrrd"))
        mask = np.zeros((4, 5, 6), np.uint8)
        mask[1, 2, 3:5] = 1
        nibabel.save(nibabel.Nifti1Image(mask, np.diag([-1, -1, 1, 1])), tmp_path / f"{index}_mask.nii.gz")
        cases.append(SourceCase(tmp_path / f"{index}.nrrd", tmp_path / f"{index}_mask.nii.gz"))
    return SourceDataset("volumes", "segmentation", True, tuple(cases))


def test_volumes_are_converted_and_loaded_whole(volumes, tmp_path):
    import_to(tmp_path / "out", volumes)
    cases = read_cases(tmp_path / "out" / "site-1")
    assert sorted(case.image.name for case in cases) == ["0.nii.gz", "1.nii.gz"]
    assert sorted(case.label.name for case in cases) == ["0.nii.gz", "1.nii.gz"]
    data = load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", site="site-1")
    assert [tuple(case.image.shape) for case in data.cases] == [(1, 1, 4, 5, 6)] * 2
    assert [int(case.label.sum()) for case in data.cases] == [2, 2]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["federation.yaml", "import.json", "site-1"]


def test_volumes_are_cut_into_slices(volumes, tmp_path):
    with pytest.raises(DataError, match="--size: found none; slices need ROWS,COLUMNS"):
        import_to(tmp_path / "out", volumes, pipeline="volume_slices")
    keys = {"size": (4, 4), "slice_axis": 0, "orientation": "LPS"}
    import_to(tmp_path / "out", volumes, pipeline="volume_slices", keys=keys)
    data = load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", site="site-1")
    assert data.images.shape == (2 * 4, 1, 4, 4)


def test_volumes_that_cannot_be_read_are_named(volumes, tmp_path):
    (tmp_path / "0.nrrd").write_bytes(b"damaged")
    report = import_to(tmp_path / "out", volumes)
    assert len(report.excluded) == 1
    assert "0.nrrd: cannot be read as a volume" in str(report.excluded[0])


def test_folders_of_dicom_keep_their_whole_name(tmp_path):
    cases = []
    for name in ("1.2.840.1", "1.2.840.2"):
        series = write_series(tmp_path / name)
        mask = tmp_path / f"{name}.nrrd"
        image = SimpleITK.ReadImage(SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(str(series)))
        SimpleITK.WriteImage(image > 5, str(mask))
        cases.append(SourceCase(series, mask))
    report = import_to(tmp_path / "out", SourceDataset("dicom", "segmentation", True, tuple(cases)))
    assert report.excluded == ()
    copies = sorted(case.image.name for case in read_cases(tmp_path / "out" / "site-1"))
    assert copies == ["1.2.840.1.nii.gz", "1.2.840.2.nii.gz"]


def test_several_data_sets_become_one_with_their_names_as_sources(pair, tmp_path):
    first = segmentation(pair("a.png", folder="one"), name="one", skipped=(LeftOut("one/x.png", "no mask"),))
    second = segmentation(pair("a.png", folder="two"), pair("b.png", folder="two", source="own"), name="two")
    report = import_to(tmp_path / "out", first, second, sites=SiteChoice(None, by_source=True))
    assert tuple(map(str, report.skipped)) == ("one/x.png: no mask",)
    assert read_federation(tmp_path / "out").sites == ("one", "own", "two")
    assert "import of one, two" in read_federation(tmp_path / "out").made


@pytest.mark.parametrize("others", [{"classes": ("cyst",)}, {"labels": {0: 0, 2: 1}}, {"channels": 3}])
def test_data_sets_that_differ_are_not_put_together(pair, tmp_path, others):
    first, second = segmentation(pair("a.png"), name="one"), segmentation(pair("b.png"), name="two", **others)
    with pytest.raises(DataError, match="found one and two, which differ in task, kind, classes, label values or"):
        import_to(tmp_path / "out", first, second)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            segmentation,
            {"pipeline": "volume"},
            "--pipeline: found 'volume', but any holds pictures; expected 'image2d'",
        ),
        (segmentation, {"labels": {255: 2}}, r"lead to the classes \[0, 2\], and the names are .*; expected 0"),
        (
            segmentation,
            {"classes": ("a", "b")},
            r"\[0, 1\], and the names are a, b; expected 0 .*\[0, 1, 2\]\. .* --classes",
        ),
        (segmentation, {"sites": SiteChoice(2)}, "found 1 usable cases"),
        (
            segmentation,
            {"labels": {7: 1}},
            r"found 0 usable cases.* First case left out: .*a\.png: found the label values",
        ),
        (classification, {"labels": {1: 1}}, "--label-map: says what values in masks mean, but any has no masks"),
        (classification, {"classes": ("a",)}, r"--classes: found 1 names; expected one for each of the 2 classes"),
        (classification, {"pipeline": "volume"}, "but any holds classes; expected 'classification'"),
    ],
)
def test_what_cannot_be_described_is_said_and_leaves_nothing(pair, tmp_path, make, options, message):
    case = pair("a.png")
    dataset = make(case if make is segmentation else SourceCase(case.image, 0))
    with pytest.raises(DataError, match=message):
        import_to(tmp_path / "out", dataset, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_wrong_options_are_reported_before_any_file_is_read(tmp_path):
    dataset = segmentation(SourceCase(tmp_path / "nowhere.png", tmp_path / "nowhere.png"))
    with pytest.raises(DataError, match="key 'channels' is 17"):
        import_to(tmp_path / "out", dataset, keys={"channels": 17})


def test_empty_masks_alone_do_not_say_what_marks_a_lesion(pair, tmp_path):
    dataset = segmentation(pair("a.png", np.zeros((4, 5))))
    with pytest.raises(DataError, match="Found only empty masks"):
        import_to(tmp_path / "out", dataset)
    assert import_to(tmp_path / "out", dataset, labels={255: 1}).labels == {0: 0, 255: 1}


def test_no_usable_case_is_an_error_with_the_first_reason(tmp_path):
    dataset = segmentation(SourceCase(tmp_path / "a.png", tmp_path / "b.png"))
    with pytest.raises(DataError, match=r"no usable case among 1\. First reason: .*a\.png: found no such file"):
        import_to(tmp_path / "out", dataset)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_import_leaves_nothing(pair, tmp_path, monkeypatch, error):
    dataset, copy, copied = segmentation(*[pair(f"{index}.png") for index in range(6)]), shutil.copyfile, []

    def copy_until_the_seventh(source, target):
        if len(copied) == 7:
            raise error
        copied.append(Path(target))
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy_until_the_seventh)
    with pytest.raises(type(error)):
        import_to(tmp_path / "out", dataset, sites=SiteChoice(2))
    assert len(copied) == 7
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_a_folder_with_files_in_it_is_left_alone(pair, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="out: found a folder with files in it; expected an empty or absent"):
        import_to(tmp_path / "out", segmentation(pair("a.png")))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_how_it_was_made_is_written(pair, tmp_path):
    cases = [pair(f"{index}.png") for index in range(4)]
    import_to(tmp_path / "out", segmentation(*cases), test_share=0.25, seed=3)
    for part in ("site-1", "test"):
        manifest = json.loads((tmp_path / "out" / part / "manifest.json").read_text(encoding="utf-8"))
        assert (manifest["made"], manifest["seed"]) == ("import", 3)
    assert read_federation(tmp_path / "out").made == "import of any, split at random, by class, seed 3"


def coloured(file, kind):
    """A picture with or without colours beside its grey mask, also turned by EXIF."""
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[4:9, 5:15] = (200, 60, 60) if kind == "colour" else 200
    exif = Image.Exif()
    exif[0x0112] = 3 if kind == "turned" else 1
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[::-1, ::-1] if kind == "turned" else pixels).save(file, exif=exif)
    mask = file.parent / f"{file.stem}_mask.png"
    return SourceCase(file, picture(mask, (pixels[..., 0] > 0) * 255))


@pytest.mark.parametrize(
    ("kinds", "chosen", "channels", "said"),
    [
        (("grey", "grey"), None, 1, None),
        (("grey", "colour"), None, 3, "1 of 2 images have colours (b for one), so that all are read as RGB; grey ones"),
        (("colour", "colour"), None, 3, "2 of 2 images have colours (a for one), so that all are read as RGB. "),
        (("grey", "colour"), 1, 1, "1 of 2 images have colours (b for one) and are read as grey. --channels 3 keeps"),
        (("grey", "colour"), 3, 3, None),
    ],
)
def test_colours_are_kept_unless_somebody_chooses_and_the_import_says_so(tmp_path, kinds, chosen, channels, said):
    cases = [coloured(tmp_path / f"{name}.png", kind) for name, kind in zip("ab", kinds, strict=True)]
    keys = {} if chosen is None else {"channels": chosen}
    report = import_to(tmp_path / "out", segmentation(*cases, channels=None), keys=keys)
    assert read_site_description(tmp_path / "out" / "site-1").channels == channels
    notes = [note for note in report.notes if note.startswith("Colours: ")]
    assert len(notes) == (said is not None)
    assert said is None or said in notes[0]


def test_images_that_exif_turns_lie_under_their_masks_and_are_named(tmp_path):
    cases = [coloured(tmp_path / "a.png", "grey"), coloured(tmp_path / "b.jpg", "turned")]
    report = import_to(tmp_path / "out", segmentation(*cases, channels=None), keys={"size": (20, 30)})
    assert [note for note in report.notes if note.startswith("Turned images: 1 of 2 images")]
    for case in load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", section="training", site="x").cases:
        inside = case.label[0] > 0
        assert case.image[0, 0][inside].mean() - case.image[0, 0][~inside].mean() > 3


def test_a_mask_that_is_foreground_everywhere_is_named(pair, tmp_path):
    report = import_to(tmp_path / "out", segmentation(pair("a.png", square(255)), pair("b.png", np.full((4, 5), 255))))
    assert [note for note in report.notes if note.startswith("Foreground everywhere: 1 of 2 masks")]
