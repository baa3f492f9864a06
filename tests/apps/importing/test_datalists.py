import json
from pathlib import Path

import pytest

from fedannot.apps.importing.datalists import read_source_datalist
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.source import SourceCase
from fedannot.transforms.errors import DataError


def items(count, prefix="a", suffix=".png"):
    return [{"image": f"i/{prefix}{index}{suffix}", "label": f"l/{prefix}{index}{suffix}"} for index in range(count)]


@pytest.fixture
def write(tmp_path):
    def write_(content):
        file = tmp_path / "data" / "datalist.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    return write_


def names_by_section(dataset):
    result = {}
    for case in dataset.cases:
        result.setdefault(case.section, []).append(case.image.name)
    return result


def test_the_lists_of_monai_become_sections(write):
    content = {"training": items(2), "validation": items(1, "b"), "testing": items(1, "c")}
    dataset = read_source_datalist(write(content))
    assert names_by_section(dataset) == {
        "training": ["a0.png", "a1.png"],
        "validation": ["b0.png"],
        "testing": ["c0.png"],
    }
    assert (dataset.task, dataset.volumes, dataset.labels, dataset.classes) == (
        "segmentation",
        False,
        None,
        ("lesion",),
    )


def test_a_single_list_says_nothing_of_sections(write):
    for content in ({"training": items(2)}, {"items": items(2)}, items(2)):
        assert names_by_section(read_source_datalist(write(content))) == {None: ["a0.png", "a1.png"]}


def test_all_that_an_item_says_comes_along(write):
    file = write([{"image": "a.png", "label": "b.png", "clean_label": "c.png", "group": 7, "source": "north"}])
    folder = file.parent
    expected = SourceCase(folder / "a.png", folder / "b.png", folder / "c.png", group="7", source="north")
    assert read_source_datalist(file).cases == (expected,)


def test_an_empty_group_or_source_is_none(write):
    (case,) = read_source_datalist(write([items(1)[0] | {"group": "", "source": ""}])).cases
    assert (case.group, case.source) == (None, None)


def test_decathlon_with_its_test_images_as_texts(write):
    content = {
        "name": "Hippocampus",
        "modality": {"0": "MRI"},
        "labels": {"0": "background", "1": "Anterior", "2": "Posterior"},
        "numTraining": 2,
        "numTest": 1,
        "training": items(2, "./", ".nii.gz"),
        "test": ["./imagesTs/c.nii.gz"],
    }
    dataset = read_source_datalist(write(content))
    assert (dataset.name, dataset.volumes, len(dataset.cases)) == ("Hippocampus", True, 2)
    assert dataset.classes == ("Anterior", "Posterior")
    assert dataset.labels == {0: 0, 1: 1, 2: 2}
    assert tuple(map(str, dataset.skipped)) == ()


def test_the_name_is_that_of_the_folder_if_the_file_has_none(write, monkeypatch):
    file = write({"items": items(1)})
    monkeypatch.chdir(file.parent)
    assert read_source_datalist(Path("datalist.json")).name == "data"


def test_classes_are_numbered_in_the_order_of_their_values(write):
    content = {"labels": {"200": "cyst", "0": "background", "85": "lesion"}, "items": items(1)}
    dataset = read_source_datalist(write(content))
    assert dataset.labels == {0: 0, 85: 1, 200: 2}
    assert dataset.classes == ("lesion", "cyst")


def test_labels_of_background_alone_say_nothing(write):
    dataset = read_source_datalist(write({"labels": {"0": "background"}, "items": items(1)}))
    assert (dataset.labels, dataset.classes) == (None, ("lesion",))


def classification(*labels, **others):
    return {"items": [{"image": f"{index}.png", "label": label} for index, label in enumerate(labels)], **others}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (classification(0, 1, classes=["benign", "malignant", "normal"]), ("benign", "malignant", "normal")),
        (classification(0, 1, classes={"malignant": 1, "benign": 0}), ("benign", "malignant")),
        (classification(0, 2), ("class 0", "class 1", "class 2")),
        (classification(0, 1, 10**12), tuple(f"class {index}" for index in range(256))),
    ],
)
def test_names_of_classes(write, content, expected):
    dataset = read_source_datalist(write(content))
    assert (dataset.task, dataset.classes, dataset.labels) == ("classification", expected, None)
    assert [case.label for case in dataset.cases] == [item["label"] for item in content["items"]]


