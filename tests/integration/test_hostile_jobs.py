"""Every hostile job that can be thought of, at the gate that stands in a participant's parent process."""

import functools
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import JOBS
from hostile_jobs import ABSENT_METHOD, Bait, HostileJob, all_jobs, honest_job, named_attacks

from fedannot.apps.deployment.deployable_job import read_configuration
from fedannot.custom.approval import approved as approving
from fedannot.custom.approval.approved import (
    ApprovedJob,
    ApprovedJobs,
    check_job,
    installed_version,
    read_approved,
    write_approved,
)
from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.submission import read_job
from fedannot.custom.methods import lookup

SITES = ("site-1", "site-2", "site-3")


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


def test_nothing_hostile_passes(kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes is the approved configuration with settings that are tolerated: no path, no address, bounded."""
    # Asked for by every check, while nothing is installed or approved: for thousands of jobs that is most of the time.
    monkeypatch.setattr(approving, "installed_version", functools.cache(installed_version))
    monkeypatch.setattr(approving, "read_approved", functools.cache(read_approved))
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


@pytest.fixture
def broken_package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package that names the method, and whose module has the parameter as its text."""
    folder = tmp_path / "site-packages"
    record = folder / "elsewhere-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[{lookup.ENTRY_POINTS}]\n{ABSENT_METHOD} = elsewhere_methods:METHOD\n")
    if request.param is not None:
        (folder / "elsewhere_methods.py").write_text(request.param)
    monkeypatch.syspath_prepend(folder)
    caches = lookup._entry_points, lookup._installed
    for cache in caches:
        cache.cache_clear()
    yield folder
    for cache in caches:
        cache.cache_clear()
    sys.modules.pop("elsewhere_methods", None)


@pytest.mark.parametrize(
    "broken_package",
    [None, "from elsewhere_methods import nothing", "raise OSError(__file__)", "METHOD = __file__"],
    indirect=True,
)
def test_a_method_whose_package_cannot_be_used_is_refused_without_a_word_of_this_machine(
    broken_package: Path, kit: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The site's own log says more."""
    honest = honest_job(tmp_path / "honest", SITES)
    files = {str(file.relative_to(honest)): file.read_text() for file in honest.rglob("*") if file.is_file()}
    bait = Bait(tmp_path / "marker", tmp_path / "victim", tmp_path / "secret", "")
    (job,) = [job for job in named_attacks(honest, bait) if "package" in job.name]
    configuration = read_job(submitted(job, files), "job")
    with pytest.raises(JobRefusedError, match=rf"Its method, 'segmentation/{ABSENT_METHOD}', is not approved here"):
        check_job(configuration, kit)
    assert "elsewhere_methods" not in sys.modules
    approved = read_approved(kit)
    assert approved is not None
    shutil.copytree(kit, tmp_path / "local")
    write_approved(tmp_path / "local", approved.with_other(ApprovedJob.of("theirs", configuration)))
    with pytest.raises(JobRefusedError) as refused:
        check_job(configuration, tmp_path / "local")
    assert str(refused.value) == (
        f"The method {ABSENT_METHOD!r} is of another package, which cannot be used here; see the participant's log."
    )
    assert "'elsewhere_methods:METHOD'" in caplog.text


def test_the_honest_jobs_pass(kit: Path, tmp_path: Path) -> None:
    for job in sorted(JOBS.iterdir()):
        honest = honest_job(tmp_path / job.name, SITES, job.name)
        files = {str(file.relative_to(honest)): file.read_text() for file in honest.rglob("*") if file.is_file()}
        read = read_job(submitted(HostileJob("none", {}), files), "job")
        if job.name == "feddm":
            with pytest.raises(JobRefusedError, match="'models_to_sites': true, at the server and at every site"):
                check_job(read, kit)
            continue
        check_job(read, kit)
