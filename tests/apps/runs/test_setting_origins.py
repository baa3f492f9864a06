"""Settings that do not go together are named with where each of them comes from."""

from pathlib import Path

import pytest

from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import compare
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.setting_origins import named_origins
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
        "--set: key 'rounds' is 0: Input should be greater than or equal to 1."
    )
    assert error_of(tmp_path, overrides={"roundz": 9}).startswith(
        "--set: no setting 'roundz'; did you mean 'rounds'? All settings: "
    )


def test_each_wrong_key_is_named_with_its_own_place():
    """Of two wrong keys one is the command line's."""
    both = f"{OWN}: key 'rounds' is 0: too few.\n{OWN}: key 'seed' is 'x': no number."
    with pytest.raises(SettingsError) as caught, named_origins(Job.open(JOBS / "fedaaai"), None, {"rounds": 0}):
        raise SettingsError(both)
    assert str(caught.value) == f"--set: key 'rounds' is 0: too few.\n{OWN}: key 'seed' is 'x': no number."


def test_a_comparison_names_the_arm_too(tmp_path):
    arms = [Arm("fedavg", JOBS / "fedavg", {}), Arm("short", JOBS / "fedaaai", {"warmup_rounds": 8})]
    with pytest.raises(
        SettingsError, match=r"^short: .*warmup_rounds=8, rounds=8\. rounds comes from .*settings\.conf,"
    ):
        compare(arms, tmp_path / "out", data=None, seeds=[0], overrides={})
