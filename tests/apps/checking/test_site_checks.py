"""Every kind of problem in small files: what is found, in which file, how bad it is."""

import os

import numpy as np
import pytest
import torch
from checked_sites import (
    CLASSIFIED,
    PICTURES,
    VOLUMES,
    classified,
    only,
    picture,
    picture_site,
    pixels,
    square,
    summary,
    volume,
    write_site,
)
from PIL import Image

from fedannot.apps.checking.checking import check_folder, check_site
from fedannot.custom.networks.building import build_network
from fedannot.custom.training.batches import SampleBatches


def check(folder):
    return check_site(folder, "site-1")


def volume_site(folder, volumes, description=VOLUMES):
    items = [volume(folder, f"v{index}", *arrays) for index, arrays in enumerate(volumes)]
    write_site(folder, description, {"training": items})
    return items


def cube(index, shape=(12, 12, 12), kind=np.uint8):
    return pixels(index, shape).astype(kind)


def test_a_site_without_fault_has_no_finding(tmp_path):
    picture_site(tmp_path)
    report = check(tmp_path)
    assert summary(report) == []
    assert report.can_train
    assert report.lists == {"training": (3, 3)}


def spoil_image(folder):
    (folder / "images" / "case_1.png").write_bytes(b"damaged")


def remove_image(folder):
    (folder / "images" / "case_1.png").unlink()


def spoil_mask(folder):
    (folder / "labels" / "case_1.png").write_bytes(b"damaged")


def shrink_mask(folder):
    Image.fromarray(square((16, 12))).save(folder / "labels" / "case_1.png")


def renumber_mask(folder):
    Image.fromarray(square(value=7)).save(folder / "labels" / "case_1.png")


@pytest.mark.parametrize(
    ("spoil", "kind", "file", "found", "remedy"),
    [
        (spoil_image, "unreadable-image", "images/case_1.png", "cannot be read as an image", "export the image again"),
        (remove_image, "missing-file", "images/case_1.png", "found no such file", "Put the file there"),
        (spoil_mask, "unreadable-mask", "labels/case_1.png", "cannot be read as an image", "Export the mask again"),
        (shrink_mask, "geometry", "labels/case_1.png", "found a mask of 16 × 12 pixels", "Export the mask again"),
        (renumber_mask, "label-values", "labels/case_1.png", "label values 0, 7, expected only 0, 255", "7: CLASS"),
    ],
)
def test_an_unusable_picture_is_an_error_that_names_the_file(tmp_path, spoil, kind, file, found, remedy):
    picture_site(tmp_path)
    spoil(tmp_path)
    report = check(tmp_path)
    assert summary(report) == [("error", kind, (file,))]
    assert found in report.findings[0].found
    assert remedy in report.findings[0].remedy
    assert str(tmp_path) not in report.findings[0].found
    assert report.lists == {"training": (3, 2)}
    assert report.can_train


def test_image_and_mask_of_one_case_may_both_be_wrong(tmp_path):
    picture_site(tmp_path)
    spoil_image(tmp_path)
    renumber_mask(tmp_path)
    assert summary(check(tmp_path)) == [
        ("error", "unreadable-image", ("images/case_1.png",)),
        ("error", "label-values", ("labels/case_1.png",)),
    ]


def test_an_item_that_leads_out_of_the_folder_is_refused(tmp_path):
    items = picture_site(tmp_path / "site")
    items[1] = {"image": "../elsewhere.png", "label": items[1]["label"]}
    write_site(tmp_path / "site", PICTURES, {"training": items})
    report = check(tmp_path / "site")
    assert summary(report) == [("error", "refused-item", ("../elsewhere.png",))]
    assert "leads out of" in report.findings[0].found
    assert report.lists == {"training": (3, 2)}


