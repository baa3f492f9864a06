"""Importers of pictures with masks: ISIC 2017 and three sets of breast ultrasound."""

import pytest
from miniatures import busi, busis, isic2017, mask, picture, udiat

from fedannot.apps.importing.layouts import DATASETS


def found(name, folder):
    return DATASETS[name].read(folder, seed=0)


def relative(folder, file):
    return file.relative_to(folder).as_posix()


def test_isic2017_pairs_images_with_the_masks_of_part_1(tmp_path):
    isic2017(tmp_path)
    dataset = found("isic2017", tmp_path)
    assert [
        (relative(tmp_path, case.image), relative(tmp_path, case.label), case.section) for case in dataset.cases
    ] == [
        (
            f"ISIC-2017_{part}_Data/{name}.jpg",
            f"ISIC-2017_{part}_Part1_GroundTruth/{name}_segmentation.png",
            section,
        )
        for part, name, section in (
            ("Test_v2", "ISIC_0012086", "testing"),
            ("Training", "ISIC_0000000", "training"),
            ("Training", "ISIC_0000002", "training"),
            ("Validation", "ISIC_0001769", "validation"),
        )
    ]
    assert (dataset.channels, dataset.classes, dataset.volumes, dataset.skipped) == (3, ("lesion",), False, ())


def test_isic2017_lists_images_without_mask_and_masks_without_image(tmp_path):
    isic2017(tmp_path)
    picture(tmp_path / "ISIC-2017_Training_Data" / "ISIC_0000004.jpg")
    # Of the same number, but in another section.
    mask(tmp_path / "ISIC-2017_Validation_Part1_GroundTruth" / "ISIC_0000004_segmentation.png")
    dataset = found("isic2017", tmp_path)
    assert len(dataset.cases) == 4
    assert tuple(map(str, dataset.skipped)) == (
        "ISIC-2017_Training_Data/ISIC_0000004.jpg: no mask",
        "ISIC-2017_Validation_Part1_GroundTruth/ISIC_0000004_segmentation.png: no image",
    )


def test_isic2017_with_the_training_part_alone_is_free_to_be_split(tmp_path):
    isic2017(tmp_path / "whole")
    for part in ("Data", "Part1_GroundTruth"):
        name = f"ISIC-2017_Training_{part}"
        (tmp_path / "part").mkdir(exist_ok=True)
        (tmp_path / "whole" / name).rename(tmp_path / "part" / name)
    assert [case.section for case in found("isic2017", tmp_path / "part").cases] == [None, None]


def test_busi_has_one_mask_file_for_each_lesion(tmp_path):
    busi(tmp_path)
    dataset = found("busi", tmp_path)
    labels = [case.label if isinstance(case.label, tuple) else (case.label,) for case in dataset.cases]
    assert [
        (case.image.name, *(file.name for file in files)) for case, files in zip(dataset.cases, labels, strict=True)
    ] == [
        ("benign (1).png", "benign (1)_mask.png"),
        ("benign (2).png", "benign (2)_mask.png"),
        ("benign (100).png", *(f"benign (100)_mask{number}.png" for number in ("", "_1", "_2"))),
        ("malignant (1).png", "malignant (1)_mask.png", "malignant (1)_mask_1.png"),
    ]
    assert not isinstance(dataset.cases[0].label, tuple)
    assert {(case.source, case.section, case.group) for case in dataset.cases} == {("busi", None, None)}
    assert (dataset.channels, dataset.classes) == (1, ("lesion",))


def test_busi_leaves_out_normal_images_and_files_without_partner(tmp_path):
    busi(tmp_path)
    benign = tmp_path / "Dataset_BUSI_with_GT" / "benign"
    (benign / "benign (2)_mask.png").unlink()
    mask(benign / "benign (3)_mask.png")
    dataset = found("busi", tmp_path)
    assert [case.image.name for case in dataset.cases] == ["benign (1).png", "benign (100).png", "malignant (1).png"]
    assert tuple(map(str, dataset.skipped)) == (
        "Dataset_BUSI_with_GT/benign/benign (2).png: no mask",
        "Dataset_BUSI_with_GT/benign/benign (3)_mask.png: no image",
        "Dataset_BUSI_with_GT/normal/normal (1).png: shows no lesion",
    )


@pytest.mark.parametrize(
    ("name", "make", "pairs"),
    [
        ("busis", busis, [(f"case{number}.png", f"case{number}_GT.bmp") for number in (1, 2, 10)]),
        ("udiat", udiat, [(f"{number:06d}.png", f"{number:06d}.png") for number in (1, 2, 10)]),
    ],
)
def test_busis_and_udiat_pair_by_name(name, make, pairs, tmp_path):
    make(tmp_path)
    dataset = found(name, tmp_path)
    assert [(case.image.name, case.label.name) for case in dataset.cases] == pairs
    assert {case.image.parent.name.lower() for case in dataset.cases} == {"original"}
    assert {case.label.parent.name for case in dataset.cases} == {"GT"}
    assert {case.source for case in dataset.cases} == {name}
    assert dataset.cases[2].name == f"{name}_{pairs[2][0][:-4]}"
    assert tuple(map(str, dataset.skipped)) == ()


def test_busis_pairs_numbers_with_and_without_leading_zeros(tmp_path):
    picture(tmp_path / "Original" / "case010.bmp")
    mask(tmp_path / "GT" / "case10_GT.bmp")
    picture(tmp_path / "Original" / "case100.bmp")
    dataset = found("busis", tmp_path)
    assert [(case.image.name, case.label.name) for case in dataset.cases] == [("case010.bmp", "case10_GT.bmp")]
    assert tuple(map(str, dataset.skipped)) == ("Original/case100.bmp: no mask",)


def test_a_second_image_or_mask_of_a_name_is_left_out(tmp_path):
    udiat(tmp_path)
    picture(tmp_path / "BUS" / "original" / "000002.jpg")
    mask(tmp_path / "BUS" / "GT" / "000002.tif")
    dataset = found("udiat", tmp_path)
    assert [(case.image.name, case.label.name) for case in dataset.cases][1] == ("000002.jpg", "000002.png")
    assert tuple(map(str, dataset.skipped)) == (
        "BUS/original/000002.png: there is BUS/original/000002.jpg already",
        "BUS/GT/000002.tif: there is BUS/GT/000002.png already",
    )


def test_the_three_breast_ultrasound_sets_can_be_trained_on_together(tmp_path):
    kinds = set()
    for name, make in (("busi", busi), ("busis", busis), ("udiat", udiat)):
        make(tmp_path / name)
        dataset = found(name, tmp_path / name)
        kinds.add((dataset.task, dataset.volumes, dataset.classes, str(dataset.labels), dataset.channels))
    assert kinds == {("segmentation", False, ("lesion",), "{0: 0, 1: 1, 255: 1}", 1)}
