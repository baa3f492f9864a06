"""NVFlare's recipe of a job: the app of its folder with other settings, and nothing that is not in it."""

import filecmp
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvflare.apis.job_def import JobMetaKey
from nvflare.recipe import PocEnv, ProdEnv, SimEnv, add_experiment_tracking, set_recipe_meta

import fedannot
from fedannot.apps.deployment.deployable_job import deployable_job
from fedannot.apps.runs.job import Job, JobError, components_in, parse_hocon
from fedannot.apps.runs.nvflare_recipe import check_same_components
from fedannot.custom import LesionImages, write_phantom_federation
from fedannot.custom.data.location import DATA_VARIABLE
from fedannot.custom.flare.outbound_filter import OutboundFilter
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

JOBS = Path(__file__).parents[3] / "jobs"
NAMES = sorted(file.parent.name for file in JOBS.glob("*/meta.json"))
CHANGES = {"rounds": 9, "training.batch_size": 2, "seed": 5}


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv("NVFLARE_POC_WORKSPACE", str(tmp_path / "poc"))


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    write_phantom_federation(tmp_path / "own", LesionImages(), num_sites=2, images_per_site=1, test_images=1)
    return tmp_path / "own"


def components(job: Job) -> list[tuple[str, Any]]:
    return [part for file in (job.server_config, job.client_config) for part in components_in(parse_hocon(file))]


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", ["fedaaai", "decoupled"])
def test_the_exported_app_is_that_of_the_folder_with_other_settings(name: str, tmp_path: Path) -> None:
    fedannot.recipe(name, changes=CHANGES).export(str(tmp_path))
    exported, own = Job.open(tmp_path / name), Job.open(name)
    assert [path for path, _ in components(exported)] == [path for path, _ in components(own)]
    assert exported.settings() == own.settings_with(CHANGES)
    changed = {"meta.json", "app/config/settings.conf"}
    same = (
        files(own.folder) - changed - {file for file in files(own.folder) if file.startswith(("settings/", "job.py"))}
    )
    # Neither data nor what lies beside the app, and not a byte of the rest is another.
    assert files(exported.folder) == same | changed
    assert filecmp.cmpfiles(own.folder, exported.folder, same, shallow=False)[1:] == ([], [])
    assert json.loads((exported.folder / "meta.json").read_text())["deploy_map"] == {"app": ["@ALL"]}


def test_settings_follow_from_data_and_a_set_of_settings_as_in_one_process(federation: Path, tmp_path: Path) -> None:
    fedannot.recipe("fedavg", data=federation, changes={"rounds": 2}, seed=3).export(str(tmp_path / "jobs"))
    settings = Job.open(tmp_path / "jobs" / "fedavg").settings()
    assert (settings.seed, settings.rounds, settings.data) == (3, 2, str(federation.resolve()))
    settings_file = tmp_path / "mine.conf"
    settings_file.write_text("settings { rounds = 4, training { batch_size = 3 } }")
    fedannot.recipe("fedavg", settings=str(settings_file), changes={"rounds": 5}).export(str(tmp_path / "others"))
    settings = Job.open(tmp_path / "others" / "fedavg").settings()
    assert (settings.rounds, settings.training.batch_size) == (5, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"workflows": [{"path": "os.system"}]},
        {"network": {"path": "os.system", "args": {}}},
        {"network.path": "os.system"},
        {"training": "x"},
    ],
)
def test_what_is_no_setting_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="no setting"):
        fedannot.recipe("fedavg", changes=changes)


@pytest.mark.parametrize(
    "text",
    ['x"\nworkflows = [{ path = os.system }]', "${?workflows}", 'x" } } executors = [] settings { data = "', "# x\n//"],
)
def test_a_value_is_a_value_whatever_it_holds(text: str, tmp_path: Path) -> None:
    fedannot.recipe("fedavg", changes={"start_model": text}).export(str(tmp_path))
    exported = Job.open(tmp_path / "fedavg")
    assert exported.settings().start_model == text
    assert [path for path, _ in components(exported)] == [path for path, _ in components(Job.open("fedavg"))]


def test_settings_that_name_a_component_are_refused(tmp_path: Path) -> None:
    """NVFlare takes a table with a class path for a component to build; so does this check, however deep it is."""
    copied = Job.open("fedavg").copy_with({}, tmp_path / "fedavg")
    with copied.settings_file.open("a") as file:
        file.write('settings.network.more = { path = "os.system", args { command = "true" } }\n')
    with pytest.raises(JobError, match=r"settings change its components, in os\.system"):
        check_same_components(Job.open("fedavg"), copied)
    loss = {"_target_": "DiceLoss", "weight": {"path": "os.system", "args": {"command": "true"}}}
    with pytest.raises(SettingsError, match=r"argument 'weight' is .*os\.system.*; nothing may be read"):
        fedannot.recipe("fedavg", changes={"training.loss": loss}).export(str(tmp_path / "jobs"))
    assert not files(tmp_path / "jobs")


