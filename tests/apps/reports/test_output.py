"""What a person sees of a run: which folder is one, what is collected from it, and the printed text."""

import io
import json
import re

import plain_records
import pytest

from fedannot.apps.reports.output import (
    OutputError,
    collect_output,
    find_run_folder,
    number,
    percent,
    read_summary,
    score_columns,
)
from fedannot.apps.reports.site_columns import weight_beside_noise
from fedannot.apps.reports.summary_text import print_difference, print_summary
from fedannot.apps.terminal import Terminal
from fedannot.custom.records.record_lines import RecordLog
from fedannot.custom.run.summary import write_unfinished_summary
from fedannot.transforms.errors import DataError

REPORT = {"num_samples": 12, "num_excluded": 0, "embedded_data": True, "train_loss": 0.1234}


def summary_of(**changes):
    """A run of federated averaging with two sites."""
    values = {
        "task": "segmentation",
        "method": "fedavg",
        "seed": 4,
        "rounds_finished": 8,
        "seconds": 61.7,
        "rounds": [{"hd95_unit": "px"}, {"hd95_unit": None}],
        "last_rounds": {"dice": 0.8125, "hd95": 3.25},
        "sites": {"site-1": REPORT, "site-2": REPORT | {"num_samples": 9, "train_loss": 0.5}},
        "refusals": [],
    }
    return plain_records.summary(**values | changes)


ESTIMATE = {
    "sites": {
        "site-1": {"inner": [0.5, 0.25], "outer": [0.125, 0.125], "group": "larger", "strength": 0.5},
        "site-2": {"inner": [0.25, 0.5], "outer": [1.0, 1.0], "group": "smaller", "strength": 1.25},
    },
    "reason": "",
    "p_value": 0.005,
}
WEIGHTS = {"sites": ["site-1", "site-2"], "blocks": ["a", "b", "c"], "values": [[0.4, 0.3, 0.25], [0.6, 0.7, 0.75]]}


def printed(show, *arguments):
    console = Terminal(record=True, width=200, file=io.StringIO())
    show(*arguments, console)
    return console.export_text()


def row_of(text, *words):
    """The cells of the only line with these words."""
    lines = [line.split() for line in text.splitlines() if set(words) <= set(line.split())]
    assert len(lines) == 1, lines
    return lines[0]


def make_run(folder, summary=None):
    (folder / "app_server").mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps((summary or summary_of()).plain()))
    (folder / "metrics.jsonl").write_text('{"round": 1}\n')
    (folder / "app_server" / "FL_global_model.pt").write_bytes(b"model")
    return folder


@pytest.mark.parametrize("place", [".", "server/simulate_job", "run/server/job"])
def test_run_is_found_below_a_workspace(tmp_path, place):
    run = make_run(tmp_path / place)
    # An output folder has a summary too, but is no run.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_text("{}")
    assert find_run_folder(tmp_path) == run


