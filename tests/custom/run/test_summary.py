"""The summary of a run, worked out by hand from a short history."""

import json
from dataclasses import replace

import plain_records
import pytest
from plain_records import in_words

from fedannot.custom.run.scored_rounds import scored_records
from fedannot.custom.run.state import RunState
from fedannot.custom.run.summary import mean_score, write_summary
from fedannot.custom.run.summary import summarize as summary_record


def record(round_number, dice, hd95=None, sites=None, refused=None, **scores):
    own = {} if "f1" in scores else {"dice": dice, "hd95": hd95}
    return plain_records.record(
        round_number,
        stage="warm-up" if round_number < 3 else "quality-aware",
        evaluated_on="test",
        sites={site: plain_records.report(**report) for site, report in (sites or {}).items()},
        refused=refused or {},
        seconds=1.5,
        **own,
        **scores,
    )


def summarize(state, added):
    return summary_record(state, added).plain()


def make_state(history):
    return RunState(
        method="feda3i",
        settings={"task": "segmentation", "seed": 4, "rounds": 9},
        round_number=len(history),
        params={},
        history=history,
    )


HISTORY = [
    record(1, 0.1, 9.0, {"site-2": {"num_samples": 8, "train_loss": 0.9}}, {"site-1": "it has no model"}),
    record(2, 0.2, None, {"site-2": {"num_samples": 8, "train_loss": 0.7}, "site-1": {"num_samples": 5}}),
    record(
        3,
        0.3,
        5.0,
        {"site-1": {"num_samples": 6}},
        {"site-3": "late", "site-2": "late"},
        hd95_undefined=7,
        hd95_unit="mm",
        dice_per_class=[0.2, 0.4],
        effective_sites=1.04,
        weights={"site-1": 0.98, "site-2": 0.02},
        dominant={"site": "site-1", "weight": 0.98},
        left_empty=0.5,
        left_empty_per_class=[None, 0.5],
        num_annotated_per_class=[8, 6],
    ),
    record(4, 0.4, None),
    record(5, None, 3.0),
    record(6, 0.6, 1.0),
]


def test_summary_of_a_short_run_by_hand():
    summary = summarize(make_state(HISTORY), {"estimate": None})
    assert summary["method"] == "feda3i"
    assert summary["seed"] == 4
    assert summary["rounds_finished"] == 6
    assert summary["seconds"] == pytest.approx(9.0)
    assert summary["settings"] == {"task": "segmentation", "seed": 4, "rounds": 9}
    assert summary["estimate"] is None
    assert summary["rounds"][2] == {
        "round": 3,
        "stage": "quality-aware",
        "dice": 0.3,
        "dice_per_class": [0.2, 0.4],
        "left_empty": 0.5,
        "left_empty_per_class": [None, 0.5],
        "num_annotated_per_class": [8, 6],
        "hd95": 5.0,
        "hd95_undefined": 7,
        "hd95_unit": "mm",
        "seconds": 1.5,
        "effective_sites": 1.04,
        "weights": {"site-1": 0.98, "site-2": 0.02},
    }
    assert summary["dominant"] == [{"round": 3, "site": "site-1", "weight": 0.98}]
    assert summary["rounds"][3]["hd95_undefined"] is None  # scored at the sites, or not at all
    assert summary["last_round"] == {"dice": 0.6, "left_empty": None, "hd95": 1.0, "hd95_undefined": None}
    # Rounds of an earlier version do not say it.
    assert summary["last_rounds"] == {
        "dice": pytest.approx(0.375),
        "left_empty": 0.5,
        "hd95": pytest.approx(3.0),
        "hd95_undefined": 7,
    }


def test_every_site_is_listed_with_its_latest_report():
    sites = summarize(make_state(HISTORY), {})["sites"]
    assert {site: (report["num_samples"], report["train_loss"]) for site, report in sites.items()} == {
        "site-1": (6, None),
        "site-2": (8, 0.7),
    }
    assert list(sites) == ["site-1", "site-2"]


