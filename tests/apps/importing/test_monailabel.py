"""Local datastores of MONAI Label: final annotations with the names that clients have written."""

import json

import pytest
from miniatures import monailabel, text

from fedannot.apps.importing.layouts import DATASETS
from fedannot.transforms.errors import DataError


def found(folder):
    return DATASETS["monailabel"].read(folder, seed=0)


def change(folder, alter):
    file = folder / "datastore_v2.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    alter(content)
    text(file, content)


def test_cases_are_those_with_a_final_annotation(tmp_path):
    monailabel(tmp_path)
    dataset = found(tmp_path)
    assert [(case.name, case.label.relative_to(tmp_path).as_posix()) for case in dataset.cases] == [
        ("spleen_2", "labels/final/spleen_2.nii.gz"),
        ("spleen_10", "labels/final/spleen_10.nii.gz"),
    ]
    assert (dataset.volumes, dataset.classes, dataset.labels) == (True, ("spleen",), {0: 0, 1: 1})
    assert [*map(str, dataset.skipped)] == ["spleen_3: no final annotation"]


def test_without_names_masks_explain_themselves_and_absent_files_are_named(tmp_path):
    monailabel(tmp_path)
    change(
        tmp_path, lambda content: [one["labels"].get("final", {}).pop("info", 0) for one in content["objects"].values()]
    )
    (tmp_path / "spleen_2.nii.gz").unlink()
    dataset = found(tmp_path)
    assert (dataset.labels, len(dataset.cases)) == (None, 1)
    assert "spleen_2: there is no spleen_2.nii.gz" in map(str, dataset.skipped)


def test_a_value_with_two_names_is_refused(tmp_path):
    monailabel(tmp_path)
    other = {"label_info": [{"name": "liver", "idx": 1}]}
    change(tmp_path, lambda content: content["objects"]["spleen_10"]["labels"]["final"].update(info=other))
    with pytest.raises(
        DataError, match="found the value 1 as 'spleen' and, in spleen_10, as 'liver'; expected one name"
    ):
        found(tmp_path)


@pytest.mark.parametrize(
    "alter",
    [
        lambda content: content.update(images_dir="../other"),
        lambda content: content.update(labels_dir="/etc"),
        lambda content: content["objects"]["spleen_2"]["labels"]["final"].update(ext="/../../../x"),
    ],
)
def test_files_outside_are_refused(tmp_path, alter):
    monailabel(tmp_path / "store")
    change(tmp_path / "store", alter)
    with pytest.raises(DataError, match="expected one that stays inside"):
        found(tmp_path / "store")


@pytest.mark.parametrize(
    "content", [[], {"objects": []}, {"objects": {"a": 3}}, {"objects": {"a": {"labels": {"final": 3}}}}]
)
def test_another_content_is_refused(tmp_path, content):
    text(tmp_path / "datastore_v2.json", content)
    with pytest.raises(DataError, match=r"datastore_v2\.json: found "):
        found(tmp_path)
