"""The left atrium's federation, made of two public data sets by the commands that its settings name."""

import re
import shlex
from pathlib import Path

import SimpleITK
from miniatures import volume
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.custom.data.datalist import TESTING, TRAINING, VALIDATION, read_datalist
from fedannot.custom.data.federation import TEST_FOLDER, read_federation
from fedannot.custom.data.site_data import count_cases

JOBS = Path(__file__).parents[3] / "jobs"


def test_commands_beside_the_settings_make_the_data_that_they_require(tmp_path: Path) -> None:
    for number in range(10):
        folder = tmp_path / "D1" / "pre" / f"p{number}"
        volume(folder / f"de_a_{number}.nrrd", folder / f"la_seg_a_{number}.nrrd")
        folder = tmp_path / "D2" / "2018_UTAH_MICCAI" / "Training Set" / f"CASE_{number}"
        volume(folder / "lgemri.nrrd", folder / "laendo.nrrd")
    # Identical scans would stay together.
    for number, image in enumerate(sorted(tmp_path.rglob("de_a_*")) + sorted(tmp_path.rglob("lgemri*"))):
        scan = SimpleITK.ReadImage(str(image))
        scan[0, 0, 0] = number % 250
        SimpleITK.WriteImage(scan, str(image))
    file = JOBS / "decoupled_server" / "settings" / "left-atrium.conf"
    lines = [line.removeprefix("#").strip() for line in file.read_text(encoding="utf-8").splitlines()]
    text = " ".join(lines).replace("\\ ", "").replace("=D", f"={tmp_path}/D").replace("runs/", f"{tmp_path}/")
    for command in re.findall(r"fedannot (data (?:import|noise) .*? --out \S+)", text):
        # The miniatures' voxels are 1 mm.
        result = CliRunner().invoke(app, shlex.split(command.replace("--spacing 0.6,0.6,1.25 ", "")))
        assert result.exit_code == 0, result.output
    data = tmp_path / "left-atrium-cd"
    SettingsFile.read(Job(JOBS / "decoupled_server"), "left-atrium").check_data(data)
    sites = read_federation(data).sites
    counts = [(count_cases(data / site, TRAINING), count_cases(data / site, VALIDATION)) for site in sites]
    # The two scans of the test set are of Utah.
    assert dict(zip(sites, counts, strict=True)) == {
        "isbi2012-la-1": (4, 1),
        "isbi2012-la-2": (4, 1),
        "utah-1": (3, 1),
        "utah-2": (3, 1),
    }
    tested = read_datalist(data / TEST_FOLDER / "datalist.json").section(TESTING)
    assert [case.image.name.partition("_")[0] for case in tested] == ["CASE"] * 2
