"""Runs on own data that are planned: when, with which settings, and what goes on from what was planned."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import fedannot
from fedannot.apps.commands.cli import app
from fedannot.apps.functions import runs
from fedannot.apps.planning import planned_run, suggested
from fedannot.apps.planning.machine import MachineSpeed
from fedannot.apps.planning.measured_run import measure_parts
from fedannot.apps.planning.planned_run import plan_run, why_not_planned
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.planned_settings import PLAN_FILE, PlannedSettings
from fedannot.custom import LesionImages, write_phantom_federation
from fedannot.custom.data.description import read_site_description, write_site_description
from fedannot.custom.data.federation import FederationDescription, read_federation, write_federation
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.planning.time_budget import PartSeconds
from fedannot.custom.run.state import ResumeError
from fedannot.transforms.errors import DataError

# A network of which a step takes a moment; it stands in place of a planned one.
SMALL = {"network.features": [4, 4, 8, 8, 8, 4]}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites of generated images."""
    folder = tmp_path_factory.mktemp("generated") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=2, images_per_site=3, test_images=2)
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as if somebody had imported them."""
    folder = tmp_path_factory.mktemp("own") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=2, images_per_site=3, test_images=2)
    description = read_federation(folder)
    write_federation(folder, description.model_copy(update={"made": "import of mine"}))
    return folder


@pytest.fixture
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which a step of training takes half a second, a round 0.2 s more, and a case 0.1 s."""
    monkeypatch.setattr(suggested, "machine_speed", lambda dims, threads: MachineSpeed(1e11))
    monkeypatch.setattr(suggested, "step_seconds", lambda *args, **options: 0.25)
    monkeypatch.setattr(planned_run, "measure_parts", lambda *args, **options: PartSeconds(0.5, 0.2, 0.1))
    monkeypatch.setattr(planned_run, "suitable_sites_at_once", lambda *args, **options: 1)


@pytest.mark.parametrize(
    ("job", "overrides", "reason"),
    [
        ("fedavg", {}, None),
        ("fedaaai", {"recipe": "research"}, None),
        ("auto", {"rounds": 20}, None),
        ("fedia", {"seed": 3}, None),
        ("fedavg", {"recipe": "demo"}, "recipe = demo is given"),
        ("fedavg", {"method": "fedcurv"}, "the method 'fedcurv' has no plan"),
        ("rmd", {}, "the method 'rmd' has no plan"),
        ("audit", {}, "the method 'audit' has no plan"),
        ("fingerprint", {}, "the method 'fingerprint' has no plan"),
        ("decoupled_server", {}, "the method 'decoupled' has no plan"),
        ("ditto", {}, "the method 'ditto' has no plan"),
        ("fedgsca", {}, "classification has no plan"),
    ],
)
def test_which_runs_on_own_data_are_planned(
    own: Path, job: str, overrides: Mapping[str, Any], reason: str | None
) -> None:
    obstacle = why_not_planned(Job.open(job), own, None, overrides)
    assert (None if obstacle is None else obstacle.reason) == reason


def test_a_set_of_settings_and_no_data_are_not_planned(own: Path) -> None:
    job = Job.open("fedavg")
    for obstacle in (why_not_planned(job, own, "mine.conf", {}), why_not_planned(job, None, None, {})):
        assert obstacle is not None
        assert (obstacle.is_final, obstacle.is_chosen) == (True, True)


def test_generated_images_are_known_also_with_noise(generated: Path, own: Path) -> None:
    with_noise = FederationDescription(name="a", sites=("a",), made="phantom lesions2d, seed 0; contour noise, seed 1")
    imported = FederationDescription(name="phantom-ct", sites=("a",), made="import of phantom-ct")
    assert [entry.is_generated for entry in (with_noise, imported)] == [True, False]
    assert [read_federation(folder).is_generated for folder in (generated, own)] == [True, False]
    obstacle = why_not_planned(Job.open("fedavg"), generated, None, {})
    assert obstacle is not None
    assert not obstacle.is_final


def test_a_job_that_was_changed_is_not_planned_unless_asked(own: Path, tmp_path: Path) -> None:
    job = Job(fedannot.copy_job("fedavg", tmp_path))
    assert why_not_planned(job, own, None, {}) is None
    with job.settings_file.open("a", encoding="utf-8") as file:
        file.write("\nsettings.rounds = 9\n")
    obstacle = why_not_planned(job, own, None, {})
    assert obstacle is not None
    assert not obstacle.is_final


def planned(own: Path, out: Path, job: str = "fedavg", hours: float = 0.5, **chosen: Any) -> dict[str, Any]:
    """The planned values with chosen ones, whose keys are written with ``__``."""
    overrides = {key.replace("__", "."): value for key, value in chosen.items()}
    return plan_run(Job.open(job), own, hours, out, overrides=overrides).values


