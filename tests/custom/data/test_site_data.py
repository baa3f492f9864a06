import io
import json
import os
import shutil
import threading
import time
import weakref

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image

from fedannot.custom.data import case_preparation
from fedannot.custom.data.prepared_pack import PreparedCase
from fedannot.custom.data.site_data import count_cases, load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading import image_files

DESCRIPTION = "pipeline: image2d\nchannels: 1\nsize: [8, 10]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]\n"


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site-3"
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    items = []
    for index in range(4):
        generator = np.random.default_rng(index)
        name = f"case_{index}.png"
        Image.fromarray(generator.integers(0, 255, (8, 10), dtype=np.uint8)).save(folder / "images" / name)
        mask = np.zeros((8, 10), np.uint8)
        mask[index : index + 3, 2:6] = 255
        Image.fromarray(mask).save(folder / "labels" / name)
        items.append({"image": f"images/{name}", "label": f"labels/{name}"})
    # Not in alphabetical order: the datalist decides.
    (folder / "datalist.json").write_text(json.dumps({"training": items[::-1]}))
    (folder / "data.yaml").write_text(DESCRIPTION)
    return folder


def load(site, **options):
    return load_site_data(site, site.parent / "cache", site="site-3", **options)


def test_cases_come_in_the_order_of_the_datalist(site):
    data = load(site)
    assert data.images.shape == (4, 1, 8, 10)
    assert data.images.dtype == torch.float32
    assert data.labels.dtype == torch.uint8
    assert [int(label.any(1).nonzero()[0]) for label in data.labels] == [3, 2, 1, 0]
    assert (data.site, data.classes, data.channels, data.num_samples) == ("site-3", ("lesion",), 1, 4)
    assert (data.spatial_dims, [case.spacing for case in data.cases]) == (2, [None] * 4)
    assert len(set(data.units)) == 4
    assert data.excluded == ()
    assert data.clean_labels is None


@pytest.fixture
def decoded(monkeypatch):
    """Names of the images that were decoded, in any order."""
    names = []
    original = case_preparation.decode

    def counted(preparation, case, site):
        names.append(case.image.name)
        return original(preparation, case, site)

    monkeypatch.setattr(case_preparation, "decode", counted)
    return names


def case_names(decoded):
    names = sorted(decoded)
    decoded.clear()
    return names


ALL = [f"case_{index}.png" for index in range(4)]


def test_second_load_decodes_nothing(site, decoded):
    first = load(site)
    assert case_names(decoded) == ALL
    second = load(site)
    assert case_names(decoded) == []
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.labels, second.labels)
    assert first.excluded == second.excluded == ()


def test_a_moved_site_is_not_decoded_again(site, decoded):
    load(site)
    case_names(decoded)
    moved = site.rename(site.parent / "moved")
    assert load(moved).num_samples == 4
    # Renaming a folder changes neither its files nor their times.
    assert case_names(decoded) == []


def test_a_copied_site_and_another_site_with_the_same_files_are_not_decoded_again(site, decoded):
    load(site)
    case_names(decoded)
    copied = site.parent / "copied"
    shutil.copytree(site, copied)
    for number, file in enumerate(sorted(copied.glob("*/*.png"))):
        file.rename(file.with_name(f"other-{number % 4}.png"))
    items = [{"image": f"images/other-{n}.png", "label": f"labels/other-{n}.png"} for n in (3, 2, 1, 0)]
    (copied / "datalist.json").write_text(json.dumps({"training": items}))
    data = load_site_data(copied, site.parent / "cache", site="site-9")
    assert [case.name for case in data.cases] == [f"other-{n}.png" for n in (3, 2, 1, 0)]
    assert case_names(decoded) == []
    assert len(list((site.parent / "cache" / "packs").iterdir())) == 1


def test_corrected_labels_are_decoded_and_images_are_stored_once(site, decoded):
    before = load(site)
    case_names(decoded)
    corrected = site.parent / "corrected.png"
    Image.fromarray(np.full((8, 10), 255, np.uint8)).save(corrected)
    after = load(site, replaced_labels={site / "labels" / "case_2.png": corrected})
    assert case_names(decoded) == ["case_2.png"]
    assert after.labels[1].all()
    assert not before.labels[1].all()
    sizes = sorted(file.stat().st_size for file in (site.parent / "cache" / "blobs").iterdir())
    assert sizes == [4 * 80, 4 * 80, 4 * 80 * 4], "labels of the given and the corrected cases, and images once"
    # The given ones count again.
    assert torch.equal(load(site).labels, before.labels)
    assert case_names(decoded) == []


