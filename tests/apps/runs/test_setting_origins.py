"""Settings that do not go together are named with where each of them comes from."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import compare
from fedannot.apps.runs.job import Job, flat_settings, setting_names
from fedannot.apps.runs.setting_origins import COMMAND_LINE, DEFAULT, RECIPE, effective_settings, named_origins
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.settings import SettingsError

JOBS = Path(__file__).parents[3] / "jobs"
OWN = JOBS / "fedaaai" / "app" / "config" / "settings.conf"


def error_of(tmp_path, **changes):
    with pytest.raises(SettingsError) as caught:
        simulate(JOBS / "fedaaai", tmp_path / "out", **changes)
    assert not (tmp_path / "out").exists()
    return str(caught.value)


def test_the_key_in_the_way_is_named_with_its_file(tmp_path):
    assert error_of(tmp_path, overrides={"rounds": 2}) == (
        f"{OWN}: warmup_rounds must be below rounds, but got warmup_rounds=3, rounds=2. rounds comes from --set, "
        f"warmup_rounds from {OWN}. Change them together."
    )


def test_a_set_of_settings_is_named_and_what_goes_with_it_is_accepted(tmp_path):
    file = tmp_path / "mine.conf"
    file.write_text("settings { warmup_rounds = 10 }", encoding="utf-8")
    # The job's own rounds are 8.
    assert error_of(tmp_path, settings=str(file)) == (
        f"{file}: warmup_rounds must be below rounds, but got warmup_rounds=10, rounds=8."
    )
    said = error_of(tmp_path, settings=str(file), overrides={"rounds": 9})
    assert f"rounds comes from --set, warmup_rounds from {file}. Change them together." in said
    # Of the rest only the size of the network is wrong.
    small = {"rounds": 11, "network.features": [4]}
    said = error_of(tmp_path, settings=str(file), overrides=small)
    assert "warmup_rounds" not in said
    assert "network.features" in said


def test_a_key_of_the_command_line_is_not_laid_to_the_file(tmp_path):
    assert error_of(tmp_path, overrides={"rounds": 0}) == (
        "--set rounds=0: key 'rounds' is 0: Input should be greater than or equal to 1."
    )
    assert error_of(tmp_path, overrides={"roundz": 9}).startswith(
        "--set roundz=9: no setting 'roundz'; did you mean 'rounds'? All settings: "
    )


def test_each_wrong_key_is_named_with_its_own_place():
    """Of two wrong keys one is the command line's."""
    both = f"{OWN}: key 'rounds' is 0: too few.\n{OWN}: key 'seed' is 'x': no number."
    with pytest.raises(SettingsError) as caught, named_origins(Job.open(JOBS / "fedaaai"), None, {"rounds": 0}):
        raise SettingsError(both)
    assert str(caught.value) == f"--set rounds=0: key 'rounds' is 0: too few.\n{OWN}: key 'seed' is 'x': no number."


