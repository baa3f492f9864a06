"""Paired statistics of a comparison, and whether the groups are those that were drawn."""

import io
import json
import math

import numpy as np
import pytest
from plain_records import comparison
from scipy import stats

from fedannot.apps.reports.comparison import groups_as_drawn, paired_statistics, print_comparison
from fedannot.apps.terminal import Terminal


def test_paired_statistics_by_hand():
    result = paired_statistics([0.5, 0.25, 0.75], [0.625, 0.5, 1.125])
    # Differences 1/8, 2/8, 3/8: mean 1/4, deviation 1/8, t = (1/4) / (1/8 / √3) = 2√3 with 2 degrees of freedom,
    # whose two-sided p is 1 - t / √(t² + 2) = 1 - √(12/14).
    assert result.differences == (0.125, 0.25, 0.375)
    assert result.mean == 0.25
    assert result.standard_deviation == pytest.approx(0.125)
    assert result.p_value == pytest.approx(1 - math.sqrt(12 / 14))


@pytest.mark.parametrize("num_pairs", [2, 5, 30])
def test_p_value_is_that_of_one_sample_of_differences(num_pairs):
    generator = np.random.default_rng(num_pairs)
    reference, other = generator.uniform(0.5, 0.9, size=(2, num_pairs))
    result = paired_statistics(reference.tolist(), other.tolist())
    differences = other - reference
    t_value = differences.mean() / (differences.std(ddof=1) / math.sqrt(num_pairs))
    assert result.mean == pytest.approx(differences.mean())
    assert result.standard_deviation == pytest.approx(differences.std(ddof=1))
    assert result.p_value == pytest.approx(2 * stats.t.sf(abs(t_value), num_pairs - 1))


def test_exchanging_the_methods_turns_the_sign_and_keeps_the_p_value():
    first, second = [0.5, 0.6, 0.8], [0.7, 0.65, 0.9]
    forward, backward = paired_statistics(first, second), paired_statistics(second, first)
    assert forward.mean == pytest.approx(-backward.mean)
    assert forward.p_value == pytest.approx(backward.p_value)


def test_one_pair_has_neither_deviation_nor_test():
    assert paired_statistics([0.5], [0.75]).plain() == {
        "differences": [0.25],
        "mean": 0.25,
        "standard_deviation": None,
        "p_value": None,
    }


@pytest.mark.parametrize("difference", [0.0, 0.25])
def test_equal_differences_have_no_test(difference):
    reference = [0.5, 0.25, 0.125]
    result = paired_statistics(reference, [value + difference for value in reference])
    assert result.mean == difference
    assert result.standard_deviation == 0.0
    assert result.p_value is None


@pytest.mark.parametrize(("num_pairs", "difference"), [(3, 0.1), (5, -0.07), (30, 1 / 3)])
def test_differences_that_are_equal_but_for_rounding_have_no_test(num_pairs, difference):
    reference = np.random.default_rng(num_pairs).uniform(0.01, 0.9, num_pairs).tolist()
    result = paired_statistics(reference, [value + difference for value in reference])
    assert len(set(result.differences)) > 1  # the rounding is there
    assert result.mean == pytest.approx(difference)
    assert 0.0 < result.standard_deviation < 1e-15
    assert result.p_value is None


def test_differences_that_differ_by_more_than_rounding_are_tested():
    result = paired_statistics([0.5, 0.5, 0.5], [0.6, 0.6 + 1e-9, 0.6 + 2e-9])
    # Mean 0.1, deviation 1e-9: t = 0.1 √3 / 1e-9, and 1 - t / √(t² + 2) is about 1 / t².
    assert result.p_value == pytest.approx((1e-9 / (0.1 * math.sqrt(3))) ** 2, rel=1e-3)


def test_scores_must_be_pairs():
    with pytest.raises(ValueError, match="zip"):
        paired_statistics([0.5, 0.6], [0.5])


