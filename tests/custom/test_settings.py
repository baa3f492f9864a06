"""Settings: what is wrong is said with file, key, what was found and what is allowed; the jobs' settings hold."""

import copy
import functools
import json
import math
import os
from pathlib import Path
from typing import get_args

import pytest
import torch
from pydantic import BaseModel, ValidationError
from pyhocon import ConfigFactory

from fedannot.custom.data.phantoms.settings import EmbeddedSettings
from fedannot.custom.methods.feda3i.settings import FedA3ISettings
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.lookup import all_methods, read_job_settings
from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import (
    SettingsError,
    read_settings,
)

FILE = "jobs/example/app/config/settings.conf"
JOBS = sorted(path.parent for path in Path(__file__).parents[2].glob("jobs/*/meta.json"))


def error_text(values):
    with pytest.raises(SettingsError) as caught:
        read_job_settings(values, FILE)
    return str(caught.value)


def test_unknown_key_is_named_with_file_value_suggestion_and_the_command_that_lists_all():
    text = error_text({"method": "feda3i", "warmup_round": 3})
    assert text == (
        f"{FILE}: unknown key 'warmup_round' = 3; did you mean 'warmup_rounds'? "
        "All settings: fedannot jobs settings JOB"
    )


def test_unknown_key_inside_a_group_is_answered_with_the_nearest_of_the_group():
    text = error_text({"method": "fedavg", "training": {"learning_rat": 1}})
    assert text == (
        f"{FILE}: unknown key 'training.learning_rat' = 1; did you mean 'learning_rate'? "
        "All settings: fedannot jobs settings JOB"
    )


def test_keys_of_another_method_are_unknown():
    assert "unknown key 'balance' = 0.5" in error_text({"method": "fedavg", "balance": 0.5})


def test_key_that_resembles_nothing_gets_no_suggestion():
    assert "did you mean" not in error_text({"method": "fedavg", "zzz": 1})


def test_every_wrong_key_gets_a_line():
    lines = error_text({"method": "fedavg", "rounds": 0, "training": {"loss": "mse"}, "roundss": 1}).splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{FILE}: ") for line in lines)
    assert any("'roundss'" in line and "'rounds'" in line for line in lines)
    assert (
        f"{FILE}: key 'training.loss' is 'mse': Expected 'ce', 'dice', 'batch_dice', 'ce_dice', 'ce_batch_dice', "
        "'nr_dice', or the name of a class such as 'monai.losses.NAME'." in lines
    )


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("rounds", 0, "greater than or equal to 1"),
        ("rounds", 2.5, "valid integer"),
        ("threads", -1, "greater than or equal to 0"),
        ("training.learning_rate", 0, "greater than 0"),
        ("training.batch_size", 0, "greater than or equal to 1"),
        ("training.loss", "mse", "'ce', 'dice', 'batch_dice', 'ce_dice', 'ce_batch_dice', 'nr_dice'"),
        ("network.in_channels", 17, "less than or equal to 16"),
        ("network.features", [16, 32], "at least 6"),
        ("network.features", [1] * 7, "at most 6"),
        ("network.spatial_dims", 4, "2 or 3"),
        ("training.patches_per_volume", 0, "greater than or equal to 1"),
        ("training.patch", "big", "valid tuple"),
        ("training.patch", [96, 64.5, 64], "valid integer"),
        ("network.upsample", "nearest", "'deconv' or 'nontrainable'"),
        ("embedded.stratified", 1.0, "less than 1"),
        ("balance", 1.5, "less than or equal to 1"),
        ("weighting", "inter", "'intra_and_inter' or 'intra'"),
        ("group_test_level", 0, "greater than 0"),
        ("max_extra_warmup_rounds", -1, "greater than or equal to 0"),
    ],
)
def test_value_out_of_range_is_named_with_what_is_allowed(key, value, allowed):
    values = {"method": "feda3i"}
    *groups, last = key.split(".")
    values |= {groups[0]: {last: value}} if groups else {last: value}
    text = error_text(values)
    assert text.startswith(f"{FILE}: key '{key}' is {value!r}: ") or text.startswith(f"{FILE}: key '{key}.")
    assert allowed in text