@pytest.mark.parametrize(
    ("overrides", "begins"),
    [
        ({"method": "fedx"}, "--set method=fedx: key 'method' is 'fedx'; allowed"),
        ({"training.class_weights": ["a"]}, "--set training.class_weights=['a']: key 'training.class_weights.0' is"),
        ({"network": "Foo"}, "--set network=Foo: the job's key 'network' names a network that cannot be used: "),
        (
            {"network._target_": "SegResNet", "network.init_filter": 8, "network.in_channels": 1},
            "--set network._target_=SegResNet --set network.init_filter=8: the job's key 'network' names",
        ),
        ({"training.loss": "DiceFoo"}, "--set training.loss=DiceFoo: key 'training.loss': _target_ is"),
        ({"inferer": "Foo"}, "--set inferer=Foo: key 'inferer': _target_ is 'monai.inferers.Foo'"),
    ],
)
def test_a_value_of_the_command_line_is_named_by_it_in_every_check(tmp_path, overrides, begins):
    with pytest.raises(ValueError, match=f"^{re.escape(begins)}"):
        simulate(JOBS / "fedavg", tmp_path / "out", overrides=overrides)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("network = Foo", "the job's key 'network' names a network"),
        ("training { loss = DiceFoo }", "key 'training.loss': _target_ is"),
        ("method = fedx", "key 'method' is 'fedx'; allowed"),
    ],
)
def test_a_value_of_a_set_is_named_by_its_file(tmp_path, content, said):
    file = tmp_path / "mine.conf"
    file.write_text(f"settings {{ {content} }}", encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{re.escape(f'{file}: {said}')}"):
        simulate(JOBS / "fedavg", tmp_path / "out", settings=str(file), overrides={"seed": 3})


def test_a_value_of_the_jobs_file_stays_there():
    own = f"{OWN}: key 'network' is 3: wrong."
    with (
        pytest.raises(SettingsError) as caught,
        named_origins(Job.open(JOBS / "fedaaai"), None, {"network.in_channels": 1}),
    ):
        raise SettingsError(own)
    assert str(caught.value) == own


def test_a_comparison_names_the_arm_too(tmp_path):
    arms = [Arm("fedavg", JOBS / "fedavg", {}), Arm("short", JOBS / "fedaaai", {"warmup_rounds": 8})]
    with pytest.raises(
        SettingsError, match=r"^short: .*warmup_rounds=8, rounds=8\. rounds comes from .*settings\.conf,"
    ):
        compare(arms, tmp_path / "out", data=None, seeds=[0], overrides={})


# --- every setting with its origin


def by_name(job, *arguments, **options):
    return {one.name: one for one in effective_settings(job, *arguments, **options)}


def test_the_last_place_that_gives_a_setting_counts(tmp_path):
    job = Job.open(JOBS / "fedaaai")
    file = tmp_path / "mine.conf"
    file.write_text("settings { rounds = 30, training { batch_size = 6, local_epochs = 2 } }", encoding="utf-8")
    result = by_name(job, str(file), {"training.batch_size": 8})
    expected = {
        "min_sites": (1, DEFAULT, 1, False),
        # The job's file repeats the default.
        "seed": (0, str(OWN), 0, False),
        "training.learning_rate": (0.002, str(OWN), 0.005, True),
        "rounds": (30, str(file), 100, True),
        "training.local_epochs": (2, str(file), 5, True),
        "training.batch_size": (8, COMMAND_LINE, 8, False),
    }
    assert {
        name: (result[name].value, result[name].origin, result[name].default, result[name].overrides_default)
        for name in expected
    } == expected
    assert list(result) == setting_names(type(job.settings()))


@pytest.mark.parametrize("name", ["fedgsca", "auto", "decoupled", "audit_classification"])
def test_what_counts_is_what_a_run_would_have(name):
    job = Job.open(JOBS / name)
    values = flat_settings(job.settings_with({"rounds": 40}).model_dump(mode="json"))
    result = by_name(job, None, {"rounds": 40})
    assert {key: one.value for key, one in result.items() if one.value is not None} == {
        key: value for key, value in values.items() if value is not None
    }
    # Without the places there are the defaults.
    kind = type(job.settings())
    defaults = flat_settings(kind().model_dump(mode="json")) if name != "decoupled" else {}
    assert {key: result[key].default for key in defaults} == defaults


def test_a_recipe_counts_before_the_jobs_file_and_after_the_command_line():
    job = Job.open(JOBS / "fedavg")
    result = by_name(job, None, {"recipe": "research", "training.momentum": 0.5})
    assert (result["training.optimizer"].value, result["training.optimizer"].origin) == ("sgd", RECIPE)
    assert (result["training.learning_rate"].value, result["training.learning_rate"].origin) == (0.01, RECIPE)
    assert (result["training.momentum"].value, result["training.momentum"].origin) == (0.5, COMMAND_LINE)
    assert result["training.batch_size"].origin == str(job.settings_file)


def test_a_component_is_listed_with_its_arguments():
    result = by_name(Job.open(JOBS / "fedavg"), None, {"network": "SegResNet", "network.init_filters": 8})
    assert result["network._target_"].value == "monai.networks.nets.SegResNet"
    assert {result[f"network.{name}"].origin for name in ("_target_", "init_filters")} == {COMMAND_LINE}
    assert "network.features" not in result


def test_a_value_that_does_not_go_with_another_is_refused_with_both_places():
    with pytest.raises(SettingsError, match=r"rounds comes from --set, warmup_rounds from .*settings\.conf"):
        effective_settings(Job.open(JOBS / "fedaaai"), None, {"rounds": 2})


def test_the_command_shows_origin_and_default():
    arguments = ["jobs", "settings", "fedaaai", "--effective", "--set", "rounds=20", "--like", "rounds"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line.strip()}
    assert rows["rounds"] == ["20", "--set", "100"]
    assert rows["warmup_rounds"] == ["3", "settings.conf", "10"]
    assert rows["final_rounds"] == ["5", "the", "method's", "defaults"]
    assert f"settings.conf: {OWN}" in result.output