@pytest.mark.usefixtures("known_machine")
def test_a_plan_fills_the_time(own: Path, tmp_path: Path) -> None:
    values = planned(own, tmp_path)
    assert (values["recipe"], values["network._target_"], values["rounds"]) == ("research", "DynUNet", 50)
    # Two sites, a round of n steps takes 2 (0.2 + n / 2) s; two test cases mirrored in four ways 0.8 s.
    room = 1800 * 0.95 - 15 - 50 * 0.8
    assert values["training.local_steps"] == pytest.approx((room / 100 - 0.2) / 0.5, abs=1)
    assert "inference.mirroring" not in values
    assert "validate_every" not in values


@pytest.mark.usefixtures("known_machine")
def test_what_is_chosen_stays_and_the_rest_follows(own: Path, tmp_path: Path) -> None:
    values = planned(own, tmp_path, rounds=10, training__batch_size=3)
    assert "rounds" not in values
    assert "training.batch_size" not in values
    assert values["training.local_steps"] == pytest.approx((1800 * 0.95 - 15 - 10 * 0.8) / 10, abs=2)
    values = planned(own, tmp_path, training__local_steps=100)
    assert values["rounds"] == pytest.approx((1800 * 0.95 - 15) * 0.9 / (2 * 50.2), abs=1)
    values = planned(own, tmp_path, training__local_epochs=4)
    assert "training.local_steps" not in values
    values = planned(own, tmp_path, network="SegResNet")
    assert not any(key.startswith("network") for key in values)
    assert "network.filters" in planned(own, tmp_path, network__num_classes=1)
    assert not any(key.startswith("network") for key in planned(own, tmp_path, **{"network__features": [4] * 6}))


@pytest.mark.usefixtures("known_machine")
def test_a_warmup_fits_into_a_short_plan(own: Path, tmp_path: Path) -> None:
    # Predictions are what takes long: no mirrored images, and one score at the end.
    made = plan_run(Job.open("auto"), own, 0.005, tmp_path, overrides={})
    values = made.values
    warmup = Job.open("auto").settings().model_dump()["warmup_rounds"]
    assert values["rounds"] == warmup + 3
    assert values["inference.mirroring"] is False
    # Beside the planning: 15 s for start and report, four predictions of six cases, one scoring of two, and 7 rounds.
    assert made.time.expected_hours is not None
    assert made.time.expected_hours * 3600 >= 15 + 4 * 6 * 0.1 + 2 * 0.1 + 7 * 2 * 0.7
    assert "s: what was chosen, predictions and scores leave no shorter run." in made.sentence(
        Job.open("auto").settings_with(values)
    )


def test_hours_go_with_what_can_be_planned(own: Path, tmp_path: Path) -> None:
    for changes, said in (({"recipe": "demo"}, "recipe = demo"), ({"method": "fedcurv"}, "'fedcurv' has no plan")):
        with pytest.raises(JobError, match=said):
            fedannot.simulate("fedavg", tmp_path / "out", data=own, changes=changes, hours=1)
    with pytest.raises(JobError, match="no data"):
        fedannot.simulate("fedavg", tmp_path / "out", hours=1)
    with pytest.raises(JobError, match="--settings says"):
        fedannot.simulate("fedavg", tmp_path / "out", data=own, settings="mine.conf", hours=1)
    assert not (tmp_path / "out").exists()


def test_data_that_cannot_be_planned_for_name_the_way_out(own: Path, tmp_path: Path) -> None:
    shutil.copytree(own, tmp_path / "data")
    described = read_site_description(own / "site-2")
    write_site_description(tmp_path / "data" / "site-2", described.model_copy(update={"size": (32, 32)}))
    with pytest.raises(DataError, match=r"site-2: key 'size' .* Without a plan \(--no-plan\) the job's own settings"):
        fedannot.simulate("fedavg", tmp_path / "out", data=tmp_path / "data", hours=1)


def test_steps_and_cases_are_measured_on_the_images(own: Path) -> None:
    settings = Job.open("fedavg").settings_with(SMALL | {"recipe": "research"})
    parts = measure_parts(settings, own / "site-1", site="site-1", sites_at_once=2)
    assert all(0 < seconds < 30 for seconds in (parts.step, parts.site_round, parts.case, parts.case_reading))


