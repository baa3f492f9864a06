"""`fedannot compare`: the same data and start weights for all, finished runs are kept, comparisons are not mixed."""

import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS, SMALL, TINY, TINY_NOISE
from plain_records import compare
from support.unstarted_runs import collect_commands
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.reports.results_file import read_results, read_round_lines
from fedannot.apps.runs.arms import Arm, PlannedArm
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.run_process import Commands
from fedannot.apps.runs.run_share import RunShare
from fedannot.custom.data.description import ClassificationDescription, VolumeDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.data.file_locks import locked
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.state import STATE_FILE, RunState


@dataclass(frozen=True)
class Compared:
    """A comparison by the command line: two jobs with a named set of settings, two seeds."""

    jobs: list[Path]
    arguments: list[str]
    out: Path
    comparison: dict[str, Any]

    def summary(self, job: Path, seed: int) -> dict[str, Any]:
        file = self.out / "runs" / f"{job.name}-seed{seed}" / "summary.json"
        read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return read


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Compare small jobs once for all tests."""
    folder = tmp_path_factory.mktemp("compared")
    for seed in (0, 1):
        write_phantom_federation(
            folder / f"data{seed}",
            LesionImages(noise=TINY_NOISE, exact=True),
            num_sites=3,
            images_per_site=4,
            test_images=4,
            seed=seed,
        )
    changes = {"fedavg": {}, "fedaaai": {"warmup_rounds": 1, "min_predicted_fraction": 0.0, "group_test_level": 1.0}}
    jobs = [Job.open(JOBS / name).copy_with(SMALL | own, folder / name).folder for name, own in changes.items()]
    for job in jobs:
        (job / "settings").mkdir()
        (job / "settings" / "tiny.conf").write_text(TINY)
    out = folder / "out"
    arguments = ["compare", *map(str, jobs), "--data", str(folder / "data{seed}"), "--out", str(out)]
    arguments += ["--seeds", "2", "--settings", "tiny", "--set", "training.learning_rate=0.003"]
    arguments += ["--set", "fedaaai:validate_every=1"]
    result = CliRunner().invoke(app, [*arguments, "--set", "balance=0.4"])
    assert result.exit_code == 0, result.output
    return Compared(jobs, arguments, out, json.loads((out / "comparison.json").read_text(encoding="utf-8")))


def test_results_per_case_are_those_of_all_runs(compared: Compared) -> None:
    rows = read_results(compared.out / "results.csv")
    assert len(rows) == 2 * 2 * 4
    (test,) = compared.comparison["case_tests"]
    assert (test["arm"], test["reference"], test["num_cases"]) == ("fedaaai", "fedavg", 8)
    means = {
        (arm, seed): statistics.fmean(row.dice for row in rows if (row.arm, row.seed) == (arm, seed))
        for arm in ("fedavg", "fedaaai")
        for seed in (0, 1)
    }
    for run in compared.comparison["runs"]:
        assert means[run["arm"], run["seed"]] == pytest.approx(run["last_round"]["dice"], abs=1e-6)
    assert test["mean"] == pytest.approx(
        statistics.fmean(means["fedaaai", seed] - means["fedavg", seed] for seed in (0, 1)), abs=1e-6
    )
    lines = read_round_lines(compared.out / "results_rounds.csv")
    assert {line["arm"] for line in lines} == {"fedavg", "fedaaai"}
    calibration = json.loads((compared.out / "calibration.json").read_text(encoding="utf-8"))["calibration"]
    assert [(one["arm"], one["seed"]) for one in calibration] == [(arm, seed) for arm, seed in means]


def test_runs_are_paired(compared: Compared) -> None:
    runs = {(run["method"], run["seed"]): run for run in compared.comparison["runs"]}
    assert set(runs) == {("fedavg", 0), ("fedavg", 1), ("feda3i", 0), ("feda3i", 1)}
    (paired,) = compared.comparison["paired"]
    for seed in (0, 1):
        one, other = runs["fedavg", seed], runs["feda3i", seed]
        # The first round is federated averaging from the same start weights on the same data.
        assert one["rounds"][0] == other["rounds"][0]
        difference = other["last_rounds"]["dice"] - one["last_rounds"]["dice"]
        assert paired["differences"][seed] == pytest.approx(difference)
        assert one["seconds"] > 0
        assert one["peak_memory_mb"] > 100
    assert runs["feda3i", 0]["groups_as_drawn"] in (True, False)
    assert runs["fedavg", 0]["groups_as_drawn"] is None
    assert (compared.out / "comparison.png").read_bytes()[:4] == b"\x89PNG"


def test_every_run_takes_the_settings(compared: Compared) -> None:
    for job in compared.jobs:
        for seed in (0, 1):
            settings = compared.summary(job, seed)["settings"]
            assert settings["rounds"] == 2
            assert settings["training"] | {"batch_size": 2, "learning_rate": 0.003} == settings["training"]
            assert settings["seed"] == seed
            assert settings.get("balance") == (0.4 if job.name == "fedaaai" else None)
            assert settings["validate_every"] == (1 if job.name == "fedaaai" else None)


def test_what_is_done_is_kept_and_other_settings_are_refused(compared: Compared) -> None:
    models = {file: file.stat().st_mtime_ns for file in compared.out.glob("runs/*/model.pt")}
    again = CliRunner().invoke(app, [*compared.arguments, "--set", "balance=0.4"])
    assert again.exit_code == 0
    assert {file: file.stat().st_mtime_ns for file in compared.out.glob("runs/*/model.pt")} == models
    without_settings = [text for text in compared.arguments if text not in ("--settings", "tiny")]
    of_one_arm = [text.replace("validate_every=1", "validate_every=2") for text in compared.arguments]
    for other, differs in (
        ([*compared.arguments, "--set", "balance=0.6"], "'balance': 0.4} and is {"),
        ([*without_settings, "--set", "balance=0.4"], "settings was tiny and is None"),
        ([*of_one_arm, "--set", "balance=0.4"], "the arm 'fedaaai' was {"),
    ):
        refused = CliRunner().invoke(app, other)
        assert refused.exit_code == 1
        assert "holds another comparison" in refused.output
        assert differs in " ".join(refused.output.split())


def test_shares_of_several_processes_make_the_whole(compared: Compared, tmp_path: Path) -> None:
    """A run that another process works on is not begun; the lock of a process that has died stops nobody."""
    out = tmp_path / "out"
    arguments = [str(out) if word == str(compared.out) else word for word in compared.arguments]
    arguments[arguments.index("--seeds") + 1] = "1"

    def share(text: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--set", "balance=0.4", "--only", text])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    assert "1 runs are missing (fedaaai, seed 0)" in share("1/2")
    lock = out / "runs" / ".fedaaai-seed0.lock"
    with locked(lock):
        said = share("2/2")
    assert "fedaaai, seed 0: left to the process that works on it" in said
    assert "Another process works on 1 of them (fedaaai, seed 0)" in said
    assert sorted(entry.name for entry in (out / "runs").iterdir()) == [lock.name, "fedavg-seed0", "fedavg-seed0.log"]
    assert not (out / "comparison.json").exists()
    # The file is still there, as after a process that was killed.
    assert "Comparison, plot and all runs" in share("2/2")

    def of_seed_0(folder: Path) -> tuple[object, object]:
        runs = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["runs"]
        kept = [run | {"seconds": 0, "peak_memory_mb": 0} for run in runs if run["seed"] == 0]
        return kept, [row for row in read_results(folder / "results.csv") if row.seed == 0]

    assert repr(of_seed_0(out)) == repr(of_seed_0(compared.out))
    for name in ("fedavg-seed0", "fedaaai-seed0"):
        joined, whole = (torch.load(folder / "runs" / name / "model.pt") for folder in (out, compared.out))
        assert all(torch.equal(joined["model"][key], tensor) for key, tensor in whole["model"].items())


def test_a_share_has_a_number_up_to_the_count() -> None:
    for text in ("0/2", "3/2", "1", "1/0", "a/b", "1/2/3"):
        with pytest.raises(JobError, match=r"--only: found .*, expected I/N with I from 1 to N"):
            RunShare.parse(text)


def test_every_run_is_in_one_share_and_branches_are_where_they_branch_from() -> None:
    job = Job.open(JOBS / "fedavg")
    arms = [PlannedArm(name, job, {}, shared) for name, shared in (("a", 0), ("b", 0), ("c", 2))]
    shares = [[(arm.name, seed) for arm, seed in RunShare(number, 3).of_runs(arms, [0, 1])] for number in (1, 2, 3)]
    assert shares == [[("a", 0), ("c", 0), ("b", 1)], [("b", 0)], [("a", 1), ("c", 1)]]


def test_failing_runs_are_named(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """They wait for more sites than there are."""
    changes = {"min_sites": 9, "max_failed_rounds": 1, "embedded__images_per_site": 1}
    jobs = [str(small_job(name, **changes)) for name in ("fedavg", "fedaaai")]
    result = CliRunner().invoke(app, ["compare", *jobs, "--seeds", "1", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "2 of 2 runs failed. First: " in result.output
    assert "Fewer than 9 usable results" in " ".join(result.output.split())
    # Every site that there is answered as it should.
    assert "Refusedinthelast:none." in "".join(result.output.split())
    assert "First:job-fedavg-0,seed0:" in "".join(result.output.split())
    assert "runs/job-fedavg-0-seed0.log)" in "".join(result.output.split())


def test_absent_data_are_named_before_anything_runs(compared: Compared, tmp_path: Path) -> None:
    arguments = ["compare", *map(str, compared.jobs), "--data", str(tmp_path / "nowhere{seed}")]
    result = CliRunner().invoke(app, [*arguments, "--seeds", "1", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "nowhere0/federation.yaml: found no such folder" in "".join(result.output.split("\n"))
    assert not (tmp_path / "out").exists()


def test_a_comparison_needs_jobs_of_different_names(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = str(small_job("fedavg"))
    for jobs, message in (([job], "at least two jobs"), ([job, job], "of different names")):
        result = CliRunner().invoke(app, ["compare", *jobs, "--out", str(tmp_path / "out")])
        assert result.exit_code == 1
        assert message in result.output
    assert not (tmp_path / "out").exists()


REFUSED = {
    "another task": (["{jobs}/fedgsca"], r"fedavg is for segmentation and .*fedgsca for classification"),
    "a swarm": (["{jobs}/decoupled"], "decoupled: its sites talk to each other"),
    "a setting of one arm": (["{jobs}/fedaaai", "--set", "fedavg:balance=0.4"], r"no settings \['balance'\]"),
    "an arm that is not there": (["{jobs}/fedaaai", "--set", "x:balance=0.4"], "there is no arm 'x'"),
    "a value": (["{jobs}/fedaaai", "--set", "fedaaai:warmup_rounds=20"], "warmup_rounds must be below rounds"),
    "data of one seed": (
        ["{jobs}/fedaaai", "--data", "{data}/{{seed}}", "--seeds", "2"],
        "fedavg: .*/1/site-1 holds images with one class each, but .*fedavg is for segmentation",
    ),
    "other training": (
        ["{jobs}/fedia"],
        r"fedavg, fedia differ in more than their methods: rounds: 8 in fedavg, 24 in",
    ),
    "another phantom": (
        ["{jobs}/fedia", *(f"--allow-different={key}" for key in ("rounds", "network", "training", "embedded"))],
        r"the phantom of fedavg is lesions2d and that of fedia lesions3d",
    ),
    "data without a patch": (["{jobs}/fedaaai", "--data", "{data}/volumes"], "names no patch of them to train on"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_run_could_do_is_refused_before_the_first(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_phantom_federation(tmp_path / "0", LesionImages(), num_sites=2, images_per_site=1, test_images=1)
    described = {"1": ClassificationDescription(channels=1, size=(32, 32), classes=("a", "b"))}
    described["volumes"] = VolumeDescription(classes=("lesion",), labels={0: 0, 1: 1})
    for name, description in described.items():
        (tmp_path / name / "site-1").mkdir(parents=True)
        write_site_description(tmp_path / name / "site-1", description)
        write_federation(tmp_path / name, FederationDescription(name=name, sites=("site-1",)))
    given, text = REFUSED[what]
    out = tmp_path / "out"
    arguments = [word.format(jobs=JOBS, data=tmp_path) for word in given]
    monkeypatch.setattr(Commands, "run", lambda *_, **__: pytest.fail("a run was started"))
    result = CliRunner().invoke(app, ["compare", str(JOBS / "fedavg"), *arguments, "--out", str(out)])
    assert result.exit_code == 1
    assert re.search(text, " ".join(result.output.split())), result.output
    assert not out.exists()


def test_what_follows_from_the_data_need_not_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch goes with volumes: that the network has three dimensions the data say."""
    (tmp_path / "site-1").mkdir()
    write_site_description(tmp_path / "site-1", VolumeDescription(classes=("lesion",), labels={0: 0, 1: 1}))
    write_federation(tmp_path, FederationDescription(name="volumes", sites=("site-1",)))
    started = collect_commands(monkeypatch)
    arguments = ["compare", str(JOBS / "fedavg"), str(JOBS / "auto"), "--data", str(tmp_path), "--seeds", "1"]
    given = ["--set", "training.patch=[32,32,16]", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, *given])
    assert "2 of 2 runs failed" in result.output, result.output
    assert all("training.patch=[32, 32, 16]" in command for command in started)


