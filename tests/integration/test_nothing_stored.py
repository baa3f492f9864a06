"""Every job of the project over TLS: what NVFlare stores or returns names and shows no file of server or sites.

The server has a test set, and of everybody's images one cannot be read. Deselected unless asked for:
`make test-processes`.
"""

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from conftest import JOBS
from hospitals import END_TIMEOUT, SITES, Hospitals, started_hospitals
from support.leaks import Needles, leaks_in, needles_of
from test_nothing_of_a_file import NOT_STORED, SECTIONS, federation, unreadable
from test_what_leaves import JOB_SETTINGS

from fedannot.apps.deployment.deployable_job import deployable_job
from fedannot.apps.runs.job import Job, is_swarm
from fedannot.custom.flare.public_errors import PublicError
from fedannot.custom.methods.lookup import method_of

pytestmark = pytest.mark.processes

SERVER = "localhost"
PARTICIPANTS = {**{site: site for site in SITES}, SERVER: "test"}


@dataclass(frozen=True)
class Searched:
    """A federation, and what is searched for.

    Attributes:
        hospitals: the federation.
        data: by what jobs learn, segmentation and classification, the folder with the data of all participants.
        needles: of all data.
    """

    hospitals: Hospitals
    data: dict[bool, Path]
    needles: Needles

    def submit(self, name: str) -> str:
        """Submit a job, on data that it can use."""
        data = self.data["classification" in name or name == "fedgsca"]
        for participant, folder in PARTICIPANTS.items():
            description = yaml.safe_load((data / folder / "data.yaml").read_text(encoding="utf-8"))
            description["datalist"] = str(data / folder / "datalist.json")
            file = self.hospitals.kits / participant / "local" / "data.yaml"
            file.write_text(yaml.safe_dump(description), encoding="utf-8")
        like = self.hospitals.kits / "site-1" / "local" / "data.yaml"
        job = self.hospitals.jobs / f"job-{len(list(self.hospitals.jobs.glob('job-*')))}"
        deployable_job(JOBS / name, job, sites=SITES, description=like, overrides=JOB_SETTINGS[name])
        return self.hospitals.submit(job)

    def download(self, job_id: str) -> Path:
        """What the researcher gets of a job."""
        return self.hospitals.download(job_id, self.hospitals.jobs / "results")

    def leaks(self, *folders: Path) -> list[str]:
        """What is found in folders that must not be there."""
        return [f"{folder.name}: {leak}" for folder in folders for leak in leaks_in(folder, self.needles)]


def is_scored_at_server(name: str) -> bool:
    """Whether the server's test set is used by a job."""
    job = Job.open(JOBS / name)
    settings = job.settings()
    return not is_swarm(job) and method_of(settings).server_part(settings).is_scored_at_server


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searched]:
    data, needles = {}, Needles()
    for is_classification in (False, True):
        folder = tmp_path_factory.mktemp("archives")
        # Half of a site's patients, as each part of an audit has, are more than what an update must be of.
        data[is_classification] = federation(folder, has_masks=not is_classification, images_per_site=12)
        result = needles_of(SECTIONS, data[is_classification], folder / "cache")
        needles.texts |= result.texts
        needles.windows |= result.windows
        for size, planes in result.planes.items():
            needles.planes.setdefault(size, []).extend(planes)
    with started_hospitals(tmp_path_factory) as started:
        yield Searched(started, data, needles)


@pytest.mark.parametrize("name", sorted(JOB_SETTINGS))
def test_nothing_of_a_file_is_in_what_is_stored_of_a_job_or_returned(searched: Searched, name: str) -> None:
    hospitals = searched.hospitals
    job_id = searched.submit(name)
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED", hospitals.log(SERVER, job_id)
    result = searched.download(job_id)
    assert (result / "log.txt").is_file()
    stored = hospitals.kits / SERVER / "storage" / "jobs" / job_id
    assert stored.is_dir()
    places = [result.parent, stored, *(hospitals.kits / site / job_id for site in SITES)]
    assert searched.leaks(*places) == []
    # Whoever may know what could not be read does.
    data = searched.data["classification" in name or name == "fedgsca"]
    for participant in SITES:
        own = hospitals.private(participant, job_id)
        assert unreadable(data / participant).name in (own / "fedannot_site.log").read_text(encoding="utf-8")
        assert stat.S_IMODE(own.stat().st_mode) == stat.S_IMODE(own.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE((own / "fedannot_site.log").stat().st_mode) == 0o600
    if is_scored_at_server(name):
        log = hospitals.private(SERVER, job_id) / "fedannot_server.log"
        assert unreadable(data / "test").name in log.read_text(encoding="utf-8")
        assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
        # And the researcher sees how the run went.
        assert "Round 1/" in (result / "log.txt").read_text(encoding="utf-8")


def test_of_a_test_set_that_cannot_be_used_the_researcher_learns_that_alone(searched: Searched) -> None:
    test_set = searched.data[False] / "test"
    contents = {file: file.read_bytes() for file in (test_set / "images").iterdir()}
    try:
        for file in contents:
            file.write_bytes(b"broken")
        job_id = searched.submit("fedavg")
        assert searched.hospitals.wait(job_id, END_TIMEOUT) != "FINISHED:COMPLETED"
    finally:
        for file, content in contents.items():
            file.write_bytes(content)
    result = searched.download(job_id)
    assert searched.leaks(result.parent) == []
    assert PublicError.NO_TEST_SET in (result / "log.txt").read_text(encoding="utf-8")
    log = searched.hospitals.private(SERVER, job_id) / "fedannot_server.log"
    assert all(file.name in log.read_text(encoding="utf-8") for file in contents)


def test_nothing_is_anywhere_else_in_the_kits(searched: Searched) -> None:
    """After all jobs: logs of the participants, what they print, the job store, transfers, snapshots, job folders."""
    assert [
        f"{kit.name}: {leak}"
        for kit in sorted(searched.hospitals.kits.iterdir())
        for leak in leaks_in(kit, searched.needles, skip=NOT_STORED)
    ] == []