@pytest.mark.parametrize(
    ("aggregation", "min_sites", "needed"),
    [
        ({"rule": "median"}, 2, 3),
        ({"rule": "trimmed_mean"}, 2, 3),
        ({"rule": "trimmed_mean", "trim": 2}, 4, 5),
        ({"rule": "multi_krum"}, 4, 5),
        ({"rule": "multi_krum", "byzantine": 2}, 6, 7),
    ],
)
def test_a_rule_of_aggregation_needs_as_many_results_as_its_values_ask_for(aggregation, min_sites, needed):
    values = {"method": "fedavg", "aggregation": aggregation, "min_sites": min_sites}
    with pytest.raises(SettingsError) as error:
        read_settings(FedAvgSettings, values, FILE)
    assert f"key 'min_sites' is {min_sites}, but 'aggregation.rule' '{aggregation['rule']}'" in str(error.value)
    assert f"set 'min_sites' to {needed} or more" in str(error.value)
    read_settings(FedAvgSettings, values | {"min_sites": needed}, FILE)


def test_every_method_has_the_rules_of_aggregation_and_the_mean_without_them():
    for method in all_methods():
        assert method.settings.model_fields["aggregation"].default.rule == "mean"


@pytest.mark.parametrize("value", ["foo", ["flip", "nnunet"], True, ["turn"], "flip"])
def test_an_unknown_augmentation_is_refused_in_one_line(value):
    assert error_text({"method": "feda3i", "training": {"augmentation": value}}) == (
        f"{FILE}: key 'training.augmentation' is {value!r}: Expected nnunet, a list with some of rotation, flip, "
        "elastic, noise, or a list of transforms in MONAI's form, [{_target_ = RandFlipd, keys = [image, label]}]."
    )


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([{"_target_": "os.Path"}], "_target_ is 'os.Path'; allowed are classes of monai.networks.nets, "),
        ([{"_target_": "RandFlipd", "keys": "$x"}], "argument 'keys' is '$x'; expressions and references are not "),
        ([{"_target_": "RandFlipd"}, "flip"], "_target_ is 'flip'; expected the name of a class, such as "),
    ],
)
def test_transforms_outside_what_is_allowed_are_refused(entries, text):
    assert text in error_text({"method": "feda3i", "training": {"augmentation": entries}})


def test_transforms_are_read_as_they_are_written():
    entry = {"_target_": "RandFlipd", "keys": ["image", "label"], "prob": 0.5}
    settings = read_job_settings({"method": "feda3i", "training": {"augmentation": [entry]}}, FILE)
    written = settings.model_dump(mode="json")
    assert written["training"]["augmentation"] == [entry | {"_target_": "monai.transforms.RandFlipd"}]
    assert read_job_settings(written, FILE) == settings
    assert [component.name for component in settings.training.transforms] == ["RandFlipd"]


FLOATS = [
    "training.foreground_share",
    "training.gradient_clipping",
    "training.learning_rate",
    "training.learning_rate_power",
    "training.learning_rate_warmup",
    "training.momentum",
    "training.proximal_weight",
    "training.weight_decay",
    "embedded.stratified",
    "balance",
    "layer_weight",
    "layer_power",
    "layer_bias",
    "group_test_level",
    "min_predicted_fraction",
    "grace_period",
    "nsd_tolerance",
    "aggregation.smoothing",
    "influence.min_share",
    "influence.max_share",
    "influence.max_quality_ratio",
    "influence.max_update_ratio",
]


def holds_float(annotation):
    return annotation is float or any(holds_float(part) for part in get_args(annotation))


def float_keys(model, prefix=""):
    """Dotted keys of all settings that take a float, in nested groups too."""
    keys = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys += float_keys(field.annotation, f"{prefix}{name}.")
        elif holds_float(field.annotation):
            keys.append(f"{prefix}{name}")
    return keys


def test_every_floating_setting_is_tried():
    lists = ["embedded.completeness", "training.betas", "training.class_weights", "training.learning_rate_steps"]
    assert sorted([*FLOATS, *lists]) == sorted(float_keys(FedA3ISettings))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "inf", "NaN"])
@pytest.mark.parametrize("key", FLOATS)
def test_numbers_that_are_not_finite_are_refused(key, value):
    *groups, last = key.split(".")
    text = error_text({"method": "feda3i"} | ({groups[0]: {last: value}} if groups else {last: value}))
    assert text == f"{FILE}: key {key!r} is {value!r}: Input should be a finite number."


@pytest.mark.parametrize("value", [math.inf, math.nan, -0.1, 1.1])
def test_completeness_is_a_fraction_of_each_site(value):
    embedded = {"task": "lesions3d", "sites": 2, "completeness": [0.5, value]}
    assert f"{FILE}: key 'embedded.completeness.1' is {value!r}: " in error_text(
        {"method": "fedia", "embedded": embedded}
    )


