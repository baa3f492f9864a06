import json

import numpy as np
import pytest
from PIL import Image

from fedannot.apps.checking.checking import check_folder
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import measured_noise, read_manifest
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.noisy_copy import add_contour_noise, follow_protocols, leave_lesions_out
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.noise.federation_noise import ContourNoise

CHOICE = NoiseChoice("M(25,-25,5,0.5)", exact=True, stratified=0.5)


@pytest.fixture
def source(tmp_path):
    write_phantom_federation(tmp_path / "source", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    return tmp_path / "source"


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_noise_has_the_sign_of_the_mean_and_the_source_stays(source, tmp_path):
    before = contents(source)
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    assert contents(source) == before
    means = []
    for site in ("site-1", "site-2"):
        noise = read_manifest(tmp_path / "noisy" / site).noise
        means.append(noise.mean)
        data = load_site_data(tmp_path / "noisy" / site, tmp_path / "cache", site=site)
        ratio = int(data.labels.sum()) / int(data.clean_labels.sum())
        assert noise.area_ratio == pytest.approx(ratio)
        assert (ratio > 1) == (noise.mean > 0)
        assert noise.dice < 0.97
        original = load_site_data(source / site, tmp_path / "cache", site=site)
        np.testing.assert_array_equal(data.clean_labels.numpy(), original.labels.numpy())
        np.testing.assert_array_equal(data.images.numpy(), original.images.numpy())
    assert sorted(mean > 0 for mean in means) == [False, True]
    noisy_test = contents(tmp_path / "noisy" / "test")
    assert noisy_test == contents(source / "test")


def test_same_seed_same_bits(source, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        add_contour_noise(source, tmp_path / name / "noisy", CHOICE, seed=seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    label = "noisy/site-1/labels/lesion_001.png"
    assert contents(tmp_path / "a")[label] != contents(tmp_path / "c")[label]


def test_a_copy_has_a_name_of_its_own(source, tmp_path):
    add_contour_noise(source, tmp_path / "busi-noisy", CHOICE, seed=1)
    assert read_federation(source).name != "busi-noisy"
    assert read_federation(tmp_path / "busi-noisy").name == "busi-noisy"
    assert check_folder(tmp_path / "busi-noisy").name == "busi-noisy"


def test_a_clean_label_that_cannot_be_read_is_named_where_it_lies(source, tmp_path):
    """Not where its copy was while the new folder was being written."""
    site = source / "site-1"
    case = read_datalist(site / "datalist.json").section("training")[0]
    add_contour_noise(source, tmp_path / "once", CHOICE, seed=1)
    clean = tmp_path / "once" / "site-1" / "clean_labels" / case.label.name
    clean.write_bytes(b"damaged")
    add_contour_noise(tmp_path / "once", tmp_path / "twice", CHOICE, seed=1)
    ((_, reason),) = read_manifest(tmp_path / "twice" / "site-1").excluded
    assert reason.startswith(f"{clean}: ")


def test_noise_on_noise_keeps_the_first_clean_labels(source, tmp_path):
    add_contour_noise(source, tmp_path / "once", CHOICE, seed=1)
    add_contour_noise(tmp_path / "once", tmp_path / "twice", CHOICE, seed=2)
    clean = contents(source / "site-1" / "labels")
    assert contents(tmp_path / "twice" / "site-1" / "clean_labels") == clean
    manifest = read_manifest(tmp_path / "twice" / "site-1")
    assert manifest.before["noise"]["mean"] == read_manifest(tmp_path / "once" / "site-1").noise.mean


def test_classes_keep_their_file_values_and_sizes(source, tmp_path):
    mask = np.zeros((120, 90), np.uint8)
    mask[10:60, 10:60], mask[70:110, 30:80] = 85, 170
    site = source / "site-1"
    for kind in ("images", "labels", "clean_labels"):
        for file in (site / kind).iterdir():
            Image.fromarray(mask).save(file)
    text = (
        (site / "data.yaml")
        .read_text(encoding="utf-8")
        .replace("255: 1", "85: 1\n  170: 2")
        .replace("- lesion", "- lesion\n- cyst")
    )
    (site / "data.yaml").write_text(text)
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    noisy = np.asarray(Image.open(tmp_path / "noisy" / "site-1" / "labels" / "lesion_001.png"))
    assert noisy.shape == (120, 90)
    assert set(np.unique(noisy)) == {0, 85, 170}
    assert (noisy != mask).any()


def test_a_label_that_cannot_be_read_is_listed_and_stops_nothing(source, tmp_path):
    (source / "site-1" / "labels" / "lesion_002.png").write_bytes(b"damaged")
    (source / "site-1" / "images" / "lesion_003.png").unlink()
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    manifest = read_manifest(tmp_path / "noisy" / "site-1")
    ((file, reason),) = manifest.excluded
    assert file.endswith("lesion_002.png")
    assert "cannot be read as an image" in reason
    data = load_site_data(tmp_path / "noisy" / "site-1", tmp_path / "cache", site="site-1")
    assert data.num_samples == 1
    assert len(data.excluded) == 2


def test_files_of_one_name_from_different_folders_are_refused(source, tmp_path):
    file = source / "site-1" / "datalist.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["training"].append(content["training"][0])
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"Site site-1: found several files named 'lesion_001\.png' among its"):
        add_contour_noise(source, tmp_path / "noisy", CHOICE)
    assert not (tmp_path / "noisy").exists()


def test_measured_dice_by_hand():
    # Class 1: 2 of 2 and 3 pixels agree, Dice 0.8; class 2: only in one mask, Dice 0; second case empty, not counted.
    noisy, clean = np.array([[1, 1, 2, 0]]), np.array([[1, 1, 1, 0]])
    empty = np.zeros((1, 4), dtype=int)
    noise = measured_noise(
        [(noisy, clean), (empty, empty)], ContourNoise(1, 2), model="M", exact=False, stratified=None
    )
    assert noise.dice == pytest.approx(0.4)
    assert noise.area_ratio == 1.0


def test_sites_without_masks_are_an_error_that_says_so(source, tmp_path):
    classes = "pipeline: classification\nclasses: [a, b]\nchannels: 1\nsize: [8, 8]\n"
    (source / "site-1" / "data.yaml").write_text(classes)
    with pytest.raises(
        DataError,
        match=r"^Site site-1: .*data\.yaml has the pipeline 'classification'; imperfect contours .* need masks\.$",
    ):
        add_contour_noise(tmp_path / "source", tmp_path / "noisy", CHOICE)
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


def test_items_that_are_no_case_with_a_mask_are_left_out_and_listed(source, tmp_path, caplog):
    file = source / "site-1" / "datalist.json"
    items = json.loads(file.read_text(encoding="utf-8"))["training"]
    (tmp_path / "outside.png").write_bytes((source / "site-1" / items[0]["label"]).read_bytes())
    items[0]["label"] = "../../outside.png"
    items[1]["label"] = 1
    file.write_text(json.dumps({"training": items}))
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    site = tmp_path / "noisy" / "site-1"
    first, second = read_manifest(site).excluded
    assert first[0] == items[0]["image"]
    assert "leads out of" in first[1]
    assert second[0].endswith(items[1]["image"])
    assert "found the label 1; expected a mask file" in second[1]
    assert [len(list((site / kind).iterdir())) for kind in ("images", "labels", "clean_labels")] == [1, 1, 1]
    assert load_site_data(site, tmp_path / "cache", site="site-1").num_samples == 1
    assert sum("Site site-1: an item is left out: " in record.message for record in caplog.records) == 2


@pytest.mark.parametrize(("shares", "text"), [((0.5,), "1 values for 2 sites"), ((0.5, 1.5), "found \\[1.5\\]")])
def test_shares_that_do_not_fit_the_federation_are_refused(source, tmp_path, shares, text):
    with pytest.raises(DataError, match=text):
        leave_lesions_out(source, tmp_path / "out", shares)
    assert not (tmp_path / "out").exists()


def test_protocols_that_do_not_fit_the_federation_are_refused(source, tmp_path):
    with pytest.raises(DataError, match="Protocols C-D-0: found 3 entries for 2 sites; expected 1 or all"):
        follow_protocols(source, tmp_path / "out", "C-D-0")
    assert not (tmp_path / "out").exists()


def test_the_test_set_is_copied_with_its_masks_before_a_review(source, tmp_path):
    file = source / "test" / "datalist.json"
    content = json.loads(file.read_text())
    (case,) = content["testing"]
    case["given_label"] = "before.png"
    Image.fromarray(np.zeros((64, 64), dtype=np.uint8)).save(source / "test" / "before.png")
    file.write_text(json.dumps(content))
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    (copied,) = read_datalist(tmp_path / "noisy" / "test" / "datalist.json").section("testing")
    assert copied.given_label == tmp_path / "noisy" / "test" / "given_labels" / "before.png"
    assert copied.given_label.read_bytes() == (source / "test" / "before.png").read_bytes()


def test_the_reference_of_a_test_set_may_have_its_images(source, tmp_path):
    file = source / "test" / "datalist.json"
    content = json.loads(file.read_text())
    content["reference"] = [{key: f"./{content['testing'][0][key]}" for key in ("image", "label")}]
    file.write_text(json.dumps(content))
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    copied = read_datalist(tmp_path / "noisy" / "test" / "datalist.json")
    (tested,), (reference,) = copied.section("testing"), copied.section("reference")
    assert (tested.image, tested.label) == (reference.image, reference.label)
    assert tested.label.read_bytes() == (source / "test" / content["testing"][0]["label"]).read_bytes()


@pytest.mark.parametrize("key", ["reference", "given_label"])
def test_reviewed_cases_get_no_noise(source, tmp_path, key):
    file = source / "site-2" / "datalist.json"
    content = json.loads(file.read_text())
    first = content["training"][0]
    if key == "reference":
        content["reference"] = [{name: first[name] for name in ("image", "label")}]
    else:
        first["given_label"] = first["label"]
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"Site site-2: .* reviewed cases, the first lesion_001\.png; .*audit revert"):
        add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    assert not (tmp_path / "noisy").exists()


def test_who_annotated_a_case_is_kept(source, tmp_path):
    file = source / "site-1" / "datalist.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    for number, case in enumerate(values["training"]):
        case["annotator"] = f"Reader {number % 2}"
    file.write_text(json.dumps(values), encoding="utf-8")
    add_contour_noise(source, tmp_path / "noisy", CHOICE, seed=1)
    cases = read_datalist(tmp_path / "noisy" / "site-1" / "datalist.json").section("training")
    assert [case.annotator for case in cases] == [f"Reader {number % 2}" for number in range(len(cases))]
