"""Importers of volumes: multiple sclerosis, lungs, left atria, and the Decathlon's layout."""

import json

import pytest
from miniatures import covid1920, isbi2012_la, la2018, ljubljana_ms, msd, msseg1, volume

from fedannot.apps.importing.layouts import DATASETS
from fedannot.transforms.errors import DataError


def found(name, folder):
    return DATASETS[name].read(folder, seed=0)


def files_of(dataset, folder):
    return [tuple(file.relative_to(folder).as_posix() for file in (case.image, case.label)) for case in dataset.cases]


def test_msseg1_takes_the_preprocessed_flair_and_the_consensus(tmp_path):
    msseg1(tmp_path)
    dataset = found("msseg1", tmp_path)
    patients = ["Testing/Center_01/Patient_01", "Testing/Center_03/Patient_02"]
    patients += ["Training/Center_01/Patient_01", "Training/Center_07/Patient_01"]
    assert files_of(dataset, tmp_path) == [
        (f"{patient}/Preprocessed_Data/FLAIR_preprocessed.nii.gz", f"{patient}/Masks/Consensus.nii.gz")
        for patient in patients
    ]
    # The numbers of patients restarts in every centre and section.
    assert [case.group for case in dataset.cases] == patients
    assert [case.source for case in dataset.cases] == ["center-01", "center-03", "center-01", "center-07"]
    assert [case.section for case in dataset.cases] == ["testing", "testing", "training", "training"]
    assert [case.name for case in dataset.cases] == [patient.replace("/", "_") for patient in patients]
    assert (dataset.volumes, dataset.channels, dataset.classes) == (True, 1, ("lesion",))


def test_msseg1_takes_the_raw_flair_where_there_is_no_other(tmp_path):
    msseg1(tmp_path)
    patient = tmp_path / "Training" / "Center_07" / "Patient_01"
    (patient / "Preprocessed_Data" / "FLAIR_preprocessed.nii.gz").unlink()
    assert found("msseg1", tmp_path).cases[3].image == patient / "Raw_Data" / "FLAIR.nii.gz"


def test_msseg1_of_the_first_release_goes_by_the_patients_codes(tmp_path):
    raw = tmp_path / "Unprocessed training dataset" / "TrainingDataset_MSSEG"
    for code in ("01016SACH", "07001MOEL"):
        volume(*(raw / code / f"{name}.nii.gz" for name in ("3DFLAIR", "3DT1", "Consensus", "ManualSegmentation_1")))
    preprocessed = tmp_path / "Pre-processed training dataset" / "07001MOEL"
    volume(preprocessed / "FLAIR_preprocessed.nii.gz", preprocessed / "Mask_registered.nii.gz")
    dataset = found("msseg1", tmp_path)
    cases = {case.group: case for case in dataset.cases}
    assert {code: case.image.name for code, case in cases.items()} == {
        "01016SACH": "3DFLAIR.nii.gz",
        "07001MOEL": "FLAIR_preprocessed.nii.gz",
    }
    assert cases["07001MOEL"].label == raw / "07001MOEL" / "Consensus.nii.gz"
    assert {(case.name, case.source, case.section) for case in dataset.cases} == {
        ("01016SACH", "center-01", None),
        ("07001MOEL", "center-07", None),
    }


def test_msseg1_lists_patients_without_consensus_or_flair(tmp_path):
    msseg1(tmp_path)
    (tmp_path / "Testing" / "Center_01" / "Patient_01" / "Masks" / "Consensus.nii.gz").unlink()
    patient = tmp_path / "Testing" / "Center_03" / "Patient_02"
    (patient / "Raw_Data" / "FLAIR.nii.gz").unlink()
    (patient / "Preprocessed_Data" / "FLAIR_preprocessed.nii.gz").unlink()
    dataset = found("msseg1", tmp_path)
    assert tuple(map(str, dataset.skipped)) == (
        "Testing/Center_01/Patient_01/Preprocessed_Data/FLAIR_preprocessed.nii.gz: no consensus",
        "Testing/Center_03/Patient_02/Masks/Consensus.nii.gz: no FLAIR volume",
    )
    assert [case.section for case in dataset.cases] == [None, None]


def test_ljubljana_takes_the_coregistered_flair_and_the_consensus(tmp_path):
    ljubljana_ms(tmp_path)
    dataset = found("ljubljana-ms", tmp_path)
    assert files_of(dataset, tmp_path) == [
        (f"{folder}/{patient}_FLAIR.nii.gz", f"{folder}/{patient}_consensus_gt.nii.gz")
        for folder, patient in (
            ("patient01-05/patient01", "patient01"),
            ("patient01-05/patient02", "patient02"),
            ("patient06-10/patient10", "patient10"),
        )
    ]
    assert [(case.group, case.name, case.source) for case in dataset.cases][2] == (
        "patient10",
        "patient10",
        "ljubljana-ms",
    )
    assert tuple(map(str, dataset.skipped)) == ()


