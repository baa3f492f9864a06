import time

import numpy as np
import pytest

from fedannot.custom.methods.feda3i.records import NoGroups
from fedannot.custom.methods.feda3i.two_groups import fit_two_groups


def two_groups(larger=5, smaller=5, gap=2.0, seed=0, num_classes=1):
    """Difficulties of sites whose bias is gap + U(0, 1) or −gap − U(0, 1), a little noise on top."""
    generator = np.random.default_rng(seed)
    bias = np.concatenate((gap + generator.random(larger), -gap - generator.random(smaller)))
    noise = 0.05 * generator.standard_normal((larger + smaller, 2 * num_classes))
    rows = np.concatenate((np.tile(bias[:, None], num_classes), np.tile(-bias[:, None], num_classes)), axis=1)
    return {f"site-{index:02}": row for index, row in enumerate(1.0 + 0.1 * (rows + noise))}


def one_gaussian(num_sites, seed):
    generator = np.random.default_rng(seed)
    rows = generator.multivariate_normal([1.0, 0.5], [[0.2, -0.18], [-0.18, 0.2]], size=num_sites)
    return {f"site-{index:02}": row for index, row in enumerate(rows)}


def names(first, last):
    return tuple(f"site-{index:02}" for index in range(first, last))


@pytest.mark.parametrize(("larger", "smaller"), [(5, 5), (2, 8), (8, 2), (25, 25)])
@pytest.mark.parametrize("num_classes", [1, 2])
def test_two_groups_are_found_and_named(larger, smaller, num_classes):
    groups = fit_two_groups(two_groups(larger, smaller, gap=3.0, num_classes=num_classes), seed=0)
    assert groups.found
    assert groups.larger == names(0, larger)
    assert groups.smaller == names(larger, larger + smaller)
    assert groups.p_value == pytest.approx(0.005)
    assert groups.two_components > groups.one_component


def test_grouping_is_the_same_for_every_seed():
    difficulty = two_groups(8, 2)
    assert {fit_two_groups(difficulty, seed=seed).larger for seed in range(5)} == {names(0, 8)}


def test_the_same_seed_gives_the_same_result_in_any_order_of_sites():
    difficulty = two_groups(6, 4, gap=0.4, seed=3)
    expected = fit_two_groups(difficulty, seed=7)
    assert fit_two_groups(difficulty, seed=7) == expected
    assert fit_two_groups(dict(reversed(difficulty.items())), seed=7) == expected


@pytest.mark.parametrize("gap", [0.5, 3.0])
def test_units_do_not_matter(gap):
    difficulty = two_groups(5, 5, gap=gap)
    expected = fit_two_groups(difficulty, seed=1)
    for unit in (1e-6, 3.0, 1e9):
        scaled = fit_two_groups({site: unit * row for site, row in difficulty.items()}, seed=1)
        assert (scaled.larger, scaled.smaller, scaled.p_value) == (expected.larger, expected.smaller, expected.p_value)
        assert scaled.two_components == pytest.approx(expected.two_components)


def test_one_gaussian_is_rarely_called_two_groups():
    result = [fit_two_groups(one_gaussian(10, seed), seed=seed).found for seed in range(20)]
    assert sum(result) <= 4  # 1 expected; more than 4 of 20 has a probability of 0.3% at 5%


def test_level_one_switches_the_guard_off():
    difficulty = one_gaussian(10, 1)
    guarded, unguarded = fit_two_groups(difficulty, seed=0), fit_two_groups(difficulty, seed=0, level=1.0)
    assert not guarded.found
    assert guarded.larger == guarded.smaller == ()
    assert guarded.reason is NoGroups.ONE_IS_ENOUGH
    assert unguarded.found
    assert set(unguarded.larger) | set(unguarded.smaller) == set(difficulty)


@pytest.mark.parametrize("num_sites", [0, 1, 2])
def test_fewer_than_three_sites_have_no_groups(num_sites):
    difficulty = dict(list(two_groups().items())[:num_sites])
    groups = fit_two_groups(difficulty, seed=0)
    assert groups.reason is NoGroups.TOO_FEW_SITES
    assert groups.p_value is None


def test_three_sites_are_too_few_to_tell_groups():
    assert not fit_two_groups(two_groups(2, 1), seed=0).found


def test_identical_sites_have_no_groups():
    groups = fit_two_groups({name: [0.1, 0.3] for name in names(0, 6)}, seed=0)
    assert groups.reason is NoGroups.EQUAL


def test_a_constant_column_is_no_obstacle():
    difficulty = {site: [row[0], 0.7] for site, row in two_groups(5, 5, gap=4.0).items()}
    assert fit_two_groups(difficulty, seed=0).larger == names(0, 5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 0.1], "finite learning difficulties, but site-03 reports"),
        ([np.inf, 0.1], "finite learning difficulties, but site-03 reports"),
        ([0.1, 0.2, 0.3, 0.4], r"site-03 reports shape \(4,\)"),
        ([[0.1, 0.2]], r"site-03 reports shape \(1, 2\)"),
    ],
)
def test_unusable_rows_are_refused_by_site(row, message):
    with pytest.raises(ValueError, match=message):
        fit_two_groups(two_groups() | {"site-03": row}, seed=0)


@pytest.mark.parametrize(("num_sites", "limit"), [(10, 1.5), (50, 4.0)])
def test_the_whole_test_is_quick(num_sites, limit):
    difficulty = two_groups(num_sites // 2, num_sites // 2)
    start = time.process_time()
    fit_two_groups(difficulty, seed=0)
    assert time.process_time() - start < limit