def test_a_list_is_chosen_by_its_key(write):
    file = write({"segmentation": items(2), "classification": classification(0, 1)["items"]})
    assert read_source_datalist(file, key="segmentation").task == "segmentation"
    assert read_source_datalist(file, key="classification").task == "classification"
    with pytest.raises(DataError, match=r"found the lists 'segmentation', 'classification'; .* Choose one with --key"):
        read_source_datalist(file)
    with pytest.raises(DataError, match=r"no list 'seg' of cases; it has 'segmentation', 'classification'\."):
        read_source_datalist(file, key="seg")


def test_a_key_takes_one_section_alone(write):
    file = write({"training": items(2), "validation": items(1, "b")})
    assert names_by_section(read_source_datalist(file, key="validation")) == {None: ["b0.png"]}


def test_items_that_are_no_cases_are_named_with_the_reason(write):
    wrong = [
        {"image": "../../etc/passwd", "label": "a.png"},
        {"image": "a.png", "label": "/etc/passwd"},
        {"image": "a.png"},
        {"image": ["a.png", 2], "label": "a.png"},
        "a.png",
    ]
    dataset = read_source_datalist(write({"training": [*items(1), *wrong]}))
    assert len(dataset.cases) == 1
    reasons = (
        r"training[1] has 'image' = '../../etc/passwd', which leads out of",
        r"training[2] has 'label' = '/etc/passwd', which leads out of",
        r"training[3] has no 'label'",
        r"training[4] has 'image' = 2; expected a path",
        r"training[5] is 'a.png'; expected the keys image",
    )
    assert len(dataset.skipped) == 5
    assert all(reason in text for reason, text in zip(reasons, map(str, dataset.skipped), strict=True))


def test_what_is_refused_is_named_from_every_list(write):
    content = {section: [*items(1), {"image": "b.png"}] for section in ("training", "validation")}
    skipped = [*map(str, read_source_datalist(write(content)).skipped)]
    assert ["training[1]" in skipped[0], "validation[1]" in skipped[1]] == [True, True]


def test_test_images_without_labels_are_named_and_publish_no_test_part(write):
    dataset = read_source_datalist(write({"training": items(2), "testing": [{"image": "c.png"}]}))
    assert names_by_section(dataset) == {"training": ["a0.png", "a1.png"]}
    assert len(dataset.skipped) == 1
    assert "testing[0] has no 'label'" in str(dataset.skipped[0])


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".NRRD", ".mha"])
def test_volumes_are_known_by_their_suffix(write, suffix):
    assert read_source_datalist(write(items(1, suffix=suffix))).volumes


def test_folders_are_volumes(write):
    file = write([{"image": "series", "label": "a.nrrd"}])
    (file.parent / "series").mkdir()
    assert read_source_datalist(file).volumes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", r"datalist\.json: is not JSON"),
        ({"items": []}, "found no list of cases; expected 'training' or a single one"),
        ("3", "found int; expected keys with lists of cases"),
        ([], "found no case in 'training'"),
        ({"training": [{"image": "../a", "label": "b"}]}, r"no case in 'training'\. First reason: .* leads out of"),
        ([*items(1), {"image": "b.png", "label": 1}], "found labels that are paths and labels that are numbers"),
        ([*items(1), *items(1, "b", ".nii")], "found pictures and volumes; expected one kind"),
        ({"items": items(1), "labels": {"background": 0}}, "key 'labels' is {'background': 0}; expected label values"),
        (classification(0, classes="benign"), "key 'classes' is 'benign'; expected the names of the classes"),
        (classification(0, classes=[]), r"key 'classes' is \[\]; expected the names"),
        # Taken in order, class 1 would get the name of class 2.
        (classification(1, 2, classes={"benign": 1, "malignant": 2}), "key 'classes' is {'benign': 1, 'malignant': 2}"),
        (classification(0, classes={"0": "benign"}), "key 'classes' is {'0': 'benign'}; expected"),
        (classification(0, classes={"a": 0, "b": 0}), "key 'classes' is {'a': 0, 'b': 0}; expected"),
    ],
)
def test_what_cannot_be_read_is_said(write, content, message):
    with pytest.raises(DataError, match=message):
        read_source_datalist(write(content))


def test_a_list_has_no_keys_to_choose_from(write):
    with pytest.raises(DataError, match="found list; expected keys with lists of cases"):
        read_source_datalist(write(items(1)), key="training")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.json: found no such file; expected a datalist"):
        read_source_datalist(tmp_path / "nowhere.json")


def test_an_empty_folder_has_no_patient_and_is_no_series(write):
    file = write([{"image": "empty", "label": "l/a.nii"}])
    (file.parent / "empty").mkdir()
    (dataset,) = find_datasets(Named(datalist=file))
    assert dataset.cases[0].group is None
