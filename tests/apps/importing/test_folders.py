import json
import shutil

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.folders import read_folders
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError


@pytest.fixture
def folders(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "masks"
    images.mkdir()
    labels.mkdir()
    for index in range(10):
        generator = np.random.default_rng(index)
        pixels = generator.integers(0, 255, (12, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"case_{index}.jpg")
        mask = np.zeros((12, 9), np.uint8)
        mask[2 : 4 + index % 3, 3:7] = 255
        Image.fromarray(mask).save(labels / f"case_{index}.png")
    return images, labels


def names(folder, section):
    return [
        item["image"] for item in json.loads((folder / "datalist.json").read_text(encoding="utf-8")).get(section, [])
    ]


def import_folders(folders, out, sites, *, keys=None, include=(), test_share=None, validation_share=0.0, seed=0):
    datasets = find_datasets(Named(images=folders[0], labels=folders[1], include=include, seed=seed))
    return write_imported_federation(
        datasets,
        out,
        SiteChoice(sites),
        ImportOptions(keys=keys),
        test_share=test_share,
        validation_share=validation_share,
        seed=seed,
    )


def test_every_pair_comes_once_and_sites_are_of_equal_size(folders, tmp_path):
    out = tmp_path / "federation"
    report = import_folders(folders, out, 3, keys={"size": (6, 5), "channels": 3}, seed=1)
    assert report.labels == {0: 0, 255: 1}
    assert report.skipped == report.excluded == ()
    parts = [names(out / site, "training") for site in read_federation(out).sites] + [names(out / "test", "testing")]
    assert sorted(len(part) for part in parts[:3]) == [2, 3, 3]
    assert len(parts[3]) == 2
    assert sorted(name for part in parts for name in part) == [f"images/case_{index}.jpg" for index in range(10)]
    data = load_site_data(out / "site-1", tmp_path / "cache", site="site-1")
    assert data.images.shape == (3, 3, 6, 5)


def test_files_are_copied_as_they_are_and_the_seed_decides(folders, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        import_folders(folders, tmp_path / name, 2, seed=seed)
    copied = tmp_path / "a" / "site-1" / names(tmp_path / "a" / "site-1", "training")[0]
    assert copied.read_bytes() == (folders[0] / copied.name).read_bytes()
    assert not copied.is_symlink()
    first, again, other = (names(tmp_path / name / "site-1", "training") for name in "abc")
    assert first == again != other


@pytest.mark.parametrize("parted", [True, None])
def test_that_patients_were_parted_is_written(folders, tmp_path, parted):
    datasets = find_datasets(Named(images=folders[0], labels=folders[1], seed=0))
    write_imported_federation(
        datasets, tmp_path / "out", SiteChoice(2, parts_patients=bool(parted)), ImportOptions(), test_share=0.0
    )
    assert read_federation(tmp_path / "out").patients_parted is parted
    text = (tmp_path / "out" / "federation.yaml").read_text(encoding="utf-8")
    assert ("patients_parted" in text) is bool(parted)


def test_validation_comes_from_each_site(folders, tmp_path):
    import_folders(folders, tmp_path / "out", 2, test_share=0, validation_share=0.4)
    for site in ("site-1", "site-2"):
        assert len(names(tmp_path / "out" / site, "training")) == 3
        assert len(names(tmp_path / "out" / site, "validation")) == 2
    assert not (tmp_path / "out" / "test").exists()


def test_unusable_and_unpaired_files_are_named(folders, tmp_path):
    images, labels = folders
    (images / "case_0.jpg").write_bytes(b"damaged")
    Image.fromarray(np.zeros((9, 12), np.uint8)).save(labels / "case_1.png")
    (images / "case_2.jpg").unlink()
    (labels / "case_3.png").unlink()
    report = import_folders(folders, tmp_path / "out", 2, test_share=0)
    assert tuple(map(str, report.skipped)) == ("images/case_3.jpg: no mask", "masks/case_2.png: no image")
    assert len(report.excluded) == 2
    assert "case_0.jpg: cannot be read" in str(report.excluded[0])
    assert "9 × 12" in str(report.excluded[1])
    assert "12 × 9" in str(report.excluded[1])
    assert len(names(tmp_path / "out" / "site-1", "training")) == 3


def test_masks_of_images_that_were_not_asked_for_are_not_missed(folders):
    dataset = read_folders(*folders, include=["case_[0-3].jpg"])
    assert [case.image.name for case in dataset.cases] == [f"case_{index}.jpg" for index in range(4)]
    assert tuple(map(str, dataset.skipped)) == ()


@pytest.mark.parametrize(
    ("sites", "options", "message"),
    [
        (9, {}, "found 10 usable cases, 2 of them for the test set; expected .* each of 9 sites"),
        (2, {"test_share": 1.0}, r"found test=1\.0, expected a share"),
        (2, {"include": ["nothing*"]}, r"Found no pair: no images in .*images that fit nothing\*, case_0\.png, .*, …"),
        (2, {"keys": {"channels": 17}}, "Import: key 'channels' is 17"),
        (2, {"keys": {"spacing": (1, 1, 1)}}, "Import: .*'spacing'"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(folders, tmp_path, sites, options, message):
    with pytest.raises(DataError, match=message):
        import_folders(folders, tmp_path / "out", sites, **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["images", "masks"]


def save(*files):
    for file in files:
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(file)


def test_masks_may_have_a_suffix(tmp_path):
    save(tmp_path / "images" / "ISIC_1.jpg", tmp_path / "images" / "ISIC_1_superpixels.png")
    save(tmp_path / "masks" / "ISIC_1_segmentation.png", tmp_path / "masks" / "ISIC_1.png")
    dataset = read_folders(tmp_path / "images", tmp_path / "masks", label_suffix="_segmentation")
    assert [(case.image.name, case.label.name) for case in dataset.cases] == [("ISIC_1.jpg", "ISIC_1_segmentation.png")]
    assert tuple(map(str, dataset.skipped)) == ("images/ISIC_1_superpixels.png: no mask", "masks/ISIC_1.png: no image")


def test_images_and_masks_may_lie_in_one_folder_if_masks_have_a_suffix(tmp_path, monkeypatch):
    save(*[tmp_path / "all" / name for name in ("a.png", "a_mask.png", "b.png", "c_mask.png")])
    monkeypatch.chdir(tmp_path / "all")
    (tmp_path / "other").symlink_to(tmp_path / "all")
    for folder in (tmp_path / "all", tmp_path / "other"):
        dataset = read_folders(tmp_path.cwd(), folder, label_suffix="_mask")
        assert [(case.name, case.label.name) for case in dataset.cases] == [("a", "a_mask.png")]
        assert tuple(map(str, dataset.skipped)) == ("all/b.png: no mask", "all/c_mask.png: no image")
        with pytest.raises(DataError, match=r"given for images and for masks; .* --label-suffix _seg, --label-include"):
            read_folders(tmp_path.cwd(), folder)


def test_pictures_volumes_and_dicom_folders_are_found_and_others_are_not(tmp_path):
    for kind in ("images", "masks"):
        folder = tmp_path / kind
        (folder / "series").mkdir(parents=True)
        (folder / "series" / "1.dcm").write_bytes(bytes(128) + b"DICM")
        (folder / "nested").mkdir()
        for name in ("b.nii.gz", "c.1.NII", "d.nrrd", "e.mha", "f.mhd", "f.raw", "notes.txt", ".hidden.nii"):
            (folder / name).write_bytes(b"")
    dataset = read_folders(tmp_path / "images", tmp_path / "masks")
    assert [case.name for case in dataset.cases] == ["b", "c.1", "d", "e", "f", "series"]
    assert dataset.volumes
    assert tuple(map(str, dataset.skipped)) == ("images/notes.txt: not an image", "masks/notes.txt: not an image")


def test_image_and_mask_may_have_different_suffixes(tmp_path):
    for name in ("images/a.nrrd", "masks/a.nii.gz"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"")
    (case,) = read_folders(tmp_path / "images", tmp_path / "masks").cases
    assert (case.image.name, case.label.name) == ("a.nrrd", "a.nii.gz")


def test_two_files_of_one_name_are_an_error(folders):
    save(folders[0] / "case_0.png")
    with pytest.raises(DataError, match=r"images: found case_0\.jpg and case_0\.png; expected one file of each name"):
        read_folders(*folders)


def test_pictures_and_volumes_are_not_mixed(folders):
    for folder in folders:
        nibabel.save(nibabel.Nifti1Image(np.zeros((2, 2, 2), np.uint8), np.eye(4)), folder / "volume.nii")
    with pytest.raises(DataError, match=r"found pictures and volumes; expected one kind\. Choose with --include"):
        read_folders(*folders)
    assert read_folders(*folders, include=["*.nii"]).volumes


def test_a_missing_folder_is_named(folders, tmp_path):
    with pytest.raises(DataError, match="nowhere: found no such folder"):
        read_folders(folders[0], tmp_path / "nowhere")


def test_real_ultrasound_lesions(real_data, tmp_path):
    source = real_data / "busi-breast-us" / "seg"
    out = tmp_path / "busi"
    report = import_folders(
        (source / "images", source / "labels"), out, 6, keys={"size": (64, 64)}, include=("benign_*", "malignant_*")
    )
    assert report.excluded == report.skipped == ()
    sites = read_federation(out).sites
    data = [load_site_data(out / site, tmp_path / "cache", site=site) for site in sites]
    data.append(load_site_data(out / "test", tmp_path / "cache", section="testing", site="test"))
    assert sum(part.num_samples for part in data) == 98
    assert all(part.excluded == () and part.labels.flatten(1).any(1).all() for part in data)


def test_a_number_may_follow_the_suffix_of_masks(tmp_path):
    """As breast ultrasound is published: a mask for each lesion, beside the images."""
    names = ["benign (1).png", "benign (1)_mask.png", "benign (10).png", "benign (10)_mask.png"]
    save(*[tmp_path / name for name in [*names, "benign (10)_mask_1.png", "benign (10)_mask_2.png"]])
    dataset = read_folders(tmp_path, tmp_path, label_suffix="_mask")
    assert [case.name for case in dataset.cases] == ["benign (1)", "benign (10)"]
    first, second = (case.label for case in dataset.cases)
    assert first == tmp_path / "benign (1)_mask.png"
    numbered = ("benign (10)_mask.png", "benign (10)_mask_1.png", "benign (10)_mask_2.png")
    assert tuple(file.name for file in second) == numbered
    assert tuple(map(str, dataset.skipped)) == ()


def test_images_may_have_a_suffix_that_their_masks_lack(tmp_path):
    save(*[tmp_path / name for name in ("a_ct.png", "a_seg.png", "b_ct.png", "b_seg.png", "notes_t1.png")])
    dataset = read_folders(tmp_path, tmp_path, image_suffix="_ct", label_suffix="_seg")
    assert [(case.name, case.image.name, case.label.name) for case in dataset.cases] == [
        ("a", "a_ct.png", "a_seg.png"),
        ("b", "b_ct.png", "b_seg.png"),
    ]
    assert tuple(map(str, dataset.skipped)) == (f"{tmp_path.name}/notes_t1.png: its name does not end with _ct",)
    # Masks may have the bare name.
    for name in ("a_seg.png", "b_seg.png"):
        (tmp_path / name).rename(tmp_path / name.replace("_seg", ""))
    dataset = read_folders(tmp_path, tmp_path, image_suffix="_ct")
    assert [(case.name, case.label.name) for case in dataset.cases] == [("a", "a.png"), ("b", "b.png")]


def test_patterns_tell_masks_from_images_of_the_same_folder(tmp_path):
    save(*[tmp_path / name for name in ("1.jpg", "1.png", "2.jpg", "2.png", "3.jpg")])
    dataset = read_folders(tmp_path, tmp_path, label_include=["*.png"])
    assert [(case.image.name, case.label.name) for case in dataset.cases] == [("1.jpg", "1.png"), ("2.jpg", "2.png")]
    assert tuple(map(str, dataset.skipped)) == (f"{tmp_path.name}/3.jpg: no mask",)


def test_what_follows_a_name_in_a_pattern_s_masks_decides_nothing_but_a_number_goes_on(tmp_path):
    # case1's mask is missing; that of case10 is not its.
    save(*[tmp_path / name for name in ("case1.png", "case10.png", "case2.png")])
    save(*[tmp_path / name for name in ("case10-lesion final.png", "case2.lesion.png")])
    dataset = read_folders(tmp_path, tmp_path, label_include=["*lesion*"])
    assert [(case.name, case.label.name) for case in dataset.cases] == [
        ("case10", "case10-lesion final.png"),
        ("case2", "case2.lesion.png"),
    ]
    assert tuple(map(str, dataset.skipped)) == (f"{tmp_path.name}/case1.png: no mask",)


def test_one_of_several_readers_is_chosen_by_a_pattern(tmp_path):
    save(tmp_path / "images" / "a.png", tmp_path / "masks" / "a_reader1.png", tmp_path / "masks" / "a_reader2.png")
    folders = tmp_path / "images", tmp_path / "masks"
    (case,) = read_folders(*folders, label_include=["*_reader2*"]).cases
    assert case.label.name == "a_reader2.png"
    (both,) = read_folders(*folders, label_include=["*_reader*"]).cases
    assert [file.name for file in both.label] == ["a_reader1.png", "a_reader2.png"]


def test_an_image_may_have_a_folder_of_masks(tmp_path):
    save(tmp_path / "images" / "a.png", tmp_path / "images" / "b.png", tmp_path / "masks" / "b.png")
    (tmp_path / "masks" / "a").mkdir()
    save(*[tmp_path / "masks" / "a" / f"object {number}.png" for number in (2, 10, 1)])
    first, second = read_folders(tmp_path / "images", tmp_path / "masks").cases
    assert [file.name for file in first.label] == ["object 1.png", "object 2.png", "object 10.png"]
    assert second.label == tmp_path / "masks" / "b.png"


def test_masks_of_real_cells_beside_their_images(real_data, tmp_path):
    source = real_data / "bubil-cells"
    for file in sorted((source / "images").iterdir())[::30]:
        shutil.copyfile(file, tmp_path / file.name)
        shutil.copyfile(source / "labels" / file.name, tmp_path / f"{file.stem}_majority.png")
    dataset = read_folders(tmp_path, tmp_path, label_include=["*_majority*"])
    assert len(dataset.cases) == 11
    assert all(case.label.stem == f"{case.image.stem}_majority" for case in dataset.cases)
    assert tuple(map(str, dataset.skipped)) == ()


def test_a_line_break_in_a_name_and_a_name_as_long_as_a_disk_has_it_come_along(folders, tmp_path):
    images, labels = folders
    long = "n" * 251
    for index, name in enumerate(("a\nb", long)):
        (images / f"case_{index}.jpg").rename(images / f"{name}.jpg")
        (labels / f"case_{index}.png").rename(labels / f"{name}.png")
    (labels / "case_2.png").rename(labels / "case_2_1.png")
    shutil.copy(labels / "case_3.png", labels / "case_2_2.png")
    dataset = read_folders(images, labels, label_suffix="")
    report = write_imported_federation([dataset], tmp_path / "out", SiteChoice(1), test_share=0.0)
    taken = {file.stem for file in (tmp_path / "out" / "site-1" / "images").iterdir()}
    assert {"a\nb", long[:200]} < taken
    assert report.excluded == ()
    # A mask with a suffix is found behind a line break, too.
    (labels / "a\nb.png").rename(labels / "a\nb_seg.png")
    assert [case.name for case in read_folders(images, labels, label_suffix="_seg").cases] == ["a\nb"]


def test_a_missing_file_is_named_as_missing(folders, tmp_path):
    images, labels = folders
    (images / "case_0.jpg").unlink()
    (images / "case_0.jpg").symlink_to(tmp_path / "nowhere.jpg")
    report = write_imported_federation([read_folders(images, labels)], tmp_path / "out", SiteChoice(1), test_share=0.0)
    assert [one.reason for one in report.excluded] == ["a file is missing"]