def test_ljubljana_from_the_repository_without_follow_up_and_atlas_space(tmp_path):
    cross = tmp_path / "cross_sectional"
    for kind in ("MNI", "coregistered", "raw"):
        volume(cross / kind / "patient07" / "FLAIR.nii.gz", cross / kind / "patient07" / "consensus_gt.nii.gz")
    volume(cross / "MNI" / "patient06" / "FLAIR.nii.gz", cross / "MNI" / "patient06" / "consensus_gt.nii.gz")
    volume(cross / "raw" / "patient08" / "FLAIR.nii.gz", cross / "raw" / "patient08" / "consensus_gt.nii.gz")
    longitudinal = tmp_path / "longitudinal" / "raw" / "patient09"
    volume(longitudinal / "FLAIR.nii.gz", longitudinal / "consensus_gt.nii.gz")
    dataset = found("ljubljana-ms", tmp_path)
    assert files_of(dataset, cross) == [
        ("coregistered/patient07/FLAIR.nii.gz", "coregistered/patient07/consensus_gt.nii.gz"),
        ("raw/patient08/FLAIR.nii.gz", "raw/patient08/consensus_gt.nii.gz"),
    ]


def test_ljubljana_lists_patients_without_partner(tmp_path):
    ljubljana_ms(tmp_path)
    patient = tmp_path / "patient01-05" / "patient02"
    (patient / "patient02_consensus_gt.nii.gz").unlink()
    dataset = found("ljubljana-ms", tmp_path)
    assert len(dataset.cases) == 2
    assert tuple(map(str, dataset.skipped)) == ("patient01-05/patient02/patient02_FLAIR.nii.gz: no consensus",)


def test_the_two_multiple_sclerosis_sets_can_be_trained_on_together(tmp_path):
    msseg1(tmp_path / "a")
    ljubljana_ms(tmp_path / "b")
    first, second = found("msseg1", tmp_path / "a"), found("ljubljana-ms", tmp_path / "b")
    assert (first.classes, first.labels, first.volumes) == (second.classes, second.labels, second.volumes)


def test_covid1920_leaves_out_the_validation_volumes_without_mask(tmp_path):
    covid1920(tmp_path)
    dataset = found("covid1920", tmp_path)
    assert files_of(dataset, tmp_path / "COVID-19-20_v2" / "Train") == [
        (f"volume-covid19-A-{number}_ct.nii.gz", f"volume-covid19-A-{number}_seg.nii.gz")
        for number in ("0003", "0011", "0698")
    ]
    assert dataset.cases[0].group == "volume-covid19-A-0003"
    assert {(case.source, case.section) for case in dataset.cases} == {("A", None)}
    assert tuple(map(str, dataset.skipped)) == ("COVID-19-20_v2/Validation/volume-covid19-A-0007_ct.nii.gz: no mask",)


def test_la2018_keeps_the_published_sections_and_names_cases_by_their_folder(tmp_path):
    la2018(tmp_path)
    dataset = found("la2018", tmp_path)
    assert [(case.name, case.group, case.section) for case in dataset.cases] == [
        ("CASE_C", "CASE_C", "testing"),
        ("CASE_A", "CASE_A", "training"),
        ("CASE_B", "CASE_B", "training"),
    ]
    assert {(case.image.name, case.label.name, case.source) for case in dataset.cases} == {
        ("lgemri.nrrd", "laendo.nrrd", "utah")
    }
    assert dataset.classes == ("left atrium",)


def test_la2018_without_masks_of_the_testing_set(tmp_path):
    la2018(tmp_path)
    testing = tmp_path / "2018_UTAH_MICCAI" / "Testing Set" / "CASE_C"
    (testing / "laendo.nrrd").unlink()
    dataset = found("la2018", tmp_path)
    assert [(case.name, case.section) for case in dataset.cases] == [("CASE_A", None), ("CASE_B", None)]
    assert tuple(map(str, dataset.skipped)) == ("2018_UTAH_MICCAI/Testing Set/CASE_C/lgemri.nrrd: no mask",)