def test_a_damaged_case_is_named_where_it_lies(site, decoded):
    (site / "images" / "case_1.png").write_bytes(b"damaged")
    load(site)
    assert case_names(decoded) == ALL
    moved = site.rename(site.parent / "moved")
    for _ in range(2):
        (excluded,) = load(moved).excluded
        assert excluded.name == str(moved / "images" / "case_1.png")
        assert str(moved / "images" / "case_1.png") in excluded.reason
        assert str(site) not in excluded.reason
    assert case_names(decoded) == ["case_1.png"]


def test_no_name_of_a_file_is_stored_but_that_of_what_cannot_be_used(site):
    (site / "images" / "case_1.png").write_bytes(b"damaged")
    load(site)
    stored = [file for file in (site.parent / "cache").rglob("*") if file.is_file()]
    assert len(stored) >= 4
    text = "".join(file.read_bytes().decode("latin-1") + file.name for file in stored)
    assert "case_1.png" in text
    assert not any(name in text for name in ("case_0", "case_2", "case_3", "site-3/labels"))


def test_a_file_that_changes_while_it_is_decoded_is_read_again(site, monkeypatch):
    file, original, changes = site / "images" / "case_2.png", case_preparation.decode, []

    def changing(preparation, case, site):
        found = original(preparation, case, site)
        if case.image == file and len(changes) < most:
            changes.append(file.write_bytes(picture(most + len(changes))))
        return found

    monkeypatch.setattr(case_preparation, "decode", changing)
    most = 1
    data = load(site)
    assert len(changes) == 1
    file.write_bytes(picture(1))
    assert torch.equal(load(site).images, data.images)
    changes.clear()
    most = 99
    file.write_bytes(picture(98))
    with pytest.raises(DataError, match=r"^Site site-3: .*case_2\.png: changed while it was read, 3 times"):
        load(site)
    assert not list((site.parent / "cache" / "unfinished").iterdir())


def test_a_changed_file_or_setting_is_decoded_again(site, decoded):
    before = load(site)
    case_names(decoded)
    file = site / "labels" / "case_0.png"
    status = file.stat()
    Image.fromarray(np.full((8, 10), 255, np.uint8)).save(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert load(site).labels[3].all()
    assert case_names(decoded) == ["case_0.png"]
    assert not before.labels[3].all()
    (site / "data.yaml").write_text(DESCRIPTION.replace("[8, 10]", "[4, 5]"))
    assert load(site).images.shape == (4, 1, 4, 5)
    assert case_names(decoded) == ALL


def picture(seed):
    """A picture without compression: whatever it shows, the file has the same size."""
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 10), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, format="BMP")
    return stream.getvalue()


def test_another_content_of_the_same_size_and_time_is_noticed(site, decoded):
    file = site / "images" / "case_2.png"
    file.write_bytes(picture(10))
    before = load(site).images.clone()
    case_names(decoded)
    status = file.stat()
    file.write_bytes(picture(200))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    after = load(site).images
    assert case_names(decoded) == ["case_2.png"]
    assert [torch.equal(one, other) for one, other in zip(before, after, strict=True)] == [True, False, True, True]


def test_the_same_content_again_is_not_decoded_again(site, decoded):
    load(site)
    case_names(decoded)
    for file in site.glob("*/*.png"):
        file.write_bytes(file.read_bytes())
        file.chmod(0o400)
    load(site)
    assert case_names(decoded) == []


def test_another_order_and_fewer_or_more_cases_need_no_decoding_of_the_others(site, decoded):
    file = site / "datalist.json"
    items = json.loads(file.read_text(encoding="utf-8"))["training"]
    file.write_text(json.dumps({"training": items[:2]}))
    load(site)
    assert case_names(decoded) == ["case_2.png", "case_3.png"]
    file.write_text(json.dumps({"training": items[::-1]}))
    data = load(site)
    assert case_names(decoded) == ["case_0.png", "case_1.png"]
    assert [case.name for case in data.cases] == ALL
    assert [int(label.any(1).nonzero()[0]) for label in data.labels] == [0, 1, 2, 3]


