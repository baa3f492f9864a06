"""Which settings all arms of a comparison have alike, what declares a difference, and what `--like` gives an arm."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.reports.compared_settings import settings_in_words
from fedannot.apps.runs.arms import Arm, PlannedArm, parse_arms, plan
from fedannot.apps.runs.fairness import (
    FREE,
    HELD,
    UnfairComparisonError,
    compared_settings,
    covers,
    declared_differences,
    held_values,
    like_changes,
    topic_of,
)
from fedannot.apps.runs.job import Job, JobError, setting_names
from fedannot.apps.runs.run_process import Commands
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.apps.runs.shared_rounds import check_shared_rounds, with_shared_rounds
from fedannot.custom.components.merging import merged
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.methods.fedavg.settings import ClassificationSettings
from fedannot.custom.settings import RunSettings

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "jobs"
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


def test_every_setting_is_in_one_list_at_most_and_exists() -> None:
    known = {*setting_names(SegmentationAveragingSettings), *setting_names(ClassificationSettings)}
    keys = [key for topic in (*HELD, *FREE) for key in topic.keys]
    assert len(keys) == len(set(keys))
    assert [key for key in keys if not covers(known, key)] == []
    assert all(topic.reason.endswith(".") for topic in (*HELD, *FREE))
    # What nobody has thought of is held alike.
    assert topic_of("training.something_new") == "other settings of all methods"
    assert topic_of("network.checkpoint") == "start weights"
    assert topic_of("influence.max_share") is None


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


def copied(job: str, folder: Path, **changes: Any) -> Path:
    """A copy of a job with settings in its file."""
    return Job.open(JOBS / job).copy_with({key.replace("__", "."): changes[key] for key in changes}, folder).folder


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


def like(arm: Arm, model: Arm, overrides: dict[str, Any] | None = None, of_set: dict[str, Any] | None = None) -> Any:
    """An arm with the settings of another one, as a comparison plans it."""
    planned = plan([arm, model], overrides or {})
    of_model = planned[1].job.settings_with(planned[1].overrides)
    changes = like_changes(of_model, planned[0], of_set or {}, name=model.name, data_given=False)
    return planned[0].job.settings_with(merged(of_set or {}, changes, planned[0].overrides))


@pytest.mark.parametrize("job", ["auto", "fedaaai", "fedcurv", "decoupled_server"])
def test_like_gives_an_arm_everything_that_is_held_alike(job: str) -> None:
    model = Job.open(FEDIA).settings()
    made = like(Arm("a", JOBS / job), Arm("fedia", FEDIA))
    expected = held_values(model, data_given=False)
    if job == "decoupled_server":
        # Its loss is its own.
        expected["training.loss"] = "ce"
    assert held_values(made, data_given=False) == expected
    assert made.method == Job.open(JOBS / job).settings().method


def test_what_is_set_counts_more_than_like() -> None:
    own = {"training.learning_rate": 0.1}
    made = like(Arm("a", FEDAVG, own), Arm("fedia", FEDIA), {"rounds": 30}, {"training.batch_size": 2})
    assert (made.rounds, made.training.learning_rate, made.training.loss) == (30, 0.1, "batch_dice")
    # Not of the set, which goes before.
    assert made.training.batch_size == 4


def test_like_gives_a_class_and_cannot_take_one_back(tmp_path: Path) -> None:
    named = Job.open(FEDAVG).copy_with(UNET, tmp_path / "named").folder
    made = like(Arm("a", FEDA3I), Arm("named", named))
    assert made.network.component.arguments["channels"] == [4, 8]
    with pytest.raises(UnfairComparisonError, match="--like b: its network is that of the settings, but a names a cla"):
        like(Arm("a", named), Arm("b", FEDA3I))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of runs that a comparison would start; none is."""
    commands: list[list[str]] = []

    def start(_: Commands, command: list[str], log: Path, **__: Any) -> int:
        log.write_text("not run in this test")
        commands.append(command)
        return 1

    monkeypatch.setattr(Commands, "run", start)
    return commands


