"""The report of a comparison: what it says, how sure that is, and where the reports of its runs are."""

import json
import shlex

import numpy as np
import plain_records
import pytest
from PIL import Image
from scipy import stats

from fedannot.apps.reports.case_statistics import CaseTest
from fedannot.apps.reports.comparison import case_differences_in_words, case_test_columns, paired_statistics
from fedannot.apps.reports.comparison_page import (
    answer,
    arm_rows,
    command_again,
    interval_of,
    run_folder,
    write_comparison_page,
)

REFERENCE = (0.5, 0.6, 0.7)


def compared(*others, seeds=(0, 1, 2)):
    """Arms with a Dice for every seed, beside the reference."""
    arms = {"fedavg": REFERENCE[: len(seeds)]} | {f"arm-{index}": scores for index, scores in enumerate(others, 1)}
    runs = [
        {"arm": arm, "seed": seed, "last_rounds": {"dice": score}}
        for arm, scores in arms.items()
        for seed, score in zip(seeds, scores, strict=True)
    ]
    paired = [
        {"arm": arm, "reference": "fedavg"} | paired_statistics(arms["fedavg"], scores).plain()
        for arm, scores in arms.items()
        if arm != "fedavg"
    ]
    return plain_records.comparison(runs, seeds=seeds, paired=paired)


def test_the_interval_is_that_of_the_mean_difference():
    (pair,) = compared((0.6, 0.75, 0.75)).paired
    differences = np.array([0.1, 0.15, 0.05])
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert interval_of(pair) == pytest.approx((expected.low, expected.high))
    (alone,) = compared((0.6,), seeds=(0,)).paired
    assert interval_of(alone) is None


@pytest.mark.parametrize(
    ("others", "seeds", "expected"),
    [
        # Differences 0.1, 0.11, 0.12: t of 2 degrees of freedom at 97.5 % is 4.303, so ± 4.303 · 0.01 / √3.
        (
            [(0.6, 0.71, 0.82)],
            (0, 1, 2),
            "arm-1 gains against fedavg: +11.0 Dice points (95 % interval +8.5 to +13.5, 3 seeds)",
        ),
        (
            [(0.4, 0.49, 0.58)],
            (0, 1, 2),
            "arm-1 loses against fedavg: -11.0 Dice points (95 % interval -13.5 to -8.5, 3 seeds)",
        ),
        (
            [(0.6, 0.5, 0.7), (0.5, 0.4, 0.6)],
            (0, 1, 2),
            "arm-1 and fedavg cannot be distinguished: +0.0 Dice points (95 % interval -24.8 to +24.8, 3 seeds)",
        ),
        (
            [(0.6,)],
            (7,),
            "arm-1 against fedavg: +10.0 Dice points in one seed, which says nothing of the spread",
        ),
        ([], (0, 1, 2), "Dice of fedavg over 3 seeds"),
        ([], (0,), "Dice of fedavg over 1 seed"),
    ],
)
def test_the_answer_says_no_more_than_the_seeds_do(others, seeds, expected):
    assert answer(compared(*others, seeds=seeds)) == expected


def test_arms_have_mean_deviation_and_difference():
    asked = {"arms": {"arm-1": {"overrides": {"rounds": 5}}}}
    reference, other = arm_rows(compared((0.6, 0.7, 0.8)), asked)
    assert (reference.mean, reference.difference, reference.setting) == ("60.0 ± 10.0", "", "")
    assert (other.mean, other.difference, other.setting) == ("70.0 ± 10.0", "+10.0", "rounds = 5")


def test_the_command_has_arms_settings_data_and_seeds():
    request = {
        "settings": "skin-ns",
        "overrides": {"rounds": 5},
        "arms": {"fedavg": {"job": "fedavg"}, "arm-1": {"job": "fedaaai", "overrides": {"training.loss": "a b"}}},
    }
    words = shlex.split(command_again("runs/a", compared((0.6, 0.7), seeds=(4, 5)), request))
    assert words == [
        *("fedannot", "compare", "fedavg", "arm-1=fedaaai", "--set", "rounds=5", "--set", "arm-1:training.loss=a b"),
        *("--settings", "skin-ns", "--seeds", "2", "--first-seed", "4", "--out", "runs/a-again"),
    ]


def test_the_page_holds_everything_and_leads_to_the_runs(tmp_path):
    comparison = compared((0.6, 0.71, 0.82)).model_copy(update={"case_tests": (CaseTest.model_validate(CASE_TEST),)})
    (tmp_path / "request.json").write_text(json.dumps({"arms": {}}), encoding="utf-8")
    Image.new("RGB", (4, 4)).save(tmp_path / "comparison.png")
    for arm, seed in (("fedavg", 0), ("arm-1", 2)):
        folder = run_folder(tmp_path, arm, seed)
        folder.mkdir(parents=True)
        values = plain_records.summary_values(versions={"torch": "2.9.1"})
        (folder / "summary.json").write_text(json.dumps(values), encoding="utf-8")
    (run_folder(tmp_path, "arm-1", 2) / "report.html").touch()
    page = write_comparison_page(tmp_path, comparison).read_text(encoding="utf-8")
    for said in (
        "arm-1 gains against fedavg",
        "+8.5 to +13.5",
        "+2.0 to +19.0",
        "2.9.1",
        "The images were generated",
        "<figure",
    ):
        assert said in page
    assert 'href="runs/arm-1-seed2/report.html"' in page
    # Of the other runs there is no report to lead to.
    assert page.count("<a ") == 1
    assert "://" not in page
    assert "<script" not in page


CASE_TEST = {
    **{"arm": "arm-1", "reference": "fedavg", "metric": "dice", "evaluated_on": "test", "num_cases": 30},
    **{"num_patients": 10, "mean": 0.11, "low": 0.02, "high": 0.19, "p_wilcoxon": 0.0123, "p_wilcoxon_holm": 0.0246},
    **{"seeds_low": None, "seeds_high": None, "p_seeds": None, "p_seeds_holm": 0.0002},
}


def test_differences_case_by_case_have_the_interval_first():
    comparison = compared((0.6, 0.71, 0.82))
    assert (case_differences_in_words(comparison), case_test_columns(comparison)["arm"]) == ([], [])
    comparison = type(comparison).model_validate(comparison.plain() | {"case_tests": [CASE_TEST]})
    assert case_differences_in_words(comparison) == [
        "Case by case: the final models, on the server's test set.",
        "arm-1 - fedavg, case by case: +11.0 Dice points, 95 % interval +2.0 to +19.0 (30 pairs of cases, "
        "10 patients); Wilcoxon p = 0.012, Holm over arms 0.025",
    ]
    cells = {heading: column[0] for heading, column in case_test_columns(comparison).items()}
    assert cells == {
        **{"arm": "arm-1", "difference": "+11.0", "95 % interval, cases": "+2.0 to +19.0", "Wilcoxon p": "0.012"},
        **{"Holm": "0.025", "95 % interval, seeds": "-", "paired t, p": "-", "Holm, seeds": "< 0.001"},
        **{"cases": "30", "patients": "10"},
    }