def test_a_case_that_is_listed_twice_comes_twice(site):
    file = site / "datalist.json"
    items = json.loads(file.read_text(encoding="utf-8"))["training"]
    file.write_text(json.dumps({"training": [items[1], items[0], items[1]]}))
    data = load(site)
    assert [case.name for case in data.cases] == ["case_2.png", "case_3.png", "case_2.png"]
    assert torch.equal(data.images[0], data.images[2])


def test_sections_and_sites_are_kept_apart(site):
    content = json.loads((site / "datalist.json").read_text(encoding="utf-8"))
    content["validation"] = content["training"][:1]
    (site / "datalist.json").write_text(json.dumps(content))
    assert load(site).num_samples == 4
    assert load(site, section="validation").num_samples == 1
    assert load(site).num_samples == 4
    assert len(list((site.parent / "cache" / "packs").iterdir())) == 2


@pytest.mark.parametrize(("folder", "number"), [("packs", 0), ("blobs", 0), ("blobs", 1)])
def test_a_damaged_prepared_file_is_made_again(site, caplog, folder, number):
    # Copies: what is mapped changes with its file.
    images, labels = load(site).images.clone(), load(site).labels.clone()
    files = sorted((site.parent / "cache" / folder).iterdir())
    assert len(files) == {"packs": 1, "blobs": 2}[folder]
    files[number].write_bytes(b"damaged")
    after = load(site)
    assert torch.equal(after.images, images)
    assert torch.equal(after.labels, labels)
    assert "cannot be read and are made again" in caplog.text


def test_cases_keep_their_order_whatever_takes_longest(site, monkeypatch):
    expected = load(site)
    original = case_preparation.decode

    def slow_at_first(preparation, case, site):
        time.sleep(0.2 if case.image.name in ("case_3.png", "case_1.png") else 0)
        return original(preparation, case, site)

    monkeypatch.setattr(case_preparation, "decode", slow_at_first)
    result = load_site_data(site, site.parent / "other", site="site-3")
    assert [case.name for case in result.cases] == ALL[::-1]
    assert torch.equal(result.images, expected.images)


def test_only_a_few_prepared_cases_are_in_memory_at_a_time(tmp_path, monkeypatch):
    counted = {"alive": 0, "most": 0}
    lock = threading.Lock()

    def count(change):
        with lock:
            counted["alive"] += change
            counted["most"] = max(counted["most"], counted["alive"])

    def preparation(case):
        image = torch.zeros(1, 1, 4, 4)
        weakref.finalize(image, count, -1)
        count(1)
        return PreparedCase({"image": image, "label": torch.zeros(1, 4, 4, dtype=torch.uint8)})

    monkeypatch.setattr(case_preparation, "build_preparation", lambda description: preparation)
    (tmp_path / "data.yaml").write_text(DESCRIPTION)
    items = [{"image": f"{index}.png", "label": "label.png"} for index in range(200)]
    (tmp_path / "datalist.json").write_text(json.dumps({"training": items}))
    data = load_site_data(tmp_path, tmp_path / "cache", site="x")
    assert data.num_samples == 200
    # One for every thread, those that wait in line, and the one that is being written.
    assert 1 <= counted["most"] <= 2 * case_preparation._MAX_THREADS + 2
    assert counted["alive"] == 0


