"""Importers of pictures with a class: Kvasir-Capsule, OIA-ODIR and Chaoyang."""

import json
from collections import Counter

import pytest
from miniatures import (
    ODIR_HEADER,
    ODIR_SETS,
    chaoyang,
    comma_separated,
    kvasir_capsule,
    odir_row,
    oia_odir,
    picture,
    sheet,
    text,
)

from fedannot.apps.importing.layouts import DATASETS
from fedannot.apps.importing.layouts.oia_odir import diagnosis
from fedannot.transforms.errors import DataError


def found(name, folder, seed=0):
    return DATASETS[name].read(folder, seed=seed)


def labels(dataset):
    return {case.image.stem: dataset.classes[case.label] for case in dataset.cases}


def test_kvasir_capsule_has_the_ten_findings_in_the_papers_order(tmp_path):
    kvasir_capsule(tmp_path)
    dataset = found("kvasir-capsule", tmp_path)
    by_class = {dataset.classes[case.label]: case.image.parent.name for case in dataset.cases}
    assert [(name, by_class[name]) for name in dataset.classes] == [
        ("Normal", "Normal clean mucosa"),
        ("Ileocecal Valve", "Ileocecal valve"),
        ("Reduced Mucosal View", "Reduced mucosal view"),
        ("Pylorus", "Pylorus"),
        ("Angiectasia", "Angiectasia"),
        ("Ulcer", "Ulcer"),
        ("Foreign Body", "Foreign body"),
        ("Lymphangiectasia", "Lymphangiectasia"),
        ("Erosion", "Erosion"),
        ("Blood", "Blood - fresh"),
    ]
    assert len(dataset.cases) == 20
    assert dataset.channels == 3


def test_kvasir_capsule_keeps_frames_of_a_video_together(tmp_path):
    kvasir_capsule(tmp_path)
    groups = Counter(case.group for case in found("kvasir-capsule", tmp_path).cases)
    assert groups == {"0728084c8da942d9": 10, "8885668afb844852": 10}


def test_kvasir_capsule_lists_frames_of_other_findings(tmp_path):
    kvasir_capsule(tmp_path)
    picture(tmp_path / "banner.png")
    skipped = [*map(str, found("kvasir-capsule", tmp_path).skipped)]
    assert len(skipped) == 9
    assert "banner.png: its folder is none of the findings" in skipped
    assert "labelled_images/Polyp/0728084c8da942d9_40.jpg: a finding with few frames" in skipped


@pytest.mark.parametrize("folder", ["Blood_fresh", "BLOOD - FRESH", "blood-fresh"])
def test_kvasir_capsule_knows_other_spellings_of_a_folder(folder, tmp_path):
    picture(tmp_path / folder / "0728084c8da942d9_1.jpg")
    (case,) = found("kvasir-capsule", tmp_path).cases
    assert case.label == 9


