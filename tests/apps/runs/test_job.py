"""Job folders: what is read from one, and a copy with other settings, as NVFlare will parse it."""

import datetime
import json
import shutil
from pathlib import Path

import pytest
from nvflare.fuel.utils.config_factory import ConfigFactory as NVFlareConfigs
from pyhocon import ConfigFactory

from fedannot.apps.runs.job import (
    JOB_PROGRAM,
    SETTINGS_FOLDER,
    Job,
    JobError,
    check_components,
    flat_settings,
    parse_hocon,
)
from fedannot.apps.runs.overrides import parse_override
from fedannot.custom import former_names
from fedannot.custom.settings import SettingsError

JOBS = Path(__file__).parents[3] / "jobs"


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDANNOT_RESUME", raising=False)
    shutil.copytree(JOBS / "fedaaai", tmp_path / "fedaaai")
    # Not opened: that checks the whole folder, which takes half a second.
    return Job(tmp_path / "fedaaai")


def parsed(file):
    return ConfigFactory.parse_file(str(file)).as_plain_ordered_dict()


def more_rounds(job, number=12):
    """A number of rounds that is not the job's own, and long enough for its warm-up."""
    return job.settings().rounds + number


def both_sides(job):
    """The settings as the server's controller and the sites' executor get them."""
    server, client = parsed(job.server_config), parsed(job.client_config)
    return [server["workflows"][0]["args"]["settings"], client["executors"][0]["executor"]["args"]["settings"]]


def value_at(settings, key):
    for part in key.split("."):
        settings = settings[part]
    return settings


def test_job_says_what_its_folder_holds(job):
    assert job.name == "fedaaai"
    assert job.sites == ()
    assert job.app == job.folder / "app"
    assert job.settings().method == "feda3i"
    for file in (job.server_config, job.client_config, job.settings_file):
        assert file.is_file()


@pytest.mark.parametrize("folder", sorted(path.parent for path in JOBS.glob("*/meta.json")), ids=lambda path: path.name)
def test_every_job_of_the_project_can_be_opened(folder):
    assert Job.open(folder).name == folder.name


def test_overrides_reach_the_server_and_the_sites(job, tmp_path):
    overrides = {
        "rounds": more_rounds(job),
        "seed": 7,
        "training.batch_size": 2,
        "training.learning_rate": 1e-4,
        "training.loss": "ce_dice",
        "network.features": [8, 8, 8, 8, 8, 8],
        "embedded.exact": False,
        "embedded.stratified": None,
        "embedded.noise": "M(20,-20,10,0.75)",
        "data": "/a folder/with 'quotes', \"both\" kinds, ${braces} # and, commas",
        "blocks": ["conv_0", "down_1"],
    }
    copied = job.copy_with(overrides, tmp_path / "copy")
    assert copied.folder == tmp_path / "copy"
    for settings in both_sides(copied):
        assert {key: value_at(settings, key) for key in overrides} == overrides
    read = json.loads(copied.settings().model_dump_json())
    assert {key: value_at(read, key) for key in overrides} == overrides
    (persistor,) = (part for part in parsed(copied.server_config)["components"] if part["id"] == "persistor")
    settings = persistor["args"]["settings"]  # the start weights follow
    assert (settings["seed"], settings["network"]["features"]) == (7, [8, 8, 8, 8, 8, 8])


def test_what_is_not_overridden_stays(job, tmp_path):
    before = job.settings()
    changes = {"training.batch_size": before.training.batch_size + 1, "rounds": more_rounds(job)}
    copied = job.copy_with(changes, tmp_path / "copy")
    expected = before.model_dump()
    expected["rounds"] = changes["rounds"]
    expected["training"]["batch_size"] = changes["training.batch_size"]
    assert copied.settings().model_dump() == expected
    assert copied.name == job.name
    assert job.settings() == before


