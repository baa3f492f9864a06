"""Noise that was asked for and changes nothing is an error, or a warning where it is so by chance."""

import numpy as np
import pytest
from PIL import Image

from fedannot.custom.data.datalist import TRAINING, Case, write_datalist
from fedannot.custom.data.description import ClassificationDescription, ImageDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.mislabelled_copy import mislabel_cases
from fedannot.custom.data.noise.noisy_copy import add_contour_noise, follow_protocols, leave_lesions_out
from fedannot.custom.data.overview import federation_overview
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation, write_phantom_site
from fedannot.transforms.errors import DataError

SIZE = 48
CLASSES = ("monocyte", "lymphocyte", "platelet")


def two_objects():
    """Two squares with a bridge of one pixel between them."""
    mask = np.zeros((SIZE, SIZE), np.uint8)
    mask[10:20, 10:20] = mask[10:20, 24:34] = mask[14, 20:24] = 255
    return mask


def one_square():
    mask = np.zeros((SIZE, SIZE), np.uint8)
    mask[10:20, 10:20] = 255
    return mask


def write_pictures(folder, masks, sites=2):
    for number in range(1, sites + 1):
        site = folder / f"site-{number}"
        (site / "images").mkdir(parents=True)
        (site / "labels").mkdir()
        cases = []
        for index, mask in enumerate(masks):
            files = site / "images" / f"{index}.png", site / "labels" / f"{index}.png"
            for file in files:
                Image.fromarray(mask).save(file)
            cases.append(Case(*files))
        write_datalist(site / "datalist.json", {TRAINING: cases})
        description = ImageDescription(channels=1, size=(SIZE, SIZE), labels={0: 0, 255: 1}, classes=("lesion",))
        write_site_description(site, description)
    names = tuple(f"site-{number}" for number in range(1, sites + 1))
    write_federation(folder, FederationDescription(name="pictures", sites=names))
    return folder


def write_classes(folder, labels):
    (folder / "site-1" / "images").mkdir(parents=True)
    cases = []
    for index, label in enumerate(labels):
        file = folder / "site-1" / "images" / f"{index}.png"
        Image.fromarray(np.full((8, 8), index, np.uint8)).save(file)
        cases.append(Case(file, label))
    write_datalist(folder / "site-1" / "datalist.json", {TRAINING: cases})
    write_site_description(folder / "site-1", ClassificationDescription(channels=1, size=(8, 8), classes=CLASSES))
    write_federation(folder, FederationDescription(name="cells", task="classification", sites=("site-1",)))
    return folder


def changed(folder, site):
    """How many masks of a site differ from their clean ones."""
    labels = sorted((folder / site / "labels").iterdir())
    clean = sorted((folder / site / "clean_labels").iterdir())
    return sum(
        not np.array_equal(np.asarray(Image.open(one)), np.asarray(Image.open(other)))
        for one, other in zip(labels, clean, strict=True)
    )


def assert_nothing_is_left(tmp_path):
    """Neither the copy nor a half of it."""
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


def test_protocols_without_lengths_change_small_images_and_say_how(tmp_path):
    """3 and 4 pixels at 256 × 256 are 0.56 and 0.75 at 48 × 48."""
    write_pictures(tmp_path / "source", [two_objects()], sites=3)
    follow_protocols(tmp_path / "source", tmp_path / "out", "0-C-D")
    assert [changed(tmp_path / "out", f"site-{number}") for number in (1, 2, 3)] == [0, 1, 1]
    manifest = read_manifest(tmp_path / "out" / "site-2").protocol
    assert (manifest.systematic_radius, manifest.random_radius) == ((1, 1), (1, 1))
    assert [site.discs for site in federation_overview(tmp_path / "out")] == [None, "1.0, 1.0", "1.0, 1.0"]