@pytest.mark.parametrize(("suffix", "write"), [(".csv", comma_separated), (".xlsx", sheet)])
def test_odir_takes_each_eyes_own_diagnosis(suffix, write, tmp_path):
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="the extra fedannot[xlsx] is not installed")
    oia_odir(tmp_path, write=write, suffix=suffix)
    dataset = found("oia-odir", tmp_path)
    assert labels(dataset) == {
        "1_left": "Normal",
        "1_right": "Diabetic Retinopathy",
        "4_left": "Cataract",
        "4_right": "Glaucoma",
        "937_left": "Hypertension Complications",
        "937_right": "Pathologic Myopia",
        "1000_left": "AMD",
        "1000_right": "Other Diseases/Abnormalities",
    }
    assert {(case.image.stem, case.group, case.section) for case in dataset.cases} == {
        (f"{patient}_{side}", str(patient), section)
        for patient, section in ((1, "training"), (4, "training"), (937, "testing"), (1000, "testing"))
        for side in ("left", "right")
    }
    assert tuple(map(str, dataset.skipped)) == (
        "Training Set/Images/5_left.jpg: no diagnosis in its keywords, 'no fundus image'",
        "Training Set/Images/5_right.jpg: no diagnosis in its keywords, 'anterior segment image，cataract'",
    )


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ("normal fundus", 0),
        ("lens dust, normal fundus", 0),
        ("mild nonproliferative retinopathy", 1),
        ("Moderate Non Proliferative Retinopathy ，hypertensive retinopathy", 1),
        ("suspected diabetic retinopathy", 1),
        ("macular epiretinal membrane，severe proliferative diabetic retinopathy", 1),
        ("hypertensive retinopathy", 5),
        ("suspected glaucoma，cataract", 2),
        ("cataract，suspected glaucoma", 2),
        ("wet age-related macular degeneration", 4),
        ("myopia retinopathy", 6),
        ("myopic maculopathy，tessellated fundus", 6),
        ("drusen", 7),
        ("laser spot，", 7),
        ("low image quality", None),
        ("", None),
    ],
)
def test_odir_first_diagnosis_in_the_order_of_the_classes(keywords, expected):
    assert diagnosis(keywords) == expected


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_odir_prefers_a_table_exported_as_csv(delimiter, tmp_path):
    oia_odir(tmp_path)
    annotation = tmp_path / "Training Set" / "Annotation"
    (annotation / "training annotation (English).csv").unlink()
    text(annotation / "training annotation (English).xlsx", "not read")
    rows = [ODIR_HEADER, odir_row(1, "cataract", '"glaucoma\n，drusen"')]
    lines = "\n".join(delimiter.join(map(str, row)) for row in rows)
    text(annotation / "exported.csv", f"\ufeff{lines}\n")
    dataset = found("oia-odir", tmp_path)
    training = {name: label for name, label in labels(dataset).items() if int(name.split("_")[0]) < 900}
    assert training == {"1_left": "Cataract", "1_right": "Glaucoma"}
    assert "Training Set/Images/4_left.jpg: in no table" in list(map(str, dataset.skipped))


def test_odir_lists_photographs_that_are_missing(tmp_path):
    oia_odir(tmp_path)
    (tmp_path / "Training Set" / "Images" / "1_right.jpg").unlink()
    dataset = found("oia-odir", tmp_path)
    assert len(dataset.cases) == 7
    assert "Training Set/Images/1_right.jpg: no such file" in list(map(str, dataset.skipped))


def odir_table(folder, rows):
    comma_separated(folder / "Training Set" / "Annotation" / "training annotation (English).csv", rows)


def test_odir_table_without_a_column_is_an_error(tmp_path):
    odir_table(tmp_path, [ODIR_HEADER[:5], [1, 60, "Male", "1_left.jpg", "1_right.jpg"]])
    with pytest.raises(
        DataError,
        match=r"training annotation \(English\)\.csv: found the columns ID, .*Right-Fundus; expected also "
        r"Left-Diagnostic Keywords, Right-Diagnostic Keywords\.",
    ):
        found("oia-odir", tmp_path)


def test_odir_table_in_another_encoding_is_an_error(tmp_path):
    file = tmp_path / "Training Set" / "Annotation" / "exported.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes("ID，".encode("gb18030"))
    with pytest.raises(DataError, match=r"exported\.csv: cannot be read as text .*expected CSV in UTF-8"):
        found("oia-odir", tmp_path)


def test_odir_keeps_columns_apart_where_cells_are_empty(tmp_path):
    # Without keywords of the left eye those of the right one must not move into their place.
    odir_table(tmp_path, [ODIR_HEADER, odir_row(1, "", "cataract")])
    for side in ("left", "right"):
        picture(tmp_path / "Training Set" / "Images" / f"1_{side}.jpg")
    dataset = found("oia-odir", tmp_path)
    assert labels(dataset) == {"1_right": "Cataract"}
    assert tuple(map(str, dataset.skipped)) == ("Training Set/Images/1_left.jpg: no diagnosis in its keywords, ''",)


def test_odir_refuses_names_that_leave_the_folder(tmp_path):
    row = odir_row(1, "cataract", "drusen")
    row[3] = "../../../secret.jpg"
    odir_table(tmp_path, [ODIR_HEADER, row])
    with pytest.raises(DataError, match=r"found the file name '\.\./\.\./\.\./secret\.jpg'; expected one that stays"):
        found("oia-odir", tmp_path)