def test_the_command_refuses_and_like_runs_both_alike(tmp_path: Path, started: list[list[str]]) -> None:
    arguments = ["compare", str(FEDAVG), str(FEDIA), "--seeds", "1", "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert "training.loss: ce in fedavg, batch_dice in fedia" in refused.output
    assert not started
    assert not (tmp_path / "out").exists()

    CliRunner().invoke(app, [*arguments, "--like", "fedia", "--set", "network.upsample=deconv"])
    commands = {Path(command[1]).name: command for command in started}
    assert set(commands) == {"fedavg", "fedia"}
    given = set(commands["fedavg"]) - {"--set"}
    assert {'training.loss="batch_dice"', "rounds=24", 'embedded.task="lesions3d"', "embedded.noise=null"} <= given
    assert [word for word in commands["fedia"] if "=" in word] == ['network.upsample="deconv"']
    asked = json.loads((tmp_path / "out" / "request.json").read_text(encoding="utf-8"))
    assert (asked["like"], asked["allow_different"], asked["overrides"]) == (
        "fedia",
        [],
        {"network.upsample": "deconv"},
    )
    short = CliRunner().invoke(app, [*arguments, "--like", "fedavg"])
    assert "Error: fedia, with the settings of --like fedavg: " in short.output
    again = CliRunner().invoke(app, [*arguments, "--like", "fedavg", "--set", "warmup_rounds=2"])
    assert "like was fedia and is fedavg" in " ".join(again.output.split())


def test_like_another_task_is_refused(tmp_path: Path) -> None:
    arguments = ["compare", str(FEDAVG), str(FEDA3I), "--like", "fedgsca", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert "--like fedgsca is for classification, but the arms are for segmentation" in " ".join(result.output.split())


NETWORK = """
from torch import nn
def build(in_channels, out_channels):
    return nn.Conv2d(in_channels, out_channels, 3, padding=1)
"""


def test_one_network_of_a_researchers_own_for_all_arms(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fair_network.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    jobs = [str(FEDAVG), str(FEDIA), "--like", "fedia"]
    arguments = ["compare", *jobs, "--network", "fair_network:build", "--seeds", "1", "--out", str(tmp_path / "out")]
    CliRunner().invoke(app, arguments)
    assert len(started) == 2
    for command in started:
        assert command[command.index("--network") + 1] == "fair_network:build"
        assert not any(word.startswith("network.") for word in command)
    result = CliRunner().invoke(app, [*arguments, "--set", "fedia:network.features=[4,4,8,8,8,4]"])
    assert "--network is given, and 'network.features' says another network" in " ".join(result.output.split())


def test_start_weights_that_differ_are_refused(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = "number = 0\ndef counted():\n    global number\n    number += 1\n    made = build(1, 2)\n"
    (tmp_path / "odd_network.py").write_text(f"{NETWORK}{counting}    made.bias.data[0] = number\n    return made\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ["compare", str(FEDAVG), str(FEDA3I), "--network", "odd_network:counted", "--seeds", "1"]
    arguments += ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert "those of seed 0 differ in 2 common entries" in " ".join(result.output.split())
    assert not started
    CliRunner().invoke(app, [*arguments, "--allow-different", "start_weights"])
    assert len(started) == 2


def documented_commands() -> list[list[str]]:
    """The words after `fedannot compare` in documents, and in the comments of a set of each paper."""
    sets = [
        file for name in ("skin-ns", "ms-m0", "kvasir", "left-atrium") for file in JOBS.glob(f"*/settings/{name}.conf")
    ]
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *sets]
    commands = set()
    for file in files:
        lines = [line.removeprefix("#").strip() for line in file.read_text(encoding="utf-8").splitlines()]
        text = re.sub(r" \\\n", " ", "\n".join(lines))
        commands |= set(re.findall(r"^fedannot compare (.*?)(?: +#.*)?$", text, re.MULTILINE))
    # A set that a command has written before is the same for all arms.
    return [shlex.split(command) for command in sorted(commands) if "--settings planned.conf" not in command]


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


def fairness_of(words: list[str]) -> None:
    """Check a comparison by its command, without data."""
    options: dict[str, list[str]] = {}
    words = [word for word in words if word != "--leave-site-out"]
    while any(word.startswith("--") for word in words):
        place = next(index for index, word in enumerate(words) if word.startswith("--"))
        options.setdefault(words[place], []).append(words[place + 1])
        del words[place : place + 2]
    jobs = [str(ROOT / word) if "/" in word else word for word in words]
    arms, changes = parse_arms(jobs, options.get("--set", []))
    planned = plan(with_shared_rounds(arms, options.get("--shared-rounds", [])), changes)
    of_set, data = options.get("--settings"), "--data" in options
    sets = {arm.name: SettingsFile.read(arm.job, of_set[0]).values if of_set else {} for arm in planned}
    settings = {arm.name: arm.job.settings_with(merged(sets[arm.name], arm.overrides)) for arm in planned}
    if like := options.get("--like"):
        made = [like_changes(settings[like[0]], arm, sets[arm.name], name=like[0], data_given=data) for arm in planned]
        settings = {
            arm.name: arm.job.settings_with(merged(sets[arm.name], changes, arm.overrides))
            for arm, changes in zip(planned, made, strict=True)
        }
    declared_differences(planned, settings, options.get("--allow-different", []), data_given=data)
    check_shared_rounds(planned, settings, data_given=data)


def test_documented_comparisons_are_fair() -> None:
    """That of the left atrium had a constant rate in one arm, and steps in five."""
    commands = documented_commands()
    assert len(commands) > 10
    for words in commands:
        if words[-1] == "runs/refused":
            with pytest.raises(UnfairComparisonError):
                fairness_of(words)
        else:
            fairness_of(words)


def test_the_sets_of_the_left_atrium_are_alike_by_themselves() -> None:
    jobs = [JOBS / name for name in ("fedavg", "fedcurv", "single_site", "fedrep", "ditto", "decoupled_server")]
    planned = plan([Arm(job.name, job) for job in jobs], {})
    settings = {arm.name: arm.job.settings_with(SettingsFile.read(arm.job, "left-atrium").values) for arm in planned}
    assert declared_differences(planned, settings, [], data_given=True) == []
