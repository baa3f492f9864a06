"""Rows of a benchmark: their figures, their tables, and that every row can be run as it is written."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import plain_records
import pytest
from benchmark_tables import feda3i
from benchmark_tables.feda3i import ROWS, one_bad_site
from benchmark_tables.figures import row_figures as figures_of
from benchmark_tables.rows import chosen_rows
from benchmark_tables.tables import markdown_table, write_table

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.reports.comparison import paired_statistics
from fedannot.apps.runs.arm_differences import declared_differences
from fedannot.apps.runs.arms import plan
from fedannot.apps.runs.job import Job, flat_settings
from fedannot.apps.runs.shared_rounds import check_shared_rounds
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.methods.lookup import read_job_settings

JOBS = Path(__file__).parents[2] / "jobs"
BENCHMARKS = ("auto", "auto_classification", "decoupled", "feda3i", "fedgsca", "fedia")


def comparison(scores, groups=None, agree=None):
    """What :func:`compare` returns for scores by arm, as far as the figures need it."""
    runs = [
        {
            "arm": arm,
            "seed": seed,
            "last_rounds": {"dice": dice},
            "groups": (groups or {}).get(arm, ["-"] * len(values))[seed],
            "groups_as_drawn": (agree or {}).get(arm, [None] * len(values))[seed],
            "seconds": 10.0,
        }
        for arm, values in scores.items()
        for seed, dice in enumerate(values)
    ]
    reference, *others = scores
    paired = [
        {"arm": arm, "reference": reference} | paired_statistics(scores[reference], scores[arm]).plain()
        for arm in others
    ]
    return {"reference": reference, "seeds": [0, 1, 2], "runs": runs, "paired": paired}


def row_figures(name, what, compared):
    return figures_of(name, what, plain_records.comparison(**compared))


def test_figures_and_table_by_hand(tmp_path):
    compared = comparison(
        {"fedavg": [0.50, 0.625, 0.75], "feda3i": [0.75, 0.75, 0.75]},
        groups={"feda3i": ["8 larger, 2 smaller", "none", "7 larger, 3 smaller"]},
        agree={"feda3i": [True, None, False]},
    )
    figures = [row_figures("strong", "lesions, strong noise", compared)]
    write_table(figures, tmp_path / "table.json")
    (row,) = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert row["arms"][0]["differences"] is None
    assert row["arms"][1]["differences"] == pytest.approx([25.0, 12.5, 0.0])
    # The mean of the differences is 12.5, their standard deviation √((12.5² + 0 + 12.5²) / 2) = 12.5.
    assert (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()[2:] == [
        "| lesions, strong noise | fedavg | 50.0 / 62.5 / 75.0 | 62.5 |  |  |",
        "|  | feda3i | 75.0 / 75.0 / 75.0 | 75.0 | +12.5 ± 12.5 | 1 of 2, none in 1 |",
    ]


def test_a_table_is_made_a_row_at_a_time(tmp_path):
    file = tmp_path / "table.json"
    for name, dice in (("first", 0.5), ("second", 0.25), ("first", 0.75)):
        write_table([row_figures(name, f"the {name} row", comparison({"fedavg": [dice]}))], file)
    assert [(row["row"], row["arms"][0]["dice"]) for row in json.loads(file.read_text(encoding="utf-8"))] == [
        ("first", [75.0]),
        ("second", [25.0]),
    ]
    assert "| the second row | fedavg | 25.0 | 25.0 |  |" in file.with_suffix(".md").read_text(encoding="utf-8")


def test_one_seed_has_no_spread():
    compared = comparison({"fedavg": [0.5], "feda3i": [0.25]}, groups={"feda3i": ["none"]})
    assert "| feda3i | 25.0 | 25.0 | -25.0 | none in 1 |" in markdown_table([row_figures("one", "one seed", compared)])


def test_methods_with_models_of_each_site_have_a_table_of_final_models():
    """Generic Dice and the mean over the sites' own, each with its difference to the reference."""
    compared = comparison({"swarm": [0.8, 0.8], "decoupled": [0.8, 0.8]})
    result = [(0.5, 0.25, 0.75), (0.75, 0.5, 0.5), (0.625, 0.5, 0.75), (0.625, 0.5, 1.0)]
    for run, (generic, one, other) in zip(compared["runs"], result, strict=True):
        run["centres"] = {"generic": generic, "own": {"site-1": one, "site-2": other}}
    lines = markdown_table([row_figures("row", "chambers", compared)]).splitlines()
    assert lines[0].startswith("| data | arm | generic: Dice %, each seed | mean | difference | own cases: Dice %, ")
    assert lines[2:] == [
        "| chambers | swarm | 50.0 / 75.0 | 62.5 |  | 50.0 / 50.0 | 50.0 |  | 37.5 | 62.5 |",
        # Differences +12.5 and -12.5, and +12.5 and +25: standard deviations √(2 · 12.5²) and √(2 · 6.25²).
        "|  | decoupled | 62.5 / 62.5 | 62.5 | +0.0 ± 17.7 | 62.5 / 75.0 | 68.8 | +18.8 ± 8.8 | 50.0 | 87.5 |",
    ]


