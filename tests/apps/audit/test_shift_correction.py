"""All masks of a site moved back on request: from the audit by images to a second audit, and what is refused."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK as sitk
from PIL import Image
from support.shifted_discs import CASES, SHIFT, write_shifted_site
from typer.testing import CliRunner

from fedannot.apps.audit.image_audit import audit_images, write_image_audit
from fedannot.apps.audit.image_records import ImageAudit
from fedannot.apps.audit.shift_correction import correct_shift
from fedannot.apps.commands.cli import app
from fedannot.custom.annotation_bias.profile.mask_shift import ShiftStatus
from fedannot.custom.corrections import export
from fedannot.custom.corrections.export import ExportedAnnotations
from fedannot.transforms.errors import DataError


def audited(site: Path, out: Path) -> ImageAudit:
    audit = audit_images(site)
    write_image_audit(audit, out)
    return audit


def pixels(file: Path) -> np.ndarray:
    return np.asarray(Image.open(file))


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    """A site whose shift was corrected, the audits before and after, and what was written."""
    folder = tmp_path_factory.mktemp("shifted")
    site = write_shifted_site(folder / "north")
    before = audited(site, folder / "audit")
    result = correct_shift(folder / "audit", site / "moved", update_datalist=True)
    return site, before, result, audited(site, folder / "second")


def test_the_audit_proposes_the_shift_and_finds_none_afterwards(corrected):
    _, before, _, after = corrected

    assert before.mask_shifts["north"].status is ShiftStatus.CORRECTABLE
    assert before.mask_shifts["north"].patients == CASES
    # Rows first.
    np.testing.assert_allclose(before.mask_shifts["north"].shift, SHIFT, atol=0.3)
    assert after.mask_shifts["north"].status is ShiftStatus.TOO_SMALL
    np.testing.assert_allclose(after.mask_shifts["north"].shift, (0, 0), atol=0.3)
    assert after.biases["lesion"]["north"].bias == pytest.approx(0.0, abs=0.6)


def test_all_masks_for_training_and_validation_lie_where_they_belong(corrected):
    site, _, result, _ = corrected
    datalist = json.loads((site / "datalist.shifted.json").read_text())

    assert len(result.record.annotations) == CASES + 1
    for item in (*datalist["training"], *datalist["validation"]):
        right, given = (pixels(site / part / Path(item["image"]).name) for part in ("right", "labels"))
        moved = pixels(site / item["label"])
        assert item["label"].startswith("moved/labels/")
        assert "given_label" not in item
        assert set(np.unique(moved)) == {0, 200}
        assert np.count_nonzero(moved != right) < 0.3 * np.count_nonzero(given != right)
    assert datalist["training"][0]["patient"] == "p0"


def test_where_the_new_masks_come_from_is_said(corrected):
    site, before, result, _ = corrected
    record = ExportedAnnotations.model_validate_json((site / "moved" / "provenance.json").read_text())

    assert record == result.record
    assert record.moved_as_a_whole == tuple(-length for length in before.mask_shifts["north"].shift)
    assert (record.unit, record.method, record.failed) == ("px", "image_audit", ())


def test_a_shift_is_never_corrected_twice(corrected, tmp_path):
    site, before, _, _ = corrected
    write_image_audit(before, tmp_path / "audit")

    with pytest.raises(DataError, match="not those that the audit has measured; they were moved back already"):
        correct_shift(tmp_path / "audit", tmp_path / "again")
    with pytest.raises(DataError, match="less than is corrected; they may have been moved back already"):
        correct_shift(site.parent / "second", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_given_masks_overwritten_in_place_are_not_moved_again(tmp_path):
    site = write_shifted_site(tmp_path / "north")
    audited(site, tmp_path / "audit")
    record = correct_shift(tmp_path / "audit", tmp_path / "moved").record
    for item in record.annotations:
        (site / item.given).write_bytes((tmp_path / "moved" / item.file).read_bytes())

    with pytest.raises(DataError, match="moved back already"):
        correct_shift(tmp_path / "audit", tmp_path / "again")


def test_masks_of_reviewers_stay_and_given_ones_behind_them_move(tmp_path):
    site = write_shifted_site(tmp_path / "north", reviewed=3)
    audited(site, tmp_path / "audit")

    result = correct_shift(tmp_path / "audit", site / "moved", update_datalist=True)

    datalist = json.loads(result.datalist.read_text())
    for number, item in enumerate(datalist["training"]):
        assert item["label"].startswith("right/" if number < 3 else "moved/")
        assert ("given_label" in item) == (number < 3)
    assert all(item["given_label"].startswith("moved/") for item in datalist["training"][:3])
    assert all(item["label"].startswith("right/") for item in datalist["reference"])
    np.testing.assert_allclose(audit_images(site).mask_shifts["north"].shift, (0, 0), atol=0.3)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (ShiftStatus.UNKNOWN, "the images do not say whether all masks are shifted"),
        (ShiftStatus.TOO_FEW_PATIENTS, "found 6 patients; expected at least 3"),
        (ShiftStatus.CLASSES_DIFFER, "its classes are shifted differently"),
        (ShiftStatus.TOO_SMALL, "its masks are shifted by .* along axis 1 and .*, less than is corrected"),
    ],
)
def test_what_is_not_known_is_not_corrected(corrected, tmp_path, status, says):
    _, before, _, _ = corrected
    shift = before.mask_shifts["north"].model_copy(update={"status": status})
    write_image_audit(before.model_copy(update={"mask_shifts": {"north": shift}}), tmp_path / "audit")

    with pytest.raises(DataError, match=rf"^Site north: {says}.*Nothing was written"):
        correct_shift(tmp_path / "audit", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bad_requests_are_named(corrected, tmp_path):
    _, before, _, _ = corrected
    with pytest.raises(DataError, match=r"found no image_audit\.json; expected .* --profile image"):
        correct_shift(tmp_path, tmp_path / "out")
    write_image_audit(before, tmp_path / "audit")
    with pytest.raises(DataError, match="found no audit of site 'south'; expected one of: north"):
        correct_shift(tmp_path / "audit", tmp_path / "out", site="south")
    earlier = before.model_copy(update={"mask_shifts": {}, "measured": {}})
    write_image_audit(earlier, tmp_path / "earlier")
    with pytest.raises(DataError, match="made by an earlier version"):
        correct_shift(tmp_path / "earlier", tmp_path / "out")
    two = dict.fromkeys(("north", "south"), before.mask_shifts["north"])
    write_image_audit(before.model_copy(update={"mask_shifts": two}), tmp_path / "two")
    with pytest.raises(DataError, match="found an audit of north, south; say which with --site"):
        correct_shift(tmp_path / "two", tmp_path / "out")
    fresh = write_shifted_site(tmp_path / "fresh")
    audited(fresh, tmp_path / "audit-fresh")
    with pytest.raises(DataError, match="a datalist may not lead out of its folder"):
        correct_shift(tmp_path / "audit-fresh", tmp_path / "out", update_datalist=True)
    assert not (tmp_path / "out").exists()


def test_one_mask_that_cannot_be_moved_stops_all(tmp_path, monkeypatch):
    site = write_shifted_site(tmp_path / "north")
    audited(site, tmp_path / "audit")

    def refuse(file, description):
        raise DataError(f"{file}: damaged")

    monkeypatch.setattr(export, "read_classes", refuse)
    with pytest.raises(DataError, match=r"cannot be moved back: .*damaged.* Nothing was written"):
        correct_shift(tmp_path / "audit", site / "moved", update_datalist=True)
    assert not (site / "moved").exists()
    assert not (site / "datalist.shifted.json").exists()


def test_the_command_says_what_it_does(tmp_path):
    site, out = write_shifted_site(tmp_path / "north"), tmp_path / "audit"
    before = {file: file.read_bytes() for file in site.rglob("*") if file.is_file()}

    proposed = CliRunner().invoke(app, ["audit", "--data", str(site), "--profile", "image", "--out", str(out)])
    options = ["audit", "apply", str(out), "--shift", "--out", str(site / "moved"), "--update-datalist"]
    done = CliRunner().invoke(app, options)

    assert proposed.exit_code == done.exit_code == 0, proposed.output + done.output
    assert f"fedannot audit apply {out} --site north --shift" in " ".join(proposed.output.split())
    assert "north: all masks moved by −" in done.output
    assert f"{CASES + 1} new annotations" in done.output
    # All given files stay, and data.yaml names the new datalist.
    assert {file for file, content in before.items() if file.read_bytes() != content} == {site / "data.yaml"}
    assert (site / "data.yaml").read_bytes() == before[site / "data.yaml"] + b'datalist: "datalist.shifted.json"\n'
    refused = CliRunner().invoke(app, [*options, "--edited", str(out)])
    assert refused.exit_code == 2
    assert "--edited" in refused.output


def test_masks_of_volumes_lie_at_the_same_place_for_nibabel_and_simpleitk(tmp_path):
    """Axes of the file: to the top (2 mm), to the left (1 mm), to the front (1 mm); shifted 3 mm to the right."""
    site = tmp_path / "north"
    affine = np.array([[0, -1.0, 0, 30], [0, 0, 1.0, -20], [2.0, 0, 0, 5], [0, 0, 0, 1]])
    generator = np.random.default_rng(3)
    for part in ("images", "labels"):
        (site / part).mkdir(parents=True)
    entries = []
    for number in range(4):
        middle = generator.uniform(-1, 1, 3)
        grid = np.indices((14, 32, 32)) - np.reshape(middle + np.array([7, 16, 16]), (3, 1, 1, 1))
        grid *= np.reshape([2.0, 1, 1], (3, 1, 1, 1))
        away, moved = (np.sqrt((grid[0]) ** 2 + (grid[1] + to_left) ** 2 + grid[2] ** 2) - 8 for to_left in (0, 3))
        image = (150 / (1 + np.exp(away)) + generator.normal(scale=8, size=away.shape)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(image, affine), site / "images" / f"{number}.nii.gz")
        nibabel.save(nibabel.Nifti1Image((moved <= 0).astype(np.uint8), affine), site / "labels" / f"{number}.nii.gz")
        entries.append({"image": f"images/{number}.nii.gz", "label": f"labels/{number}.nii.gz"})
    (site / "datalist.json").write_text(json.dumps({"training": entries}))
    (site / "data.yaml").write_text("pipeline: volume\nclasses: [lesion]\nlabels: {0: 0, 1: 1}\n")
    audit = audited(site, tmp_path / "audit")
    # Axes of training samples: right, front, top.
    np.testing.assert_allclose(audit.mask_shifts["north"].shift, (3, 0, 0), atol=0.4)

    record = correct_shift(tmp_path / "audit", site / "moved").record

    for item in record.annotations:
        given, new = site / item.given, site / "moved" / item.file
        np.testing.assert_array_equal(nibabel.load(new).affine, nibabel.load(given).affine)
        old_itk, new_itk = (sitk.ReadImage(str(file)) for file in (given, new))
        for place in ("GetOrigin", "GetDirection", "GetSpacing", "GetSize"):
            np.testing.assert_allclose(getattr(new_itk, place)(), getattr(old_itk, place)())
        centres = [
            nibabel.affines.apply_affine(affine, np.argwhere(nibabel.load(file).get_fdata()).mean(axis=0))
            for file in (given, new)
        ]
        np.testing.assert_allclose(np.subtract(*centres), audit.mask_shifts["north"].shift, atol=0.25)
