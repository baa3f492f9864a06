"""A recipe for a run: before the job's file, behind what the run is given."""

from pathlib import Path

import pytest

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.setting_origins import DEFAULT, RECIPE, effective_settings
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.custom.recipe import recipe_values

JOBS = Path(__file__).parents[3] / "jobs"
RESEARCH = {"recipe": "research"}


@pytest.fixture
def job() -> Job:
    return Job.open(JOBS / "fedavg")


def test_the_recipe_goes_before_the_jobs_file(job: Job, tmp_path: Path) -> None:
    """The file names the loss, the rate and the augmentation; rounds and batches stay its own."""
    own = job.own_values()
    assert {"training.loss", "training.learning_rate", "training.augmentation"} <= own.keys()
    settings = job.settings_with(RESEARCH)
    changed = settings.training
    assert (changed.loss, changed.learning_rate, changed.augmentation) == ("ce_batch_dice", 0.01, "nnunet")
    assert (settings.rounds, changed.batch_size) == (own["rounds"], own["training.batch_size"])
    copied = job.copy_with(RESEARCH, tmp_path / "copy")
    assert copied.settings() == settings
    # The copy names every value, and is changed further without the recipe coming back.
    assert recipe_values("research", spatial_dims=2).items() <= copied.own_values().items()
    assert copied.settings_with({"training.loss": "ce"}).training.loss == "ce"


def test_what_a_set_or_the_command_line_gives_goes_before_the_recipe(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "mine.conf"
    file.write_text("settings { recipe = research, training { momentum = 0.8, loss = dice } }", encoding="utf-8")
    values = SettingsFile.read(job, str(file)).values
    training = job.settings_with({**values, "training.loss": "ce"}).training
    assert (training.loss, training.momentum, training.optimizer) == ("ce", 0.8, "sgd")
    assert job.recipe_changes(values).keys() == recipe_values("research", spatial_dims=2).keys() - {
        "training.momentum",
        "training.loss",
    }


def test_a_file_that_names_the_recipe_keeps_its_own_values(job: Job, tmp_path: Path) -> None:
    copied = job.copy_with({}, tmp_path / "copy")
    with copied.settings_file.open("a", encoding="utf-8") as file:
        file.write("\nsettings.recipe = research\n")
    training = copied.settings().training
    assert (training.loss, training.learning_rate) == ("ce", 0.002)
    assert (training.optimizer, training.schedule) == ("sgd", "polynomial")
    assert copied.recipe_changes({}) == {}


def test_epochs_and_another_optimizer_go_before_what_the_recipe_says_of_them(job: Job, tmp_path: Path) -> None:
    changes = RESEARCH | {"training.local_epochs": 3, "training.optimizer": "adam"}
    copied = job.copy_with(changes, tmp_path / "copy")
    for settings in (job.settings_with(changes), copied.settings()):
        training = settings.training
        assert (training.local_epochs, training.local_steps) == (3, None)
        assert (training.optimizer, training.nesterov, training.weight_decay) == ("adam", False, 0.0)
        assert training.learning_rate == job.settings().training.learning_rate


def test_they_go_before_a_recipe_of_the_jobs_file(job: Job, tmp_path: Path) -> None:
    copied = job.copy_with({}, tmp_path / "copy")
    with copied.settings_file.open("a", encoding="utf-8") as file:
        file.write("\nsettings.recipe = research\n")
    changes = {"training.local_epochs": 3}
    assert copied.settings_with(changes).training.local_steps is None
    shown = {setting.name: setting for setting in effective_settings(copied, overrides=changes)}
    assert (shown["training.local_steps"].value, shown["training.local_steps"].origin) == (None, DEFAULT)
    assert shown["training.momentum"].origin == RECIPE


def test_volumes_have_the_recipe_of_volumes(job: Job) -> None:
    changes = RESEARCH | {"network.spatial_dims": 3, "training.patch": [32, 32, 16]}
    training = job.settings_with(changes).training
    assert (training.loss, training.foreground_share) == ("ce_dice", 0.3333)


@pytest.mark.parametrize("name", ["auto", "fedavg", "fedavg_classification"])
def test_demo_is_the_job_as_it_is(name: str) -> None:
    opened = Job(JOBS / name)
    assert opened.settings_with({"recipe": "demo"}) == opened.settings()
