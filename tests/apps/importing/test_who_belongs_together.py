"""Patients, readers, spellings and pairs: what a split must not part, and what an import must not unite."""

import json
import shlex
import unicodedata
from collections import Counter

import numpy as np
import pytest
from miniatures import chaoyang
from PIL import Image
from scans import write_series

from fedannot.apps.checking.checking import check_folder
from fedannot.apps.checking.patient_names import likely_patients
from fedannot.apps.functions.data import import_found
from fedannot.apps.importing.class_folders import read_class_folders
from fedannot.apps.importing.class_tables import TableColumns, read_class_table
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.folders import read_folders
from fedannot.apps.importing.options import ImportOptions
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError

SMALL = ImportOptions(keys={"size": (16, 32)})


def save(file, seed=0, square=None):
    """An image of noise, or a mask with a square."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 32), dtype=np.uint8)
    if square is not None:
        pixels = np.zeros((16, 32), np.uint8)
        pixels[square] = 255
    Image.fromarray(pixels).save(file)


SQUARE = (slice(2, 8), slice(2, 8))


def save_pairs(root, *names, suffix=".png"):
    for index, name in enumerate(names):
        save(root / "images" / f"{name}{suffix}", index)
        save(root / "labels" / f"{name}{suffix}", square=SQUARE)
    return root / "images", root / "labels"


def imported(root, out, **named):
    wanted = Named(images=root / "images", labels=root / "labels", **named)
    return import_found(find_datasets(wanted), out, sites="2", options=SMALL).report


def images_of(out):
    """Site or test set → names of its images."""
    folders = [folder for folder in sorted(out.iterdir()) if folder.is_dir()]
    return {
        folder.name: [
            case.image.name for cases in read_datalist(folder / "datalist.json").cases.values() for case in cases
        ]
        for folder in folders
    }


@pytest.mark.parametrize(
    ("names", "pattern", "patients"),
    [
        ([f"patient{p:02d}_scan{s}.png" for p in range(6) for s in range(4)], "(patient[0-9]+)", 6),
        ([f"Sub-{p}/ses-{s}/t1.nii.gz" for p in range(3) for s in range(2)], r"(Sub\-[0-9]+)", 3),
        ([f"p{p}x/{s}.png" for p in range(3) for s in range(2)], "(?:^|/)([^/]*[0-9][^/]*)/", 3),
        ([f"{1000 + p}_{side}.jpg" for p in range(3) for side in ("left", "right")], None, 3),
        # Each its own patient, sides of nobody, one run of numbers.
        ([f"patient{p}.png" for p in range(9)], None, 0),
        ([f"ISIC_{number:07d}.jpg" for number in range(9)], None, 0),
        ([f"benign ({number}).png" for number in range(9)], None, 0),
        ([f"scan_{number}.png" for number in range(9)], None, 0),
    ],
)
def test_names_of_patients_are_told_from_other_names(names, pattern, patients):
    result = likely_patients(names)
    assert (0 if result is None else len(result.shared)) == patients
    if pattern is not None:
        assert result.pattern == pattern


def test_a_likely_pattern_is_proposed_and_keeps_patients_together(tmp_path):
    save_pairs(tmp_path, *(f"patient{p:02d}_scan{s}" for p in range(6) for s in range(4)))
    report = imported(tmp_path, tmp_path / "by-image")
    parts = images_of(tmp_path / "by-image")
    tested = {name[:9] for name in parts["test"]}
    leaking = tested & {name[:9] for site in ("site-1", "site-2") for name in parts[site]}
    (note,) = (note for note in report.notes if note.startswith("Patients:"))
    assert "24 images of 6 patients" in note
    assert f"{len(leaking)} of them have images both for training and in the test set" in note
    assert note.endswith("--group '(patient[0-9]+)'.")
    findings = [finding for site in check_folder(tmp_path / "by-image").sites for finding in site.findings]
    files = {name for one in findings if one.kind == "likely-patient-leakage" for name in one.files}
    assert {name.removeprefix("images/")[:9] for name in files} == leaking
    # The option that both name.
    report = imported(tmp_path, tmp_path / "by-patient", group="(patient[0-9]+)")
    assert not any(note.startswith("Patients:") for note in report.notes)
    parts = images_of(tmp_path / "by-patient")
    assert max(Counter(name for part in parts.values() for name in {image[:9] for image in part}).values()) == 1
    assert not any(site.findings for site in check_folder(tmp_path / "by-patient").sites)


def test_patients_and_centres_are_found_in_folders(tmp_path):
    save_pairs(tmp_path, *(f"ward {w}/pat{p}/{s}" for w in "ab" for p in range(2) for s in range(2)))
    (dataset,) = find_datasets(
        Named(images=tmp_path / "images", labels=tmp_path / "labels", group="/([^/]+)/", source="^ward ([a-z])")
    )
    assert [(case.source, case.group) for case in dataset.cases] == [
        (w, f"pat{p}") for s in range(2) for w in "ab" for p in range(2)
    ]
    # Names that several folders have get them in front.
    assert dataset.cases[0].name == "ward a_pat0_0"


def test_the_patient_of_a_dicom_series_is_its_patient(tmp_path):
    for study in ("p01a", "p01b", "p02a"):
        (tmp_path / "images" / study).mkdir(parents=True)
        write_series(tmp_path / "images" / study / "series", patient=study[:3])
        (tmp_path / "labels").mkdir(exist_ok=True)
        (tmp_path / "labels" / f"{study}.nii.gz").touch()
    named = {"images": tmp_path / "images", "labels": tmp_path / "labels"}
    (dataset,) = find_datasets(Named(**named))
    assert [case.group for case in dataset.cases] == ["p01", "p01", "p02"]
    assert dataset.notes == ("Patients: the PatientID of 3 DICOM series names 2.",)
    (dataset,) = find_datasets(Named(**named, group="^(p[0-9]+[ab])"))
    assert [case.group for case in dataset.cases] == ["p01a", "p01b", "p02a"]


def test_folders_of_dicom_may_begin_with_a_readme(tmp_path):
    (tmp_path / "images").mkdir()
    write_series(tmp_path / "images" / "a", prefix="slice")
    (tmp_path / "images" / "a" / "README.txt").write_text("read me")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.nii.gz").touch()
    dataset = read_folders(tmp_path / "images", tmp_path / "labels")
    assert [case.image for case in dataset.cases] == [tmp_path / "images" / "a"]
    assert [*map(str, dataset.skipped)] == ["images/a/README.txt: not an image"]


def test_capitals_and_the_unicode_form_of_names_do_not_part_pairs(tmp_path):
    composed = unicodedata.normalize("NFC", "Müller")
    save(tmp_path / "images" / f"{composed}.PNG")
    save(tmp_path / "images" / "CASE_2.png")
    save(tmp_path / "labels" / f"{unicodedata.normalize('NFD', composed)}_Mask.png", square=SQUARE)
    save(tmp_path / "labels" / "case_2_mask.PNG", square=SQUARE)
    dataset = read_folders(tmp_path / "images", tmp_path / "labels", label_suffix="_mask")
    assert [(case.image.stem, case.label.suffix) for case in dataset.cases] == [("CASE_2", ".PNG"), (composed, ".png")]
    assert dataset.skipped == ()


def test_names_that_differ_in_capitals_alone_keep_their_own_masks(tmp_path):
    save_pairs(tmp_path, "a", "A")
    cases = read_folders(tmp_path / "images", tmp_path / "labels").cases
    assert [(case.image.stem, case.label.stem) for case in cases] == [("A", "A"), ("a", "a")]


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("p1/s1/t1", "p1/s1/t1"),
        ("p1/s1/t1", "t1"),
        ("p1/s1/t1", "p1_s1"),
        ("p1/s1/t1", "p1_s1_t1"),
        ("p1/s1/t1", "p1"),
        ("p1/s1/t1", "p1/t1"),
        ("p1/s1/t1", "t1/object 1"),
        ("P1/s1/T1", "p1-s1-t1"),
    ],
)
def test_pairs_are_found_by_path_name_and_folders(tmp_path, image, mask):
    save(tmp_path / "images" / f"{image}.png")
    save(tmp_path / "images" / "p9" / "s9" / "t9.png")
    save(tmp_path / "labels" / f"{mask}.png", square=SQUARE)
    (case,) = read_folders(tmp_path / "images", tmp_path / "labels").cases
    assert case.image == tmp_path / "images" / f"{image}.png"


def test_every_patient_has_an_image_of_one_name_and_a_mask_of_another(tmp_path):
    for patient in ("p1", "p2", "p3"):
        save(tmp_path / patient / "image.png")
        save(tmp_path / patient / "mask.png", square=SQUARE)
    cases = read_folders(tmp_path, tmp_path, label_include=["mask*"]).cases
    assert [(case.name, case.label.parent.name) for case in cases] == [(f"p{n}_image", f"p{n}") for n in (1, 2, 3)]
    # A name that no other folder has tells an image of its own.
    (tmp_path / "p1" / "mask.png").rename(tmp_path / "p1" / "mask of b.png")
    (tmp_path / "p1" / "image.png").rename(tmp_path / "p1" / "a.png")
    dataset = read_folders(tmp_path, tmp_path, label_include=["mask*"])
    assert [case.image.parent.name for case in dataset.cases] == ["p2", "p3"]
    assert [entry.reason for entry in dataset.skipped] == ["no mask", "no image"]


def test_a_mask_that_several_images_fit_is_listed_and_taken_for_none(tmp_path):
    save_pairs(tmp_path, "p1/a", "p2/b")
    save(tmp_path / "images" / "p1" / "c.png")
    save(tmp_path / "labels" / "p1.png", square=SQUARE)
    dataset = read_folders(tmp_path / "images", tmp_path / "labels")
    assert [case.name for case in dataset.cases] == ["a", "b"]
    texts = [*map(str, dataset.skipped)]
    assert texts[0] == "images/p1/c.png: no mask"
    assert texts[1].startswith("labels/p1.png: several images fit, images/p1/a.png, images/p1/c.png; name the mask")


def test_what_is_left_out_is_counted_by_its_reason_also_in_the_record(tmp_path):
    save_pairs(tmp_path, *"abcdef")
    for name in ("web.webp", "anim.gif", "pair.hdr", "pair.img", "README", "Thumbs.db", ".DS_Store"):
        (tmp_path / "images" / name).write_bytes(b"x")
    (tmp_path / "images" / "scan.dcm").write_bytes(bytes(128) + b"DICM")
    save(tmp_path / "images" / "alone.png")
    Image.new("L", (3, 3)).save(tmp_path / "labels" / "f.png")
    report = imported(tmp_path, tmp_path / "out")
    expected = {
        "an image format that is not read (.webp)": ["images/web.webp"],
        "an image format that is not read (.gif)": ["images/anim.gif"],
        "an image format that is not read (.hdr)": ["images/pair.hdr"],
        "an image format that is not read (.img)": ["images/pair.img"],
        "a DICOM file that is not in the folder of its series": ["images/scan.dcm"],
        "not an image": ["images/README"],
        "no mask": ["images/alone.png"],
        "a file cannot be read, or mask and image do not fit": ["f.png"],
    }
    record = json.loads((tmp_path / "out" / "import.json").read_text(encoding="utf-8"))
    assert {entry["reason"]: [file["name"] for file in entry["files"]] for entry in record["left_out"]} == expected
    assert (record["num_cases"], record["num_left_out"]) == (5, 8) == (report.num_cases, len(report.left_out))


READERS = {"a_reader1": (slice(2, 8), slice(2, 8)), "a_reader2": (slice(3, 9), slice(3, 9))}


def test_masks_of_several_readers_are_never_united(tmp_path):
    images, _ = save_pairs(tmp_path, "b", "c", "d")
    save(images / "a.png", 9)
    for name, square in READERS.items():
        save(tmp_path / "labels" / f"{name}.png", square=square)
    pattern = {"label_include": ["*"]}
    with pytest.raises(
        DataError, match=r"2 masks of one image, labels/a_reader1\.png.* one covers 69% of another"
    ) as caught:
        imported(tmp_path, tmp_path / "out", **pattern)
    assert "--label-include '*_reader1.png'; or, if they are parts of one annotation, --unite-masks" in str(
        caught.value
    )
    assert not (tmp_path / "out").exists()
    # Readers of whom each has seen another lesion are readers by their names.
    save(tmp_path / "labels" / "a_reader2.png", square=(slice(9, 12), slice(20, 25)))
    with pytest.raises(DataError, match="their names speak of readers"):
        imported(tmp_path, tmp_path / "out", **pattern)
    wanted = Named(images=images, labels=tmp_path / "labels", **pattern)
    united = import_found(
        find_datasets(wanted), tmp_path / "out", sites="1", options=ImportOptions(keys=SMALL.keys, unite_masks=True)
    )
    assert united.report.num_cases == 4


def test_names_in_a_proposed_option_cannot_end_the_command(tmp_path):
    images, _ = save_pairs(tmp_path, "b", "c", "d")
    save(images / "a.png", 9)
    for name in ("a_reader1'; touch x; '", "a_reader2"):
        save(tmp_path / "labels" / f"{name}.png", square=(slice(2, 8), slice(2, 8)))
    with pytest.raises(DataError, match="taken for several readers' masks") as caught:
        imported(tmp_path, tmp_path / "out", label_include=["*"])
    assert "Keep all with --annotators by-suffix, or choose one" in str(caught.value)
    option = str(caught.value).partition("for example ")[2].partition("; or, if")[0]
    assert len(shlex.split(option)) == 2


def test_masks_of_one_name_in_two_folders_are_never_united(tmp_path):
    images, labels = save_pairs(tmp_path, "a", "b")
    save(labels / "old" / "a.png", square=(slice(9, 12), slice(20, 25)))
    with pytest.raises(
        DataError,
        match=f"folders have masks of one name.*Keep all with --annotators by-folder, .* --labels {labels},? ?",
    ):
        imported(tmp_path, tmp_path / "out")
    assert len(read_folders(images, labels / "old").cases) == 1


def test_masks_may_lie_below_the_images(tmp_path):
    for name in ("p1/a", "p2/a"):
        save(tmp_path / f"{name}.png")
        save(tmp_path / "masks" / f"{name}.png", square=SQUARE)
    dataset = read_folders(tmp_path, tmp_path / "masks")
    assert [case.label.relative_to(tmp_path / "masks") for case in dataset.cases] == [
        case.image.relative_to(tmp_path) for case in dataset.cases
    ]
    assert [case.name for case in dataset.cases] == ["p1_a", "p2_a"]
    assert dataset.skipped == ()


def test_objects_of_an_image_are_united(tmp_path):
    images, labels = save_pairs(tmp_path, "b", "c", "d")
    save(images / "a.png", 9)
    for index in range(2):
        save(labels / f"a_{index}.png", square=(slice(2, 8), slice(10 * index, 10 * index + 6)))
    report = imported(tmp_path, tmp_path / "out", label_include=["*"])
    assert any(note.startswith("Several masks: 2 files of 1 images became one mask each") for note in report.notes)


def table(tmp_path, *rows):
    for name in ("one", "two", "three", "four", "five"):
        save(tmp_path / "images" / f"{name}.png")
    (tmp_path / "labels.csv").write_text("\n".join(["image,class,patient", *rows]), encoding="utf-8")
    return tmp_path / "labels.csv", tmp_path / "images", TableColumns("image", "class", "patient")


def test_cells_without_a_value_are_no_classes_and_no_patients(tmp_path):
    place = table(tmp_path, "one,benign,7", "two,NaN,7", "three,malignant,nan", "four,N/A,", "five,null,NA")
    dataset = read_class_table(*place)
    assert dataset.classes == ("benign", "malignant")
    assert [case.group for case in dataset.cases] == ["7", None]
    assert [*map(str, dataset.skipped)] == ["two: no class (NaN)", "four: no class (N/A)", "five: no class (null)"]
    # A class may be called so, if somebody says it.
    named = read_class_table(*place, names=("benign", "malignant", "NaN"))
    assert [case.label for case in named.cases] == [0, 2, 1]


def test_spellings_of_a_class_are_one_class_said_aloud(tmp_path):
    rows = ("one,Malignant,", "two,malignant,", "three,benign,", "four,malignant,", "five,Benign ,")
    dataset = read_class_table(*table(tmp_path, *rows))
    assert dataset.classes == ("Benign", "malignant")
    assert Counter(case.label for case in dataset.cases) == {0: 2, 1: 3}
    assert dataset.notes[1] == (
        "Classes: 'Malignant' (1), 'malignant' (2) are one class, malignant; they differ in capitals or spaces alone."
    )
    named = read_class_table(
        tmp_path / "labels.csv", tmp_path / "images", TableColumns("image", "class"), names=("MALIGNANT", "benign")
    )
    assert Counter(case.label for case in named.cases) == {0: 3, 1: 2}


def test_folders_of_a_class_may_be_spelt_in_two_ways(tmp_path):
    for name in ("train/Benign/1", "train/Polyp/2", "test/benign/3", "test/polyp/4"):
        save(tmp_path / f"{name}.png")
    dataset = read_class_folders(tmp_path)
    assert dataset.classes == ("Benign", "Polyp")
    assert Counter(case.label for case in dataset.cases) == {0: 2, 1: 2}
    assert len(dataset.notes) == 2


def test_slides_of_a_published_test_list_are_moved_with_a_count(tmp_path):
    chaoyang(tmp_path)
    for seed, file in enumerate(sorted(tmp_path.rglob("*.JPG"))):
        save(file, seed)
    lists = {name: json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("train.json", "test.json")}
    moved = [item for item in lists["train.json"] if "353042_4" in item["name"]]
    new = tmp_path / "test" / "353042_4-IMG001x001-1.JPG"
    save(new, 99)
    assert len(moved) == 1
    lists["test.json"].append({"name": f"test/{new.name}", "label": 1})
    (tmp_path / "test.json").write_text(json.dumps(lists["test.json"]), encoding="utf-8")
    datasets = find_datasets(Named(named=[f"chaoyang={tmp_path}"]))
    options = ImportOptions(keys={"size": (32, 64)})
    report = import_found(datasets, tmp_path / "out", sites="1", options=options).report
    (note,) = (note for note in report.notes if note.startswith("Moved:"))
    assert note.startswith(
        "Moved: 1 cases of 1 groups (patients or slides) are published for training, 353042_4-IMG005x014-1"
    )
    assert len(images_of(tmp_path / "out")["test"]) == 6