def given_hours(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> tuple[Any, str]:
    """The hours that a command asks its run for, and what it printed."""
    asked: list[Any] = []

    def run(*args: object, hours: float | None, **options: object) -> None:
        del args, options
        asked.append(hours)
        raise JobError("not run")

    monkeypatch.setattr(runs, "simulate", run)
    said = CliRunner().invoke(app, ["simulate", *arguments]).output
    return (asked or [None])[0], " ".join(said.split())


def test_the_command_plans_own_data_and_nothing_else(
    own: Path, generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path / "out")]
    hours, said = given_hours(monkeypatch, ["fedavg", "--data", str(own), *out])
    assert hours == 1.0
    assert "Settings are planned for 1 h on this machine (--hours); --no-plan takes the job's own." in said
    assert given_hours(monkeypatch, ["fedavg", "--data", str(own), "--hours", "0.5", *out])[0] == 0.5
    for arguments in (["--data", str(own), "--no-plan"], ["--data", str(own), "--set", "recipe=demo"], []):
        hours, said = given_hours(monkeypatch, ["fedavg", *arguments, *out])
        assert hours is None
        assert "planned" not in said
    hours, said = given_hours(monkeypatch, ["fedavg", "--data", str(generated), *out])
    assert hours is None
    assert "The job's own settings are taken: the images of the data were generated." in said
    both = CliRunner().invoke(app, ["simulate", "fedavg", "--data", str(own), "--hours", "1", "--no-plan", *out])
    assert both.exit_code == 2
    # A planned run stays so, and the command says it.
    (tmp_path / "out").mkdir()
    again = ["fedavg", "--data", str(own), "--no-plan", "--resume", *out]
    assert "begun with a plan" not in given_hours(monkeypatch, again)[1]
    (tmp_path / "out" / PLAN_FILE).touch()
    hours, said = given_hours(monkeypatch, again)
    assert hours is None
    assert "The run was begun with a plan and goes on with it: --no-plan is for new runs, in another --out." in said


@pytest.mark.usefixtures("known_machine")
def test_a_planned_run_goes_on_with_its_plan(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "draw_run", lambda *args: ())
    changes = SMALL | {"rounds": 2, "training.local_steps": 1}
    whole = fedannot.simulate("fedavg", tmp_path / "whole", data=own, changes=changes, hours=0.1)
    assert whole.plan.startswith("Planned for 0.1 h on this machine: 2 rounds of 1 step at each of 2 sites.")
    # 250,000 half seconds at two sites.
    assert whole.plan.endswith("250,000 steps a site (nnU-Net), which would take 69.4 h.")
    of_training = ["training.batch_size", "training.learning_rate", "training.momentum"]
    assert sorted(whole.summary.planned or ()) == ["recipe", *of_training]
    assert whole.summary.settings["recipe"] == "research"
    page = whole.report.read_text(encoding="utf-8")
    assert page.count("planned</td>") == len(whole.summary.planned or ())
    assert "--no-plan" in page

    train = FedAvgSite.train

    def dies(self: FedAvgSite, network: Any, site: Any) -> Any:
        if site.round_number == 2:
            raise KeyboardInterrupt
        return train(self, network, site)

    monkeypatch.setattr(FedAvgSite, "train", dies)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        fedannot.simulate("fedavg", tmp_path / "parts", data=own, changes=changes, hours=0.1)
    monkeypatch.setattr(FedAvgSite, "train", train)
    # Another machine, which is not asked.
    monkeypatch.setattr(planned_run, "measure_parts", None)
    monkeypatch.setattr(suggested, "machine_speed", None)
    resumed = fedannot.simulate("fedavg", tmp_path / "parts", data=own, changes=changes, resume=True)
    assert resumed.plan == whole.plan
    first, second = (torch.load(run.model, weights_only=True)["model"] for run in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)
    # The same time may be said again; another one, which the plan does not have, is refused.
    again = fedannot.simulate("fedavg", tmp_path / "parts", data=own, changes=changes, hours=0.1, resume=True)
    assert again.plan == whole.plan
    with pytest.raises(ResumeError, match=r"^--hours: found 0\.3, but the run in .* was planned for 0\.1 h"):
        fedannot.simulate("fedavg", tmp_path / "parts", data=own, changes=changes, hours=0.3, resume=True)
    # A run that was begun without a plan goes on without one.
    (tmp_path / "parts" / PLAN_FILE).unlink()
    with pytest.raises(ResumeError, match="recipe='demo' instead of 'research'"):
        fedannot.simulate("fedavg", tmp_path / "parts", data=own, changes=changes, resume=True)
    with pytest.raises(ResumeError, match=r"was begun without a plan and goes on .*; expected no --hours\."):
        fedannot.simulate("fedavg", tmp_path / "parts", data=own, changes=changes, hours=0.1, resume=True)


def test_a_file_of_settings_is_no_plan_of_a_run(tmp_path: Path) -> None:
    (tmp_path / PLAN_FILE).write_text("settings { rounds = 3 }", encoding="utf-8")
    assert PlannedSettings.of_run(Job.open("fedavg"), tmp_path) is None