def test_copy_of_a_copy_takes_the_last_value(job, tmp_path):
    first = job.copy_with({"rounds": more_rounds(job, 12)}, tmp_path / "first")
    second = first.copy_with({"rounds": more_rounds(job, 13)}, tmp_path / "second")
    assert [settings["rounds"] for settings in both_sides(second)] == [more_rounds(job, 13)] * 2


def test_copy_without_overrides_is_the_same_job_without_its_named_settings(job, tmp_path):
    copied = job.copy_with({}, tmp_path / "copy")
    assert (job.folder / SETTINGS_FOLDER).is_dir()
    names = sorted(file.relative_to(job.folder) for file in job.folder.rglob("*") if file.is_file())
    names = [name for name in names if name.parts[0] not in (SETTINGS_FOLDER, JOB_PROGRAM)]
    assert names == sorted(file.relative_to(copied.folder) for file in copied.folder.rglob("*") if file.is_file())
    assert all((job.folder / name).read_bytes() == (copied.folder / name).read_bytes() for name in names)


def test_a_folder_of_the_same_name_inside_the_app_is_copied(job, tmp_path):
    (job.app / "custom" / SETTINGS_FOLDER).mkdir()
    (job.app / "custom" / SETTINGS_FOLDER / "code.py").write_text("")
    copied = job.copy_with({}, tmp_path / "copy")
    assert (copied.app / "custom" / SETTINGS_FOLDER / "code.py").is_file()


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"training.batch_size": 2, "network.features": [8, 8, 8, 8, 8, 8], "embedded.noise": None},
        {"data": '/a folder/with ${braces}, "quotes"', "blocks": ("conv_0",), "training.learning_rate": 1e-7},
        {"data": datetime.date(2024, 1, 31)},
    ],
)
def test_changed_settings_are_those_of_the_changed_copy(job, tmp_path, overrides):
    before = job.settings_file.read_bytes()
    changed = job.settings_with(overrides)
    assert changed == job.copy_with(overrides, tmp_path / "copy").settings()
    assert job.settings_file.read_bytes() == before
    assert (changed == job.settings()) == (not overrides)


def test_changed_settings_may_be_left_out_of_the_file(tmp_path, job):
    job.settings_file.write_text("settings { method = fedavg }")
    assert job.settings_with({"training.batch_size": 3}).training.batch_size == 3


def test_wrong_change_is_named_with_the_file_that_it_comes_from(job, tmp_path):
    with pytest.raises(SettingsError) as caught:
        job.settings_with({"rounds": 0}, source=tmp_path / "mine.conf")
    assert str(caught.value).startswith(f"{tmp_path / 'mine.conf'}: key 'rounds' is 0: ")


def test_overridden_resume_file_is_not_replaced_by_the_environment(job, tmp_path, monkeypatch):
    copied = job.copy_with({"resume_from": "/runs/a.pt"}, tmp_path / "copy")
    monkeypatch.setenv("FEDANNOT_RESUME", "/runs/b.pt")
    assert [settings["resume_from"] for settings in both_sides(copied)] == ["/runs/a.pt", "/runs/a.pt"]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("training.batchsize", "training.batch_size"), ("round", "rounds"), ("learning_rate", "training.learning_rate")],
)
def test_unknown_key_is_answered_with_the_nearest(job, tmp_path, key, nearest):
    with pytest.raises(SettingsError) as caught:
        job.copy_with({key: 8}, tmp_path / "copy")
    text = str(caught.value)
    assert text.startswith(f"{job.settings_file}: no setting {key!r}; did you mean {nearest!r}")
    assert text.endswith(f"? All settings: fedannot jobs settings {job.folder.name}")
    assert "embedded.noise" not in text
    assert not (tmp_path / "copy").exists()


def test_group_of_settings_is_no_setting_but_its_table_names_settings(job, tmp_path):
    with pytest.raises(SettingsError, match="no setting 'training'"):
        job.copy_with({"training": 1}, tmp_path / "copy")
    assert job.settings_with({"training": {"batch_size": 1}}) == job.settings_with({"training.batch_size": 1})