def test_given_lengths_are_taken_as_they_are_and_refused_where_they_change_nothing(tmp_path):
    write_pictures(tmp_path / "source", [two_objects()] * 2)
    text = (
        r"Site site-2: the noise C\(3,4,4,0.25\) changed none of 2 annotations: its discs have radii of at most 0.56 "
        r"and 0.75 pixels .* Ask for lengths of at least 5.33, or for C without lengths"
    )
    with pytest.raises(DataError, match=text):
        follow_protocols(tmp_path / "source", tmp_path / "out", "0-C(3,4)")
    assert_nothing_is_left(tmp_path)
    follow_protocols(tmp_path / "source", tmp_path / "out", "0-C(5.34,0)")
    assert changed(tmp_path / "out", "site-2") == 2


def test_a_protocol_that_finds_nothing_to_change_is_refused_where_no_seed_helps(tmp_path, caplog):
    filled = np.full((SIZE, SIZE), 255, np.uint8)
    write_pictures(tmp_path / "source", [filled])
    with pytest.raises(DataError, match=r"no part is thinner than its disc"):
        follow_protocols(tmp_path / "source", tmp_path / "out", "0-C(20,0)")
    assert_nothing_is_left(tmp_path)
    follow_protocols(tmp_path / "source", tmp_path / "out", "0-C(20,20)")
    assert "Site site-2: the noise C(20,20,4,0.25) changed none of 1 annotations" in caplog.text


def test_a_site_without_foreground_cannot_follow_a_protocol(tmp_path):
    write_pictures(tmp_path / "source", [np.zeros((SIZE, SIZE), np.uint8)])
    with pytest.raises(DataError, match=r"none has any foreground. Write 0 for this site"):
        follow_protocols(tmp_path / "source", tmp_path / "out", "0-C")
    assert_nothing_is_left(tmp_path)


def test_a_share_that_leaves_nothing_out_is_refused(tmp_path):
    """Of one lesion a half is one, halves up."""
    write_pictures(tmp_path / "source", [one_square()] * 3)
    with pytest.raises(
        DataError, match=r"Site site-2: the noise completeness 0.5 .* at most 1 lesions each.* for 1 at"
    ):
        leave_lesions_out(tmp_path / "source", tmp_path / "out", [1, 0.5])
    assert_nothing_is_left(tmp_path)
    leave_lesions_out(tmp_path / "source", tmp_path / "out", [1, 0])
    assert [changed(tmp_path / "out", f"site-{number}") for number in (1, 2)] == [0, 3]


def test_contour_noise_below_half_a_pixel_is_refused(tmp_path):
    """Three deviations of 0.5 beyond a mean of 1 are 2.5 pixels at 256 × 256, and 0.47 at 48 × 48."""
    write_pictures(tmp_path / "source", [one_square()])
    with pytest.raises(
        DataError, match=r"Site site-1: .*by 0.47 pixels at most .* Ask for lengths 1.07 times as large"
    ):
        add_contour_noise(tmp_path / "source", tmp_path / "out", NoiseChoice("M(1,-0.5,0.5,1)", stratified=0.9))
    assert_nothing_is_left(tmp_path)
    add_contour_noise(tmp_path / "source", tmp_path / "out", NoiseChoice("M(25,-25,0,1)", stratified=0.9))
    assert changed(tmp_path / "out", "site-1") == 1


def test_a_site_that_draws_next_to_no_contour_noise_is_a_warning(tmp_path, caplog):
    """The strengths are a tenth of the limit and the limit: 0.375 pixels and 3.75 at 48 × 48."""
    write_pictures(tmp_path / "source", [one_square()])
    add_contour_noise(tmp_path / "source", tmp_path / "out", NoiseChoice("M(20,0,0,1)", exact=True, stratified=0.1))
    (weak,) = (site for site in ("site-1", "site-2") if not changed(tmp_path / "out", site))
    assert read_manifest(tmp_path / "out" / weak).noise.mean == pytest.approx(2)
    assert f"Site {weak}: the noise M(20,0,0,1), here 2 ± 0 pixels changed none of 1 annotations" in caplog.text
    assert caplog.text.count("changed none") == 1