def test_an_error_in_the_middle_leaves_the_old_state_usable(site, decoded, monkeypatch):
    before = load(site)
    case_names(decoded)
    (site / "images" / "case_1.png").write_bytes(picture(10))

    def broken(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(case_preparation, "decode", broken)
        with pytest.raises(MemoryError):
            load(site)
    assert not list((site.parent / "cache" / "unfinished").iterdir())
    after = load(site)
    assert torch.equal(after.images[[0, 1, 3]], before.images[[0, 1, 3]])
    assert case_names(decoded) == ["case_1.png"]


def test_samples_of_all_cases_share_the_memory_of_the_cases(site):
    data = load(site)
    for whole, kind in ((data.images, "image"), (data.labels, "label")):
        for index, case in enumerate(data.cases):
            assert getattr(case, kind).data_ptr() == whole[index].data_ptr()


def test_writing_to_a_tensor_changes_nothing_on_disk(site):
    data = load(site)
    expected = data.images.clone()
    data.images[:] = 7
    assert float(data.cases[0].image.max()) == 7
    assert torch.equal(load(site).images, expected)


def test_bad_cases_are_left_out_and_listed(site, caplog):
    (site / "images" / "case_1.png").write_bytes(b"damaged")
    Image.fromarray(np.zeros((5, 10), np.uint8)).save(site / "labels" / "case_2.png")
    (site / "labels" / "case_3.png").unlink()
    for data in (load(site), load(site)):
        assert data.num_samples == 1
        assert [int(label.any(1).nonzero()[0]) for label in data.labels] == [0]
        reasons = {os.path.basename(case.name): case.reason for case in data.excluded}  # noqa: PTH119
        assert list(reasons) == ["case_3.png", "case_2.png", "case_1.png"]
        assert "found no such file" in reasons["case_3.png"]
        assert "5 × 10" in reasons["case_2.png"]
        assert "8 × 10" in reasons["case_2.png"]
        assert "cannot be read" in reasons["case_1.png"]
    # In the log of every run, although the files were decoded once.
    assert sum("case_1.png is left out" in record.message for record in caplog.records) == 2


def test_a_case_that_was_mended_is_used_again(site, decoded, caplog):
    file = site / "images" / "case_1.png"
    content = file.read_bytes()
    file.write_bytes(b"damaged")
    (site / "labels" / "case_3.png").rename(site / "away.png")
    assert [case.name for case in load(site).cases] == ["case_2.png", "case_0.png"]
    case_names(decoded)
    file.write_bytes(content)
    data = load(site)
    assert case_names(decoded) == ["case_1.png"]
    assert [case.name for case in data.cases] == ["case_2.png", "case_1.png", "case_0.png"]
    assert data.images.data_ptr() == data.cases[0].image.data_ptr()
    (site / "away.png").rename(site / "labels" / "case_3.png")
    assert load(site).excluded == ()
    assert case_names(decoded) == ["case_3.png"]


def test_a_file_that_could_not_be_opened_is_read_when_it_can_be(site, decoded, monkeypatch):
    file = site / "images" / "case_1.png"
    original, build = os.open, case_preparation.build_preparation

    def refused(path, *arguments, **options):
        if path == str(file):
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *arguments, **options)

    def build_without_rights(description):
        prepare = build(description)

        def prepare_others(case):
            if case.image == file:
                raise DataError(f"{file}: cannot be read")
            return prepare(case)

        return prepare_others

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refused)
            patch.setattr(case_preparation, "build_preparation", build_without_rights)
            assert [case.name for case in load(site).excluded] == [str(file)]
    assert case_names(decoded) == ALL, "the second time it is known to be closed"
    assert load(site).num_samples == 4
    assert case_names(decoded) == ["case_1.png"]


def test_a_disk_that_fails_for_a_moment_excludes_nothing(site, monkeypatch):
    failed, build = [], case_preparation.build_preparation

    def build_failing(description):
        prepare = build(description)

        def prepare_at_last(case):
            if case.image not in failed:
                failed.append(case.image)
                raise DataError(f"{case.image}: Input/output error")
            return prepare(case)

        return prepare_at_last

    monkeypatch.setattr(case_preparation, "build_preparation", build_failing)
    assert load(site).excluded == ()
    assert len(failed) == 4


