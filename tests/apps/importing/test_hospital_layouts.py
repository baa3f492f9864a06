"""Folders as hospitals have them, from nothing to a check, by the commands of the page for data managers alone."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from pages import ROOT, commands_of, read_page
from PIL import Image
from scans import VOXELS, write_series
from typer.testing import CliRunner

from fedannot.apps.commands.data import data_app
from fedannot.apps.importing.volumes import as_nifti
from fedannot.custom.data.datalist import read_datalist


def picture(file, seed, *, square=False):
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (64, 64), dtype=np.uint8)
    if square:
        pixels = np.zeros((64, 64), np.uint8)
        pixels[8:30, 8:40] = 255
    Image.fromarray(pixels).save(file)


def patients(root):
    """Two scans of each of six patients, with their masks beside them."""
    for patient in range(1, 7):
        for scan, name in enumerate(("ct", "CT_later")):
            picture(root / f"patient{patient:02d}/{name}.png", 2 * patient + scan)
            picture(root / f"patient{patient:02d}/{name.lower()}_mask.png", patient, square=True)
    (root / "README.txt").write_text("two scans each")
    return {f"patient{patient:02d}": 2 for patient in range(1, 7)}, 1


def scans(root):
    """A study with two series of each of five patients, their masks elsewhere as NIfTI; two are of one person."""
    masks = root.with_name("masks")
    masks.mkdir()
    for patient in range(1, 6):
        for series in ("t1", "t2"):
            folder = root / str(patient) / "2024-03" / series
            folder.parent.mkdir(parents=True, exist_ok=True)
            write_series(
                folder, patient=f"PID{max(patient, 2)}", uid=f"1.2.{patient}.{series[1]}", voxels=VOXELS + patient
            )
        (folder / "0 README").write_text("exported")
        volume = nibabel.load(as_nifti(folder, masks / "volume.nii.gz"))
        mask = np.zeros(volume.shape, np.uint8)
        mask[1:3, 1:3, 1:3] = 1
        nibabel.save(nibabel.Nifti1Image(mask, volume.affine), masks / f"{patient}.nii.gz")
    (masks / "volume.nii.gz").unlink()
    # The series of the other name are not asked for, and no README is an image.
    return {"PID2": 2, "PID3": 1, "PID4": 1, "PID5": 1}, 5


def slides(root):
    """TIFF files in a folder for each centre, whose outlines have other capitals."""
    for centre in ("north", "Süd"):
        for name in "abc":
            picture(root / centre / f"{name}.tif", ord(name) + len(centre))
            picture(root.with_name("outlines") / centre / f"{name.upper()}.TIF", 0, square=True)
    picture(root / "north" / "x.webp", 0)
    return {}, 1


def photos(root):
    """A table as a spreadsheet program of Central Europe writes it."""
    rows = ["file;diagnosis;patient"]
    for index in range(12):
        picture(root / f"{index // 4}" / f"IMG_{index}.JPG", index)
        diagnosis = ("Malignant", "benign", "malignant", "Benign", "NaN", "benign")[index % 6]
        rows.append(f"img_{index}.jpg;{diagnosis};{'NaN' if index == 0 else index // 2}")
    text = "\r\n".join(rows) + "\r\n"
    root.with_name("findings.csv").write_bytes(text.encode("utf-8-sig"))
    return {"0": 1, "1": 2, "2": 1, "3": 2, "4": 2, "5": 1}, 2


MADE = {"patients": patients, "scans": scans, "slides": slides, "photos": photos}


def commands_for(name):
    """The commands of the page that make and check the federation of a layout."""
    out = f"runs/{name}"
    return [words for words in commands_of(read_page(ROOT / "docs" / "data.md")) if out in words]


@pytest.mark.parametrize("name", MADE)
def test_a_hospital_s_folders_are_checked_by_the_commands_of_the_page(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    groups, left_out = MADE[name](tmp_path / name)
    importing, checking = commands_for(name)
    for words in (importing, checking):
        result = CliRunner().invoke(data_app, words[2:])
        assert result.exit_code == 0, result.output
    out = Path("runs") / name
    record = json.loads((out / "import.json").read_text(encoding="utf-8"))
    assert record["num_left_out"] == left_out
    cases = {
        site.name: [case for cases in read_datalist(site / "datalist.json").cases.values() for case in cases]
        for site in sorted(out.iterdir())
        if site.is_dir()
    }
    own = [{case.group for case in of_site} - {None} for of_site in cases.values()]
    assert sum(map(len, own)) == len(set().union(*own)), "a patient is in two parts"
    count = {group: sum(case.group == group for of_site in cases.values() for case in of_site) for group in groups}
    assert count == groups
    if name == "slides":
        assert sorted(cases) == ["Sud", "north", "test"]
        assert {case.source for case in cases["Sud"]} == {"Süd"}
    if name == "photos":
        assert sum("are one class" in note for note in record["notes"]) == 2
        assert [entry["reason"] for entry in record["left_out"]] == ["no class (NaN)"]
    assert "Every site can train." in result.output
