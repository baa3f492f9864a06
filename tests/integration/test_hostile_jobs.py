"""Every hostile job that can be thought of, at the gate that stands in a participant's parent process."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from conftest import JOBS
from hostile_jobs import Bait, HostileJob, all_jobs, honest_job

from fedannot.apps.deployment.deployable_job import read_configuration
from fedannot.custom.approval.approved import (
    ApprovedJob,
    ApprovedJobs,
    check_job,
    installed_version,
    write_approved,
)
from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.submission import read_job

SITES = ("site-1", "site-2")


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `local` in which the jobs of fedannot are approved."""
    folder = tmp_path_factory.mktemp("local")
    jobs = tuple(ApprovedJob.of(*read_configuration(job)) for job in sorted(JOBS.iterdir()))
    write_approved(folder, ApprovedJobs(fedannot=installed_version(), installed=jobs))
    return folder


def submitted(job: HostileJob, honest: dict[str, str]) -> bytes:
    """The archive of a job."""
    files = {path: text for path, text in (honest | job.files).items() if text is not None}
    files["meta.json"] = json.dumps(json.loads(files["meta.json"]) | job.meta)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in files.items():
            archive.writestr(f"job/{path}", text)
    return stream.getvalue()


def test_nothing_hostile_passes(kit: Path, tmp_path: Path) -> None:
    """What passes is the approved configuration with settings that are harmless: no path, no address, bounded."""
    honest = honest_job(tmp_path / "honest", SITES)
    bait = Bait(tmp_path / "marker", tmp_path / "victim", tmp_path / "secret", "http://127.0.0.1:9/canary")
    files = {str(file.relative_to(honest)): file.read_text() for file in honest.rglob("*") if file.is_file()}
    approved = read_configuration(honest)[1]
    jobs = list(all_jobs(honest, bait, approved.classes))
    assert len(jobs) > 5000
    passed, reasons = [], set()
    for job in jobs:
        try:
            configuration = read_job(submitted(job, files), "job")
            check_job(configuration, kit)
        except JobRefusedError as error:
            reasons.add(str(error))
            continue
        passed.append((job, configuration))
    assert all(reason.isprintable() and len(reason) < 700 for reason in reasons)
    assert all(configuration.digest == approved.digest for _, configuration in passed)
    # A seed may be any whole number of 64 bits.
    seeds = ("settings.seed", "settings.embedded.seed")
    assert {job.name for job, _ in passed} == {f"{seed} = {number}" for seed in seeds for number in (12, 13)}
    for job, configuration in passed:
        text = json.dumps(configuration.settings)
        assert not any(found in text for found in ("/", "{$", "{SITE", "subprocess", "http", "include")), job.name


def test_the_honest_jobs_pass(kit: Path, tmp_path: Path) -> None:
    for job in sorted(JOBS.iterdir()):
        honest = honest_job(tmp_path / job.name, SITES, job.name)
        files = {str(file.relative_to(honest)): file.read_text() for file in honest.rglob("*") if file.is_file()}
        check_job(read_job(submitted(HostileJob("none", {}), files), "job"), kit)