def test_items_that_lead_out_of_the_folder_are_named_and_never_opened(site, monkeypatch):
    outside = site.parent / "outside"
    outside.mkdir()
    for kind in ("images", "labels"):
        (outside / f"{kind}.png").write_bytes((site / kind / "case_0.png").read_bytes())
    (site / "link").symlink_to(outside)
    good = {"image": "images/case_0.png", "label": "labels/case_0.png"}
    items = [
        {"image": "../outside/images.png", "label": "labels/case_0.png"},
        {"image": "images/case_1.png", "label": str(outside / "labels.png")},
        good,
        {"image": "link/images.png", "label": "labels/case_0.png"},
        good | {"clean_label": "images/../../outside/labels.png"},
    ]
    (site / "datalist.json").write_text(json.dumps({"training": items}))
    opened = []
    original = image_files.Image.open
    monkeypatch.setattr(
        image_files.Image, "open", lambda file, **options: opened.append(file) or original(file, **options)
    )
    data = load(site)
    assert [case.name for case in data.cases] == ["case_0.png"]
    assert [case.name for case in data.excluded] == [items[index]["image"] for index in (0, 1, 3, 4)]
    assert all("leads out of" in case.reason for case in data.excluded)
    assert sorted(opened) == [site / "images" / "case_0.png", site / "labels" / "case_0.png"]


def test_a_section_of_refused_items_says_why(site):
    (site / "datalist.json").write_text(json.dumps({"training": [{"image": "../a.png", "label": "b.png"}]}))
    with pytest.raises(DataError, match=r"^Site site-3: no usable case in .*1 of 1 excluded: .*leads out of"):
        load(site)


def test_the_number_of_cases_counts_usable_and_damaged_ones(site):
    (site / "images" / "case_1.png").write_bytes(b"damaged")
    assert count_cases(site, "training") == 4
    assert count_cases(site, "validation") == 0


def test_a_site_without_usable_case_says_how_many_and_why(site):
    (site / "data.yaml").write_text(DESCRIPTION.replace("255: 1", "1: 1"))
    with pytest.raises(
        DataError,
        match=r"^Site site-3: no usable case in .*datalist\.json: 4 of 4 excluded: .*case_3\.png: found the label "
        r"values 0, 255, expected only 0, 1\..*\{0: 0, 255: 1\}",
    ):
        load(site)


def test_an_absent_section_is_named(site):
    with pytest.raises(DataError, match=r"^Site site-3: .*datalist\.json has no case in the list 'validation'"):
        load(site, section="validation")


def test_a_wrong_key_names_site_file_key_and_the_nearest(site):
    (site / "data.yaml").write_text(DESCRIPTION + "lables: {0: 0}\n")
    with pytest.raises(DataError, match=r"^Site site-3: .*data\.yaml: unknown key 'lables'.*did you mean 'labels'"):
        load(site)


def test_the_mask_before_a_review_comes_with_the_one_in_use(site, caplog):
    """Images that are prepared already are not decoded again for cases without it."""
    before = load(site)
    content = json.loads((site / "datalist.json").read_text(encoding="utf-8"))
    first, second = content["training"][:2]
    first |= {"label": content["training"][3]["label"], "given_label": first["label"]}
    second["given_label"] = "labels/none.png"
    (site / "datalist.json").write_text(json.dumps(content))
    for _ in range(2):
        data = load(site)
        assert [case.given_label is None for case in data.cases] == [False, True, True, True]
        assert torch.equal(data.cases[0].given_label, before.cases[0].label)
        assert torch.equal(data.cases[0].label, before.cases[3].label)
        assert torch.equal(data.labels[1:], before.labels[1:])
        assert torch.equal(data.images, before.images)
    assert "the label before a review is not used, it cannot be read" in caplog.text
    assert "labels/none.png" in caplog.text


def test_clean_labels_are_known_for_all_cases_or_not_at_all(site, caplog):
    content = json.loads((site / "datalist.json").read_text(encoding="utf-8"))
    for item in content["training"]:
        item["clean_label"] = item["label"]
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site)
    assert data.clean_labels is not None
    assert torch.equal(data.clean_labels, data.labels)
    content["training"][0]["clean_label"] = "labels/none.png"
    (site / "datalist.json").write_text(json.dumps(content))
    for _ in range(2):
        data = load(site)
        assert data.clean_labels is None
        assert data.num_samples == 4
        assert data.excluded == ()
        assert [case.clean_label is None for case in data.cases] == [True, False, False, False]
    assert "clean labels are not used, one cannot be read" in caplog.text


