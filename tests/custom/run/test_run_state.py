"""The state that a restart needs: written in one step, read back the same, and checked before a run goes on."""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import plain_records
import pytest
import torch

from fedannot.custom.aggregation.streaming_average import refusal_reason
from fedannot.custom.data import whole_files
from fedannot.custom.methods import fedavg
from fedannot.custom.methods.feda3i.settings import FedA3ISettings
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.records.record_lines import append_record, write_records
from fedannot.custom.run import state as run_state
from fedannot.custom.run.continuing import earlier_state
from fedannot.custom.run.state import ResumeError, RunState

BEFORE_RECIPES = json.loads((Path(__file__).parent / "settings_before_recipes.json").read_text(encoding="utf-8"))
SETTINGS = {"rounds": 9, "seed": 0, "training": {"batch_size": 4}, "network": {"features": (2, 4)}}


def make_state(round_number=3):
    generator = torch.Generator().manual_seed(round_number)
    return RunState(
        method="feda3i",
        settings=dict(SETTINGS),
        round_number=round_number,
        params={"w": torch.randn(3, 2, generator=generator), "n": torch.tensor(round_number)},
        method_state={"num_samples": {"site-1": 12}, "estimate": None, "groups": ["site-1"]},
        history=[plain_records.record(round_number, dice=0.5)],
    )


def same(first, second):
    return (
        all(torch.equal(first.params[name], second.params[name]) for name in first.params)
        and first.params.keys() == second.params.keys()
        and all(
            getattr(first, field) == getattr(second, field)
            for field in ("method", "settings", "round_number", "method_state", "history")
        )
    )


def test_state_comes_back_as_it_was_written(tmp_path):
    state = make_state()
    state.save(tmp_path / "state.pt")
    assert same(RunState.load(tmp_path / "state.pt"), state)
    assert [file.name for file in tmp_path.iterdir()] == ["state.pt"]


def test_later_state_takes_the_place_of_the_earlier(tmp_path):
    make_state(3).save(tmp_path / "state.pt")
    make_state(4).save(tmp_path / "state.pt")
    assert same(RunState.load(tmp_path / "state.pt"), make_state(4))


