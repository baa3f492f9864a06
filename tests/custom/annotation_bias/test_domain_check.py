"""Which sites have images of another kind: against t-tests of the cases themselves, by brute force and by hand."""

import math

import numpy as np
import pytest
from scipy import ndimage, stats

from fedannot.custom.annotation_bias.domain_check import check_domains
from fedannot.custom.annotation_bias.image_features import (
    FEATURES,
    ImageStatistics,
    image_statistics,
    statistics_of_features,
)
from fedannot.custom.annotation_bias.thresholds import THRESHOLDS
from fedannot.custom.data.phantoms.drawing import PhantomSite
from fedannot.custom.data.phantoms.lesion_images import LesionImages

MANY = len(FEATURES)
NOISE = FEATURES.index("noise")


def cases(count, *, seed, shift=0.0, feature=NOISE):
    features = np.random.default_rng(seed).standard_normal((count, MANY))
    features[:, feature] += shift
    return features


def site(features):
    return statistics_of_features(list(features), [str(index) for index in range(len(features))])


def exact(patients, mean, deviation=1.0, feature=NOISE):
    means = np.zeros(MANY)
    means[feature] = mean
    return ImageStatistics(patients, tuple(means.tolist()), (deviation,) * MANY)


def federation(*groups, count=12, seed=0):
    """Groups are (number of sites, shift)."""
    shifts = [shift for num_sites, shift in groups for _ in range(num_sites)]
    return {f"site-{i}": site(cases(count, seed=1000 * seed + i, shift=shift)) for i, shift in enumerate(shifts)}


def test_two_sites_are_distinguished_as_by_t_tests_of_their_cases():
    verdicts = set()
    for seed in range(60):
        first, second = cases(9, seed=seed), cases(14, seed=seed + 500, shift=1.5)
        smallest = min(stats.ttest_ind(first[:, i], second[:, i]).pvalue for i in range(MANY))
        checks = check_domains({"a": site(first), "b": site(second)})
        assert checks["a"].out_of_domain == checks["b"].out_of_domain == (smallest <= THRESHOLDS.domain_level / MANY)
        verdicts.add(checks["a"].out_of_domain)
    assert verdicts == {True, False}


def test_student_by_hand():
    # Of 10 and 10 cases t is the difference over √(1/10 + 1/10) = 0.4472; with 18 degrees of freedom p = 0.1 / 19 is at
    # t = 3.173.
    assert stats.t.sf(3.173, 18) * 2 * 19 == pytest.approx(0.1, rel=2e-3)
    assert not check_domains({"a": exact(10, 0.0), "b": exact(10, 3.16 * 0.4472)})["a"].out_of_domain
    assert check_domains({"a": exact(10, 0.0), "b": exact(10, 3.19 * 0.4472)})["a"].out_of_domain


def test_the_score_is_the_fraction_of_distinguished_pairs_of_cases():
    first, second = cases(2000, seed=1), cases(2000, seed=2, shift=1.5)
    brute_force = (first[:, NOISE, None] < second[None, :, NOISE]).mean()
    assert check_domains({"a": site(first), "b": site(second)})["a"].score == pytest.approx(brute_force, abs=0.01)


def test_a_small_difference_is_no_other_kind_however_sure():
    # Φ(d / √2) = 0.7 at d = 0.7416.
    assert pytest.approx(THRESHOLDS.min_domain_auroc, abs=1e-4) == stats.norm.cdf(0.7416 / math.sqrt(2))
    assert not check_domains({"a": exact(10000, 0.0), "b": exact(10000, 0.74)})["a"].out_of_domain
    assert check_domains({"a": exact(10000, 0.0), "b": exact(10000, 0.745)})["a"].out_of_domain


def test_sites_of_one_kind_are_rarely_distinct():
    checks = [check_domains(federation((8, 0.0), count=10, seed=seed)) for seed in range(100)]
    share = np.mean([check.out_of_domain for item in checks for check in item.values()])
    assert share <= 0.015