@pytest.fixture
def volumes(tmp_path):
    """A site with two volumes of different size, of which one patient has both, and one of another."""
    folder = tmp_path / "site-3"
    folder.mkdir()
    items = []
    for index, (shape, group) in enumerate((((6, 8, 3), "p"), ((6, 8, 5), "p"), ((4, 7, 2), "q"))):
        generator = np.random.default_rng(index)
        affine = np.diag([1, 2, 3 + index, 1])
        nibabel.save(
            nibabel.Nifti1Image(generator.normal(size=shape).astype("f4"), affine), folder / f"i{index}.nii.gz"
        )
        label = generator.integers(0, 2, shape).astype("u1")
        nibabel.save(nibabel.Nifti1Image(label, affine), folder / f"l{index}.nii.gz")
        items.append({"image": f"i{index}.nii.gz", "label": f"l{index}.nii.gz", "group": group})
    (folder / "datalist.json").write_text(json.dumps({"training": items}))
    return folder


def test_slices_of_volumes_are_samples_and_know_their_patient(volumes):
    (volumes / "data.yaml").write_text(
        "pipeline: volume_slices\nclasses: [a]\nlabels: {0: 0, 1: 1}\nsize: [8, 8]\nslice_axis: 2\n"
    )
    for data in (load(volumes), load(volumes)):
        assert data.images.shape == (10, 1, 8, 8)
        assert data.labels.shape == (10, 8, 8)
        assert data.units == ("p",) * 8 + ("q",) * 2
        assert [len(case.image) for case in data.cases] == [3, 5, 2]
        assert [case.spacing for case in data.cases] == [(1, 2)] * 3
        assert data.images[3:8].data_ptr() == data.cases[1].image.data_ptr()
        assert (data.num_samples, data.spatial_dims) == (10, 2)


def test_whole_volumes_may_differ_in_size_unless_they_are_wanted_together(volumes):
    (volumes / "data.yaml").write_text("pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\n")
    data = load(volumes)
    assert [tuple(case.image.shape) for case in data.cases] == [(1, 1, 6, 8, 3), (1, 1, 6, 8, 5), (1, 1, 4, 7, 2)]
    assert [tuple(case.label.shape) for case in data.cases] == [(1, 6, 8, 3), (1, 6, 8, 5), (1, 4, 7, 2)]
    assert [case.spacing for case in data.cases] == [(1, 2, 3), (1, 2, 4), (1, 2, 5)]
    assert (data.num_samples, data.spatial_dims, data.units) == (3, 3, ("p", "p", "q"))
    with pytest.raises(ValueError, match="Expected samples of one size, but found"):
        _ = data.images
    (volumes / "data.yaml").write_text("pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\nsize: [8, 8, 4]\n")
    assert load(volumes).images.shape == (3, 1, 8, 8, 4)


def test_classes_of_pictures_are_labels_and_others_are_named(site):
    (site / "data.yaml").write_text("pipeline: classification\nchannels: 3\nsize: [4, 4]\nclasses: [a, b, c]\n")
    labels = [2, 0, 3, -1, "labels/case_0.png"]
    items = [{"image": f"images/case_{index % 4}.png", "label": label} for index, label in enumerate(labels)]
    items[0]["clean_label"], items[1]["clean_label"] = 1, 9
    (site / "datalist.json").write_text(json.dumps({"training": items}))
    data = load(site)
    assert data.images.shape == (2, 3, 4, 4)
    assert data.labels.tolist() == [2, 0]
    assert data.labels.dtype == torch.uint8
    assert [None if case.clean_label is None else case.clean_label.tolist() for case in data.cases] == [[1], None]
    assert [case.reason.split(": ", 1)[1] for case in data.excluded] == [
        "found the class '3'; expected a whole number from 0 to 2, the position in 'classes' of data.yaml.",
        "found the class '-1'; expected a whole number from 0 to 2, the position in 'classes' of data.yaml.",
        f"found the class '{site}/labels/case_0.png'; expected a whole number from 0 to 2, the position in 'classes' "
        "of data.yaml.",
    ]


def test_numbers_as_labels_of_masks_are_named(site):
    items = json.loads((site / "datalist.json").read_text(encoding="utf-8"))["training"]
    items[0]["label"] = 1
    (site / "datalist.json").write_text(json.dumps({"training": items}))
    (excluded,) = load(site).excluded
    assert excluded.reason == f"{site}/images/case_3.png: found 'label' = 1; expected the path of a mask."
