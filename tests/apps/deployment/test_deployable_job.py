"""From a job for the simulator to one for a federation."""

import json
from pathlib import Path

import pytest

from fedannot.apps.deployment.deployable_job import GRACE_PERIOD, deployable_job
from fedannot.apps.job import Job, JobError
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "jobs"
SITES = ("north", "south", "east")


def meta(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", sorted(path.name for path in JOBS.iterdir()))
def test_every_job_can_be_deployed(name: str, tmp_path: Path) -> None:
    job = deployable_job(JOBS / name, tmp_path / "out", sites=SITES)
    original = Job.open(JOBS / name)
    expected = {"data_required": True, "task_process": True, "grace_period": GRACE_PERIOD, "min_sites": 2}
    assert job.settings() == original.settings_with(expected)
    assert not (tmp_path / "out" / "app" / "custom").exists(), "a job with that folder counts as one with code"
    found = meta(tmp_path / "out")
    assert found["deploy_map"] == {"app": ["server", *SITES]}
    assert (found["name"], found["min_clients"]) == (name, 2)
    assert found.get("scope") == ("swarm" if name == "decoupled" else None)


def test_without_names_it_is_for_all_that_are_there(tmp_path: Path) -> None:
    job = deployable_job(JOBS / "fedavg", tmp_path / "out")
    assert meta(tmp_path / "out")["deploy_map"] == {"app": ["@ALL"]}
    assert job.sites == ()
    assert job.settings().min_sites == 1


def test_settings_come_from_the_data_then_a_set_then_the_caller(tmp_path: Path) -> None:
    description = ROOT / "site_configs" / "data" / "volume.yaml"
    overrides = {"network.in_channels": 3, "min_sites": 3, "training.patch": [64, 64, 32], "grace_period": None}
    settings = tmp_path / "mine.conf"
    settings.write_text("settings { rounds = 77, network { in_channels = 1 } }\n")
    job = deployable_job(
        JOBS / "fedavg",
        tmp_path / "out",
        sites=SITES,
        description=description,
        settings=str(settings),
        overrides=overrides,
    )
    found = job.settings()
    assert (found.network.spatial_dims, found.network.in_channels, found.rounds) == (3, 3, 77)
    assert (found.min_sites, found.grace_period) == (3, None)
    assert meta(tmp_path / "out")["min_clients"] == 3


def test_what_cannot_be_deployed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(JobError, match="each once"):
        deployable_job(JOBS / "fedavg", out, sites=["a", "a"])
    with pytest.raises(JobError, match="min_sites is 5, but the job names 3 sites"):
        deployable_job(JOBS / "fedavg", out, sites=SITES, overrides={"min_sites": 5})
    with pytest.raises(SettingsError, match="no setting 'roundz'; did you mean 'rounds'"):
        deployable_job(JOBS / "fedavg", out, sites=SITES, overrides={"roundz": 5})
    with pytest.raises(DataError, match=r"missing\.yaml"):
        deployable_job(JOBS / "fedavg", out, sites=SITES, description=tmp_path / "missing.yaml")
    assert not out.exists(), "nothing is half written"
    deployable_job(JOBS / "fedavg", out, sites=SITES)
    with pytest.raises(DataError, match="expected an empty or absent output folder"):
        deployable_job(JOBS / "fedavg", out, sites=SITES)