def test_a_site_that_has_nothing_to_draw_is_a_warning(tmp_path, caplog):
    write_pictures(tmp_path / "source", [np.zeros((SIZE, SIZE), np.uint8)], sites=1)
    add_contour_noise(tmp_path / "source", tmp_path / "out", NoiseChoice("M(20,-20,4,0.5)"))
    assert "Site site-1: the noise M(20,-20,4,0.5)" in caplog.text
    assert "none has any foreground" in caplog.text


def test_labels_that_stay_right_by_chance_are_a_warning(tmp_path, caplog):
    write_classes(tmp_path / "source", [0, 1])
    mislabel_cases(tmp_path / "source", tmp_path / "out", "S1")
    assert "Site site-1: the noise S1 changed none of 2 annotations: each label is drawn by itself" in caplog.text


def test_clinical_noise_of_classes_that_are_confused_with_none_is_refused(tmp_path):
    (tmp_path / "source").mkdir()
    write_classes(tmp_path / "source", [2] * 5)
    table = tmp_path / "source" / "table.yaml"
    table.write_text("monocyte: [lymphocyte]\nlymphocyte: [monocyte]\nplatelet: []\n")
    with pytest.raises(DataError, match=r"Site site-1: the noise C50 .* none of its classes is confused with another"):
        mislabel_cases(tmp_path / "source", tmp_path / "out", "C50", table=table)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("nothing", ["protocols", "completeness", "labels"])
def test_where_no_noise_was_asked_for_nothing_has_to_change(tmp_path, caplog, nothing):
    if nothing == "labels":
        mislabel_cases(write_classes(tmp_path / "source", [0, 1]), tmp_path / "out", "0")
    else:
        source = write_pictures(tmp_path / "source", [one_square()])
        if nothing == "protocols":
            follow_protocols(source, tmp_path / "out", "0-0")
        else:
            leave_lesions_out(source, tmp_path / "out", [1, 1])
    assert (tmp_path / "out").is_dir()
    assert caplog.text == ""


def test_chambers_whose_protocol_changes_nothing_are_refused(tmp_path):
    drawing = Chambers("0-D(2,2)")
    with pytest.raises(DataError, match=r"Site site-2: the noise D\(2,2,4,0.25\) changed none of 7 annotations"):
        write_phantom_site(tmp_path / "site", 1, drawing, num_sites=2, num_images=1)
    with pytest.raises(DataError, match="Site site-2"):
        write_phantom_federation(tmp_path / "out", drawing, num_sites=2, images_per_site=1, test_images=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("drawing", "text"),
    [
        # Noise is drawn on 256 × 256 pixels.
        (LesionImages("M(0.1,-0.1,0.02,0.5)"), r"M\(0.1,-0.1,0.02,0.5\), here .* by 0.16 pixels at most"),
        (LesionVolumes((1, 0.99)), r"completeness 0.99 .* of which a fraction of 0.99 is all after rounding"),
    ],
)
def test_lesions_whose_noise_changes_nothing_are_refused(tmp_path, drawing, text):
    with pytest.raises(DataError, match=rf"Site site-\d: the noise {text}"):
        write_phantom_federation(tmp_path / "out", drawing, num_sites=2, images_per_site=1, test_images=1)
    assert list(tmp_path.iterdir()) == []


def test_cells_whose_labels_stay_right_by_chance_are_a_warning(tmp_path, caplog):
    write_phantom_site(tmp_path / "site", 1, Cells("0-S1"), num_sites=2, num_images=2)
    assert "Site site-2: the noise S1 changed none of 2 annotations: each label is drawn by itself" in caplog.text


@pytest.mark.parametrize("drawing", [LesionImages("M(0,0,0,0.5)"), LesionVolumes((1, 1)), Cells("0")])
def test_phantoms_without_noise_have_nothing_to_change(tmp_path, caplog, drawing):
    write_phantom_site(tmp_path / "site", 0, drawing, num_sites=2, num_images=1)
    assert caplog.text == ""