@pytest.mark.parametrize(
    ("embedded", "text"),
    [
        ({"completeness": [0.5] * 10}, "key 'embedded.completeness' goes with embedded.task = lesions3d"),
        ({"task": "lesions3d", "noise": "M(2,-2,1,0.5)"}, "key 'embedded.noise' goes with embedded.task = lesions2d"),
        (
            {"task": "lesions3d", "sites": 4, "completeness": [0.5] * 3},
            "key 'embedded.completeness' has 3 shares, expected one for each of 'embedded.sites', 4",
        ),
    ],
)
def test_imperfections_belong_to_a_task(embedded, text):
    assert text in error_text({"method": "fedia", "embedded": embedded})


@pytest.mark.parametrize("changes", [{"correction": False}, {"trigger": "loss"}])
def test_corrections_that_ask_need_the_form_that_acts_on_estimates(changes):
    values = {"method": "fedia", "corrections": "ask", "trigger": "estimate", "estimator": "sure"}
    assert "key 'corrections' is 'ask'" in error_text(values | changes)


@pytest.mark.parametrize(("threshold", "allowed"), [(0.49, "greater than or equal to 0.5"), (1.0, "less than 1")])
def test_a_correction_needs_a_model_that_is_rather_sure(threshold, allowed):
    text = error_text({"method": "fedia", "correction_threshold": threshold})
    assert f"key 'correction_threshold' is {threshold}" in text
    assert allowed in text


@pytest.mark.parametrize(
    ("method", "loss", "reports"),
    [
        ("fedavg", "ce", False),
        ("fedavg", "nr_dice", False),
        ("fedavg", "dice", True),
        ("feda3i", "batch_dice", True),
        ("fedia", "ce", True),
    ],
)
def test_the_dice_loss_is_reported_where_something_follows_from_it(method, loss, reports):
    assert read_job_settings({"method": method, "training": {"loss": loss}}).reports_dice_loss is reports


@pytest.mark.parametrize(
    "training", [{"loss": "dice"}, {"loss": "DiceLoss"}, {"class_weights": [1, 2]}, {"proximal_weight": 0.1}]
)
def test_decoupled_predictions_have_a_loss_of_their_own(training):
    text = error_text({"method": "decoupled", "training": training})
    assert "keys 'training.loss', 'training.class_weights' and 'training.proximal_weight' cannot be chosen" in text


@pytest.mark.parametrize("task", ["lesions2d", "cells2d"])
def test_protocols_go_with_the_chambers_and_are_read(task):
    text = error_text({"method": "fedavg", "embedded": {"task": task, "protocols": "0-C"}})
    assert "key 'embedded.protocols' goes with embedded.task = chambers3d" in text
    text = error_text({"method": "fedavg", "embedded": {"task": "chambers3d", "protocols": "0-E"}})
    assert "Found the protocol 'E'; expected 0 (none), C (opening" in text


def test_noise_that_cannot_be_read_is_refused():
    text = error_text({"method": "fedavg", "embedded": {"noise": "M(1,2)"}})
    assert "'M(1,2)'" in text
    assert "M(max_mean,min_mean,max_spread,probability_larger)" in text
    assert EmbeddedSettings(noise="M(25,-25,10,0.2)").noise == "M(25,-25,10,0.2)"


@pytest.mark.parametrize(("warmup", "rounds"), [(5, 5), (6, 5)])
@pytest.mark.parametrize("method", ["feda3i", "fedia", "decoupled"])
def test_warm_up_must_end_before_the_run(method, warmup, rounds):
    text = error_text({"method": method, "rounds": rounds, "warmup_rounds": warmup})
    assert text.startswith(FILE)
    assert f"warmup_rounds must be below rounds, but got warmup_rounds={warmup}, rounds={rounds}" in text
    assert read_job_settings({"method": method, "rounds": rounds, "warmup_rounds": rounds - 1}).rounds == rounds


@pytest.mark.parametrize("patch", [[32, 32], [32, 32, 32, 32], [15, 32, 32], [16, 16, 16], [31, 31, 31], [0, 32, 32]])
def test_patch_that_the_network_cannot_take_is_refused_with_what_it_can(patch):
    text = error_text({"method": "fedavg", "network": {"spatial_dims": 3}, "training": {"patch": patch}})
    assert text.startswith(f"{FILE}: key 'training.patch' is {patch}: Expected three extents of at least 16 voxels, ")
    assert "one of them at least 32" in text
    assert "need not be multiples of 16" in text