def test_one_job_with_two_settings(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job, out = small_job("fedaaai", rounds=2, embedded__sites=2), tmp_path / "out"
    arms = [f"long={job}", f"short={job}", "--set", "short:rounds=1", "--set", "long:validate_every=3"]
    arguments = ["compare", *arms, "--set", "short:warmup_rounds=1", "--set", "short:max_extra_warmup_rounds=0"]
    result = CliRunner().invoke(app, [*arguments, "--set", "min_sites=2", "--seeds", "1", "--out", str(out)])
    assert result.exit_code == 1
    assert "short: " in result.output
    assert "warmup_rounds must be below rounds" in " ".join(result.output.split())
    arguments[arguments.index("short:rounds=1")] = "short:rounds=3"
    result = CliRunner().invoke(app, [*arguments, "--set", "min_sites=2", "--seeds", "1", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "short - long:" in result.output
    found = {
        name: json.loads((out / "runs" / f"{name}-seed0" / "summary.json").read_text(encoding="utf-8"))["settings"]
        for name in ("long", "short")
    }
    expected = {"long": (2, 3, 2), "short": (3, None, 2)}
    keys = ("rounds", "validate_every", "min_sites")
    assert {name: tuple(settings[key] for key in keys) for name, settings in found.items()} == expected


def test_arms_may_be_added_and_one_that_branches_gives_the_bits_of_a_whole_run(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    feda3i, out = small_job("fedaaai"), tmp_path / "out"
    arms = [Arm("fedavg", small_job("fedavg")), Arm("branch", feda3i, {"balance": 0.9}, shared_rounds=2)]
    options: dict[str, Any] = {"data": None, "seeds": [3], "overrides": {"rounds": 4, "warmup_rounds": 2}}
    compare(arms, out, **options)
    models = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/model.pt")}

    arms.append(Arm("whole", feda3i, {"balance": 0.9}))
    comparison = compare(arms, out, **options)
    assert len(models) == 2
    assert all(file.stat().st_mtime_ns == written for file, written in models.items())
    assert [run["arm"] for run in comparison["runs"]] == ["fedavg", "branch", "whole"]
    pairs = [(pair["arm"], pair["reference"]) for pair in comparison["paired"]]
    assert pairs == [("branch", "fedavg"), ("whole", "fedavg")]
    states = [
        RunState.load(out / "runs" / f"{name}-seed3" / "run" / "server" / "simulate_job" / STATE_FILE)
        for name in ("branch", "whole")
    ]
    assert states[0].method == states[1].method == "feda3i"
    assert [record.main_score for record in states[0].history] == [record.main_score for record in states[1].history]
    # As texts: what a site does not say of its images is NaN.
    assert repr(states[0].method_state) == repr(states[1].method_state)
    assert all(torch.equal(states[0].params[name], states[1].params[name]) for name in states[1].params)

    # A branch that was not kept when the reference ran is no reason to run anything else in its place.
    with pytest.raises(RunError, match=r"round_1\.pt is absent; fedavg was run before it had to be kept\."):
        compare([*arms, Arm("late", feda3i, {"warmup_rounds": 1}, 1)], out, **options)
    with pytest.raises(JobError, match="holds another comparison"):
        compare([arms[0], Arm("whole", feda3i, {"balance": 0.4})], out, **options)
    with pytest.raises(JobError, match=r"strange: the job .* has no settings \['balanse'\]"):
        compare([*arms, Arm("strange", feda3i, {"balanse": 0.4})], out, **options)


def test_a_reference_cannot_branch(small_job: Callable[..., Path], tmp_path: Path) -> None:
    arms = [Arm("feda3i", small_job("fedaaai"), shared_rounds=2)]
    with pytest.raises(JobError, match=r"feda3i is the reference and has no run to branch from"):
        compare(arms, tmp_path / "out", data=None, seeds=[0], overrides={})


@pytest.mark.parametrize(
    "command", ["simulate", "compare", "show", "data phantom", "data import", "data noise", "bench feda3i"]
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Example: fedannot" in " ".join(result.output.split())