@pytest.fixture
def federation(tmp_path):
    """Two sites that draw larger, one that draws smaller, one without noise and one without a manifest."""
    noise = {
        "site-1": {"mean": 12.0, "spread": 5.0},
        "site-2": {"mean": 0.5, "spread": 5.0},
        "site-3": {"mean": -8.0, "spread": 5.0},
        "site-4": None,
    }
    for site, drawn in noise.items():
        (tmp_path / site).mkdir()
        (tmp_path / site / "manifest.json").write_text(json.dumps({"seed": 0, "noise": drawn}))
    (tmp_path / "site-5").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({"site-1": "larger", "site-2": "larger", "site-3": "smaller"}, True),
        ({"site-1": "larger", "site-2": "smaller", "site-3": "smaller"}, False),
        ({"site-1": "smaller", "site-2": "smaller", "site-3": "larger"}, False),
        ({"site-1": "larger", "site-3": "smaller", "site-4": "larger", "site-5": "smaller"}, True),
        ({"site-1": None, "site-2": None, "site-3": None}, None),
        ({"site-4": "larger", "site-5": "smaller"}, None),
        ({"site-9": "larger"}, None),
        ({}, None),
    ],
)
def test_groups_are_compared_with_the_sign_of_the_drawn_noise(federation, groups, expected):
    assert groups_as_drawn(groups, federation) is expected


def test_data_without_a_federation_folder_tell_nothing(tmp_path):
    assert groups_as_drawn({"site-1": "larger"}, tmp_path / "nowhere") is None


def test_runs_in_which_one_site_nearly_decided_are_named():
    rounds = [{"round": number, "effective_sites": sites} for number, sites in enumerate([4.0, 1.49, 1.04, None], 1)]
    run = {"arm": "fedia", "task": "segmentation", "seed": 7, "num_sites": 4, "rounds": rounds, "groups": "-"}
    run |= {"last_rounds": {"dice": 0.5, "hd95": None}, "groups_as_drawn": None, "seconds": 1.0, "peak_memory_mb": 1.0}
    said = "in 2 rounds one site nearly decided alone; 1.04 effective sites of 4 in round 3"
    for num_sites, is_said in ((4, True), (1, False)):
        text = io.StringIO()
        print_comparison(comparison([run | {"num_sites": num_sites}]), Terminal(file=text, width=200))
        assert (f"fedia, seed 7: {said}" in text.getvalue()) == is_said


def test_the_table_fits_a_terminal_of_80_columns():
    """With the longest name of an arm, empty cases, all that FedIA finds, and a run that took an hour."""
    site = {"added": 900, "right": 675, "missing": 1350, "removed": 0, "precision": 0.75, "recall": 0.5}
    scores = {"dice": 0.8149, "left_empty": 0.75, "hd95": 12.3}
    run = {
        "arm": "corrections-only",
        "task": "segmentation",
        "seed": 100,
        "last_rounds": scores,
        "groups": "-",
        "groups_as_drawn": None,
        "completeness": {"sites": {}, "mean_absolute_error": 0.125, "rank_correlation": None},
        "corrections": {"site-1": site},
        "seconds": 3600.0,
        "peak_memory_mb": 1234.0,
    }
    text = io.StringIO()
    print_comparison(comparison([run]), Terminal(file=text, width=80))
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert "…" not in text.getvalue()
    assert ["empty", "compl.", "added:", "prec.,"] in lines
    assert ["corrections-only", "100", "81.5", "75.0", "12.3", "0.12", "75.0,", "50.0", "3600", "1234"] in lines


def test_classes_without_a_score_are_named_with_their_seeds():
    runs = [
        {"arm": arm, "seed": seed, **({"unscored_classes": ("cyst",)} if seed else {})}
        for arm in ("a", "b")
        for seed in (0, 1, 2)
    ]
    console = Terminal(record=True, width=200, file=io.StringIO())
    print_comparison(comparison(runs, seeds=(0, 1, 2)), console)
    assert console.export_text().count("Scores without cyst, of which no case was scored: seeds 1, 2") == 1
