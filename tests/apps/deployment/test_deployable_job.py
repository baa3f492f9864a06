"""From a job for the simulator to one for a federation."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment.deployable_job import GRACE_PERIOD, deployable_job, read_configuration
from fedannot.apps.runs.job import Job, JobError
from fedannot.custom.aggregation.influence import deployed_influence
from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.limits import Limits, check_settings
from fedannot.custom.methods.lookup import method_of
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "jobs"
SITES = ("north", "south", "east")


def meta(folder: Path) -> dict[str, object]:
    result: dict[str, object] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("name", sorted(path.name for path in JOBS.iterdir()))
def test_every_job_can_be_deployed(name: str, tmp_path: Path) -> None:
    job = deployable_job(JOBS / name, tmp_path / "out", sites=SITES)
    original = Job.open(JOBS / name)
    expected: dict[str, object] = {
        "data_required": True,
        "task_process": True,
        "threads": 0,
        "grace_period": GRACE_PERIOD,
        "min_sites": 3,
    }
    # No place has all results of a swarm; FedCurv's sites take their own part out of the mean.
    if name not in ("decoupled", "fedcurv"):
        expected |= {f"influence.{key}": value for key, value in deployed_influence(len(SITES)).items()}
    assert job.settings == original.settings_with(expected)
    files = sorted(str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert files == ["app/config/config_fed_client.json", "app/config/config_fed_server.json", "meta.json"]
    result = meta(tmp_path / "out")
    assert result["deploy_map"] == {"app": ["server", *SITES]}
    assert (result["name"], result["min_clients"]) == (name, 3)
    assert "scope" not in result


@pytest.mark.parametrize("name", sorted(path.name for path in JOBS.iterdir()))
def test_a_job_for_five_sites_or_more_is_without_the_extremes(name: str, tmp_path: Path) -> None:
    """At the server, and where a method can take it."""
    sites = [f"site-{number}" for number in range(5)]
    result = deployable_job(JOBS / name, tmp_path / "out", sites=sites).settings
    rule = "mean" if name in ("decoupled", "fedcurv", "feddm") else "trimmed_mean"
    assert (result.aggregation.rule, result.aggregation.trim, result.min_sites) == (rule, 1, 3)
    # Without a rule updates have a bound.
    assert name != "feddm" or result.influence.max_update_ratio == 1.0
    method_of(result).server_part(result)


def test_the_rule_of_a_deployed_job_can_be_set(tmp_path: Path) -> None:
    sites = [f"site-{number}" for number in range(8)]
    overrides = {"aggregation.rule": "multi_krum", "aggregation.byzantine": 2}
    with pytest.raises(SettingsError, match=r"'aggregation\.rule' 'multi_krum' needs the results of 7 sites"):
        deployable_job(JOBS / "fedavg", tmp_path / "out", sites=sites, overrides=overrides)
    job = deployable_job(JOBS / "fedavg", tmp_path / "out", sites=sites, overrides=overrides | {"min_sites": 7})
    assert job.settings.aggregation.rule == "multi_krum"
    assert check_settings(job.configuration.settings, Limits()) == job.settings


@pytest.mark.parametrize("drift", ["scaffold", "fednova"])
def test_a_job_that_corrects_drift_has_no_bounds_and_the_mean(drift: str, tmp_path: Path) -> None:
    """They would change what sites and server take for the sites' updates."""
    sites = [f"site-{number}" for number in range(5)]
    overrides = {"drift_correction": drift, "training.optimizer": "sgd", "training.momentum": 0.0}
    job = deployable_job(JOBS / "fedavg", tmp_path / "out", sites=sites, overrides=overrides)
    assert not job.configuration.takes_bounds
    assert (job.settings.aggregation.rule, job.settings.influence.has_bounds) == ("mean", False)
    assert check_settings(job.configuration.settings, Limits()) == job.settings


