"""In which settings arms differ, and what declares a difference."""

import re
from pathlib import Path
from typing import Any

import pytest

from fedannot.apps.reports.compared_settings import settings_in_words
from fedannot.apps.runs.arm_differences import UnfairComparisonError, compared_settings, declared_differences
from fedannot.apps.runs.arms import Arm, PlannedArm, plan
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.like_changes import like_changes
from fedannot.custom.settings import RunSettings

JOBS = Path(__file__).parents[3] / "jobs"
FEDAVG, FEDA3I, FEDIA = JOBS / "fedavg", JOBS / "fedaaai", JOBS / "fedia"
UNET = {"network._target_": "UNet", "network.channels": [4, 8], "network.strides": [2]}


def settings_of(arms: list[PlannedArm]) -> dict[str, RunSettings]:
    return {arm.name: arm.job.settings_with(arm.overrides) for arm in arms}


def differences(
    *arms: Arm, overrides: dict[str, Any] | None = None, allowed: tuple[str, ...] = (), data: bool = True
) -> dict[str, tuple[dict[str, Any], str]]:
    """Each setting that differs, with its values and the reason that declares it."""
    planned = plan(arms, overrides or {})
    result = declared_differences(planned, settings_of(planned), allowed, data_given=data)
    return {each.key: (each.values, each.why) for each in result}


def refused_keys(*arms: Arm, **options: Any) -> set[str]:
    with pytest.raises(UnfairComparisonError) as caught:
        differences(*arms, **options)
    return set(re.findall(r"^  ([\w.]+): ", str(caught.value), re.MULTILINE))


def copied(job: str, folder: Path, **changes: Any) -> Path:
    """A copy of a job with settings in its file."""
    return Job.open(JOBS / job).copy_with({key.replace("__", "."): changes[key] for key in changes}, folder).folder


def test_what_fedavg_and_fedia_differ_in_is_refused_by_name_with_both_values() -> None:
    arms = Arm("fedavg", FEDAVG), Arm("fedia", FEDIA)
    training = {"rounds", "network.features", "training.learning_rate", "training.local_epochs", "training.loss"}
    assert refused_keys(*arms) == training
    images = {"task", "sites", "noise", "exact", "stratified", "completeness", "images_per_site", "test_images"}
    assert refused_keys(*arms, data=False) == training | {f"embedded.{key}" for key in images}
    with pytest.raises(UnfairComparisonError) as caught:
        differences(*arms)
    assert "  training.loss: ce in fedavg, batch_dice in fedia\n" in str(caught.value)
    assert "--like fedavg or --like fedia" in str(caught.value)


def test_methods_settings_are_their_own() -> None:
    """Length of the warm-up, layer-wise weights, levels of tests: these are the methods."""
    assert differences(Arm("fedavg", FEDAVG), Arm("feda3i", FEDA3I), Arm("auto", JOBS / "auto")) == {}
    assert differences(Arm("a", JOBS / "ditto"), Arm("b", JOBS / "decoupled_server"), data=False) == {}


def test_how_models_become_one_may_differ_and_is_named(tmp_path: Path) -> None:
    own = Arm("b", FEDAVG, {"aggregation.rule": "trimmed_mean", "aggregation.trim": 2, "min_sites": 5})
    assert differences(Arm("a", FEDAVG), own) == {
        "aggregation.rule": ({"a": "mean", "b": "trimmed_mean"}, "own setting"),
        "aggregation.trim": ({"b": 2}, "own setting"),
        "min_sites": ({"a": 1, "b": 5}, "own setting"),
    }
    # Jobs that differ by themselves, of methods with and without the settings; what nothing reads is not named.
    other = copied(
        "fedavg",
        tmp_path / "b",
        server_optimizer__name="fedavgm",
        server_optimizer__momentum=0.8,
        server_optimizer__tau=0.5,
        influence__max_share=0.4,
    )
    given = differences(Arm("a", FEDA3I), Arm("b", other), Arm("c", FEDAVG))
    assert given == {
        "influence.max_share": ({"a": 1.0, "b": 0.4, "c": 1.0}, "aggregation"),
        "server_optimizer.name": ({"a": "none", "b": "fedavgm", "c": "none"}, "aggregation"),
        "server_optimizer.learning_rate": ({"b": None}, "aggregation"),
        "server_optimizer.momentum": ({"b": 0.8}, "aggregation"),
    }
    scaffold = copied(
        "fedavg",
        tmp_path / "c",
        drift_correction="scaffold",
        training__optimizer="sgd",
        training__momentum=0.0,
    )
    given = differences(Arm("a", FEDAVG), Arm("b", scaffold), allowed=("training.optimizer",))
    assert given["drift_correction"] == ({"a": "none", "b": "scaffold"}, "aggregation")
    # Equal in both, also if it is not the default.
    assert differences(Arm("a", FEDAVG), Arm("b", FEDAVG), overrides={"influence.max_share": 0.5}) == {}


def test_topics_of_what_is_named() -> None:
    planned = plan([Arm("a", FEDAVG), Arm("b", FEDAVG, {"influence.max_share": 0.4})], {})
    made = compared_settings(planned, settings_of(planned), [0], None, None, [], data_given=True)
    assert [(each.key, each.topic) for each in made.differences] == [("influence.max_share", "aggregation")]
    assert "network" in made.alike
    assert "Different: influence.max_share: 1.0 in a, 0.4 in b (an arm's own setting)." in settings_in_words(made)