def test_workspace_without_a_run_is_named(tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    for workspace in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(OutputError) as caught:
            find_run_folder(workspace)
        assert str(caught.value) == f"Expected one run with a summary.json below {workspace}, but found 0."


def test_workspace_with_several_runs_is_named(tmp_path):
    for name in ("first", "second", "third"):
        make_run(tmp_path / name)
    with pytest.raises(OutputError) as caught:
        find_run_folder(tmp_path)
    assert str(caught.value) == f"Expected one run with a summary.json below {tmp_path}, but found 3."


def test_output_is_collected_and_the_run_stays_as_it_is(tmp_path):
    run = make_run(tmp_path / "run")
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    assert collect_output(run, tmp_path / "new" / "out") == summary_of()
    result = {file.name: file.read_bytes() for file in (tmp_path / "new" / "out").iterdir()}
    assert result == {
        "model.pt": b"model",
        "summary.json": (run / "summary.json").read_bytes(),
        "metrics.jsonl": b'{"round": 1}\n',
    }
    assert {file: file.read_bytes() for file in before} == before


def test_the_output_of_a_killed_run_has_its_whole_rounds(tmp_path):
    """Its summary lacks them, and its last record is torn."""
    run, records = make_run(tmp_path / "run"), [plain_records.record(1, dice=0.5), plain_records.record(2, dice=0.75)]
    log = RecordLog(run / "metrics.jsonl")
    log.begin(records=records)
    lines = (run / "metrics.jsonl").read_bytes()
    write_unfinished_summary(run / "summary.json", summary_of(rounds_finished=2), log.position)
    (run / "metrics.jsonl").write_bytes(lines + b'{"version": 1, "rou')
    summary = collect_output(run, tmp_path / "out")
    assert [(record.round, record.dice) for record in summary.rounds] == [(1, 0.5), (2, 0.75)]
    assert read_summary(tmp_path / "out") == summary
    assert (tmp_path / "out" / "metrics.jsonl").read_bytes() == lines
    # Of other records than the summary counts on nothing is collected.
    (run / "metrics.jsonl").write_bytes(lines[:100])
    with pytest.raises(DataError, match="found 100 bytes of other records"):
        collect_output(run, tmp_path / "damaged")
    assert not (tmp_path / "damaged").exists()


def test_folder_without_a_summary_is_named(tmp_path):
    with pytest.raises(OutputError) as caught:
        read_summary(tmp_path)
    assert str(caught.value) == f"Expected the output of a run in {tmp_path}, but there is no summary.json."


def test_summary_says_method_seed_rounds_and_scores():
    first = printed(print_summary, summary_of()).splitlines()[0]
    assert first.startswith("fedavg, seed 4, 8 rounds, 62 s: Dice 81.2 %, HD95 3.2 px (mean of the last five rounds")


@pytest.mark.parametrize(("rounds", "distance"), [([{"hd95_unit": "mm"}], "3.2 mm"), ([{}], "3.2")])
def test_distances_have_their_unit_where_it_is_known(rounds, distance):
    assert f"HD95 {distance} (mean" in printed(print_summary, summary_of(rounds=rounds))


def test_a_run_without_scores_has_dashes():
    text = printed(print_summary, summary_of(rounds=[{}], last_rounds={"dice": None, "hd95": None}))
    assert "Dice - %, HD95 - (mean" in text


def test_the_fraction_of_empty_cases_left_empty_stands_beside_dice_where_there_are_any():
    scores = {"dice": 0.8125, "left_empty": 0.75, "hd95": 3.25}
    first = printed(print_summary, summary_of(last_rounds=scores)).splitlines()[0]
    assert "Dice 81.2 %, 75.0 % of the empty cases left empty, HD95 3.2 px (mean" in first
    assert "left empty" not in printed(print_summary, summary_of(last_rounds=scores | {"left_empty": None}))


def test_missed_cases_stand_beside_the_distance_that_leaves_them_out():
    scores = {"dice": 0.8125, "hd95": 3.25}
    runs = [summary_of(last_rounds=scores | {"hd95_undefined": missed}) for missed in (3, 0, 2.4, None)]
    # A mean over rounds need not be whole; a run of an earlier version does not say it.
    assert score_columns(runs)["missed"] == ["3", "0", "2.4", "-"]
    assert list(score_columns(runs)) == ["Dice %", "HD95", "missed"]
    assert "Dice 81.2 %, HD95 3.2 px, 3 missed (mean" in printed(print_summary, runs[0]).splitlines()[0]


def test_what_is_left_empty_has_a_column_where_any_run_says_it():
    scores = {"dice": 0.8125, "left_empty": 0.75, "hd95": 3.25}
    # The other is of an earlier version, which did not say it.
    columns = score_columns([summary_of(last_rounds=scores), summary_of()])
    assert list(columns.values()) == [["81.2", "81.2"], ["75.0", "-"], ["3.2", "3.2"]]
    assert [heading.split() for heading in columns] == [["Dice", "%"], ["left", "empty", "%"], ["HD95"]]
    assert list(score_columns([summary_of(), summary_of()])) == ["Dice %", "HD95"]


def test_federated_averaging_has_a_row_per_site_and_no_empty_columns():
    text = printed(print_summary, summary_of())
    assert row_of(text, "site", "cases") == ["site", "cases", "loss"]
    assert row_of(text, "site-1") == ["site-1", "12", "0.123"]
    assert row_of(text, "site-2") == ["site-2", "9", "0.500"]
    assert "first w" not in text
    assert "No groups" not in text


def test_numbers_of_threads_are_shown_where_they_differ():
    """Bits are promised for equal threads."""
    one, two = REPORT | {"num_threads": 1}, REPORT | {"num_threads": 32}
    assert row_of(printed(print_summary, summary_of(sites={"site-1": one, "site-2": one})), "site", "cases") == [
        "site",
        "cases",
        "loss",
    ]
    text = printed(print_summary, summary_of(sites={"site-1": one, "site-2": two}))
    assert row_of(text, "site", "cases") == ["site", "cases", "threads", "loss"]
    assert row_of(text, "site-2") == ["site-2", "12", "32", "0.123"]


def test_a_quality_aware_run_says_what_was_concluded_of_each_site():
    text = printed(print_summary, summary_of(method="feda3i", estimate=ESTIMATE, weights=WEIGHTS))
    heading = next(line for line in text.splitlines() if "inside" in line)
    assert re.split(r"\s{2,}", heading.strip()) == [
        "site",
        "cases",
        "loss",
        "inside",
        "outside",
        "draws",
        "noise",
        "first w",
        "last w",
    ]
    # The difficulties are summed over the classes, 0.5 + 0.25 and 0.125 + 0.125.
    assert row_of(text, "site-1") == ["site-1", "12", "0.123", "0.750", "0.250", "larger", "0.500", "0.400", "0.250"]
    assert row_of(text, "site-2") == ["site-2", "9", "0.500", "0.750", "2.000", "smaller", "1.250", "0.600", "0.750"]
    assert "first w, last w: the site's weight in the first and in the last layer block" in text
    assert "inside, outside: how hard the pixels just inside" in text
    assert "No groups" not in text


def test_a_site_without_estimate_weight_and_loss_has_dashes():
    sites = summary_of().plain()["sites"] | {
        "site-3": REPORT | {"num_samples": 2, "num_excluded": 5, "train_loss": None}
    }
    text = printed(print_summary, summary_of(sites=sites, estimate=ESTIMATE, weights=WEIGHTS))
    # cases, left out, loss, inside, outside, draws, noise, first and last weight
    assert row_of(text, "site-3") == ["site-3", "2", "5", "-", "-", "-", "-", "-", "-", "-"]
    assert row_of(text, "site-1")[1:4] == ["12", "-", "0.123"]


def test_completeness_and_corrections_are_said_of_each_site():
    counts = {"num_annotated_lesions": 5, "num_predicted_lesions": 13}
    estimate = counts | {"estimate": 0.385, "is_estimable": True, "corrected_before_round": 14}
    blind = counts | {"estimate": 1.0, "is_estimable": False, "corrected_before_round": None}
    text = printed(print_summary, summary_of(method="fedia", completeness={"site-1": estimate, "site-2": blind}))
    assert row_of(text, "site-1") == ["site-1", "12", "0.123", "38", "round", "14"]
    assert row_of(text, "site-2") == ["site-2", "9", "0.500", "not", "estimable", "-"]
    assert "complete: lesions that the site annotates, as estimated" in text


def test_reason_why_there_are_no_groups_is_said():
    predicted = {site: values | {"group": None, "strength": None} for site, values in ESTIMATE["sites"].items()}
    reason = "One Gaussian explains the sites as well as two (p = 0.240)."
    text = printed(
        print_summary, summary_of(estimate={"sites": predicted, "reason": reason, "p_value": 0.24}, weights=None)
    )
    said = text.replace("\n", " ")
    assert f"All rounds were federated averaging. No groups of sites: {reason} Try a longer warm-up" in said
    assert "(--set group_decision=shrink), or jobs/auto" in said
    assert text.index("All rounds were") < text.index("inside"), "on the first screen"
    assert row_of(text, "site-1") == ["site-1", "12", "0.123", "0.750", "0.250"]
    assert "draws" not in text


def test_no_warm_up_is_tried_where_too_few_sites_have_an_estimate():
    text = printed(print_summary, summary_of(estimate={"sites": {}, "reason": "3 sites.", "p_value": None}))
    said = text.replace("\n", " ")
    assert "All rounds were federated averaging. No groups of sites: 3 sites. Try jobs/auto" in said
    assert "warmup_rounds" not in text


def test_a_run_that_ended_in_its_warm_up_says_so():
    text = printed(print_summary, summary_of(method="feda3i", estimate=None, weights=None))
    assert "All rounds were federated averaging. The warm-up was not over." in text


def test_effective_sites_are_reported_by_stage():
    effective = [("warm-up", 4.0), ("warm-up", 4.0), ("aware", 1.06), ("aware", 1.5), ("aware", None)]
    rounds = [
        {"round": number, "stage": stage, "effective_sites": sites}
        for number, (stage, sites) in enumerate(effective, start=1)
    ]
    dominant = [{"round": 3, "site": "site-2", "weight": 0.97}, {"round": 4, "site": "site-1", "weight": 0.8}]
    text = printed(print_summary, summary_of(rounds=rounds, dominant=dominant))
    assert "effective sites of 2: 4.0 (warm-up, rounds 1 to 2); 1.1 to 1.5 (aware, rounds 3 to 4)" in text
    assert "In 2 of 8 rounds one site nearly decided alone: in round 3 site-2 had 0.97 of the weight." in text
    assert "nearly decided" not in printed(print_summary, summary_of(rounds=rounds))


def test_weights_of_sites_are_reported_as_smallest_and_largest_over_the_rounds():
    weights = [{"site-1": 0.5, "site-2": 0.5}, {"site-1": 0.1, "site-2": 0.9}, None]
    rounds = [{"round": number, "weights": of_round} for number, of_round in enumerate(weights, start=1)]
    rows = [line.split() for line in printed(print_summary, summary_of(rounds=rounds, method="fedavg")).splitlines()]
    (heading,) = [row for row in rows if row[:2] == ["site", "cases"]]
    assert "weight" in heading
    assert ["0.10", "to", "0.50"] in [row[-3:] for row in rows if row[:1] == ["site-1"]]
    assert ["0.50", "to", "0.90"] in [row[-3:] for row in rows if row[:1] == ["site-2"]]
    assert "weight: of the site in the average, smallest to largest over the rounds" in printed(
        print_summary, summary_of(rounds=rounds, method="fedavg")
    )


def test_refusals_are_listed_with_round_site_and_reason():
    refusals = [
        {"round": 2, "site": "site-2", "reason": "'w' has values that are not finite"},
        {"round": 3, "site": "site-1", "reason": "no answer to 'train' within 3600 s"},
    ]
    lines = printed(print_summary, summary_of(refusals=refusals)).splitlines()
    assert "Round 2: site-2 refused: 'w' has values that are not finite" in lines
    assert "Round 3: site-1 refused: no answer to 'train' within 3600 s" in lines


def test_sites_are_in_natural_order():
    names = ["site-10", "site-2", "b-1", "site-1", "site-1a"]
    sites = dict.fromkeys(sorted(names), REPORT)
    text = printed(print_summary, summary_of(sites=sites))
    result = [line.split()[0] for line in text.splitlines() if "0.123" in line]
    assert result == ["b-1", "site-1", "site-1a", "site-2", "site-10"]


@pytest.mark.parametrize(("other", "gain"), [(0.75, "+6.2"), (0.8625, "-5.0")])
def test_difference_is_that_of_the_dice_in_points(other, gain):
    reference = summary_of(last_rounds={"dice": other, "hd95": None})
    text = printed(print_difference, summary_of(method="feda3i"), reference)
    assert f"feda3i - fedavg: {gain} Dice points" in text
    assert [cell for cell in row_of(text, "feda3i", "81.2") if cell != "│"] == ["feda3i", "81.2", "3.2"]
    assert [cell for cell in row_of(text, "fedavg", percent(other)) if cell != "│"] == ["fedavg", percent(other), "-"]


def test_numbers_and_shares():
    assert (percent(0.12345), percent(None), percent(0.0), percent(1.0)) == ("12.3", "-", "0.0", "100.0")
    assert (number(2.345), number(2.345, 0), number(2.3456, 3), number(None), number(0.0)) == (
        "2.3",
        "2",
        "2.346",
        "-",
        "0.0",
    )


def test_a_large_weight_beside_large_noise_is_explained():
    """Of two groups of two, each has half; in each the noisier site has nothing, here not quite."""
    predicted = {"a": ("larger", 0.1), "b": ("larger", 0.2), "c": ("smaller", 0.7), "d": ("smaller", 0.9)}
    sites = {
        site: {"inner": [0.0], "outer": [0.0], "group": group, "strength": noise}
        for site, (group, noise) in predicted.items()
    }
    weights = {"sites": list(predicted), "blocks": ["x"], "values": [[0.45], [0.05], [0.45], [0.05]]}
    summary = summary_of(method="feda3i", estimate={"sites": sites, "reason": "", "p_value": 0.01}, weights=weights)
    assert weight_beside_noise(summary) == (
        "Large weight despite large noise: c, with noise 0.70, has 0.45 of the last block's weight. Sites that "
        "annotate smaller (2 of 4) have 0.50 of it in total, however noisy the others are; within the group a "
        "noisier site weighs less."
    )
    # Where the noisier half has less than an equal share there is nothing to explain.
    weights["values"] = [[0.4], [0.4], [0.1], [0.1]]
    assert (
        weight_beside_noise(summary_of(estimate={"sites": sites, "reason": "", "p_value": 0.01}, weights=weights))
        is None
    )
    assert weight_beside_noise(summary_of()) is None


def test_classes_without_a_score_are_named_beside_every_score():
    summary = summary_of(rounds=[{"unscored_classes": None}, {"unscored_classes": ["cyst", "scar"]}])
    said = "; without cyst, scar, of which no case was scored)"
    assert said.join(["(mean of the last five rounds", ""]) in printed(print_summary, summary)
    assert said.rstrip(")") in printed(print_difference, summary, summary_of(last_rounds={"dice": 0.8, "hd95": 3.0}))
    assert "without" not in printed(print_summary, summary_of())