@pytest.mark.parametrize("name", sorted(path.name for path in JOBS.iterdir()))
def test_a_deployed_job_asks_for_what_the_job_does_whatever_its_settings(name: str, tmp_path: Path) -> None:
    """The digest that participants approve is that of the job in the tree; the settings come back as they were."""
    made = deployable_job(JOBS / name, tmp_path / "out", sites=SITES, overrides={"rounds": 78, "seed": 5})
    assert read_configuration(tmp_path / "out") == (name, made.configuration)
    assert made.configuration.digest == read_configuration(JOBS / name)[1].digest
    limits = Limits(models_to_sites=name == "feddm")
    assert check_settings(made.configuration.settings, limits) == made.settings


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"data": "/data"}, "'data' is '/data'; expected nothing"),
        ({"resume_from": "/kit/fedannot_state.pt"}, "expected the id of an earlier job"),
        ({"start_model": "../bundle"}, "expected the name of a model in the folder 'models'"),
        ({"data_required": False}, "sites train on their own data"),
    ],
)
def test_no_path_can_be_set_in_a_deployed_job(override: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(JobRefusedError, match=re.escape(said)):
        deployable_job(JOBS / "fedavg", tmp_path / "out", sites=SITES, overrides=override)
    assert not (tmp_path / "out").exists()


def test_without_names_it_is_for_all_that_are_there(tmp_path: Path) -> None:
    job = deployable_job(JOBS / "fedavg", tmp_path / "out")
    assert meta(tmp_path / "out")["deploy_map"] == {"app": ["@ALL"]}
    assert (job.settings.min_sites, job.refused_by_default) == (3, "")


NAMED_SETTINGS = sorted((path.parents[1].name, path.stem) for path in JOBS.glob("*/settings/*.conf"))


@pytest.mark.parametrize("name", sorted(path.name for path in JOBS.iterdir()))
@pytest.mark.parametrize("sites", [(), SITES, tuple("abcdefgh")], ids=len)
def test_kits_with_the_limits_of_fedannot_take_every_job(name: str, sites: tuple[str, ...], tmp_path: Path) -> None:
    made = deployable_job(JOBS / name, tmp_path / "out", sites=sites)
    # That models reach other sites has to be allowed by name.
    assert ("limits.json here does not allow it" in made.refused_by_default) == (name == "feddm")
    assert name == "feddm" or made.refused_by_default == ""
    assert made.settings.min_sites == max(3, len(sites) // 2 + 1)


@pytest.mark.parametrize(("name", "settings"), NAMED_SETTINGS)
def test_and_every_set_of_settings(name: str, settings: str, tmp_path: Path) -> None:
    assert deployable_job(JOBS / name, tmp_path / "out", sites=SITES, settings=settings).refused_by_default == ""


@pytest.mark.parametrize(
    ("sites", "overrides", "said"),
    [
        (("a", "b"), {}, "The setting 'min_sites' is 2; at least 3"),
        (("a",), {}, "The setting 'min_sites' is 1; at least 3"),
        (SITES, {"min_sites": 2}, "The setting 'min_sites' is 2; at least 3"),
        (SITES, {"influence.max_share": 1.0}, "'influence.max_share' is 1; at most 0.5"),
        (SITES, {"training.batch_size": 2}, "'training.batch_size' is 2; at least 4"),
        (SITES, {"rounds": 2001}, "'rounds' is 2001; at most 2000"),
    ],
)
def test_a_job_that_prepared_kits_refuse_is_made_and_said(
    sites: tuple[str, ...], overrides: dict[str, object], said: str, tmp_path: Path
) -> None:
    """Participants may have other limits."""
    made = deployable_job(JOBS / "fedavg", tmp_path / "out", sites=sites, overrides=overrides)
    assert said in made.refused_by_default
    more = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    arguments = ["deploy", "job", str(JOBS / "fedavg"), "--sites", ",".join(sites), *more]
    shown = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "other")])
    assert shown.exit_code == 0, shown.output
    assert said in " ".join(shown.output.split())


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
    result = job.settings
    assert (result.network.spatial_dims, result.network.in_channels, result.rounds) == (3, 3, 77)
    assert (result.min_sites, result.grace_period) == (3, None)
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