def test_odir_test_sets_together_are_as_many_as_their_tables_say(tmp_path):
    oia_odir(tmp_path)
    testing = [case for case in found("oia-odir", tmp_path).cases if case.section == "testing"]
    assert len(testing) == 2 * sum(len(rows) for name, rows in ODIR_SETS.items() if "Test" in name)


def test_chaoyang_keeps_undisputed_labels_and_the_published_sections(tmp_path):
    chaoyang(tmp_path)
    dataset = found("chaoyang", tmp_path)
    assert dataset.classes == ("Normal", "Serrated", "Adenocarcinoma", "Adenoma")
    training = [case for case in dataset.cases if case.section == "training"]
    assert [(case.image.name, case.label) for case in training[:3]] == [
        ("535940-IMG009x024-2.JPG", 2),
        ("535940-IMG010x008-2.JPG", 2),
        ("353042_4-IMG005x014-1.JPG", 1),
    ]
    assert [case.label for case in dataset.cases if case.section == "testing"] == [0, 1, 2, 3]
    assert Counter(case.group for case in dataset.cases) == {"535940": 62, "353042_4": 1, "600001": 4}


def disputed(folder, seed):
    return [case.label for case in found("chaoyang", folder, seed).cases if "x001-0" in case.image.name][:60]


def test_chaoyang_draws_one_pathologist_for_each_image(tmp_path):
    chaoyang(tmp_path)
    counts = Counter(disputed(tmp_path, seed=0))
    # 60 draws of one in three: outside 8 to 33 only once in 10,000 seeds.
    assert counts.keys() == {0, 1, 3}
    assert all(8 <= count <= 33 for count in counts.values())


def test_chaoyang_draw_depends_on_the_seed_and_on_nothing_else(tmp_path):
    chaoyang(tmp_path)
    first = disputed(tmp_path, seed=1)
    assert disputed(tmp_path, seed=1) == first
    assert disputed(tmp_path, seed=2) != first
    # Other images in the list change nothing.
    file = tmp_path / "HSA-NRL" / "chaoyang" / "train_label.json"
    text(file, json.loads(file.read_text(encoding="utf-8"))[3:][::-1])
    assert disputed(tmp_path, seed=1) == first[::-1]


def test_chaoyang_without_opinions_takes_the_published_label(tmp_path):
    chaoyang(tmp_path)
    (tmp_path / "HSA-NRL" / "chaoyang" / "train_label.json").unlink()
    assert disputed(tmp_path, seed=0) == [0] * 60


def test_chaoyang_lists_what_does_not_fit(tmp_path):
    chaoyang(tmp_path)
    picture(tmp_path / "train" / "extra.JPG")
    (tmp_path / "test" / "600001-IMG000x001-0.JPG").unlink()
    tests = json.loads((tmp_path / "test.json").read_text(encoding="utf-8"))
    tests[3]["label"] = 4
    text(tmp_path / "test.json", [*tests, "text"])
    dataset = found("chaoyang", tmp_path)
    assert [case.label for case in dataset.cases if case.section == "testing"] == [1, 2]
    assert tuple(map(str, dataset.skipped)) == (
        "test/600001-IMG000x001-0.JPG: no such file",
        f"test.json: no name and label from 0 to 3 in {tests[3]!r}",
        "test.json: no name and label from 0 to 3 in 'text'",
        "train/extra.JPG: in no list",
    )


def test_chaoyang_finds_images_whatever_the_case_of_their_suffix(tmp_path):
    chaoyang(tmp_path)
    for file in (tmp_path / "test").iterdir():
        file.rename(file.with_suffix(".jpg"))
    assert len(found("chaoyang", tmp_path).cases) == 67


def test_chaoyang_refuses_names_that_leave_the_folder(tmp_path):
    chaoyang(tmp_path)
    text(tmp_path / "test.json", [{"name": "../secret.JPG", "label": 0}])
    with pytest.raises(DataError, match=r"test\.json: found the file name '\.\./secret\.JPG'"):
        found("chaoyang", tmp_path)


def test_chaoyang_list_of_another_form_is_an_error(tmp_path):
    chaoyang(tmp_path)
    text(tmp_path / "test.json", {"name": "test/1.JPG"})
    with pytest.raises(DataError, match=r"test\.json: found dict; expected a list of images"):
        found("chaoyang", tmp_path)