@pytest.mark.parametrize("written", [b"", b"half a file"])
def test_crash_while_writing_leaves_the_state_before(tmp_path, monkeypatch, written):
    make_state(3).save(tmp_path / "state.pt")

    def fail(_, file):
        file.write(written)
        raise OSError("No space left on device")

    monkeypatch.setattr(run_state.torch, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        make_state(4).save(tmp_path / "state.pt")
    monkeypatch.undo()
    assert same(RunState.load(tmp_path / "state.pt"), make_state(3))
    # What is left of the failed attempt does not disturb the next one.
    make_state(5).save(tmp_path / "state.pt")
    assert same(RunState.load(tmp_path / "state.pt"), make_state(5))
    assert [file.name for file in tmp_path.iterdir()] == ["state.pt"]


def test_state_is_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    events = []
    synchronise, replace = os.fsync, run_state.Path.replace
    monkeypatch.setattr(whole_files.os, "fsync", lambda file: (events.append("fsync"), synchronise(file)))
    monkeypatch.setattr(run_state.Path, "replace", lambda s, t: (events.append("replace"), replace(s, t))[1])
    make_state().save(tmp_path / "state.pt")
    assert events == ["fsync", "replace", "fsync"], "the file, its name, the folder"


def test_missing_state_is_named(tmp_path):
    with pytest.raises(ResumeError) as caught:
        RunState.load(tmp_path / "state.pt")
    assert str(caught.value) == (
        f"Expected the state of an earlier run at {tmp_path / 'state.pt'}, but there is no such file."
    )


def test_files_that_are_no_state_are_refused(tmp_path):
    (tmp_path / "text.pt").write_text("no state")
    torch.save({"w": torch.zeros(1)}, tmp_path / "weights.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    whole = tmp_path / "whole.pt"
    make_state().save(whole)
    (tmp_path / "cut.pt").write_bytes(whole.read_bytes()[:100])
    for name in ("text.pt", "weights.pt", "list.pt", "cut.pt"):
        with pytest.raises(ResumeError, match=rf"{tmp_path / name} is not the state of a run \(\w+: "):
            RunState.load(tmp_path / name)


class Evil:
    def __reduce__(self):
        return (open, ("/nowhere/else", "w"))


def test_state_that_would_run_code_is_refused(tmp_path):
    torch.save({"method": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ResumeError, match="is not the state of a run"):
        RunState.load(tmp_path / "evil.pt")


def test_more_rounds_or_other_places_may_continue_a_run():
    changed = SETTINGS | {"rounds": 20, "resume_from": "state.pt", "task_timeout": 5, "data": "/data"}
    make_state().check_continues("feda3i", changed)


def test_another_method_may_not_continue_a_run():
    with pytest.raises(ResumeError) as caught:
        make_state().check_continues("fedavg", SETTINGS)
    assert str(caught.value) == "The state is of a run of 'feda3i', but the job is 'fedavg'."


def averaging_state(round_number):
    state = make_state(round_number)
    state.method, state.settings = "fedavg", SETTINGS | {"method": "fedavg", "keep_rounds": [3]}
    return state


def test_another_method_may_branch_from_federated_averaging_while_it_is_the_same():
    settings = SETTINGS | {"method": "feda3i", "balance": 0.3, "keep_rounds": [], "rounds": 12}
    for round_number in (1, 2, 3):
        averaging_state(round_number).check_continues("feda3i", settings, rounds_of_averaging=3)
    with pytest.raises(ResumeError, match=r"within its first 3 rounds; the state is that after round 4\."):
        averaging_state(4).check_continues("feda3i", settings, rounds_of_averaging=3)
    with pytest.raises(ResumeError, match=r"other settings: now seed=1 instead of 0\."):
        averaging_state(3).check_continues("feda3i", settings | {"seed": 1}, rounds_of_averaging=3)
    with pytest.raises(ResumeError, match=r"of a run of 'feda3i', but the job is 'fedavg'\."):
        make_state(1).check_continues("fedavg", SETTINGS, rounds_of_averaging=3)


def test_other_settings_may_not_continue_a_run_and_are_named():
    with pytest.raises(ResumeError) as caught:
        make_state().check_continues("feda3i", SETTINGS | {"seed": 1, "balance": 0.5})
    assert str(caught.value) == (
        "The state was made with other settings: now balance=0.5 instead of None, seed=1 instead of 0."
    )
    with pytest.raises(ResumeError, match=r"other settings: now training\.batch_size=8 instead of 4\.$"):
        make_state().check_continues("feda3i", SETTINGS | {"training": {"batch_size": 8}})


def test_a_run_is_continued_with_the_start_model_that_it_had():
    state = make_state()
    state.check_continues("feda3i", SETTINGS | {"start_model": ""})
    with pytest.raises(ResumeError, match=r"now start_model='bundle' instead of ''\."):
        state.check_continues("feda3i", SETTINGS | {"start_model": "bundle"})
    state.settings = SETTINGS | {"start_model": "bundle"}
    state.check_continues("feda3i", SETTINGS | {"start_model": "bundle"})
    averaging = averaging_state(2)
    with pytest.raises(ResumeError, match=r"now start_model='bundle' instead of ''\."):
        averaging.check_continues("feda3i", SETTINGS | {"method": "feda3i", "start_model": "bundle"}, 3)


@pytest.mark.parametrize(("embedded", "matters"), [({"a": False, "b": False}, False), ({"a": False, "b": True}, True)])
def test_settings_of_the_phantom_matter_where_a_site_has_trained_on_it(embedded, matters):
    state = make_state()
    state.settings = SETTINGS | {"embedded": {"sites": 4}}
    reports = {site: plain_records.report(embedded_data=value) for site, value in embedded.items()}
    state.history = [plain_records.record(1, sites=reports)]
    changed = SETTINGS | {"embedded": {"sites": 8}}
    if matters:
        with pytest.raises(ResumeError, match=r"now embedded"):
            state.check_continues("feda3i", changed)
    else:
        state.check_continues("feda3i", changed)


def test_records_are_lines_of_json(tmp_path):
    file = tmp_path / "metrics.jsonl"
    records = [plain_records.record(1, dice=0.5), plain_records.record(2)]
    plain = [record.plain() for record in records]
    for record in records:
        append_record(file, record)
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] == plain
    assert [(record["version"], record["round"], record["dice"]) for record in plain] == [(1, 1, 0.5), (1, 2, None)]
    write_records(file, records[:1])
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] == plain[:1]
    append_record(file, records[1])
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] == plain
    write_records(file, [])
    assert file.read_text(encoding="utf-8") == ""


def test_a_state_from_before_a_setting_existed_is_of_its_default():
    earlier, now = SETTINGS.copy(), FedA3ISettings().model_dump(mode="json")
    added = {name: now[name] for name in ("start_model", "influence", "aggregation")}
    RunState("feda3i", earlier, 1, {}).check_continues("feda3i", earlier | added)
    for values, defaults in (
        ({}, {"optimizer": "adam", "momentum": 0.9, "weight_decay": 0.0}),
        ({"task": "classification"}, {"optimizer": "sgd"}),
    ):
        training = earlier["training"] | defaults
        RunState("feda3i", earlier | values, 1, {}).check_continues("feda3i", earlier | values | {"training": training})
        other = {"training": training | {"optimizer": "adam" if values else "sgd"}}
        with pytest.raises(ResumeError, match=r"now training\."):
            RunState("feda3i", earlier | values, 1, {}).check_continues("feda3i", earlier | values | other)
    bounded = added | {"influence": now["influence"] | {"max_update_ratio": 3.0}}
    with pytest.raises(ResumeError, match=r"now influence\."):
        RunState("feda3i", earlier, 1, {}).check_continues("feda3i", earlier | bounded)
    trimmed = added | {"aggregation": now["aggregation"] | {"rule": "trimmed_mean"}}
    with pytest.raises(ResumeError, match=r"now aggregation\.rule='trimmed_mean' instead of 'mean'"):
        RunState("feda3i", earlier, 1, {}).check_continues("feda3i", earlier | trimmed)