def test_an_unusable_clean_label_is_a_warning_and_the_case_stays(tmp_path):
    items = picture_site(tmp_path)
    items[1]["clean_label"] = "labels/none.png"
    write_site(tmp_path, PICTURES, {"training": items})
    report = check(tmp_path)
    assert summary(report) == [("warning", "clean-missing-file", ("labels/none.png",))]
    assert report.lists == {"training": (3, 3)}


def test_an_unusable_mask_before_a_review_is_a_warning_and_one_that_was_kept_is_read_once(tmp_path):
    items = picture_site(tmp_path)
    items[0]["given_label"] = items[0]["label"]
    items[1]["given_label"] = "labels/none.png"
    write_site(tmp_path, PICTURES, {"training": items})
    report = check(tmp_path)
    assert summary(report) == [("warning", "given-missing-file", ("labels/none.png",))]
    assert report.findings[0].remedy.endswith("Until then this case does not say how the site annotates.")
    assert report.lists == {"training": (3, 3)}


def test_a_class_in_place_of_a_mask_is_an_error(tmp_path):
    items = picture_site(tmp_path)
    items[2]["label"] = 1
    write_site(tmp_path, PICTURES, {"training": items})
    assert summary(check(tmp_path)) == [("error", "unreadable-mask", ("images/case_2.png",))]


def test_a_mask_beside_its_volume_is_an_error(tmp_path):
    volume_site(tmp_path, [(cube(index), square((12, 12, 12), 1 + index % 2)) for index in range(3)])
    shifted = np.eye(4)
    shifted[0, 3] = 5
    volume(tmp_path / "other", "v1", cube(1), square((12, 12, 12), 2), shifted)
    (tmp_path / "other" / "labels" / "v1.nii.gz").rename(tmp_path / "labels" / "v1.nii.gz")
    finding = only(check(tmp_path), "geometry")
    assert (finding.severity, finding.files) == ("error", ("labels/v1.nii.gz",))
    assert "5.0 mm off its image" in finding.found


@pytest.mark.parametrize("label", [3, -1, "benign"])
def test_a_class_out_of_range_is_an_error(tmp_path, label):
    items = [classified(tmp_path, f"case_{index}", pixels(index), index) for index in range(3)]
    items.append(classified(tmp_path, "wrong", pixels(3), label))
    write_site(tmp_path, CLASSIFIED, {"training": items})
    report = check(tmp_path)
    assert summary(report) == [("error", "class-index", ("images/wrong.png",))]
    assert "expected a whole number from 0 to 2" in report.findings[0].found


def test_a_class_of_one_of_several_annotators_out_of_range_is_an_error(tmp_path):
    items = [classified(tmp_path, f"case_{index}", pixels(index), index) for index in range(3)]
    wrong = classified(tmp_path, "wrong", pixels(3), 0)
    del wrong["label"]
    wrong["labels"] = [{"file": label, "annotator": name} for label, name in ((-1, "Ann"), (1, "Bo"))]
    write_site(tmp_path, CLASSIFIED, {"training": [*items, wrong]})
    assert summary(check(tmp_path)) == [("error", "class-index", ("images/wrong.png",))]


def test_a_description_with_a_wrong_key_stops_the_site(tmp_path):
    picture_site(tmp_path, description=PICTURES + "lables: 1\n")
    report = check(tmp_path)
    assert summary(report) == [("error", "site-unusable", ())]
    assert "did you mean 'labels'" in report.findings[0].found
    assert not report.can_train


def test_no_usable_training_case_stops_the_site(tmp_path):
    picture_site(tmp_path, count=1, first=1)
    spoil_image(tmp_path)
    report = check(tmp_path)
    assert summary(report)[0] == ("error", "no-usable-case", ())
    assert "0 usable cases of 1 in the list 'training'" in report.findings[0].found
    assert not report.can_train


def test_a_validation_list_without_usable_case_is_an_error_but_the_site_can_train(tmp_path):
    items = picture_site(tmp_path)
    spoil_image(tmp_path)
    write_site(tmp_path, PICTURES, {"training": [items[0], items[2]], "validation": [items[1]]})
    report = check(tmp_path)
    assert "'validation'" in only(report, "no-usable-case").found
    assert report.can_train