def test_another_network_takes_smaller_patches():
    network = {"_target_": "SegResNet", "spatial_dims": 3}
    read = read_job_settings({"method": "fedavg", "network": network, "training": {"patch": [24, 24, 12]}})
    assert read.training.patch == (24, 24, 12)


@pytest.mark.parametrize("patch", [(16, 16, 32), (33, 17, 20), (96, 96, 64)])
@pytest.mark.parametrize("upsample", ["deconv", "nontrainable"])
def test_allowed_patches_can_be_trained_on_alone(patch, upsample):
    network = {"spatial_dims": 3, "upsample": upsample, "features": [2] * 6}
    settings = read_job_settings({"method": "fedavg", "network": network, "training": {"patch": list(patch)}})
    assert settings.training.patch == patch
    built = build_network(**settings.network.model_dump()).train()
    assert built(torch.zeros(1, 1, *patch)).shape == (1, 2, *patch)


def test_whole_volumes_need_a_patch_and_pictures_take_none():
    text = error_text({"method": "fedavg", "network": {"spatial_dims": 3}})
    assert text.startswith(f"{FILE}: key 'training.patch' is missing; with network.spatial_dims = 3 it gives ")
    assert "for example training.patch = [96, 96, 64]" in text
    text = error_text({"method": "fedavg", "training": {"patch": [96, 96, 64]}})
    assert text.startswith(f"{FILE}: key 'training.patch' is [96, 96, 64], but network.spatial_dims is 2: ")


@pytest.mark.parametrize("values", [{}, {"method": "fedavgg"}])
def test_unknown_method_is_named_with_the_known_ones(values):
    allowed = (
        "allowed for segmentation: adele, audit, auto, decoupled, ditto, elr, feda3i, fedavg, fedbn, fedcorr, fedcurv, "
        "feddm, fedhac, fedia, fedmix, fednoro, fedrep, fedrobust, fedselect, fingerprint, iop_fl, rmd, "
        "single_site."
    )
    assert error_text(values) == f"{FILE}: key 'method' is {values.get('method')!r}; {allowed}"


def test_settings_of_another_kind_are_read_with_the_kind_that_is_asked_for():
    with pytest.raises(SettingsError, match=r"settings\.conf: unknown key 'balance'"):
        read_settings(FedAvgSettings, {"method": "fedavg", "balance": 0.5})
    assert read_settings(FedA3ISettings, {"balance": 0.25}).balance == 0.25


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError, match="frozen"):
        FedAvgSettings().rounds = 5  # type: ignore[misc]


def test_settings_come_back_from_their_own_values():
    for kind in (method.settings for method in all_methods()):
        settings = kind()
        assert kind.model_validate(settings.model_dump()) == settings
        assert kind.model_validate(json.loads(settings.model_dump_json())) == settings


def test_published_hyper_parameters_are_the_defaults():
    settings = FedA3ISettings()
    training = settings.training
    assert (settings.rounds, settings.warmup_rounds, settings.balance) == (100, 10, 0.5)
    assert (training.loss, training.learning_rate, training.batch_size, training.local_epochs) == ("ce", 5e-3, 8, 5)
    assert settings.network.features == (16, 32, 64, 128, 256, 16)
    assert settings.network.upsample == "deconv"
    assert (settings.layer_weight, settings.layer_power, settings.layer_bias) == (1.0, 1.0, 0.0)


def job_config(job, name):
    return copy.deepcopy(parsed(job / "app" / "config" / name, os.environ.get("FEDANNOT_RESUME")))


@functools.cache
def parsed(file, _resumed):
    """The parser is slow; the second argument is what a file may take from the environment."""
    return ConfigFactory.parse_file(str(file)).as_plain_ordered_dict()


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_job_settings_hold_and_reach_both_sides(job, monkeypatch):
    monkeypatch.delenv("FEDANNOT_RESUME", raising=False)
    values = job_config(job, "settings.conf")["settings"]
    read_job_settings(values)
    server, client = (job_config(job, f"config_fed_{side}.conf") for side in ("server", "client"))
    (workflow,) = server["workflows"]
    assert workflow["args"]["settings"] == values
    assert all(executor["executor"]["args"]["settings"] == values for executor in client["executors"])
    # In a swarm every site has a persistor, and the server none.
    components = [part for side in (server, client) for part in side.get("components", [])]
    (persistor,) = (part for part in components if part["id"] == "persistor")
    assert persistor["args"] == {"settings": values}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_job_is_for_sites_of_any_names(job):
    meta = json.loads((job / "meta.json").read_text(encoding="utf-8"))
    assert meta["name"] == job.name
    assert meta["deploy_map"] == {"app": ["@ALL"]}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_run_to_be_continued_is_named_by_the_environment(job, monkeypatch):
    monkeypatch.setenv("FEDANNOT_RESUME", "/runs/fedannot_state.pt")
    assert job_config(job, "settings.conf")["settings"]["resume_from"] == "/runs/fedannot_state.pt"