@pytest.mark.parametrize(
    ("task", "default", "other"), [("segmentation", "adam", "sgd"), ("classification", "sgd", "adam")]
)
def test_a_state_from_before_there_was_a_choice_was_made_with_the_optimizer_of_its_task(task, default, other):
    earlier = RunState("fedavg", SETTINGS | {"task": task}, 1, {})
    now = {kind.task: kind.settings for kind in fedavg.METHODS}[task]().training.model_dump(mode="json")
    assert now["optimizer"] == default
    chosen = {"batch_size": 4} | ({"momentum": 0.9, "weight_decay": 0.0} if task == "segmentation" else {})
    earlier.check_continues("fedavg", earlier.settings | {"training": chosen | {"optimizer": default}})
    with pytest.raises(ResumeError, match=rf"now training\.optimizer='{other}' instead of '{default}'\.$"):
        earlier.check_continues("fedavg", earlier.settings | {"training": chosen | {"optimizer": other}})


@pytest.mark.parametrize("kind", [method.settings for method in fedavg.METHODS])
def test_a_state_from_before_steps_schedules_and_kept_optimizers_goes_on(kind):
    now = kind(rounds=3).model_dump(mode="json")
    later = {"nesterov", "betas", "schedule", "learning_rate_power", "learning_rate_warmup", "local_steps"}
    later |= {"gradient_clipping", "precision", "keep_optimizer", "class_weights"}
    earlier = now | {"training": {key: value for key, value in now["training"].items() if key not in later}}
    RunState("fedavg", earlier, 1, {}).check_continues("fedavg", now)
    changed = now | {"training": now["training"] | {"schedule": "polynomial"}}
    with pytest.raises(ResumeError, match=r"now training\.schedule='polynomial' instead of 'steps'"):
        RunState("fedavg", earlier, 1, {}).check_continues("fedavg", changed)


@pytest.mark.parametrize("job", sorted(BEFORE_RECIPES))
def test_a_state_of_the_version_before_recipes_goes_on(job):
    """The settings of some jobs as the version of 9ed1d844 wrote them, by default."""
    earlier = BEFORE_RECIPES[job]
    task, method = earlier["task"], earlier["method"]
    now = read_job_settings({"task": task, "method": method}).model_dump(mode="json")
    RunState(method, earlier, 1, {}).check_continues(method, now)
    changed = now | {"inference": {"mirroring": True}}
    with pytest.raises(ResumeError, match=r"now inference\.mirroring=True instead of False\.$"):
        RunState(method, earlier, 1, {}).check_continues(method, changed)
    if task == "segmentation":
        changed = now | {"training": now["training"] | {"foreground_share": 0.5}}
        with pytest.raises(ResumeError, match=r"now training\.foreground_share=0\.5 instead of None\.$"):
            RunState(method, earlier, 1, {}).check_continues(method, changed)


@pytest.mark.parametrize(
    ("augmentation", "goes_on"), [([], True), ("nnunet", True), (["flip"], False), ([{"_target_": "RandFlipd"}], True)]
)
def test_a_state_of_samples_that_were_changed_one_by_one_goes_on_so(augmentation, goes_on):
    if isinstance(augmentation, list) and augmentation and isinstance(augmentation[0], dict):
        augmentation[0] |= {"keys": ["image", "label"], "prob": 0.5}
    now = FedAvgSettings.model_validate({"training": {"augmentation": augmentation}}).model_dump(mode="json")
    training = {name: value for name, value in now["training"].items() if name != "augmentation_unit"}
    state = RunState("fedavg", now | {"training": training}, 1, {})
    if not goes_on:
        with pytest.raises(ResumeError, match=r"augmentation_unit='batch' instead of 'sample'\.$"):
            state.check_continues("fedavg", now)
        now["training"]["augmentation_unit"] = "sample"
    state.check_continues("fedavg", now)