def test_nothing_is_added_to_the_app() -> None:
    made = fedannot.recipe("fedavg")
    for add in (
        lambda: made.add_client_output_filter(OutboundFilter()),
        lambda: made.add_server_config({"x": 1}),
        lambda: made.add_client_file(__file__),
        lambda: add_experiment_tracking(made, "tensorboard"),
        lambda: made.export("unused", client_exec_params={"x": 1}),
        lambda: made._job.add_file_to_server(__file__),
    ):
        with pytest.raises(JobError, match="the app of a job is that of its folder"):
            add()


def test_what_nvflare_lets_a_recipe_say_of_a_job_is_said(tmp_path: Path) -> None:
    made = fedannot.recipe("fedavg")
    set_recipe_meta(made, JobMetaKey.SCOPE, "private")
    made.export(str(tmp_path))
    meta = json.loads((tmp_path / "fedavg" / "meta.json").read_text())
    assert (meta["scope"], meta["name"], meta["deploy_map"]) == ("private", "fedavg", {"app": ["@ALL"]})


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "fedavg").mkdir()
    (tmp_path / "fedavg" / "mine").touch()
    with pytest.raises(DataError, match="a folder with files in it"):
        fedannot.recipe("fedavg").export(str(tmp_path))
    assert files(tmp_path) == {"fedavg/mine"}


def test_hospitals_get_what_they_approve(federation: Path, tmp_path: Path) -> None:
    kit = ProdEnv(startup_kit_location=str(tmp_path))
    made = fedannot.recipe("fedaaai", changes=CHANGES)
    made.export(str(tmp_path / "jobs"), env=kit)
    deployable_job("fedaaai", tmp_path / "expected", overrides=CHANGES)
    expected, exported = tmp_path / "expected", tmp_path / "jobs" / "fedaaai"
    assert files(exported) == files(expected)
    assert filecmp.cmpfiles(expected, exported, files(expected), shallow=False)[1:] == ([], [])
    made.export(str(tmp_path / "simulated"))
    assert (tmp_path / "simulated" / "fedaaai" / "app" / "custom" / "README.txt").is_file()
    with pytest.raises(JobError, match=r"names the data .*own, but hospitals train on data of their own"):
        fedannot.recipe("fedaaai", data=federation).export(str(tmp_path / "other"), env=kit)
    assert not (tmp_path / "other").exists()


def environments(tmp_path: Path) -> Iterator[Any]:
    for kind in (SimEnv, PocEnv):
        yield lambda names, kind=kind: kind(num_clients=len(names), clients=names)


def test_sites_without_data_are_named_before_any_process_starts(federation: Path, tmp_path: Path) -> None:
    own = fedannot.recipe("fedavg", data=federation)
    embedded = fedannot.recipe("fedavg", changes={"embedded.sites": 2, "embedded.stratified": None})
    for environment in environments(tmp_path):
        own.process_env(environment(["site-2", "site-1"]))
        embedded.process_env(environment(["hospital-b", "site-1"]))
        with pytest.raises(JobError, match=r"own: has no data of a; .* clients=\['site-1', 'site-2'\]"):
            own.process_env(environment(["site-1", "a"]))
        with pytest.raises(JobError, match=r"at most the 2 sites of the embedded federation, .* has 3"):
            embedded.process_env(environment(["a", "b", "c"]))
    with pytest.raises(JobError, match="has no data of site-3"):
        own.process_env(SimEnv(num_clients=3))


def test_a_workspace_that_the_simulator_cannot_use_is_refused() -> None:
    with pytest.raises(JobError, match="expected a path without spaces"):
        fedannot.recipe("fedavg").process_env(SimEnv(num_clients=2, workspace_root="/tmp/my runs"))


def test_a_job_s_program_runs_it_with_all_its_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed: list[tuple[str, int, int, str]] = []

    def deploy(env: Any, job: Any) -> str:
        deployed.append((job.name, env.num_clients, env.num_threads, env.workspace_root))
        return str(job.name)

    monkeypatch.setattr(SimEnv, "deploy", deploy)
    runpy.run_path(str(JOBS / "single_site" / "job.py"), run_name="__main__")
    assert deployed == [("single_site", 4, 4, "runs/simulator")]
    # Whoever imports it runs nothing.
    runpy.run_path(str(JOBS / "single_site" / "job.py"), run_name="job")
    assert len(deployed) == 1
    one = (JOBS / "single_site" / "job.py").read_text(encoding="utf-8")
    assert len([line for line in one.splitlines() if line]) == 6
    for name in NAMES:
        text = (JOBS / name / "job.py").read_text(encoding="utf-8")
        sites = Job(JOBS / name).settings().embedded.sites
        assert text == one.replace("single_site", name).replace("num_clients=4", f"num_clients={sites}")