def test_scores_that_are_not_known_are_no_zeros_and_sites_are_paired():
    compared = comparison({"swarm": [0.8, 0.8], "decoupled": [0.8, 0.8]})
    both, one = {"site-1": 0.5, "site-2": 1.0}, {"site-2": 1.0}
    result = [(0.5, both), (0.75, both), (None, one), (0.75, both)]
    for run, (generic, own) in zip(compared["runs"], result, strict=True):
        run["centres"] = {"generic": generic, "own": own}
    lines = markdown_table([row_figures("row", "chambers", compared)]).splitlines()
    assert lines[2:] == [
        "| chambers | swarm | 50.0 / 75.0 | 62.5 |  | 75.0 / 75.0 | 75.0 |  | 50.0 | 100.0 |",
        "|  | decoupled | - / 75.0 | 75.0 | +0.0 | 100.0 / 75.0 | 87.5 | +0.0 ± 0.0 | 50.0 | 100.0 |",
    ]


def test_rows_without_models_of_each_site_have_a_table_before_the_others():
    plain, centres = (comparison({"swarm": [score]}) for score in (0.5, 0.8))
    plain["runs"][0]["centres"] = None
    centres["runs"][0]["centres"] = {"generic": 0.5, "own": {"site-1": 0.25}}
    rows = [row_figures("b", "with", centres), row_figures("a", "without", plain)]
    assert [line for line in markdown_table(rows).splitlines() if "swarm" in line or not line] == [
        "| without | swarm | 50.0 | 50.0 |  |",
        "",
        "| with | swarm | 50.0 | 50.0 |  | 25.0 | 25.0 |  | 25.0 |",
    ]


def test_what_is_left_empty_has_its_column():
    compared = comparison({"fedavg": [0.5, 0.5], "feda3i": [0.6, 0.6]})
    for run, share in zip(compared["runs"], [0.25, None, 0.75, 1.0], strict=True):
        run["last_rounds"]["left_empty"] = share
    heading, _, *lines = markdown_table([row_figures("busi", "lesions", compared)]).splitlines()
    assert heading.endswith("| difference | left empty % |")
    assert [line.split(" | ")[-1] for line in lines] == ["25 |", "75 / 100 |"]


def test_sites_without_annotated_cases_have_no_mean_of_their_own():
    compared = comparison({"swarm": [0.8, 0.8]})
    own = ({"site-1": 0.25}, {"site-1": 0.75, "site-2": 0.5})
    for run, scores in zip(compared["runs"], own, strict=True):
        run["centres"] = {"generic": 0.5, "own": scores}
    line = markdown_table([row_figures("row", "chambers", compared)]).splitlines()[-1]
    assert line.endswith("| 25.0 / 62.5 | 43.8 |  | 50.0 | 50.0 |")


def test_doubts_of_labels_have_their_columns():
    compared = comparison({"fedavg": [0.5], "fedgsca": [0.6]})
    site = {"suspects": 50, "wrong": 40, "wrong_suspects": 30, "noise_level": 0.5, "true_noise_level": 0.4}
    compared["runs"][1]["selection"] = {"site-1": site | {"num_samples": 100, "pseudo": 20, "right_pseudo": 15}}
    heading, _, *lines = markdown_table([row_figures("cells", "cells", compared)]).splitlines()
    assert heading.endswith("| wrong labels: precision, recall % | error of noise level | right pseudo-labels % |")
    assert lines[0].endswith("|  |  |  |  |")
    assert lines[1].endswith("| +10.0 | 60, 75 | 0.10 | 75 |")