def test_value_that_is_not_allowed_is_refused(job, tmp_path):
    with pytest.raises(
        SettingsError, match=r"settings\.conf: key 'training\.batch_size' is 0: .*greater than or equal to 1"
    ):
        job.copy_with({"training.batch_size": 0}, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_folder_that_is_no_job_is_named(tmp_path):
    with pytest.raises(JobError) as caught:
        Job.open(tmp_path / "nothing")
    assert str(caught.value) == (
        f"Found no job '{tmp_path / 'nothing'}'. Expected a folder with a meta.json, or a name that `fedannot jobs` "
        "lists."
    )


@pytest.mark.parametrize("name", ["config_fed_server.conf", "config_fed_client.conf", "settings.conf"])
def test_missing_file_is_named(job, name):
    file = job.folder / "app" / "config" / name
    file.unlink()
    with pytest.raises(JobError) as caught:
        Job.open(job.folder)
    assert str(caught.value) == f"Expected the file {file}, but it does not exist."


def test_several_apps_are_refused(job):
    meta = {"name": "two", "deploy_map": {"app": ["server"], "other": ["site-1"]}}
    (job.folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(JobError, match=r"Expected one app in .*meta\.json, but found \['app', 'other'\]\."):
        Job.open(job.folder)


def test_broken_meta_is_named(job):
    (job.folder / "meta.json").write_text("{")
    with pytest.raises(JobError, match=r"meta\.json: is not JSON "):
        Job.open(job.folder)


@pytest.mark.parametrize(
    ("meta", "missing"),
    [
        ({}, ["name", "deploy_map"]),
        ({"deploy_map": {"app": ["server", "site-1"]}}, ["name"]),
        ({"name": "fedaaai", "deploymap": {"app": ["server", "site-1"]}}, ["deploy_map"]),
    ],
)
def test_meta_without_what_is_needed_is_named(job, meta, missing):
    (job.folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(JobError) as caught:
        Job.open(job.folder)
    assert str(caught.value) == f"{job.folder / 'meta.json'}: missing {missing}."


@pytest.mark.parametrize("text", ["settings { rounds = ", "settings { rounds = ${rounds_of_nobody} }", "settings }"])
def test_settings_that_are_not_hocon_are_named(job, text):
    job.settings_file.write_text(text)
    with pytest.raises(JobError) as caught:
        Job.open(job.folder)
    assert str(caught.value).startswith(f"{job.settings_file} is not HOCON with keys and values: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", ["server", "client"])
def test_configuration_that_is_not_hocon_is_named(job, side):
    file = job.app / "config" / f"config_fed_{side}.conf"
    file.write_text(file.read_text(encoding="utf-8") + "\ncomponents = [ {\n")
    with pytest.raises(JobError) as caught:
        Job.open(job.folder)
    assert str(caught.value).startswith(f"{file} is not HOCON with keys and values: ")


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "None"), ("# empty\n", "None"), ("rounds = 3", "None"), ("settings = 3", "3"), ("settings = [3]", "[3]")],
)
def test_file_without_a_block_of_settings_is_named(job, text, found):
    job.settings_file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        Job.open(job.folder)
    assert str(caught.value) == (f"{job.settings_file}: expected a block 'settings {{ ... }}', but found {found}.")


