"""Which rounds arms may share with the reference, from the command line and before any run."""

from pathlib import Path
from typing import Any

import pytest
from support.unstarted_runs import collect_commands
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.arms import Arm, plan
from fedannot.apps.runs.job import JobError
from fedannot.apps.runs.shared_rounds import check_shared_rounds, with_shared_rounds

JOBS = Path(__file__).parents[3] / "jobs"
ARMS = [Arm("fedavg", JOBS / "fedavg"), Arm("a", JOBS / "fedaaai"), Arm("b", JOBS / "fedaaai", {"balance": 0.3})]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [([], [0, 0, 0]), (["3"], [0, 3, 3]), (["b:2"], [0, 0, 2]), (["3", " b : 1 "], [0, 3, 1])],
)
def test_all_arms_or_one(texts: list[str], expected: list[int]) -> None:
    assert [arm.shared_rounds for arm in with_shared_rounds(ARMS, texts)] == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "--shared-rounds x: expected a number of rounds, or ARM:ROUNDS"),
        ("a:", "expected a number of rounds"),
        ("-1", "expected a number of rounds"),
        ("aa:3", r"no arm 'aa' can branch from fedavg; did you mean 'a'\? Arms that can: a, b\."),
        ("fedavg:3", "no arm 'fedavg' can branch from fedavg"),
    ],
)
def test_what_is_no_number_of_an_arm(text: str, said: str) -> None:
    with pytest.raises(JobError, match=said):
        with_shared_rounds(ARMS, [text])


def check(*arms: Arm, data_given: bool = True, **overrides: Any) -> None:
    planned = plan(arms, overrides)
    settings = {arm.name: arm.job.settings_with(arm.overrides) for arm in planned}
    check_shared_rounds(planned, settings, data_given=data_given)


def test_a_warm_up_is_shared_and_nothing_after_it() -> None:
    check(*with_shared_rounds(ARMS, ["3"]), data_given=False)
    with pytest.raises(JobError, match=r"^a cannot share its first 4 rounds with fedavg: .* within its first 3 rounds"):
        check(*with_shared_rounds(ARMS, ["a:4"]))
    check(*with_shared_rounds(ARMS, ["4"]), warmup_rounds=4)


def test_other_training_is_not_shared() -> None:
    other = Arm("other", JOBS / "fedaaai", {"training.learning_rate": 0.1}, 2)
    with pytest.raises(
        JobError, match=r"^other cannot share its first 2 rounds .*training\.learning_rate=0\.1 instead"
    ):
        check(ARMS[0], other)
    images = Arm("images", JOBS / "fedaaai", {"embedded.images_per_site": 3}, 2)
    check(ARMS[0], images)
    with pytest.raises(JobError, match=r"embedded\.images_per_site=3 instead of 12"):
        check(ARMS[0], images, data_given=False)


def test_auto_corrects_before_its_first_round_and_shares_none() -> None:
    with pytest.raises(JobError, match="auto cannot share its first 2 rounds with fedavg"):
        check(ARMS[0], Arm("auto", JOBS / "auto", {}, 2))


def test_the_command_keeps_the_reference_s_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = collect_commands(monkeypatch)
    arguments = ["compare", str(JOBS / "fedavg"), f"a={JOBS / 'fedaaai'}", "--shared-rounds", "a:3", "--seeds", "1"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    # The arm waits for the reference, which fails here.
    assert "1 of 1 runs failed" in result.output, result.output
    assert [command[1] for command in started] == [str(JOBS / "fedavg")]
    assert "keep_rounds=[3]" in started[0]
