"""What the data manager sees of corrections, and how right they were where complete annotations are known."""

import hashlib
import json
import re
import shutil

import nibabel
import numpy as np
import pytest
from PIL import Image
from support.corrected_runs import made_corrections
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.reports.annotation_findings import completeness_errors, correction_scores, pooled_correction
from fedannot.custom.corrections.kinds import LesionsAdded
from fedannot.custom.corrections.lesions import added_lesions
from fedannot.custom.corrections.model import CORRECTIONS_FILE, CaseCorrection, CorrectionState, NewMask
from fedannot.custom.corrections.store import read_corrections, write_corrections
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation

SHARES = (0.0, 0.5)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A federation of two sites, and a run in which site-1 found half of what it lacks, and something else."""
    folder = tmp_path_factory.mktemp("corrections")
    write_phantom_federation(folder / "data", LesionVolumes(SHARES), num_sites=2, images_per_site=2, test_images=1)
    site, target = folder / "data" / "site-1", folder / "run" / "site-1" / "simulate_job" / "corrections" / "round_14"
    (target / "labels").mkdir(parents=True)
    labels = []
    for index in (1, 2):
        name = f"volume_{index:03d}.nii.gz"
        clean = nibabel.load(site / "clean_labels" / name)
        voxels = np.asarray(clean.dataobj).copy()
        voxels[32:] = 0
        voxels[0, 0, :3] = 1  # outside the body
        nibabel.save(nibabel.Nifti1Image(voxels, clean.affine), target / "labels" / f"{index:04d}_{name}")
        labels.append(
            CaseCorrection(
                label=f"labels/{name}",
                image=f"images/{name}",
                mask=NewMask(file=f"labels/{index:04d}_{name}", added_voxels=int(voxels.sum()), new_lesions=3),
            )
        )
    added = (LesionsAdded(threshold=0.8),)
    corrections = made_corrections(site, labels, method="fedia", round_number=14, corrections=added)
    write_corrections(target, corrections)
    return folder


def invoke(*arguments, code=0):
    result = CliRunner().invoke(app, ["corrections", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_list_says_what_was_added_and_by_which_rule(run):
    text = invoke("list", run / "run")
    assert "site-1: 2 of 2 cases count otherwise than given" in text
    assert "background with a probability above 0.8 becomes foreground" in text
    assert "before round 14, by model abababababababab" in text
    for name in ("labels/volume_001.nii.gz", "labels/volume_002.nii.gz"):
        assert name in text


def test_list_says_so_where_whole_lesions_were_added(run, tmp_path):
    run = shutil.copytree(run, tmp_path / "copy")
    (folder,) = (file.parent for file in run.glob("**/corrections.json"))
    corrections = read_corrections(folder)
    write_corrections(
        folder, corrections.model_copy(update={"corrections": (LesionsAdded(threshold=0.5, smallest_lesion=5),)})
    )
    text = invoke("list", run / "run")
    assert "new lesions of at least 5 voxels are added as a whole" in text
    assert "becomes foreground" not in text


def test_show_draws_a_picture_for_each_case(run, tmp_path):
    text = invoke("show", run / "run", "--out", tmp_path / "pictures")
    assert f"site-1: 2 figures in {tmp_path / 'pictures' / 'site-1'}" in text
    for name in ("0001_volume_001.png", "0002_volume_002.png"):
        pixels = np.asarray(Image.open(tmp_path / "pictures" / "site-1" / name).convert("RGB")).astype(int)
        # The added voxels are drawn in red over the grey picture.
        assert ((pixels[..., 0] - pixels[..., 2]) > 60).sum() > 100
    text = invoke("show", run / "run", "--case", "volume_002.nii.gz", "--out", tmp_path / "one")
    assert [file.name for file in (tmp_path / "one" / "site-1").iterdir()] == ["0002_volume_002.png"]


def test_revert_changes_the_record_alone(run, tmp_path):
    copy = shutil.copytree(run / "run", tmp_path / "run")
    files = [file for file in [*copy.rglob("*"), *(run / "data").rglob("*")] if file.is_file()]
    before = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    text = invoke("revert", copy, "--case", "volume_001.nii.gz")
    assert "site-1: 1 cases count as they were given, 1 in corrected form" in text
    assert invoke("list", copy).count("reverted") == 1
    invoke("revert", copy)
    assert invoke("list", copy).count("reverted") == 2
    changed = [file.name for file, digest in before.items() if hashlib.sha256(file.read_bytes()).hexdigest() != digest]
    assert changed == [CORRECTIONS_FILE]


def test_corrections_can_be_restored(run, tmp_path):
    """The record is as before, bit by bit: model, round, rule and files are those of the correction."""
    copy = shutil.copytree(run / "run", tmp_path / "run")
    record = next(copy.rglob(CORRECTIONS_FILE))
    before = record.read_bytes()
    invoke("revert", copy)
    text = invoke("restore", copy, "--case", "volume_002.nii.gz")
    assert "site-1: 1 cases count as they were given, 1 in corrected form" in text
    listed = invoke("list", copy)
    assert (listed.count("reverted"), "1 of 2 cases counts" in listed) == (1, True)
    text = invoke("restore", copy)
    assert "site-1: 0 cases count as they were given, 2 in corrected form" in text
    assert record.read_bytes() == before


def test_lesions_are_listed_reverted_and_restored_one_by_one(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "copy")
    (record,) = (file.parent for file in folder.glob("**/corrections.json"))
    corrections = read_corrections(record)
    first = corrections.cases[0]
    given, corrected = (
        np.asarray(nibabel.load(file).dataobj)
        for file in (folder / "data" / "site-1" / first.label, record / first.mask.file)
    )
    lesions = added_lesions(np.where(given == 0, corrected, 0).astype(np.uint8))
    assert len(lesions) > 1
    mask = first.mask.model_copy(update={"lesions": lesions})
    cases = (first.model_copy(update={"mask": mask}), *corrections.cases[1:])
    data = str(folder / "data" / "site-1")
    write_corrections(record, corrections.model_copy(update={"cases": cases, "data": data}))
    case = ("--case", "volume_001.nii.gz")
    listed = invoke("list", folder / "run", *case)
    assert listed.count("added") == len(lesions)
    # The three voxels in the corner are the first ones.
    assert [item.strip() for item in re.split(r" {2,}", listed.splitlines()[2].strip())] == [
        "1",
        "3",
        "0, 0, 1",
        "added",
    ]
    text = invoke("revert", folder / "run", *case, "--lesion", "1")
    assert f"of labels/volume_001.nii.gz {len(lesions) - 1} of {len(lesions)} added lesions count" in text
    assert "corrected, without 1 added lesion" in invoke("list", folder / "run")
    assert invoke("list", folder / "run", *case).count("reverted") == 1
    counting = np.asarray(nibabel.load(record / read_corrections(record).cases[0].mask.counting_file).dataobj)
    assert not counting[0, 0, :3].any()
    assert np.count_nonzero(counting != corrected) == 3
    assert f"{len(lesions)} of {len(lesions)} added" in invoke("restore", folder / "run", *case, "--lesion", "1")
    assert "found 0 times --case" in " ".join(invoke("revert", folder / "run", "--lesion", "1", code=1).split())


def test_corrections_that_wait_are_listed_as_such_and_restored(run, tmp_path):
    copy = shutil.copytree(run / "run", tmp_path / "run")
    record = next(copy.rglob(CORRECTIONS_FILE)).parent
    corrections = read_corrections(record)
    names = [case.name for case in corrections.cases]
    write_corrections(record, corrections.with_states(names, CorrectionState.PROPOSED))
    listed = invoke("list", copy)
    assert (listed.count("proposed"), "0 of 2 cases count" in listed) == (2, True)
    assert "1 in corrected form" in invoke("restore", copy, "--case", "volume_001.nii.gz")
    invoke("revert", copy, "--case", "volume_002.nii.gz")
    assert "proposed" not in invoke("list", copy)


def test_a_corrected_file_that_is_gone_is_not_restored(run, tmp_path):
    copy = shutil.copytree(run / "run", tmp_path / "run")
    record = next(copy.rglob(CORRECTIONS_FILE))
    invoke("revert", copy)
    before = record.read_bytes()
    next(copy.rglob("0001_volume_001.nii.gz")).unlink()
    assert "found no labels/0001_volume_001.nii.gz" in " ".join(invoke("restore", copy, code=1).split())
    assert record.read_bytes() == before
    invoke("restore", copy, "--case", "volume_002.nii.gz")
    assert invoke("list", copy).count("reverted") == 1


def test_write_copies_the_corrected_annotations_that_count(run, tmp_path):
    copy = shutil.copytree(run / "run", tmp_path / "run")
    invoke("revert", copy, "--case", "volume_001.nii.gz")
    out = tmp_path / "out"
    text = invoke("write", copy, "--out", out)
    assert f"site-1: 1 new annotations in {out / 'site-1'}, 1 count as given" in text
    (file,) = (out / "site-1" / "labels").iterdir()
    assert file.name == "0002_volume_002.nii.gz"
    assert file.read_bytes() == next(copy.rglob("0002_volume_002.nii.gz")).read_bytes()
    content = json.loads((out / "site-1" / "provenance.json").read_text(encoding="utf-8"))
    assert (content["method"], content["threshold"], content["as_given"]) == (
        "fedia",
        0.8,
        ["labels/volume_001.nii.gz"],
    )


def test_a_run_in_which_nothing_was_corrected_is_no_error(run, tmp_path):
    (tmp_path / "run" / "site-1" / "simulate_job" / "app_site-1").mkdir(parents=True)
    for folder in (tmp_path / "run", tmp_path / "run" / "site-1"):
        assert "no site corrected its annotations" in " ".join(invoke("list", folder).split())
    assert "site-1 corrected none of its annotations" in " ".join(
        invoke("list", tmp_path / "run", "--site", "site-1").split()
    )
    invoke("list", tmp_path / "run", "--site", "site-9", code=1)
    for command in ("show", "revert", "restore"):
        assert "there is nothing to show or change" in invoke(command, tmp_path / "run", code=1)
    assert "there is no such folder" in " ".join(invoke("list", tmp_path / "absent", code=1).split())


def test_a_job_s_folder_of_a_kit_leads_to_the_site_s_own_one(run, tmp_path):
    shutil.copytree(run / "run" / "site-1" / "simulate_job", tmp_path / "private" / "simulate_job")
    (tmp_path / "simulate_job" / "app_site-1").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "simulate_job", tmp_path / "private" / "simulate_job"):
        assert "2 of 2 cases count" in invoke("list", folder)


def test_a_site_that_corrected_nothing_beside_one_that_did_is_no_error(run, tmp_path):
    copy = shutil.copytree(run / "run", tmp_path / "run")
    (copy / "site-2" / "simulate_job" / "app_site-2").mkdir(parents=True)
    assert "site-2 corrected none of its annotations" in " ".join(invoke("list", copy, "--site", "site-2").split())
    assert "2 of 2 cases count" in invoke("list", copy)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "{run}/data"], "found no corrections.json in it"),
        (["show", "{run}/run", "--site", "site-9"], "found no corrections of 'site-9'; expected one of: site-1"),
        (["show", "{run}/run", "--case", "x.nii"], "found no corrected case 'x.nii'; expected one of: labels/"),
        (["revert", "{run}/run", "--case", "x.nii"], "no corrected case 'x.nii'; expected one of: labels/"),
        (["restore", "{run}/run", "--case", "x.nii"], "no corrected case 'x.nii'; expected one of: labels/"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(run, arguments, text):
    output = invoke(*(argument.format(run=run) for argument in arguments), code=1)
    assert text in " ".join(output.split())


def test_scores_of_corrections_by_counting(run):
    scores = correction_scores(run / "run", run / "data", ["site-1", "site-2"])
    site = run / "data" / "site-1"
    clean = np.stack([np.asarray(nibabel.load(file).dataobj) for file in sorted((site / "clean_labels").iterdir())])
    right = int(clean[:, :32].sum())
    assert scores["site-1"].plain() == {
        "added": right + 6,
        "missing": int(clean.sum()),
        "right": right,
        "removed": 0,
        "precision": right / (right + 6),
        "recall": right / clean.sum(),
    }
    assert (scores["site-2"].added, scores["site-2"].precision, scores["site-2"].recall) == (0, None, 0.0)
    missing = sum(score.missing for score in scores.values())
    assert pooled_correction(scores).plain() == {"precision": right / (right + 6), "recall": right / missing}


def test_errors_of_completeness_are_those_against_the_manifests(run):
    manifests = [json.loads((run / "data" / f"site-{n}" / "manifest.json").read_text(encoding="utf-8")) for n in (1, 2)]
    true = [m["missing_lesions"]["num_kept"] / m["missing_lesions"]["num_lesions"] for m in manifests]
    assert true[0] == 0.0
    result = completeness_errors({"site-1": 0.25, "site-2": true[1] + 0.05}, run / "data")
    assert result.mean_absolute_error == pytest.approx(0.15)
    assert result.rank_correlation == pytest.approx(1.0)
    assert result.sites["site-2"].plain() == {"estimate": true[1] + 0.05, "true": true[1]}
    same = completeness_errors({"site-1": 0.5, "site-2": 0.5}, run / "data")
    assert same.rank_correlation is None
    assert completeness_errors({"absent": 0.5}, run / "data") is None