def replace_in(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


CONTROLLER = "fedannot.custom.flare.controller.FederatedController"
PERSISTOR = "fedannot.custom.flare.persistor.NetworkPersistor"
FILTER = "fedannot.custom.flare.outbound_filter.OutboundFilter"


@pytest.mark.parametrize(
    ("side", "path", "wrong"),
    [
        ("server", CONTROLLER, CONTROLLER[:-2]),  # no such class in the module
        ("server", PERSISTOR, "fedannot.custom.flare.persistors.NetworkPersistor"),  # no such module
        ("server", PERSISTOR, "NetworkPersistor"),  # no module at all
        ("client", "fedannot.custom.flare.executor.", "fedannot.flare.executor."),
    ],
)
def test_component_that_does_not_exist_is_named_with_its_file(job, side, path, wrong):
    file = job.app / "config" / f"config_fed_{side}.conf"
    replace_in(file, path, wrong)
    with pytest.raises(JobError) as caught:
        Job.open(job.folder)
    assert str(caught.value).startswith(f"{file}: found no component '{wrong}")


@pytest.mark.parametrize(
    ("side", "old", "new", "text"),
    [
        # An argument of the class itself.
        (
            "client",
            "args { settings =",
            "args { setings =",
            "fedannot.custom.flare.executor.FederatedExecutor has no argument 'setings'; did you mean 'settings'? "
            "Allowed: ['settings'].",
        ),
        # One of several.
        (
            "server",
            "FederatedController\n    args { settings = ${?settings} }",
            "FederatedController\n    args { settings = ${?settings}, persistr_id = x }",
            f"{CONTROLLER} has no argument 'persistr_id'; did you mean 'persistor_id'? Allowed: ['settings', "
            "'persistor_id', 'task_check_period'].",
        ),
        # A component of NVFlare.
        (
            "server",
            "tb_folder =",
            "tb_foldr =",
            "nvflare.app_opt.tracking.tb.tb_receiver.TBAnalyticsReceiver has no argument 'tb_foldr'; did you mean "
            "'tb_folder'? Allowed: ['tb_folder', 'events'].",
        ),
        # A component without arguments; nothing resembles the wrong one.
        (
            "client",
            "OutboundFilter, args {}",
            "OutboundFilter, args { strict = true }",
            f"{FILTER} has no argument 'strict'. Allowed: [].",
        ),
    ],
)
def test_argument_that_a_component_does_not_take_is_named_with_the_nearest(job, side, old, new, text):
    file = job.app / "config" / f"config_fed_{side}.conf"
    replace_in(file, old, new)
    with pytest.raises(JobError) as caught:
        Job.open(job.folder)
    assert str(caught.value) == f"{file}: {text}"


@pytest.fixture
def swarm(tmp_path, monkeypatch):
    """Its components pass their arguments on to NVFlare's, which have most of them."""
    monkeypatch.delenv("FEDANNOT_RESUME", raising=False)
    shutil.copytree(JOBS / "decoupled", tmp_path / "decoupled")
    return Job(tmp_path / "decoupled")


def test_arguments_of_a_base_class_are_taken(swarm):
    replace_in(swarm.server_config, "job_status_check_interval = 0.5", "task_check_period = 0.2")
    assert Job.open(swarm.folder) == swarm


def test_arguments_that_no_base_class_takes_are_named_with_the_nearest(swarm):
    replace_in(swarm.server_config, "job_status_check_interval = 0.5", "job_status_chek_interval = 0.5")
    with pytest.raises(JobError) as caught:
        Job.open(swarm.folder)
    path = parsed(swarm.server_config)["workflows"][0]["path"]
    text = f"{path} has no argument 'job_status_chek_interval'; did you mean 'job_status_check_interval'? Allowed: ['"
    assert str(caught.value).startswith(f"{swarm.server_config}: {text}settings', 'num_rounds', ")


def test_arguments_that_cannot_be_known_are_not_checked(tmp_path):
    # collections.OrderedDict says nothing of the names it takes.
    file = tmp_path / "config.conf"
    file.write_text("components = [{ id = any, path = collections.OrderedDict, args { whatever = 1 } }]")
    check_components(file)


def test_wrong_settings_are_found_when_a_job_is_opened(job):
    with job.settings_file.open("a") as file:
        file.write("\nsettings.warmup = 3\n")
    with pytest.raises(SettingsError, match=r"settings\.conf: unknown key 'warmup' = 3; did you mean 'warmup_rounds'"):
        Job.open(job.folder)


def test_nested_settings_get_dotted_keys():
    nested = {"a": 1, "b": {"c": None, "d": {"e": [1]}}, "f": ()}
    assert flat_settings(nested) == {"a": 1, "b.c": None, "b.d.e": [1], "f": ()}


def test_empty_override_empties_a_text(job, tmp_path):
    first = job.copy_with({"data": "/a"}, tmp_path / "first")
    second = first.copy_with(dict([parse_override("data=")]), tmp_path / "second")
    assert [settings["data"] for settings in both_sides(second)] == ["", ""]


@pytest.mark.parametrize("text", ["1e-4", "1.0e-4"])
def test_numbers_in_every_notation_arrive_as_numbers(job, tmp_path, text):
    key, value = parse_override(f"training.learning_rate={text}")
    assert job.copy_with({key: value}, tmp_path / "copy").settings().training.learning_rate == 1e-4


def test_override_from_the_command_line_reaches_both_sides(job, tmp_path):
    overrides = dict(map(parse_override, ["embedded.noise=M(20,-20,10,0.5)", "training.batch_size=2"]))
    for settings in both_sides(job.copy_with(overrides, tmp_path / "copy")):
        assert settings["embedded"]["noise"] == "M(20,-20,10,0.5)"
        assert settings["training"]["batch_size"] == 2


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("folder", sorted(JOBS.iterdir()), ids=lambda folder: folder.name)
def test_configurations_are_read_as_nvflare_reads_them(folder, side):
    file = folder / "app" / "config" / f"config_fed_{side}.conf"
    assert parse_hocon(file) == NVFlareConfigs.load_config(str(file)).to_dict()


def test_another_method_is_chosen_together_with_its_settings():
    """Its own defaults need not go with the job's: a warm-up of ten rounds is none of eight."""
    job = Job.open(JOBS / "fedavg")
    settings = job.settings_with({"method": "feda3i", "warmup_rounds": 1, "rounds": 3})
    assert (settings.method, settings.warmup_rounds, settings.rounds) == ("feda3i", 1, 3)
    with pytest.raises(SettingsError, match=r"no setting 'curvature_weight'"):
        job.settings_with({"method": "feda3i", "curvature_weight": 1.0})


@pytest.fixture
def former_names_of_settings(monkeypatch):
    monkeypatch.setattr(former_names, "FORMER_SETTINGS", {"num_rounds": "rounds", "samples": "batch_size"})
    monkeypatch.setattr(former_names, "_WARNED", set())


@pytest.mark.usefixtures("former_names_of_settings")
def test_overrides_may_have_the_former_names_of_settings(job, tmp_path):
    overrides = {"num_rounds": more_rounds(job), "training.samples": 3}
    assert job.current_names(overrides) == {"rounds": more_rounds(job), "training.batch_size": 3}
    read = job.settings_with(overrides)
    assert (read.rounds, read.training.batch_size) == (more_rounds(job), 3)
    assert job.copy_with(overrides, tmp_path / "copy").settings() == read
    with pytest.raises(SettingsError, match="'rounds' twice"):
        job.settings_with(overrides | {"rounds": 2})


@pytest.mark.usefixtures("former_names_of_settings")
def test_a_file_with_former_names_of_settings_takes_overrides_by_either_name(job, tmp_path):
    text = job.settings_file.read_text(encoding="utf-8")
    job.settings_file.write_text(text.replace("batch_size", "samples"), encoding="utf-8")
    for name in ("samples", "batch_size"):
        with pytest.warns(FutureWarning, match="'samples' is called 'batch_size'"):
            assert job.copy_with({f"training.{name}": 3}, tmp_path / name).settings().training.batch_size == 3
        former_names._WARNED.clear()
