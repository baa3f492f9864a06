"""The federations of a paper's table, made of data as they are published: a run with the published set takes them."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.apps.papers.data import make_federation, make_phantom
from fedannot.apps.papers.reading import find_table, restricted
from fedannot.apps.runs.installed import find_job
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import Reported
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.custom.data.datalist import VALIDATION
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.overview import federation_overview
from fedannot.custom.data.site_data import count_cases


def write_covid(folder: Path, patients: int) -> None:
    """COVID-19-20 with tiny volumes, each with nine lesions of one voxel."""
    (folder / "Train").mkdir(parents=True)
    for number in range(patients):
        mask = np.zeros((9, 9, 5), np.uint8)
        mask[1::3, 1::3, 2] = 1
        image = np.random.default_rng(number).normal(size=mask.shape).astype(np.float32)
        for kind, values in (("ct", image), ("seg", mask)):
            file = folder / "Train" / f"volume-covid19-A-{number:04d}_{kind}.nii.gz"
            nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), file)


@pytest.mark.parametrize("named_folder", ["covid1920", "."])
def test_a_published_data_set_becomes_the_federation_that_the_set_requires(tmp_path: Path, named_folder: str) -> None:
    write_covid(tmp_path / "data" / named_folder / "COVID-19-20_v2", patients=10)
    named = restricted(find_table("fedia-table1"), ["lung-m0"])
    said: list[str] = []
    progress = Reported(lambda step: said.append(step.text))
    made = [make_federation(named, "lung-m0", tmp_path / "data", tmp_path / "out", progress) for _ in range(2)]
    assert made == [tmp_path / "out" / "lung-m0"] * 2
    # Nothing is made twice.
    assert sum(text.startswith("Importing LUNG") for text in said) == 1
    federation = read_federation(made[0])
    assert (len(federation.sites), federation.noise) == (4, "completeness 0.7,0.8,0.9,1")
    for job in ("fedavg", "fedia"):
        SettingsFile.read(Job.open(find_job(job)), "lung-m0").check_data(made[0])
    manifests = [read_manifest(made[0] / site) for site in federation.sites]
    assert all(manifest is not None and manifest.seed == 0 for manifest in manifests)


def test_generated_images_stand_for_a_condition(tmp_path: Path) -> None:
    """Chaoyang's errors are real; generated cells have a fifth of wrong classes."""
    folder = make_phantom(find_table("fedgsca-table10"), "chaoyang", tmp_path, Reported(None))
    federation = read_federation(folder)
    assert (len(federation.sites), federation.noise) == (3, "labels S20")


def test_frames_of_a_video_are_dealt_out_one_by_one_as_in_the_paper(tmp_path: Path) -> None:
    """Forty frames of one video, 7:1:2: eight for the test; of the other 32 four for validation, an eighth."""
    folder = tmp_path / "data" / "labelled_images" / "Ulcer"
    folder.mkdir(parents=True)
    for number in range(40):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"0728084c8da942d9_{number}.jpg")
    named = restricted(find_table("fedgsca-table4"), ["kvasir-S40"])
    made = make_federation(named, "kvasir-S40", tmp_path / "data", tmp_path / "out", Reported(None))
    counts = {site.site: site.cases for site in federation_overview(made)}
    assert counts == {**{f"site-{number}": 8 for number in range(1, 5)}, "test": 8}
    assert sum(count_cases(made / f"site-{number}", VALIDATION) for number in range(1, 5)) == 4
    SettingsFile.read(Job.open(find_job("fedgsca")), "kvasir").check_data(made)