def test_rare_classes_and_stability_have_their_columns():
    compared = comparison({"fedavg": [0.5, 0.5], "fedgsca": [0.6, 0.6]})
    for run, recall in zip(compared["runs"], [0.25, 0.5, 0.75, 1.0], strict=True):
        run |= {"rare_recall": recall, "rounds": [{"stability": value} for value in (9.0, 1.0, 2.0, 3.0, 4.0, 5.0)]}
    heading, _, *lines = markdown_table([row_figures("cells", "cells", compared)]).splitlines()
    assert heading.endswith("| difference | recall of the rarer classes % | stability |")
    # The mean of 1 to 5; the first of six rounds is not among the last five.
    assert [line.split(" | ")[-2:] for line in lines] == [["25 / 50", "3.00 |"], ["75 / 100", "3.00 |"]]


def test_the_fewest_effective_sites_of_weights_that_change_have_a_column():
    compared = comparison({"fedavg": [0.5, 0.5], "fedia": [0.6, 0.6]})
    counts = ([4.0, 4.0], [4.0, 4.0], [4.0, None, 1.25, 1.5], [4.0, 2.0])
    for run, of_rounds in zip(compared["runs"], counts, strict=True):
        run["rounds"] = [{"effective_sites": count} for count in of_rounds]
    figures = row_figures("ms", "volumes", compared)
    assert [arm.effective_sites for arm in figures.arms] == [(None, None), (1.25, 2.0)]
    heading, _, *lines = markdown_table([figures]).splitlines()
    assert heading.endswith("| difference | fewest effective sites |")
    assert [line.split(" | ")[-1] for line in lines] == [" |", "1.2 / 2.0 |"]


def test_rows_come_in_the_order_asked_for():
    assert list(chosen_rows(ROWS, None)) == list(ROWS)
    assert list(chosen_rows(ROWS, "weak, clean")) == ["weak", "clean"]
    with pytest.raises(BenchmarkError, match=r"no rows \['strong'\]; the rows are: clean, "):
        chosen_rows(ROWS, "clean,strong")


@pytest.mark.parametrize("module", [*(f"benchmark_tables.{name}" for name in BENCHMARKS), "compare_on_real_images"])
def test_arms_of_every_row_differ_in_nothing_that_is_not_their_own(module):
    rows = importlib.import_module(module).ROWS.values()
    # Many differ in their data alone.
    for row in {repr((row.arms, row.settings)): row for row in rows}.values():
        planned = plan([replace(arm, job=JOBS / arm.job) for arm in row.arms], row.settings)
        # That volumes have three dimensions follows from the data.
        of_data = {"network.spatial_dims": 3} if "training.patch" in row.settings else {}
        settings = {arm.name: arm.job.settings_with({**arm.overrides, **of_data}) for arm in planned}
        differences = declared_differences(planned, settings, [], data_given=True)
        assert {each.why for each in differences} <= {"own setting"}
        check_shared_rounds(planned, settings, data_given=True)


def test_every_row_has_settings_that_its_jobs_allow():
    jobs = {arm.job for row in ROWS.values() for arm in row.arms}
    defaults = {job: Job.open(JOBS / job).settings() for job in jobs}
    for row in ROWS.values():
        names = [arm.name for arm in row.arms]
        assert len(names) == len(set(names)) >= 2
        for arm in row.arms:
            known = flat_settings(defaults[arm.job].model_dump())
            assert set(arm.overrides) <= set(known)
            changed = {key: value for key, value in {**row.settings, **arm.overrides}.items() if key in known}
            read_job_settings(nested(known | changed))


def nested(flat):
    """The settings as they are written in a file, from keys with dots."""
    values = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        place = values
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value
    return values


def test_the_bad_site_is_the_one_that_draws_larger_and_has_the_most_images(tmp_path, monkeypatch):
    assert (feda3i.IMAGES, feda3i.IMAGES_OF_THE_BAD_SITE) == (12, 60)
    monkeypatch.setattr(feda3i, "IMAGES", 2)
    monkeypatch.setattr(feda3i, "IMAGES_OF_THE_BAD_SITE", 7)
    one_bad_site(tmp_path / "data", seed=3)
    sites = sorted((tmp_path / "data").glob("site-*"))
    counts = [len(read_datalist(site / "datalist.json").section("training")) for site in sites]
    means = [read_manifest(site).noise.mean for site in sites]
    assert sorted(counts) == [2] * 9 + [7]
    bad = counts.index(7)
    assert means[bad] == 18.75  # the middle of 12.5 to 25
    assert all(-8 <= mean <= -4 for index, mean in enumerate(means) if index != bad)
