"""Intervals and tests over cases, against enumeration of all draws, SciPy, and values by hand."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from support.case_rows import row

from fedannot.apps.reports.case_statistics import PatientTable, case_scores, case_tests
from fedannot.apps.reports.result_rows import ResultRow


def rows_of(differences: np.ndarray) -> list[ResultRow]:
    """A reference of 0.5 and an arm beside it, ``(seeds, cases)``."""
    return [
        row(arm, 0.5 + (value if arm == "b" else 0.0), seed=seed, case=case)
        for (seed, case), value in np.ndenumerate(differences)
        for arm in ("a", "b")
    ]


def test_the_interval_is_that_of_all_draws() -> None:
    """Three patients in two seeds: 27 draws with repetitions, each as likely as another."""
    values = np.array([[0.1, 0.4, -0.2], [0.3, 0.0, 0.1]])
    draws = [values[:, list(draw)].mean(axis=1).mean() for draw in itertools.product(range(3), repeat=3)]
    table = PatientTable(values, np.ones_like(values))
    for level in (0.5, 0.8):
        expected = np.quantile(np.repeat(draws, 1000), [(1 - level) / 2, (1 + level) / 2])
        assert table.interval(level=level, num_draws=20_000) == pytest.approx(tuple(expected), abs=0.02)
    assert table.interval() == table.interval()


def test_tests_are_scipys() -> None:
    differences = np.random.default_rng(1).normal(0.03, 0.05, (4, 12))
    (test,) = case_tests(rows_of(differences), "a")
    assert (test.arm, test.reference, test.num_cases, test.num_patients) == ("b", "a", 48, 12)
    assert test.mean == pytest.approx(differences.mean())
    assert test.p_wilcoxon == pytest.approx(stats.wilcoxon(differences.mean(axis=0)).pvalue)
    paired = stats.ttest_rel(differences.mean(axis=1) + 0.5, np.full(4, 0.5))
    assert test.p_seeds == pytest.approx(paired.pvalue)
    expected = paired.confidence_interval(0.95)
    assert (test.seeds_low, test.seeds_high) == pytest.approx((expected.low, expected.high))
    # With many patients the interval is nearly that of the normal distribution.
    error = differences.mean(axis=0).std() / math.sqrt(12)
    assert (test.low, test.high) == pytest.approx((test.mean - 1.96 * error, test.mean + 1.96 * error), abs=0.2 * error)


def test_of_a_single_patient_there_is_no_interval_and_no_p() -> None:
    rows = [row(arm, score, case=case, patient=1) for case in range(4) for arm, score in (("a", 0.5), ("b", 0.515))]
    (test,) = case_tests(rows, "a")
    assert (test.num_cases, test.num_patients, test.mean) == (4, 1, pytest.approx(0.015))
    assert (test.low, test.high, test.p_wilcoxon, test.p_wilcoxon_holm) == (None, None, None, None)


def test_the_signed_rank_test_by_hand() -> None:
    """Five patients that all gain: of the 2⁵ signs two are as far out, so p = 2/32."""
    (test,) = case_tests(rows_of(np.array([[0.1, 0.2, 0.3, 0.4, 0.5]])), "a")
    assert test.p_wilcoxon == pytest.approx(2 / 32)
    assert (test.p_seeds, test.seeds_low) == (None, None)


def test_holm_is_over_the_arms() -> None:
    """Arms with p = 2/32 and 2/16: the smaller one is doubled, the larger one stays."""
    rows = rows_of(np.array([[0.1, 0.2, 0.3, 0.4, 0.5]]))
    rows += [row("c", 0.5 + 0.1 * case, case=case) for case in range(5)]
    first, second = case_tests(rows, "a")
    # The first patient of c does not differ.
    assert (second.p_wilcoxon, second.p_wilcoxon_holm) == (pytest.approx(2 / 16), pytest.approx(4 / 32))
    assert first.p_wilcoxon_holm == pytest.approx(4 / 32)


def test_patients_are_drawn_and_ranked_not_their_cases() -> None:
    rows = [
        row(arm, 0.5 + (difference if arm == "b" else 0), case=case, patient=case // 4)
        for case, difference in enumerate([0.1] * 4 + [-0.1] * 4)
        for arm in ("a", "b")
    ]
    (test,) = case_tests(rows, "a")
    assert (test.num_cases, test.num_patients, test.mean) == (8, 2, pytest.approx(0))
    # A quarter of the draws has one patient twice, at either end.
    assert (test.low, test.high) == (pytest.approx(-0.1), pytest.approx(0.1))
    assert test.p_wilcoxon == 1.0


def test_equal_arms_have_no_test() -> None:
    (test,) = case_tests(rows_of(np.zeros((2, 3))), "a")
    assert (test.mean, test.low, test.high) == (0, 0, 0)
    assert test.p_wilcoxon is None
    assert test.p_seeds is None
    assert test.p_wilcoxon_holm is None


def test_classes_are_paired_too() -> None:
    """An arm that misses the far class has no HD95 of it, and is not the better one for that."""
    rows = [
        row("a", 0.5, class_name="near", hd95_mm=2.0),
        row("a", 0.5, class_name="far", hd95_mm=20.0),
        row("b", 0.5, class_name="near", hd95_mm=3.0),
        row("b", 0.0, class_name="far", detected="missed"),
    ]
    (test,) = case_tests(rows, "a", "hd95")
    assert (test.num_cases, test.mean) == (1, pytest.approx(1.0))
    (test,) = case_tests(rows, "a", "dice")
    assert test.mean == pytest.approx(-0.25)


def test_what_counts_as_a_case() -> None:
    """Means over classes and models; beside a test set no cases of sites count, and nothing that is undefined."""
    rows = [
        row("a", 0.2, class_name="x"),
        row("a", 0.6, class_name="y"),
        row("a", math.nan, class_name="z"),
        row("a", 0.9, site="site-1"),
        row("b", 0.1, model="site-1"),
        row("b", 0.3, model="site-2"),
    ]
    key = (0, "test", "patient-1", "case-1")
    assert case_scores(rows, "dice") == {"a": {key: pytest.approx(0.4)}, "b": {key: pytest.approx(0.2)}}
    only_sites = [one for one in rows if one.site != "test"]
    assert list(case_scores(only_sites, "dice")["a"]) == [(0, "site-1", "patient-1", "case-1")]
    right = [row("a", math.nan, predicted="lesion"), row("a", math.nan, case=2, predicted="x", detected="missed")]
    assert list(case_scores(right, "accuracy")["a"].values()) == [1.0, 0.0]
    assert case_tests(rows, "c") == ()


def test_cases_are_paired_by_their_places_whatever_their_patients_are_called() -> None:
    """An arm that left out the first case, in a table of an earlier version, numbered the patients of the others."""
    rows = [row("a", 0.5, case=case, patient=case) for case in (1, 2, 3)]
    rows += [row("b", 0.5 + 0.1 * case, case=case, patient=case - 1) for case in (2, 3)]
    (test,) = case_tests(rows, "a")
    assert (test.num_cases, test.num_patients, test.mean) == (2, 2, pytest.approx(0.25))