def test_every_refusal_is_listed_with_round_and_reason():
    refusals = summarize(make_state(HISTORY), {})["refusals"]
    assert sorted((entry["round"], entry["site"], in_words(entry["reason"])) for entry in refusals) == [
        (1, "site-1", "it has no model"),
        (3, "site-2", "late"),
        (3, "site-3", "late"),
    ]


def last_mean(history, name):
    return mean_score(scored_records(history, None), name)


def test_last_rounds_are_the_mean_of_the_last_five_that_have_a_score():
    assert last_mean([record(number, number / 10) for number in range(1, 9)], "dice") == pytest.approx(0.6)  # 4..8
    assert last_mean([record(1, 0.25)], "dice") == 0.25
    assert last_mean(HISTORY, "dice") == pytest.approx((0.2 + 0.3 + 0.4 + 0.6) / 4)
    assert last_mean(HISTORY, "hd95") == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("kind", "rounds", "dice"),
    [
        (None, [8, 9, 10, 11, 12], 0.1),
        ("last", [12], 0.12),
        ("last_5", [8, 9, 10, 11, 12], 0.1),
        ("last_10", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 0.075),
        # Of equal validations the first one; its own score is what counts.
        ("best", [4], 0.04),
    ],
)
def test_the_rounds_that_count_are_those_of_the_setting(kind, rounds, dice):
    validation = {4: 0.7, 8: 0.7, 12: 0.5}
    history = [record(number, number / 100) for number in range(1, 13)]
    history = [entry.model_copy(update={"validation_score": validation.get(entry.round)}) for entry in history]
    assert [entry.round for entry in scored_records(history, kind)] == rounds
    state = make_state(history)
    summary = summarize(replace(state, settings=state.settings | {"scored_rounds": kind}), {})
    assert summary["last_rounds"]["dice"] == pytest.approx(dice)
    assert summary.get("scored_rounds") == (None if kind is None else {"kind": kind, "rounds": rounds})


def test_without_a_validation_the_last_round_counts_as_the_best():
    assert [entry.round for entry in scored_records(HISTORY, "best")] == [HISTORY[-1].round]
    assert not scored_records([], "best")


@pytest.mark.parametrize("history", [[], [record(1, None), record(2, None)]])
def test_there_is_no_mean_without_a_score(history):
    assert last_mean(history, "dice") is None
    assert summarize(make_state(history), {})["last_round"] == dict.fromkeys(
        ("dice", "left_empty", "hd95", "hd95_undefined")
    )


def test_summary_does_not_share_the_reports_with_the_history():
    history = [record(1, 0.5, sites={"site-1": {"num_samples": 5}})]
    summarize(make_state(history), {})["sites"]["site-1"]["num_samples"] = 0
    assert history[0].sites["site-1"].num_samples == 5


def test_file_holds_the_summary_as_json(tmp_path):
    file = tmp_path / "summary.json"
    write_summary(file, summary_record(make_state(HISTORY[:1]), {}))
    write_summary(file, summary_record(make_state(HISTORY), {"weights": {"sites": ("site-1",)}}))
    result = json.loads(
        file.read_text(encoding="utf-8"), parse_constant=lambda text: pytest.fail(f"{text} is not JSON")
    )
    assert result == summarize(make_state(HISTORY), {"weights": {"sites": ["site-1"]}})
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_classifier_is_summed_up_by_its_own_scores():
    scores = {"f1": 0.5, "recall": 0.6, "precision": 0.4, "f1_per_class": [0.4, 0.6], "confusion": [[1, 2], [0, 3]]}
    history = [record(1, None, **scores), record(2, None, **(scores | {"f1": 0.7, "stability": 2.5}))]
    state = make_state(history)
    state.settings["task"] = "classification"
    summary = summarize(state, {})
    assert summary["task"] == "classification"
    assert summary["last_rounds"] == {"f1": pytest.approx(0.6), "recall": 0.6, "precision": 0.4}
    assert summary["last_round"] == {"f1": 0.7, "recall": 0.6, "precision": 0.4, "confusion": [[1, 2], [0, 3]]}
    assert summary["rounds"][1]["f1_per_class"] == [0.4, 0.6]
    assert [found["stability"] for found in summary["rounds"]] == [None, 2.5]
    assert "dice" not in summary["rounds"][0]
