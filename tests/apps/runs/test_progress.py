"""What a command tells while it works, in a terminal and in a log."""

import io

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.plain_lines import GENERATED
from fedannot.apps.runs.in_process import Step
from fedannot.apps.runs.progress import Progress, ProgressStep, progress_of
from fedannot.apps.terminal import Terminal


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_in_a_log_a_state_is_a_line_now_and_then():
    text, clock = io.StringIO(), Clock()
    with Progress(Terminal(file=text), clock) as progress:
        progress.state("first")
        for clock.now in (1, 29, 31, 32):
            progress.state(f"at {clock.now}")
        progress.tell("said")
        clock.now = 60
        progress.state("too early after a line")
    assert text.getvalue().splitlines() == ["first", "at 31", "said"]


def test_in_a_terminal_a_state_is_not_kept_and_lines_are():
    text = io.StringIO()
    console = Terminal(file=text, force_terminal=True, width=80, legacy_windows=False)
    with Progress(console) as progress:
        progress.state("Round 1/2: site-1")
        progress.tell("Round 1/2: Dice 80 %")
    assert "Round 1/2: Dice 80 %\n" in text.getvalue()
    # The line with the state is cleared, and the cursor shown again.
    assert text.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))


def test_names_in_a_state_cannot_clear_the_screen():
    text = io.StringIO()
    with Progress(Terminal(file=text, force_terminal=True, width=80)) as progress:
        progress.state("site-\x1b[2J")
        progress.tell("\x1b]0;title\x07")
    assert "\x1b[2J" not in text.getvalue()
    assert "\x1b]0" not in text.getvalue()


def test_a_step_says_round_site_and_task():
    assert str(Step(3, 12, "train", "site-4", 2, 8)) == "Round 3/12: site-4, 2 of 8 (train)"
    assert str(Step(None, None, "keep_model", "site-4", 2, 8)) == "site-4, 2 of 8 (keep model)"


def test_simulate_says_at_once_what_it_does():
    """Before anything that takes time is loaded: here the job is not even there."""
    result = CliRunner().invoke(app, ["simulate", "nowhere"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Reading nowhere. {GENERATED}\n")


def test_compare_says_at_once_what_it_does():
    """Before anything that takes time is loaded: here the jobs are not even there."""
    result = CliRunner().invoke(app, ["compare", "nowhere", "nowhere else"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Reading the jobs. {GENERATED}\n")


@pytest.mark.parametrize("command", [["simulate", "nowhere"], ["compare", "nowhere", "nowhere else"]])
def test_nothing_is_said_of_generated_images_where_data_are_given(command):
    result = CliRunner().invoke(app, [*command, "--data", "mine"])
    assert result.stderr.startswith("Reading ")
    assert GENERATED not in result.stderr


def test_bench_says_at_once_what_it_does():
    """Before anything that takes time is loaded: here the row is not even there."""
    result = CliRunner().invoke(app, ["bench", "feda3i", "--rows", "nowhere"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Reading the rows.\n")


def test_in_a_terminal_a_state_has_a_bar_and_the_time_left():
    """Ten of 40 are done when it is first reported of; ten more take 5 s, so that 20 more take 10 s."""
    text, clock = io.StringIO(), Clock()
    with Progress(Terminal(file=text, force_terminal=True, width=120, legacy_windows=False), clock) as progress:
        progress.state("Reading", 10, 40)
        clock.now = 5
        progress.state("Reading", 20, 40)
        status = progress._status
        assert status is not None
        assert str(status.status) == f"{'━' * 10}{'─' * 10}  50 %, about 10 s left; Reading"
        # Another work restarts, and so does its clock.
        progress.state("Writing", 0, 3)
        assert str(status.status) == f"{'─' * 20}   0 % Writing"
        progress.state("Drawing")
        assert str(status.status) == "Drawing"


def test_a_command_on_data_tells_no_state_in_a_log():
    text = io.StringIO()
    with Progress(Terminal(file=text), Clock(), states_in_log=False) as progress:
        progress.state("Reading", 0, 3)
    assert text.getvalue() == ""


def test_a_function_gets_every_step_and_nothing_is_printed(capsys):
    steps = []
    with progress_of(steps.append) as progress:
        progress.state("Round 1/2: site-1", 0, 4)
        progress.tell("Round 1/2: Dice 80 %")
    assert steps == [ProgressStep("Round 1/2: site-1", 0, 4), ProgressStep("Round 1/2: Dice 80 %", stays=True)]
    assert [str(step) for step in steps] == ["Round 1/2: site-1 (0 of 4)", "Round 1/2: Dice 80 %"]
    with progress_of(None) as progress:
        progress.tell("nobody hears it")
    assert capsys.readouterr() == ("", "")
    assert progress_of(progress) is progress


def test_a_step_counts_the_turns_of_the_whole_run():
    assert (Step(3, 12, "train", "site-4", 2, 8).done, Step(3, 12, "train", "site-4", 2, 8).total) == (17, 96)
    assert (Step(None, None, "keep_model", "site-4", 2, 8).done, Step(None, None, "x", "y", 2, 8).total) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nowhere"], "Reading nowhere."),
        (["data", "check", "nowhere"], "Checking nowhere."),
        (["data", "noise", "nowhere", "--model", "M(25,-15,5,0.8)", "--out", "nowhere else"], "Copying nowhere."),
        (
            ["data", "import", "--datalist", "nowhere", "--size", "8,8", "--out", "nowhere else"],
            "Reading the data set.",
        ),
        (["data", "phantom", "--exact", "--task", "cells2d", "--out", "nowhere"], "Drawing the federation nowhere."),
        (["bundle", "export", "nowhere", "--out", "nowhere else"], "Exporting the model of nowhere."),
    ],
)
def test_other_commands_that_take_long_say_at_once_what_they_do(arguments, said):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{said}\n")
