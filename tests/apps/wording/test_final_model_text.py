"""Which model a run's result is, in words and in what is shown of runs."""

import io

import pytest
from plain_records import comparison, summary

from fedannot.apps.reports.comparison import describe_run, print_comparison
from fedannot.apps.reports.run_page import answer, scores
from fedannot.apps.reports.summary_text import conclusions, headline
from fedannot.apps.terminal import Terminal
from fedannot.apps.wording.final_model import compared_in_words, final_model_in_words
from fedannot.custom.run.summary_record import FinalModel, ScoredRounds

BEST = {"kind": "best", "rounds": [2], "validation_score": 0.7, "stopped_early": True}
SCORES = {"evaluated_on": "test", "dice": 0.62, "left_empty": None, "hd95": 3.0}
RUN = {
    "rounds_finished": 3,
    "rounds": [{"dice": 0.5}, {"dice": 0.62}, {"dice": 0.53}],
    "last_rounds": {"dice": 0.55},
    "last_round": {"dice": 0.53},
    "settings": {"rounds": 9},
}


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (None, "the model of the last round"),
        (FinalModel(kind="last", rounds=(8,)), "the model of the last round"),
        (FinalModel(kind="best", rounds=(3,)), "the model of round 3, the best by the sites' validation"),
        (FinalModel(kind="mean_of_last", rounds=(4, 5, 6)), "the mean of the models of rounds 4 to 6"),
        (FinalModel(kind="mean_of_last", rounds=(4, 6)), "the mean of the models of 2 of rounds 4 to 6"),
        (FinalModel(kind="mean_of_last", rounds=(4,)), "the model of round 4"),
    ],
)
def test_the_model_is_named_by_its_rounds(final: FinalModel | None, words: str) -> None:
    assert final_model_in_words(final) == words


def test_a_chosen_model_is_shown_with_its_own_scores() -> None:
    run = summary(**RUN, final_model=BEST, final_scores=SCORES)
    assert headline(run).endswith("Dice 62.0 %, HD95 3.0 (the model of round 2, the best by the sites' validation)")
    assert (
        answer(run) == "Dice 62.0 % after 3 rounds at 0 sites: the model of round 2, the best by the sites' validation"
    )
    (dice, *_) = scores(run)
    assert (dice.mean, dice.last, dice.final) == ("55.0", "53.0", "62.0")
    assert conclusions(run)[0] == (
        "The run ended after 3 of 9 rounds: the sites' validation had its best score in round 2, and no better one "
        "since."
    )


def test_the_last_model_is_shown_with_the_mean_of_the_last_rounds() -> None:
    run = summary(**RUN, final_model={"kind": "last", "rounds": [3]})
    assert "Dice 55.0 %" in headline(run)
    assert headline(run).endswith("(mean of the last three rounds)")
    assert answer(run) == "Dice 55.0 % after 3 rounds at 0 sites"
    assert scores(run)[0].final == ""


@pytest.mark.parametrize(
    ("scored", "words"),
    [
        ({"kind": "last", "rounds": [3]}, "last round"),
        ({"kind": "last_5", "rounds": [1, 2, 3]}, "mean of the last three rounds"),
        ({"kind": "last_10", "rounds": [1, 2, 3]}, "mean of the last three rounds"),
        ({"kind": "last_5", "rounds": [3]}, "last round"),
        ({"kind": "best", "rounds": [2]}, "round 2, the best by the sites' validation"),
    ],
)
def test_the_rounds_of_the_setting_count_before_the_final_model(scored, words) -> None:
    run = summary(**RUN, final_model=BEST, final_scores=SCORES, scored_rounds=scored)
    assert run.main_score == 0.55
    assert headline(run).endswith(f"({words})")
    assert answer(run) == f"Dice 55.0 % after 3 rounds at 0 sites: {words}"
    counted = [100 * run.rounds[number - 1].dice for number in scored["rounds"]]
    assert scores(run)[0].spread == f"{min(counted):.1f} to {max(counted):.1f}"


def test_a_comparison_takes_the_rounds_of_the_setting(tmp_path) -> None:
    run = summary(**RUN, final_model=BEST, final_scores=SCORES, scored_rounds={"kind": "last_10", "rounds": [1, 2, 3]})
    chosen = describe_run("ten", 0, tmp_path, run, tmp_path)
    assert chosen.main_score == 0.55
    assert compared_in_words([chosen]) == "mean of the last three rounds"
    assert compared_in_words([chosen, run.model_copy(update={"scored_rounds": None})]) == (
        "final model, or mean of the last three rounds"
    )
    rounds = ScoredRounds(kind="last_10", rounds=tuple(range(5, 15)))
    assert compared_in_words([chosen.model_copy(update={"scored_rounds": rounds})]) == "mean of the last ten rounds"


def test_rounds_without_a_score_are_left_out_of_means() -> None:
    """Of six rounds the second to fifth have none."""
    rounds = [{"dice": 0.9}, {}, {}, {}, {}, {"dice": 0.4}]
    run = summary(rounds_finished=6, rounds=rounds, last_rounds={"dice": 0.4}, last_round={"dice": 0.4})
    (dice,) = scores(run)
    assert (dice.mean, dice.spread, dice.last) == ("40.0", "40.0 to 40.0", "40.0")


def test_a_comparison_says_what_its_scores_are_of(tmp_path) -> None:
    chosen = describe_run("best", 0, tmp_path, summary(**RUN, final_model=BEST, final_scores=SCORES), tmp_path)
    assert (chosen.main_score, chosen.last_rounds.main_score) == (0.62, 0.55)
    text = io.StringIO()
    print_comparison(
        comparison([{"arm": "a", "rounds": [{"round": 1}] * 7}, {"arm": "b", "final_scores": chosen.final_scores}]),
        Terminal(file=text),
    )
    assert "Final model, or mean of the last five rounds" in " ".join(text.getvalue().split())
    assert "62.0" in text.getvalue()