def test_nothing_annotated_in_any_case_stops_a_segmentation(tmp_path):
    items = [picture(tmp_path, f"case_{index}", pixels(index), np.zeros((16, 16), np.uint8)) for index in range(3)]
    write_site(tmp_path, PICTURES, {"training": items})
    report = check(tmp_path)
    assert summary(report) == [("error", "nothing-annotated", ())]
    assert not report.can_train


def test_some_empty_annotations_are_a_note_with_their_share(tmp_path):
    items = picture_site(tmp_path, count=4)
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(tmp_path / "labels" / "case_2.png")
    report = check(tmp_path)
    assert summary(report) == [("note", "empty-annotation", (items[2]["label"],))]
    assert "1 of 4" in report.findings[0].found
    assert "25%" in report.findings[0].found


def test_a_class_that_never_occurs_is_a_note(tmp_path):
    volume_site(tmp_path, [(cube(index), square((12, 12, 12), 1)) for index in range(2)])
    report = check(tmp_path)
    assert summary(report) == [("note", "absent-class", ())]
    assert "posterior" in report.findings[0].found
    assert "anterior" not in report.findings[0].found


def test_a_site_with_one_class_cannot_tell_classes_apart(tmp_path):
    items = [classified(tmp_path, f"case_{index}", pixels(index), 1) for index in range(2)]
    write_site(tmp_path, CLASSIFIED, {"training": items})
    assert summary(check(tmp_path)) == [("warning", "single-class", ()), ("note", "absent-class", ())]


def test_an_annotation_that_the_crop_cuts_is_a_warning_with_the_share(tmp_path):
    # The crop keeps the voxels 3 to 8 of 12: of the rows 1 to 4 of the annotation two, of those in the middle all.
    cut = np.zeros((12, 12, 12), np.uint8)
    cut[1:5, 5:7, 5:7] = 1
    whole = np.zeros((12, 12, 12), np.uint8)
    whole[5:7, 5:7, 5:7] = 2
    volume_site(tmp_path, [(cube(0), cut), (cube(1), whole)], VOLUMES + "size: [6, 6, 6]\n")
    report = check(tmp_path)
    assert summary(report) == [("warning", "cut-annotation", ("labels/v0.nii.gz",))]
    assert "50%" in report.findings[0].found


def test_annotations_cut_off_everywhere_stop_a_segmentation(tmp_path):
    corner = np.zeros((12, 12, 12), np.uint8)
    corner[:2, :2, :2] = 1
    volume_site(tmp_path, [(cube(0), corner)], VOLUMES + "size: [6, 6, 6]\n")
    report = check(tmp_path)
    assert only(report, "nothing-annotated").blocks_training
    assert not report.can_train


def test_a_constant_image_is_a_warning(tmp_path):
    picture_site(tmp_path)
    Image.fromarray(np.full((16, 16), 9, np.uint8)).save(tmp_path / "images" / "case_0.png")
    report = check(tmp_path)
    assert summary(report) == [("warning", "constant-image", ("images/case_0.png",))]
    assert "the intensity 9 everywhere" in report.findings[0].found


def test_mixed_voxel_types_are_a_warning_that_names_the_fewer(tmp_path):
    volume_site(
        tmp_path,
        [(cube(index, kind=np.float32 if index else np.uint8), square((12,) * 3, 1 + index % 2)) for index in range(3)],
    )
    report = check(tmp_path)
    assert summary(report) == [("warning", "mixed-voxel-types", ("images/v0.nii.gz",))]
    assert "2 of float32 and 1 of uint8" in report.findings[0].found
    assert "normalises every image by itself" in report.findings[0].remedy