def test_every_method_has_a_job():
    settings = [job_config(job, "settings.conf")["settings"] for job in JOBS]
    methods = {(values.get("task", "segmentation"), values["method"]) for values in settings}
    assert methods == {(method.task, method.name) for method in all_methods()}


def test_nesterovs_form_needs_a_momentum():
    values = {"method": "fedavg", "training": {"optimizer": "sgd", "nesterov": True, "momentum": 0}}
    assert error_text(values).endswith(
        ": key 'training.nesterov' is true, but 'training.momentum' is 0; Nesterov's form needs a momentum above 0, "
        "for example 0.99."
    )


TRUNCATED = {
    "_target_": "fedannot.custom.training.noise_robust_losses.GeneralizedCrossEntropy",
    "truncation": 0.5,
}


def test_a_truncated_loss_needs_probabilities_above_its_truncation() -> None:
    for changes in ({"start_model": "model.pt"}, {"training": {"loss": TRUNCATED | {"truncation": 0.3}}}):
        values = {"method": "fedavg", "training": {"loss": TRUNCATED}} | changes
        assert read_job_settings(values, FILE).training.loss.arguments["truncation"] in (0.3, 0.5)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"method": "fedavg", "training": {"class_weights": [1]}},
            "has 1 numbers, but network.num_classes is 1; expected 2",
        ),
        ({"method": "fedavg", "training": {"class_weights": [1, 2], "loss": "dice"}}, "but 'training.loss' is 'dice'"),
        ({"method": "fedgsca", "task": "classification", "training": {"class_weights": [1, 2]}}, "loss 'rcl'"),
        (
            {"method": "fedavg", "task": "classification", "inferer": "SimpleInferer"},
            "key 'inferer' is of segmentation",
        ),
        (
            {"method": "fedavg", "training": {"loss": TRUNCATED}},
            "has the truncation 0.5, but at a random start each of 2 classes has a probability of about 0.5",
        ),
        (
            {"method": "fedavg", "training": {"loss": "cee"}},
            "Expected 'ce', 'dice', 'batch_dice', 'ce_dice', 'ce_batch_dice', 'nr_dice'",
        ),
        ({"method": "fedavg", "training": {"schedule": "PolynomialLR", "learning_rate_warmup": 0.1}}, "a short form"),
    ],
)
def test_weights_losses_and_inferers_that_do_not_go_together_are_refused(values, said):
    assert said in error_text(values)


def test_components_of_training_are_written_as_they_are_read():
    values = {"method": "fedavg", "inferer": {"_target_": "SlidingWindowInferer", "roi_size": [32, 32]}}
    values["training"] = {
        "loss": {"_target_": "DiceLoss", "batch": True},
        "optimizer": "AdamW",
        "schedule": "PolynomialLR",
    }
    settings = read_job_settings(values, FILE)
    dumped = settings.model_dump(mode="json")
    assert dumped["training"]["loss"] == {"_target_": "monai.losses.DiceLoss", "batch": True}
    assert dumped["training"]["optimizer"] == {"_target_": "torch.optim.AdamW"}
    assert dumped["inferer"] == {"_target_": "monai.inferers.SlidingWindowInferer", "roi_size": [32, 32]}
    assert read_job_settings(json.loads(json.dumps(dumped)), FILE) == settings


@pytest.mark.parametrize(
    "network", [{"features": [4, 4, 8, 8, 8, 100_000]}, {"spatial_dims": 3, "features": [4, 4, 8, 8, 8, 9000]}]
)
def test_features_that_no_memory_holds_are_refused(network):
    with pytest.raises(ValidationError, match=r"'network.features' is .* parameters at least; at most 2e\+09"):
        FedAvgSettings(network=network)


def test_widths_that_no_memory_holds_are_refused():
    with pytest.raises(SettingsError, match=r"'network.widths' is .* parameters at least"):
        read_job_settings({"task": "classification", "method": "fedavg", "network": {"widths": [8, 8, 8, 20_000]}})
