"""Which settings all arms of a comparison have alike, and that the comparisons of documents are fair."""

import re
import shlex
from pathlib import Path

import pytest

from fedannot.apps.runs.arm_differences import UnfairComparisonError, declared_differences
from fedannot.apps.runs.arms import Arm, parse_arms, plan
from fedannot.apps.runs.fairness import FREE, HELD, covers, topic_of
from fedannot.apps.runs.job import setting_names
from fedannot.apps.runs.like_changes import like_changes
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.apps.runs.shared_rounds import check_shared_rounds, with_shared_rounds
from fedannot.custom.components.merging import merged
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.methods.fedavg.settings import ClassificationSettings

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "jobs"


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