def test_mixed_voxel_types_under_a_window_are_reported_otherwise(tmp_path):
    volume_site(
        tmp_path,
        [(cube(index, kind=np.float32 if index else np.uint8), square((12,) * 3, 1 + index % 2)) for index in range(3)],
        VOLUMES + "intensity: window\nwindow: [-100, 400]\n",
    )
    assert "Hounsfield" in only(check(tmp_path), "mixed-voxel-types").remedy


def test_grey_and_coloured_pictures_are_a_note(tmp_path):
    picture_site(tmp_path)
    Image.fromarray(pixels(9)).convert("RGB").save(tmp_path / "images" / "case_0.png")
    assert summary(check(tmp_path)) == [("note", "mixed-voxel-types", ("images/case_0.png",))]


def test_a_volume_outside_the_window_is_a_warning(tmp_path):
    volumes = [(cube(0, kind=np.int16) - 2000, square((12,) * 3, 1)), (cube(1, kind=np.int16), square((12,) * 3, 2))]
    volume_site(tmp_path, volumes, VOLUMES + "intensity: window\nwindow: [-100, 400]\n")
    assert summary(check(tmp_path)) == [("warning", "outside-window", ("images/v0.nii.gz",))]


def outlier_site(folder, count, image):
    items = [picture(folder, f"case_{index}", pixels(index), square()) for index in range(count - 1)]
    items.append(picture(folder, "odd", image, square()))
    write_site(folder, PICTURES, {"training": items})
    return folder