@pytest.mark.parametrize(
    ("schedule", "goes_on"),
    [
        ("constant", True),
        ("steps", True),
        ("polynomial", False),
        ("cosine", False),
        ("CosineAnnealingLR", False),
        ({"_target_": "CosineAnnealingLR", "eta_min": 0.1}, False),
    ],
)
def test_a_learning_rate_that_falls_over_all_rounds_needs_the_same_rounds(schedule, goes_on):
    def settings(rounds):
        training = {"schedule": schedule}
        return FedAvgSettings.model_validate({"rounds": rounds, "training": training}).model_dump(mode="json")

    state = RunState("fedavg", settings(10), 4, {})
    state.check_continues("fedavg", settings(10))
    if goes_on:
        state.check_continues("fedavg", settings(20))
        return
    with pytest.raises(ResumeError, match=r"^Found rounds=20, but the state is of a run of rounds=10 ") as caught:
        state.check_continues("fedavg", settings(20))
    assert "expected the same rounds" in str(caught.value)
    assert "training.schedule = constant or steps" in str(caught.value)


def test_a_bound_that_a_state_has_no_name_for_had_its_default():
    now = FedA3ISettings().model_dump(mode="json")
    bounded = now | {"influence": now["influence"] | {"max_update_ratio": 3.0}}
    earlier = bounded | {"influence": {"min_share": 0.0, "max_share": 1.0, "max_update_ratio": 3.0}}
    RunState("feda3i", earlier, 1, {}).check_continues("feda3i", bounded)
    tighter = bounded | {"influence": bounded["influence"] | {"max_quality_ratio": 3.0}}
    with pytest.raises(ResumeError, match=r"now influence\.max_quality_ratio=3\.0 instead of None\.$"):
        RunState("feda3i", earlier, 1, {}).check_continues("feda3i", tighter)


def test_a_state_that_names_a_setting_that_has_gone_goes_on_where_it_had_no_effect():
    settings = {"rounds": 9, "seed": 1}
    RunState("auto", settings | {"judge": "global"}, 3, {}).check_continues("auto", settings)
    with pytest.raises(ResumeError, match="judge=None instead of 'without_own'"):
        RunState("auto", settings | {"judge": "without_own"}, 3, {}).check_continues("auto", settings)


def test_a_state_of_another_form_is_distinguished_from_a_file_that_is_none(tmp_path):
    """Earlier versions wrote none, and kept what a method remembers beside the numbers of samples."""
    values = {"method": "fedavg", "settings": {}, "round_number": 1, "params": {}, "method_state": {}, "history": []}
    torch.save(values, tmp_path / "state.pt")
    with pytest.raises(ResumeError, match=r"state.pt is the state of a run of another version of fedannot \(form None"):
        RunState.load(tmp_path / "state.pt")


@pytest.mark.parametrize(("bits", "goes_on"), [(None, True), (8, False), (24, False)])
def test_the_former_default_of_precision_was_float32_on_a_cpu(monkeypatch, bits, goes_on):
    """Sites report their precision since `auto` may be another one."""
    monkeypatch.setattr(run_state, "preferred_device", lambda: torch.device("cpu"))
    values = {} if bits is None else {"significand_bits": bits}
    history = [plain_records.record(1, sites={"site-1": plain_records.report(**values)})]
    now = fedavg.METHODS[0].settings().model_dump(mode="json")
    state = RunState("fedavg", now | {"training": now["training"] | {"precision": "auto"}}, 1, {}, history=history)
    with (
        nullcontext() if goes_on else pytest.raises(ResumeError, match=r"training\.precision='fp32' instead of 'auto'")
    ):
        state.check_continues("fedavg", now)
    former = now | {"training": now["training"] | {"precision": "mixed"}}
    with pytest.raises(ResumeError, match=r"training\.precision='fp32' instead of 'bf16'"):
        RunState("fedavg", former, 1, {}).check_continues("fedavg", now)


def test_running_statistics_that_grew_from_round_to_round_go_on(tmp_path):
    """Each round may have values far beyond the one before; the state of the second is far beyond start weights."""
    settings = FedAvgSettings()
    start = {"w": torch.zeros(1), "norm.running_var": torch.ones(1)}
    first, second = (start | {"norm.running_var": torch.tensor([value])} for value in (3000.0, 6000.0))
    assert refusal_reason(first, start) is None
    assert refusal_reason(second, first) is None
    assert refusal_reason(second, start) is not None
    file = tmp_path / "state.pt"
    values = settings.model_dump(mode="json")
    RunState(settings.method, values, 0, second, {}, []).save(file)
    assert torch.equal(earlier_state(file, settings, 0, start).params["norm.running_var"], torch.tensor([6000.0]))
    RunState(settings.method, values, 0, start | {"w": torch.tensor([float("nan")])}, {}, []).save(file)
    with pytest.raises(ResumeError, match=r"state\.pt does not fit the job's network: not finite .entry w"):
        earlier_state(file, settings, 0, start)
