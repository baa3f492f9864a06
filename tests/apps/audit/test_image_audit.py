"""An audit of contours by images alone: of a federation and of one hospital, by the command."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedannot.apps.audit.image_audit import audit_images
from fedannot.apps.audit.image_records import ImageAudit, ImageBias
from fedannot.apps.commands.cli import app
from fedannot.apps.wording.image_audit import image_audit_in_words
from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.profile.mask_pairing import PairingStatus
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status, TestResult
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.transforms.errors import DataError

BIASES = {"north": 4.0, "south": -3.0, "west": 0.0}


def write_site(folder: Path, bias: float, *, cases: int = 8, description: str = "") -> None:
    """A site of bright discs, annotated too large by a bias."""
    generator = np.random.default_rng(abs(hash_of(folder.name)))
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    entries = []
    for number in range(cases):
        away = np.hypot(*(np.indices((64, 64)) - 32 - generator.uniform(-2, 2, (2, 1, 1)))) - 10
        image = 40 + 150 / (1 + np.exp(away)) + generator.normal(scale=8, size=away.shape)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / "images" / f"{number}.png")
        Image.fromarray((away <= bias).astype(np.uint8)).save(folder / "labels" / f"{number}.png")
        entries.append({"image": f"images/{number}.png", "label": f"labels/{number}.png", "patient": f"p{number}"})
    (folder / "datalist.json").write_text(json.dumps({"training": entries}))
    (folder / "data.yaml").write_text(
        description or "channels: 1\nclasses: [lesion]\nsize: [64, 64]\nlabels: {0: 0, 1: 1}\n"
    )


def hash_of(name: str) -> int:
    return sum(name.encode())


@pytest.fixture(scope="module")
def federation(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("federation")
    for site, bias in BIASES.items():
        write_site(folder / site, bias)
    write_federation(
        folder, FederationDescription.model_validate({"name": "f", "task": "segmentation", "sites": tuple(BIASES)})
    )
    return folder


def test_each_site_of_a_federation_has_its_bias(federation):
    audit = audit_images(federation)

    assert {site: bias.bias for site, bias in audit.biases["lesion"].items()} == pytest.approx(BIASES, abs=0.4)
    assert [bias.is_to_correct for bias in audit.biases["lesion"].values()] == [True, True, False]
    assert audit.unit == "px"


def test_the_audit_tolerates_what_auto_tolerates(tmp_path):
    """One site of four is 3 px off, of discs with a radius of 10 px: federated averaging does not follow it."""
    sites = {"east": 0.0, "north": 3.0, "south": 0.0, "west": 0.0}
    for site, bias in sites.items():
        write_site(tmp_path / site, bias)
    write_federation(
        tmp_path, FederationDescription.model_validate({"name": "f", "task": "segmentation", "sites": tuple(sites)})
    )

    audit = audit_images(tmp_path)

    assert not any(bias.is_to_correct for bias in audit.biases["lesion"].values())
    assert audit.biases["lesion"]["north"].status is Status.CONFIRMED
    low, high = audit.reference_levels["lesion"].tolerated
    assert -1.0 < low <= high < 1.0
    lines = list(image_audit_in_words(audit))
    assert "which is tolerated: nothing is corrected" in lines[0]
    assert any(line.startswith("  north: too large, within what is tolerated: +") for line in lines)
    assert not any("annotated too" in line for line in lines)


def test_one_hospital_alone_has_its_bias(federation):
    audit = audit_images(federation / "north")

    bias = audit.biases["lesion"]["north"]
    assert bias.bias == pytest.approx(4.0, abs=0.6)
    assert bias.low < 4.0 < bias.high
    assert bias.is_to_correct


def test_one_hospital_alone_is_told_first_how_rough_its_figures_are(federation):
    alone = list(image_audit_in_words(audit_images(federation / "north")))
    together = list(image_audit_in_words(audit_images(federation)))

    assert alone[0].startswith("One site alone learns the direction and a rough size")
    assert "ten reviewed cases" in alone[0]
    assert len(alone[0].split()) <= 25
    assert not any("One site alone" in line for line in [*alone[1:], *together])


def test_a_federation_with_one_usable_site_is_one_site_alone(tmp_path):
    """The other site has no object: nothing is compared."""
    write_site(tmp_path / "north", 2.0)
    write_site(tmp_path / "south", -30.0)
    write_federation(
        tmp_path,
        FederationDescription.model_validate({"name": "f", "task": "segmentation", "sites": ("north", "south")}),
    )

    lines = list(image_audit_in_words(audit_images(tmp_path)))

    assert lines[0].startswith("One site alone")
    assert "as seen at this site alone" in lines[1]


def test_masks_that_are_all_shifted_are_said_and_moved_back_first(tmp_path):
    write_site(tmp_path / "north", 0.0, cases=14)
    for file in sorted((tmp_path / "north" / "labels").glob("*.png")):
        moved = np.roll(np.asarray(Image.open(file)), (3, -2), axis=(0, 1))
        Image.fromarray(moved).save(file)

    audit = audit_images(tmp_path / "north")

    shift = audit.shifts["lesion"]["north"]
    assert shift.is_significant
    # Axes of the network's images: columns come first, as MONAI reads images.
    assert sorted(shift.vector) == pytest.approx([-2.0, 3.0], abs=0.4)
    assert audit.biases["lesion"]["north"].bias == pytest.approx(0.0, abs=0.6)
    assert any("all masks seem shifted by" in line for line in image_audit_in_words(audit))


def write_scattered_site(folder: Path, *, listed_with_next: bool) -> None:
    """A site of lesions at many places, whose masks may be listed with the next image."""
    write_site(folder, 0.0, cases=12)
    generator = np.random.default_rng(1)
    entries = json.loads((folder / "datalist.json").read_text())["training"]
    for entry in entries:
        centre, radius = generator.uniform(20, 44, (2, 1, 1)), generator.uniform(6, 12)
        away = np.hypot(*(np.indices((64, 64)) - centre)) - radius
        image = 40 + 150 / (1 + np.exp(away)) + generator.normal(scale=8, size=away.shape)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / entry["image"])
        Image.fromarray((away <= 0).astype(np.uint8)).save(folder / entry["label"])
    if listed_with_next:
        labels = [entry["label"] for entry in entries]
        for entry, label in zip(entries, [*labels[1:], labels[0]], strict=True):
            entry["label"] = label
        (folder / "datalist.json").write_text(json.dumps({"training": entries}))


@pytest.mark.parametrize("listed_with_next", [True, False])
def test_masks_listed_with_the_next_image_are_said(tmp_path, listed_with_next):
    write_scattered_site(tmp_path / "north", listed_with_next=listed_with_next)

    audit = audit_images(tmp_path / "north")

    expected = PairingStatus.OF_OTHER_IMAGES if listed_with_next else PairingStatus.OWN_IMAGES
    assert audit.pairings["lesion"]["north"].status is expected
    assert audit.biases["lesion"]["north"].is_known is not listed_with_next
    warns = any("check which mask belongs to which image" in line for line in image_audit_in_words(audit))
    assert warns is listed_with_next


def test_a_side_that_is_moved_alone_is_said(tmp_path):
    write_site(tmp_path / "north", 0.0, cases=14)
    for file in sorted((tmp_path / "north" / "labels").glob("*.png")):
        mask = np.asarray(Image.open(file))
        Image.fromarray(np.max([np.roll(mask, step, axis=1) for step in range(5)], axis=0)).save(file)

    audit = audit_images(tmp_path / "north")

    side = audit.sides["lesion"]["north"]
    # On a disc the excess is 0.71 of the length.
    assert (side.is_moved, side.axis, side.is_towards_end) == (True, 1, True)
    assert side.excess == pytest.approx(0.71 * 4, abs=0.7)
    assert side.low < side.excess < side.high
    assert any("the side towards the end of axis 2 alone" in line for line in image_audit_in_words(audit))


def test_no_side_of_a_federation_is_moved_alone(federation):
    audit = audit_images(federation)

    assert [side.is_moved for side in audit.sides["lesion"].values()] == [False] * 3
    assert not any("alone is annotated" in line for line in image_audit_in_words(audit))


def test_a_record_without_flags_is_still_read(federation):
    written = audit_images(federation).model_dump(mode="json")
    del written["pairings"], written["sides"]

    assert any(
        "north: annotated too large" in line for line in image_audit_in_words(ImageAudit.model_validate(written))
    )
    assert ImageAudit.model_validate(written).pairings == {}


@pytest.mark.parametrize("keeps_given", [True, False])
def test_a_site_is_not_acquitted_by_what_a_review_has_corrected(tmp_path, keeps_given):
    site = tmp_path / "north"
    write_site(site, 5.0, cases=14)
    write_site(tmp_path / "right" / "north", 0.0, cases=14)
    datalist = json.loads((site / "datalist.json").read_text())
    (site / "reviewed").mkdir()
    for entry in datalist["training"][:9]:
        given, name = entry["label"], Path(entry["label"]).name
        (site / "reviewed" / name).write_bytes((tmp_path / "right" / "north" / given).read_bytes())
        entry["label"] = f"reviewed/{name}"
        if keeps_given:
            entry["given_label"] = given
    datalist["reference"] = [
        {key: entry[key] for key in ("image", "label", "patient")} for entry in datalist["training"][:9]
    ]
    (site / "datalist.json").write_text(json.dumps(datalist))

    bias = audit_images(site).biases["lesion"]["north"]

    assert bias.bias == pytest.approx(5.0, abs=0.6)
    assert bias.is_to_correct
    assert bias.patients == (14 if keeps_given else 5)


def test_the_command_says_it_and_writes_it(federation, tmp_path):
    result = CliRunner().invoke(
        app, ["audit", "--data", str(federation), "--profile", "image", "--out", str(tmp_path / "out")]
    )

    assert result.exit_code == 0, result.output
    assert "north: annotated too large" in result.output
    assert "south: annotated too small" in result.output
    assert "west: about right" in result.output
    written = ImageAudit.model_validate_json((tmp_path / "out" / "image_audit.json").read_text())
    assert written == audit_images(federation)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_nothing_of_the_data_is_changed(federation):
    before = {file: file.read_bytes() for file in federation.rglob("*") if file.is_file()}

    audit_images(federation)

    assert {file: file.read_bytes() for file in federation.rglob("*") if file.is_file()} == before


def test_an_unreadable_case_is_left_out_and_counted(tmp_path):
    write_site(tmp_path / "north", 3.0)
    (tmp_path / "north" / "images" / "0.png").write_bytes(b"no image")

    audit = audit_images(tmp_path / "north")

    assert audit.excluded == {"north": 1}
    assert audit.biases["lesion"]["north"].patients == 7


@pytest.mark.parametrize("options", [["--resume"], ["--set", "rounds=2"], ["--jobs", "."]])
def test_options_of_training_are_refused(federation, options):
    result = CliRunner().invoke(app, ["audit", "--data", str(federation), "--profile", "image", *options])

    assert result.exit_code == 2
    assert options[0] in result.output


def test_data_have_to_be_named():
    result = CliRunner().invoke(app, ["audit", "--profile", "image"])

    assert result.exit_code == 2
    assert "--data" in result.output


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="neither"):
        audit_images(tmp_path)


def test_labelled_images_are_refused(tmp_path):
    site = tmp_path / "north"
    write_site(site, 0.0, description="channels: 1\nclasses: [a, b]\nsize: [64, 64]\npipeline: classification\n")

    with pytest.raises(DataError, match="labelled images"):
        audit_images(site)


def test_an_absent_estimate_is_written_without_numbers():
    nothing = TestResult(math.nan, math.nan, math.nan, Status.UNKNOWN)
    bias = ImageBias.of(ProfileEstimate.absent(), nothing, is_to_correct=False)

    assert (bias.bias, bias.low, bias.high, bias.is_known, bias.is_to_correct) == (None, None, None, False, False)
    assert json.loads(bias.model_dump_json())["standard_error"] is None


def test_the_record_says_which_bias_follows_other_sites():
    estimate, thresholds = ProfileEstimate.absent(), Evidence(EvidenceCode.THRESHOLDS)
    alone = TestResult(0.8, 0.5, 0.2, Status.CONFIRMED, (thresholds,))
    following = TestResult(0.8, 0.5, 0.2, Status.CONFIRMED, (thresholds, Evidence(EvidenceCode.FOLLOWS_OTHERS)))
    biases = [ImageBias.of(estimate, result, is_to_correct=True) for result in (alone, following)]
    assert [bias.follows for bias in biases] == [False, True]
    earlier = biases[1].model_dump(exclude={"follows"})
    assert not ImageBias.model_validate(earlier).follows


def test_ignored_pixels_have_no_part_in_a_bias(tmp_path):
    """Most of each contour is drawn 3 pixels too far inside; where that is ignored, the bias is that of the rest."""
    write_site(tmp_path / "north", 4.0)
    write_site(tmp_path / "other" / "north", -3.0)
    for file in (tmp_path / "north" / "labels").iterdir():
        mask, other = (np.array(Image.open(one)) for one in (file, tmp_path / "other" / "north" / "labels" / file.name))
        mask[:, :36] = other[:, :36] + 200
        Image.fromarray(mask).save(file)
    write_site(tmp_path / "south", -3.0)
    values = {"name": "f", "task": "segmentation", "sites": ("north", "south")}
    write_federation(tmp_path, FederationDescription.model_validate(values))
    lines = "channels: 1\nclasses: [lesion]\nsize: [64, 64]\n"
    biases = []
    for described in ("labels: {0: 0, 1: 1}\nignore: [200, 201]\n", "labels: {0: 0, 200: 0, 1: 1, 201: 1}\n"):
        (tmp_path / "north" / "data.yaml").write_text(lines + described)
        biases.append(audit_images(tmp_path).biases["lesion"]["north"])
    assert biases[0].is_known
    assert biases[0].bias == pytest.approx(4.0, abs=0.5)
    # The same pixels as annotation: between both.
    assert biases[1].bias < 2.0


def test_a_class_that_a_site_does_not_annotate_says_nothing_there(tmp_path):
    lines = "channels: 1\nclasses: [lesion, cyst]\nsize: [64, 64]\n"
    write_site(tmp_path / "north", 0.0, description=lines + "labels: {0: 0, 1: 1}\nannotated_classes: [lesion]\n")
    audit = audit_images(tmp_path / "north")
    assert audit.biases["lesion"]["north"].bias == pytest.approx(0, abs=0.4)
    bias, pairing = audit.biases["cyst"]["north"], audit.pairings["cyst"]["north"]
    assert (bias.patients, bias.bias, bias.is_known, pairing.cases) == (0, None, False, 0)
    assert audit.reference_levels["cyst"] is None
