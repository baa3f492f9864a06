"""What the recipe for research fills in, for which methods, and what it leaves."""

from collections.abc import Mapping
from typing import Any

import pytest

from fedannot.custom.methods.lookup import all_methods, read_job_settings
from fedannot.custom.recipe import recipe_values
from fedannot.custom.settings import RunSettings, SettingsError

IN_3D = {"network": {"spatial_dims": 3}, "training": {"patch": [32, 32, 16]}}
SEGMENTING = [method for method in all_methods() if method.task == "segmentation"]


def value_of(settings: RunSettings, key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def consent(method: Any) -> dict[str, bool]:
    """What a job has to say of itself, beside its method."""
    return {"models_to_sites": True} if method.models_to_sites else {}


@pytest.mark.parametrize("method", SEGMENTING, ids=lambda method: method.name)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_method_takes_the_recipe(method: Any, dimensions: int) -> None:
    values = {"task": "segmentation", "method": method.name, "recipe": "research"} | (IN_3D if dimensions == 3 else {})
    settings = read_job_settings(values | consent(method))
    expected = recipe_values("research", spatial_dims=dimensions, own=method.settings.without_recipe)
    assert {key: value_of(settings, key) for key in expected} == expected
    assert len(expected) >= 12


def test_the_values_are_those_of_the_paper() -> None:
    training = read_job_settings({"method": "fedavg", "recipe": "research"} | IN_3D).training
    assert (training.optimizer, training.momentum, training.nesterov) == ("sgd", 0.99, True)
    assert (training.learning_rate, training.weight_decay) == (0.01, 3e-5)
    assert (training.schedule, training.learning_rate_power) == ("polynomial", 0.9)
    assert training.gradient_clipping == 12
    assert (training.loss, training.augmentation) == ("ce_dice", "nnunet")
    assert training.foreground_share == pytest.approx(1 / 3, abs=1e-4)
    assert read_job_settings({"method": "fedavg", "recipe": "research"}).training.loss == "ce_batch_dice"


def test_a_value_that_is_given_stays() -> None:
    given: Mapping[str, Any] = {"training": {"loss": "ce", "momentum": 0.5}, "inference": {"mirroring": False}}
    settings = read_job_settings({"method": "fedavg", "recipe": "research", **given})
    assert (settings.training.loss, settings.training.momentum, settings.inference.mirroring) == ("ce", 0.5, False)
    assert settings.training.nesterov
    # What was given is not changed.
    assert given == {"training": {"loss": "ce", "momentum": 0.5}, "inference": {"mirroring": False}}


def test_given_epochs_are_not_replaced_by_steps() -> None:
    values: dict[str, Any] = {"method": "fedavg", "recipe": "research", "training": {"local_epochs": 3}}
    training = read_job_settings(values).training
    assert (training.local_epochs, training.local_steps) == (3, None)
    values["training"]["local_steps"] = 7
    assert read_job_settings(values).training.local_steps == 7


@pytest.mark.parametrize("optimizer", ["adam", "AdamW", {"_target_": "AdamW", "amsgrad": True}])
def test_another_optimizer_has_no_numbers_of_the_recipes(optimizer: Any) -> None:
    given = {"method": "fedavg", "training": {"optimizer": optimizer}}
    training, plain = read_job_settings(given | {"recipe": "research"}).training, read_job_settings(given).training
    for name in ("optimizer", "momentum", "nesterov", "learning_rate", "weight_decay"):
        assert getattr(training, name) == getattr(plain, name)
    assert (training.schedule, training.local_steps) == ("polynomial", 50)
    same = read_job_settings({"method": "fedavg", "recipe": "research", "training": {"optimizer": "sgd"}}).training
    assert (same.momentum, same.learning_rate) == (0.99, 0.01)


@pytest.mark.parametrize("recipe", [{}, {"recipe": "demo"}])
def test_without_it_every_value_is_the_methods(recipe: dict[str, str]) -> None:
    for method in all_methods():
        settings = read_job_settings({"task": method.task, "method": method.name, **consent(method), **recipe})
        assert settings == method.settings(task=method.task, method=method.name, **consent(method))


def test_a_finished_run_is_read_as_it_was() -> None:
    """A setting that its version did not have is none of the recipe."""
    values = {"method": "fedavg", "recipe": "research", "training": {"loss": "ce"}}
    assert read_job_settings(values, of_finished_run=True).training.augmentation == ()


def test_what_cannot_follow_the_recipe_is_refused_by_name() -> None:
    for values, text in (
        (
            {"task": "classification", "method": "fedavg", "recipe": "research"},
            "job.conf: key 'recipe' is 'research', whose choices are those of nnU-Net for segmentation; a job for "
            "classification has recipe = demo.",
        ),
        (
            {"method": "fedavg", "recipe": "paper"},
            "job.conf: key 'recipe' is 'paper': Input should be 'demo' or 'research'.",
        ),
        (
            {"method": "fedavg", "recipe": "research", "training": 3},
            "job.conf: key 'training' is 3: ",
        ),
    ):
        with pytest.raises(SettingsError) as error:
            read_job_settings(values, "job.conf")
        assert str(error.value).startswith(text)