def test_sites_that_are_drawn_in_one_arm_alone_are_a_difference() -> None:
    """A setting for all jobs that have it reaches federated averaging alone, whose sites then train half as often."""
    arms = Arm("fedavg", FEDAVG), Arm("feda3i", FEDA3I)
    assert refused_keys(*arms, overrides={"fraction": 0.5}) == {"fraction"}
    values = {"fedavg": 0.5, "feda3i": 1.0}
    assert differences(*arms, overrides={"fraction": 0.5}, allowed=("fraction",)) == {"fraction": (values, "allowed")}
    own = Arm("fedavg", FEDAVG, {"fraction": 0.5})
    assert differences(own, arms[1]) == {"fraction": (values, "own setting")}
    like = Job.open(FEDAVG).settings_with({"fraction": 0.5})
    of_arms = [like_changes(like, arm, {}, name="fedavg", data_given=True) for arm in plan(arms, {})]
    assert [changes.get("fraction") for changes in of_arms] == [0.5, None]


def test_an_arms_own_setting_declares_a_difference_and_the_others_must_agree() -> None:
    rate = {"training.learning_rate": 0.1}
    values = {"a": 0.1, "b": 0.002, "c": 0.002}
    arms = [Arm("a", FEDAVG, rate), Arm("b", FEDAVG), Arm("c", FEDA3I)]
    assert differences(*arms) == {"training.learning_rate": (values, "own setting")}
    assert "training.learning_rate" in refused_keys(*arms[:2], Arm("c", FEDIA))
    # Of all settings that a recipe gives.
    given = differences(Arm("a", FEDAVG), Arm("b", FEDAVG, {"recipe": "research"}))
    assert {"training.optimizer", "training.augmentation", "inference.mirroring"} <= set(given)
    assert {why for _, why in given.values()} == {"own setting"}


def test_a_setting_or_a_block_is_allowed_by_its_name() -> None:
    arms = [Arm("fedavg", FEDAVG), Arm("fedia", FEDIA)]
    left = refused_keys(*arms, allowed=("training.loss", "network"))
    assert left == {"rounds", "training.learning_rate", "training.local_epochs"}
    given = differences(*arms, allowed=("training", "network.features", "rounds"))
    assert given["training.loss"] == ({"fedavg": "ce", "fedia": "batch_dice"}, "allowed")
    with pytest.raises(JobError, match=r"--allow-different training.los: .*did you mean 'training.loss'\?"):
        differences(*arms, allowed=("training.los",))
    with pytest.raises(JobError, match="A method's own settings may differ anyway"):
        differences(*arms, allowed=("aggregation.rule",))


def test_settings_that_are_not_read_do_not_differ(tmp_path: Path) -> None:
    unread = {"training__momentum": 0.5, "training__learning_rate_power": 2.0, "final_rounds": 7}
    other = copied("fedavg", tmp_path / "a", training__schedule="constant", **unread)
    # Steps that are nowhere are a constant rate.
    assert differences(Arm("fedavg", FEDAVG), Arm("other", other)) == {}
    sgd = copied("fedavg", tmp_path / "b", training__optimizer="sgd", training__momentum=0.5)
    assert refused_keys(Arm("fedavg", FEDAVG), Arm("sgd", sgd)) == {"training.optimizer"}
    falling = copied("fedavg", tmp_path / "c", training__learning_rate_steps=[0.7])
    assert "training.schedule" in refused_keys(Arm("fedavg", FEDAVG), Arm("falling", falling))


def test_a_loss_that_a_method_decides_itself_is_the_methods(tmp_path: Path) -> None:
    dice = copied("ditto", tmp_path / "ditto", training__loss="dice")
    given = differences(Arm("ditto", dice), Arm("decoupled", JOBS / "decoupled_server"))
    assert given == {"training.loss": ({"ditto": "dice", "decoupled": "ce"}, "method")}


def test_a_network_in_monais_form_is_one_value(tmp_path: Path) -> None:
    named = Job.open(FEDAVG).copy_with(UNET, tmp_path / "named").folder
    arms = [Arm("fedavg", FEDAVG), Arm("named", named)]
    assert refused_keys(*arms) == {"network"}
    values, why = differences(*arms, allowed=("network",))["network"]
    assert why == "allowed"
    assert (values["named"]["channels"], values["fedavg"]["upsample"]) == ([4, 8], "nontrainable")
    assert differences(*arms, overrides=UNET) == {}


def test_start_weights_of_another_network_are_not_compared() -> None:
    small = {"network.features": [4, 4, 8, 8, 8, 4]}
    arms = plan([Arm("a", FEDAVG), Arm("b", FEDAVG, {"network.features": [4, 4, 8, 8, 8, 8]}), Arm("c", FEDA3I)], small)
    made = compared_settings(arms, settings_of(arms), [0, 1], None, None, [], data_given=True)
    assert [(each.seed, set(each.sha256), each.are_equal) for each in made.start_weights] == [
        (0, {"a", "c"}, True),
        (1, {"a", "c"}, True),
    ]
    assert made.start_weights[0].sha256 != made.start_weights[1].sha256
    assert not {"network", "start weights"} & set(made.alike)