@pytest.mark.parametrize("image", [pixels(50) // 8, pixels(50) * 2, np.clip(pixels(50) * 9.0 - 800, 0, 255)])
def test_a_darker_brighter_or_harder_image_is_an_outlier(tmp_path, image):
    report = check(outlier_site(tmp_path, 9, image.astype(np.uint8)))
    assert summary(report) == [("warning", "intensity-outlier", ("images/odd.png",))]
    assert "among 9 images" in report.findings[0].found


def test_outliers_are_not_looked_for_among_few_images(tmp_path):
    assert summary(check(outlier_site(tmp_path, 7, pixels(50) // 8))) == []


def test_outliers_are_looked_for_among_images_of_the_same_type(tmp_path):
    # Eight of each type, a thousand times as bright as the others: neither group is odd.
    volumes = [(cube(index), square((12,) * 3, 1 + index % 2)) for index in range(8)]
    volumes += [(cube(index, kind=np.float32) * 1000, square((12,) * 3, 1)) for index in range(8, 16)]
    volume_site(tmp_path, volumes)
    assert {kind for _, kind, _ in summary(check(tmp_path))} == {"mixed-voxel-types"}


def sized_site(folder, sizes):
    items = [picture(folder, f"case_{index}", pixels(index, size), square(size)) for index, size in enumerate(sizes)]
    write_site(folder, PICTURES.replace("[16, 32]", "[32, 32]"), {"training": items})
    return folder


def test_a_small_image_among_others_is_named(tmp_path):
    # 16 pixels are enlarged twice, which is allowed.
    report = check(sized_site(tmp_path, [(16, 16), (32, 32), (16, 12)]))
    assert summary(report) == [("warning", "small-images", ("images/case_2.png",))]
    assert "16 × 12 pixels, loaded at 32 × 32: enlarged 2.7 times" in report.findings[0].found


def test_a_site_of_small_images_is_one_finding(tmp_path):
    report = check(sized_site(tmp_path, [(8, 8), (32, 32), (10, 8)]))
    assert summary(report) == [("warning", "small-images", ("images/case_0.png", "images/case_2.png"))]
    assert report.findings[0].scope == "site"
    assert "2 of 3 images" in report.findings[0].found
    assert "enlarged 4.0 to 4.0 times" in report.findings[0].found


def spaced_site(folder, affines, description=VOLUMES):
    volumes = [(cube(index), square((12,) * 3, 1 + index % 2), affine) for index, affine in enumerate(affines)]
    volume_site(folder, volumes, description)
    return folder


def test_spacing_that_varies_is_a_note_in_the_order_of_the_oriented_axes(tmp_path):
    # The second volume lies with its axes in another order: its voxels are as long as the first's, but for one axis.
    other = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 1.0]])
    report = check(spaced_site(tmp_path, [np.diag([1.0, 1, 3, 1]), other]))
    assert [kind for _, kind, _ in summary(report)] == ["varying-spacing", "varying-orientation"]
    assert "1 × 1 × 2–3 mm" in report.findings[0].found
    assert "set 'spacing'" in report.findings[0].remedy
    assert "1 of RAS and 1 of ASR" in report.findings[1].found


def test_axes_that_grow_the_other_way_have_their_spacing_too(tmp_path):
    affines = [np.diag([-1.0, -1, 2, 1]), np.diag([-1.0, -1, 3, 1])]
    report = check(spaced_site(tmp_path, affines, VOLUMES + "orientation: RAI\n"))
    assert summary(report) == [("note", "varying-spacing", ())]
    assert "1 × 1 × 2–3 mm" in report.findings[0].found


def test_equal_spacing_is_not_reported(tmp_path):
    assert summary(check(spaced_site(tmp_path, [np.eye(4), np.diag([1.05, 1, 1, 1])]))) == []


@pytest.mark.parametrize(("count", "scope"), [(1, "case"), (3, "site")])
def test_volumes_that_are_resampled_hugely_are_a_warning(tmp_path, count, scope):
    affines = [np.diag([1.0, 1, 5 if index < count else 1, 1]) for index in range(3)]
    finding = only(check(spaced_site(tmp_path, affines, VOLUMES + "spacing: [1, 1, 1]\n")), "resampling")
    assert (finding.severity, finding.scope) == ("warning", scope)
    assert finding.files == tuple(f"images/v{index}.nii.gz" for index in range(count))
    assert "5.0 times" in finding.found


def test_the_same_image_twice_is_a_warning_that_names_both(tmp_path):
    items = picture_site(tmp_path)
    items.append(picture(tmp_path, "copy", pixels(1), square()))
    write_site(tmp_path, PICTURES, {"training": items})
    assert summary(check(tmp_path)) == [("warning", "duplicate", ("images/case_1.png", "images/copy.png"))]


def test_the_same_image_with_two_masks_is_reported_as_a_conflict(tmp_path):
    items = picture_site(tmp_path)
    items.append(picture(tmp_path, "copy", pixels(1), square()[::-1]))
    write_site(tmp_path, PICTURES, {"training": items})
    report = check(tmp_path)
    assert summary(report) == [("warning", "conflicting-labels", ("images/case_1.png", "images/copy.png"))]
    assert "images/copy.png: labels/copy.png" in report.findings[0].found
    assert "import them again with --annotators" in report.findings[0].remedy


def test_constant_images_are_not_duplicates_of_each_other(tmp_path):
    items = [picture(tmp_path, f"case_{index}", np.zeros((16, 16), np.uint8), square()) for index in range(2)]
    write_site(tmp_path, PICTURES, {"training": items})
    assert {kind for _, kind, _ in summary(check(tmp_path))} == {"constant-image"}


def test_the_same_image_in_training_and_testing_is_leakage(tmp_path):
    items = picture_site(tmp_path)
    copy = picture(tmp_path, "copy", pixels(1), square())
    write_site(tmp_path, PICTURES, {"training": items, "testing": [copy]})
    report = check(tmp_path)
    assert summary(report) == [("warning", "leakage", ("images/case_1.png", "images/copy.png"))]
    assert "training (images/case_1.png), testing (images/copy.png)" in report.findings[0].found


def test_a_reviewed_annotation_of_a_training_image_is_no_fault(tmp_path):
    items = picture_site(tmp_path)
    reviewed = picture(tmp_path, "reviewed_1", pixels(1), np.roll(square(), 2, axis=0))
    grouped = [item | {"group": "patient"} for item in items]
    reference = [{"image": items[1]["image"], "label": reviewed["label"], "group": "patient"}]
    write_site(tmp_path, PICTURES, {"training": grouped, "reference": reference})
    assert summary(check(tmp_path)) == []


def test_a_patient_in_training_and_validation_is_leakage_unless_the_source_differs(tmp_path):
    items = picture_site(tmp_path, count=4)
    items[0] |= {"group": "p1", "source": "a"}
    items[1] |= {"group": "p1", "source": "b"}
    items[2] |= {"group": "p2", "source": "a"}
    items[3] |= {"group": "p2", "source": "a"}
    write_site(tmp_path, PICTURES, {"training": items[::2], "validation": items[1::2]})
    report = check(tmp_path)
    assert summary(report) == [("warning", "group-leakage", ("images/case_2.png", "images/case_3.png"))]
    assert "'p2'" in report.findings[0].found


def test_files_with_further_names_on_the_disk_are_named_and_hold_nothing_up(tmp_path):
    picture_site(tmp_path / "site")
    os.link(tmp_path / "site" / "images" / "case_1.png", tmp_path / "elsewhere.png")
    os.link(tmp_path / "site" / "labels" / "case_2.png", tmp_path / "elsewhere too.png")
    report = check(tmp_path / "site")
    (finding,) = report.findings
    assert (finding.severity, finding.kind, finding.scope) == ("warning", "hard-links", "site")
    assert finding.files == ("images/case_1.png", "labels/case_2.png")
    assert "2 files with further names on the disk (hard links)" in finding.found
    assert report.can_train


def test_a_datalist_elsewhere_is_named_and_one_that_leads_out_by_dots_is_refused(tmp_path):
    picture_site(tmp_path / "others")
    site = tmp_path / "site"
    site.mkdir()
    for datalist in ("../others/datalist.json", "sub/../../others/datalist.json"):
        (site / "data.yaml").write_text(f"{PICTURES}\ndatalist: {datalist}\n")
        (finding,) = check(site).findings
        assert finding.blocks_training
        assert f"key 'datalist' is {datalist!r}, which leads out of the folder of data.yaml" in finding.found
    (site / "data.yaml").write_text(f"{PICTURES}\ndatalist: {tmp_path / 'others' / 'datalist.json'}\n")
    (finding,) = check(site).findings
    assert (finding.severity, finding.kind) == ("note", "datalist-elsewhere")
    assert str(tmp_path / "others" / "datalist.json") in finding.found
    (tmp_path / "others" / "data.yaml").write_text(f"{PICTURES}\ndatalist: ./datalist.json\n")
    assert not check(tmp_path / "others").findings


@pytest.mark.parametrize(
    ("size", "cases", "kind"),
    [
        ((8, 40), 3, "too-small-images"),
        ((24, 24), 1, "too-few-small-images"),
        ((24, 24), 2, None),
        ((24, 32), 1, None),
    ],
)
def test_sizes_that_no_batch_can_be_trained_on_are_said_before(tmp_path, size, cases, kind):
    """What the check says agrees with what the network does with the smallest batch of the site."""
    items = picture_site(tmp_path)
    write_site(tmp_path, PICTURES.replace("[16, 32]", str([*size])), {"training": items[:cases]})
    report = check_folder(tmp_path)
    kinds = [finding.kind for finding in report.sites[0].findings if finding.kind.startswith("too-")]
    assert kinds == ([] if kind is None else [kind])
    assert report.can_train == (kind is None)
    batches = SampleBatches(
        torch.zeros(cases, 1, *size), torch.zeros(cases, *size, dtype=torch.long), 2, torch.device("cpu")
    )
    network = build_network(features=(2, 2, 2, 2, 2, 2))
    images = [batch.images for batch in batches.epoch(torch.Generator().manual_seed(0))]
    if kind is None:
        assert all(network(part).isfinite().all() for part in images)
    else:
        with pytest.raises((ValueError, RuntimeError)):
            [network(part) for part in images]