def test_isbi2012_keeps_scans_of_a_number_together(tmp_path):
    isbi2012_la(tmp_path)
    (tmp_path / "post" / "p2" / "de_b_2.nrrd").unlink()
    dataset = found("isbi2012-la", tmp_path)
    assert [(*names, case.group) for names, case in zip(files_of(dataset, tmp_path), dataset.cases, strict=True)] == [
        (f"{time}/p{number}/de_{letter}_{number}.nrrd", f"{time}/p{number}/la_seg_{letter}_{number}.nrrd", f"p{number}")
        for time, letter, number in (
            ("pre", "a", 1),
            ("pre", "a", 2),
            ("pre", "a", 10),
            ("post", "b", 1),
            ("post", "b", 10),
        )
    ]
    assert {case.source for case in dataset.cases} == {None}
    assert tuple(map(str, dataset.skipped)) == ("post/p2/la_seg_b_2.nrrd: no image",)


def task(folder):
    return folder / "Task04_Hippocampus" / "dataset.json"


def change(folder, **changes):
    content = json.loads(task(folder).read_text(encoding="utf-8")) | changes
    task(folder).write_text(json.dumps(content))


def test_msd_takes_cases_classes_and_values_from_its_list(tmp_path):
    msd(tmp_path)
    # A file that the list does not name.
    volume(tmp_path / "Task04_Hippocampus" / "imagesTr" / "hippocampus_003.nii.gz")
    dataset = found("msd", tmp_path)
    assert files_of(dataset, task(tmp_path).parent) == [
        (f"imagesTr/{name}.nii.gz", f"labelsTr/{name}.nii.gz") for name in ("hippocampus_001", "hippocampus_004")
    ]
    assert [case.group for case in dataset.cases] == ["hippocampus_001", "hippocampus_004"]
    assert (dataset.classes, dataset.labels) == (("Anterior", "Posterior"), {0: 0, 1: 1, 2: 2})
    assert tuple(map(str, dataset.skipped)) == ("./imagesTs/hippocampus_002.nii.gz: a test image without a mask",)


def test_msd_numbers_the_classes_in_the_order_of_their_values(tmp_path):
    msd(tmp_path)
    change(tmp_path, labels={"10": "tumour", "0": "background", "2": "liver"})
    dataset = found("msd", tmp_path)
    assert (dataset.classes, dataset.labels) == (("liver", "tumour"), {0: 0, 2: 1, 10: 2})


def test_msd_lists_what_is_missing(tmp_path):
    msd(tmp_path)
    (task(tmp_path).parent / "labelsTr" / "hippocampus_004.nii.gz").unlink()
    first = {"image": "./imagesTr/hippocampus_001.nii.gz", "label": "./labelsTr/hippocampus_001.nii.gz"}
    second = {"image": "./imagesTr/hippocampus_004.nii.gz", "label": "./labelsTr/hippocampus_004.nii.gz"}
    absent = {"image": "./imagesTr/hippocampus_005.nii.gz", "label": "./labelsTr/hippocampus_005.nii.gz"}
    change(tmp_path, training=[first, second, absent, "hippocampus_001"], test=[])
    dataset = found("msd", tmp_path)
    assert len(dataset.cases) == 1
    assert tuple(map(str, dataset.skipped)) == (
        "./imagesTr/hippocampus_004.nii.gz: no mask, ./labelsTr/hippocampus_004.nii.gz is missing",
        "./imagesTr/hippocampus_005.nii.gz: no such file",
        "Task04_Hippocampus/dataset.json: training[3] names no image and label",
    )


@pytest.mark.parametrize("name", ["../secret.nii.gz", "imagesTr/../../../x.nii.gz", "/etc/x.nii.gz", "C:\\x.nii.gz"])
def test_msd_refuses_names_that_leave_the_folder(name, tmp_path):
    msd(tmp_path)
    volume(tmp_path / "secret.nii.gz")
    change(tmp_path, training=[{"image": name, "label": "./labelsTr/hippocampus_001.nii.gz"}])
    with pytest.raises(DataError, match=r"dataset\.json: found the file name .*expected one that stays inside"):
        found("msd", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modality": {}}, "found images of 0 modalities; expected 1 to 16"),
        ({"labels": {"background": 0, "Anterior": 1}}, r"key 'labels' is .*; expected value: name\."),
        ({"labels": {"0": "background"}}, r"expected a value besides 0"),
        ({"training": "imagesTr"}, r"found another content; expected the Decathlon's dataset\.json"),
    ],
)
def test_msd_of_another_form_is_an_error_that_names_the_file(changes, message, tmp_path):
    msd(tmp_path)
    change(tmp_path, **changes)
    with pytest.raises(DataError, match=rf"dataset\.json: .*{message}"):
        found("msd", tmp_path)


def test_msd_wants_the_folder_of_one_task(tmp_path):
    msd(tmp_path / "one")
    msd(tmp_path / "two")
    with pytest.raises(DataError, match=r"expected the folder of one task, with one dataset\.json"):
        found("msd", tmp_path)