@pytest.mark.parametrize("count", [6, 12, 20])
def test_a_strong_shift_is_always_found_and_it_alone(count):
    for seed in range(20):
        checks = check_domains(federation((1, 9.0), (7, 0.0), count=count, seed=seed), level=1e-3)
        assert checks["site-0"].out_of_domain
        assert sum(check.out_of_domain for check in checks.values()) == 1
        evidence = checks["site-0"].evidence
        assert (evidence.code, evidence.numbers["unlike"], evidence.numbers["others"]) == ("images_differ", 7, 7)
        assert evidence.names == {"feature": "noise"}
        assert checks["site-1"].evidence.code == "images_alike"


def test_a_minority_is_distinct_and_the_majority_is_not():
    checks = check_domains(federation((6, 0.0), (4, 9.0)), level=1e-3)
    assert [checks[f"site-{i}"].out_of_domain for i in range(10)] == [False] * 6 + [True] * 4
    assert checks["site-9"].alike == ("site-6", "site-7", "site-8")


@pytest.mark.parametrize(
    "groups", [((5, 0.0), (5, 6.0)), ((4, 0.0), (3, 6.0), (3, -6.0)), tuple((1, 6.0 * i) for i in range(5))]
)
def test_without_a_majority_of_one_kind_all_are_distinct(groups):
    checks = check_domains(federation(*groups))
    assert all(check.out_of_domain for check in checks.values())


def test_the_score_is_above_one_half_just_for_distinct_sites():
    for seed in range(20):
        for check in check_domains(federation((3, 0.0), (2, 1.5), (1, 2.0), seed=seed)).values():
            assert check.out_of_domain == (check.score > 0.5)


def test_order_and_names_of_sites_decide_nothing():
    sites = federation((4, 0.0), (3, 1.8))
    checks = check_domains(sites)
    renamed = {f"clinic {9 - index}": one for index, one in enumerate(sites.values())}
    others = check_domains(dict(reversed(renamed.items())))
    for index in range(7):
        one, other = checks[f"site-{index}"], others[f"clinic {9 - index}"]
        assert (one.out_of_domain, one.score, one.evidence) == (other.out_of_domain, other.score, other.evidence)
        assert {f"clinic {9 - int(name[5:])}" for name in one.alike} == set(other.alike)


def test_a_site_that_withholds_is_distinct_and_does_not_count():
    sites = federation((3, 0.0), (2, 6.0))
    checks = check_domains(sites | {f"small-{i}": ImageStatistics.unknown() for i in range(4)})
    for name, check in check_domains(sites).items():
        assert checks[name] == check
    assert checks["small-0"].out_of_domain
    assert math.isnan(checks["small-0"].score)
    assert checks["small-0"].evidence.code == "images_unknown"


def test_nobody_to_compare_with():
    checks = check_domains({"a": exact(10, 0.0), "b": ImageStatistics.unknown()})
    assert checks["a"].out_of_domain
    assert checks["a"].evidence.code == "images_alone"
    assert check_domains({}) == {}


def test_equal_sites_without_any_spread_are_alike():
    checks = check_domains({"a": exact(5, 0.3, 0.0), "b": exact(5, 0.3, 0.0), "c": exact(5, 0.9, 0.0)})
    assert [checks[name].out_of_domain for name in "abc"] == [False, False, True]


def test_a_level_out_of_range_is_refused():
    with pytest.raises(ValueError, match="level between 0 and 1"):
        check_domains({}, level=1.0)


def phantom_images(index):
    drawn = LesionImages().draw_site(PhantomSite(index, 6, 6, 100))
    images = [np.asarray(case.image, dtype=np.float32)[None, None] for case in drawn.sections["training"]]
    return [(image - image.mean()) / image.std() for image in images]


def test_of_images_a_blurred_site_is_found_and_it_alone():
    images = {f"site-{index}": phantom_images(index) for index in range(6)}

    def verdicts():
        found = {name: image_statistics(some, list("abcdef")).outbound() for name, some in images.items()}
        return {name for name, check in check_domains(found).items() if check.out_of_domain}

    assert verdicts() == set()
    images["site-3"] = [ndimage.gaussian_filter(image, (0, 0, 1, 1)) for image in images["site-3"]]
    assert verdicts() == {"site-3"}
