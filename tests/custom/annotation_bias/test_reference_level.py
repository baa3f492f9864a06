"""Where the reference level is: references, two groups, medians, a site."""

import numpy as np
import pytest

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.reference_level import choose_reference_level
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.annotation_bias.two_levels import OneLevel, find_two_levels


def estimates(*values, half=0.2):
    return {f"site-{index:02}": Estimate(12, value, value - half, value + half) for index, value in enumerate(values)}


GROUPS = (-3.0, -3.4, -3.8, -4.2, -4.6, -5.0, -5.4, -5.8, 4.0, 5.0)


def codes(level):
    return [reason.code for reason in level.reasons]


def test_a_reference_is_zero_whatever_the_sites_do():
    reference_level = choose_reference_level(
        estimates(*GROUPS), seed=100, floor=0.5, reference=Estimate(15, 0.4, 0.1, 0.7)
    )
    assert (reference_level.kind, reference_level.value) == ("reference", 0.4)
    assert reference_level.standard_error == pytest.approx(0.6 / 3.29, abs=1e-3)


def test_two_groups_balance():
    reference_level = choose_reference_level(estimates(*GROUPS), seed=100, floor=0.5)
    assert reference_level.kind == "balanced"
    assert reference_level.value == pytest.approx((np.mean(GROUPS[:8]) + 4.5) / 2)
    assert ("site-08", "site-09") in reference_level.groups
    assert codes(reference_level) == [EvidenceCode.HALF_WAY]


def test_without_groups_the_median_site_is_zero():
    reference_level = choose_reference_level(estimates(-1.0, -0.5, 0.0, 0.6, 1.0), seed=100, floor=0.5)
    assert (reference_level.kind, reference_level.value) == ("median", 0.0)
    assert choose_reference_level(estimates(-1.0, -0.5, 0.0, 0.6, 1.0), seed=100, floor=0.5, choice="balanced") is None


def test_a_median_with_which_most_sites_agree_is_sure():
    reference_level = choose_reference_level(
        estimates(0.1, -0.2, 0.0, 0.3, 4.0, -3.0, 0.2), seed=100, floor=0.5, choice="median"
    )
    assert reference_level.is_confident
    (reason,) = reference_level.reasons
    assert (reason.code, reason.numbers) == (EvidenceCode.MEDIAN, {"sites": 7, "agreeing": 5})


def test_a_median_of_sites_that_differ_is_not():
    assert not choose_reference_level(estimates(0.0, -1.0, -2.5, -3.5, -5.0, -6.0), seed=100, floor=0.5).is_confident
    # Half is no majority.
    assert not choose_reference_level(estimates(0.0, 0.1, -3.0, 3.0), seed=100, floor=0.5, choice="median").is_confident


def test_a_site_may_be_the_protocol():
    assert choose_reference_level(estimates(1.0, 2.0), seed=100, floor=0.5, choice="site:site-01").value == 2.0
    elsewhere = choose_reference_level(estimates(1.0), seed=100, floor=0.5, choice="site:elsewhere")
    assert not elsewhere.is_confident
    (reason,) = elsewhere.reasons
    assert (reason.code, reason.names) == (EvidenceCode.SITE_ABSENT, {"site": "elsewhere"})


def test_unknown_estimates_do_not_count():
    assert choose_reference_level({"a": Estimate.unknown()}, seed=100, floor=0.5) is None
    assert (
        choose_reference_level(estimates(1.0, 2.0, 3.0) | {"b": Estimate.unknown()}, seed=100, floor=0.5).value == 2.0
    )


def test_an_unknown_choice_is_refused_and_a_missing_reference_is_not_sure():
    with pytest.raises(ValueError, match="choice='mean'"):
        choose_reference_level(estimates(1.0), seed=100, floor=0.5, choice="mean")
    reference_level = choose_reference_level(estimates(1.0), seed=100, floor=0.5, choice="reference")
    assert not reference_level.is_confident
    assert codes(reference_level) == [EvidenceCode.REVIEWED_ABSENT]


@pytest.mark.parametrize("num_sites", [6, 10, 20])
@pytest.mark.parametrize("draw", ["uniform", "standard_normal"])
def test_sites_at_one_level_are_seldom_divided(num_sites, draw):
    result = 0
    for repeat in range(100):
        values = getattr(np.random.default_rng((num_sites, repeat)), draw)(size=num_sites)
        result += find_two_levels({str(i): float(v) for i, v in enumerate(values)}, seed=repeat).found
    assert result <= 12


def test_levels_do_not_depend_on_names_and_units():
    first = find_two_levels({f"{i}": v for i, v in enumerate(GROUPS)}, seed=100)
    other = find_two_levels({f"{9 - i}": 1e-3 * v for i, v in enumerate(GROUPS)}, seed=100)
    assert first.upper == ("8", "9")
    assert other.upper == ("0", "1")
    assert first.p_value == other.p_value


def test_too_few_or_equal_sites_are_not_divided():
    assert find_two_levels({"a": 1.0, "b": 2.0}, seed=100).reason is OneLevel.TOO_FEW_SITES
    assert find_two_levels(dict.fromkeys("abcde", 1.0), seed=100).reason is OneLevel.EQUAL


EDGE = Estimate(100, 0.3, 0.1, 0.5)
EIGHT = (-2.4, -4.5, 4.1, -1.7, -3.3, -3.1, -4.6, 7.7)


def test_edges_between_two_groups_are_evidence_for_them():
    assert choose_reference_level(estimates(*EIGHT), seed=100, floor=0.5).kind == "median"
    reference_level = choose_reference_level(estimates(*EIGHT), seed=100, floor=0.5, edges=EDGE)
    assert reference_level.kind == "balanced"
    assert reference_level.value == pytest.approx(
        (np.mean([4.1, 7.7]) + np.mean([-2.4, -4.5, -1.7, -3.3, -3.1, -4.6])) / 2
    )


def test_groups_on_one_side_of_the_edges_are_no_two_directions():
    edges = Estimate(100, 9.0, 8.8, 9.2)
    assert choose_reference_level(estimates(*GROUPS), seed=100, floor=0.5, edges=edges).kind == "median"
    assert choose_reference_level(estimates(*GROUPS), seed=100, floor=0.5, edges=edges, choice="balanced") is None


def test_one_odd_site_moves_zero_no_farther_than_edges_allow():
    sites = estimates(-2.0, -2.1, -2.2, -1.9, -2.05, 60.0)
    reference_level = choose_reference_level(
        sites, seed=100, floor=0.5, edges=Estimate(60, 0.0, -0.1, 0.1), choice="balanced"
    )
    assert (reference_level.kind, reference_level.value) == ("balanced", 2.0)
    assert codes(reference_level) == [EvidenceCode.HALF_WAY, EvidenceCode.MOVED_TO_EDGES, EvidenceCode.EDGES_NEAR]
    far = choose_reference_level(sites, seed=100, floor=0.5, edges=EDGE, reference=Estimate(10, 30.0, 29.0, 31.0))
    assert not far.is_confident


def test_one_odd_site_is_no_second_direction_unless_edges_say_so_clearly():
    """Nine sites draw 1.5 too small and one 4.7 too large: half-way between would be 1.6."""
    nine = [-1.5 + 0.1 * step for step in (-3, -2, -1, 0, 0, 0, 1, 2, 3)]
    edges = Estimate(60, -0.25, -0.35, -0.15)
    assert choose_reference_level(estimates(*nine, 4.7), seed=100, floor=0.5, edges=edges).kind == "median"
    assert choose_reference_level(estimates(*nine, 4.7), seed=100, floor=0.5).kind == "median"
    five = (-4.4, -4.6, -4.9, -4.2, -4.5)
    assert choose_reference_level(estimates(*five, 4.5), seed=100, floor=0.5, edges=edges).kind == "balanced"


def test_half_way_is_no_zero_where_edges_are_nearer_to_most_sites():
    edges = Estimate(60, -3.5, -3.6, -3.4)
    assert (
        choose_reference_level(estimates(*GROUPS), seed=100, floor=0.5, edges=edges, image_boundary_error=4.0).kind
        == "median"
    )


def test_a_median_far_from_the_edges_is_not_sure():
    sites = estimates(0.1, -0.2, 0.0, 0.3, 0.2)
    assert choose_reference_level(sites, seed=100, floor=0.5, edges=Estimate(60, 1.9, 1.8, 2.0)).is_confident
    reference_level = choose_reference_level(sites, seed=100, floor=0.5, edges=Estimate(60, -4.0, -4.1, -3.9))
    assert not reference_level.is_confident
    assert codes(reference_level) == [EvidenceCode.MEDIAN, EvidenceCode.EDGES_FAR]
    assert reference_level.reasons[1].numbers == {"difference": pytest.approx(-4.1)}


def test_edges_are_zero_where_they_are_asked_for():
    reference_level = choose_reference_level(
        estimates(1.0, 2.0), seed=100, floor=0.5, choice="image_boundary", edges=EDGE
    )
    assert (reference_level.kind, reference_level.value) == ("edges", 0.3)
    assert not choose_reference_level(estimates(1.0, 2.0), seed=100, floor=0.5, choice="image_boundary").is_confident


def test_where_edges_are_stands_beside_a_zero_that_they_confirm() -> None:
    near = choose_reference_level(
        estimates(0.1, -0.2, 0.0, 0.3, 0.2), seed=100, floor=0.5, edges=Estimate(40, 1.1, 0.9, 1.3)
    )
    assert near is not None
    assert near.is_confident
    assert near.reasons[-1] == Evidence(EvidenceCode.EDGES_NEAR, {"difference": pytest.approx(1.0)})
    balanced = choose_reference_level(estimates(*GROUPS), seed=100, floor=0.5, edges=Estimate(40, 0.0, -0.2, 0.2))
    assert balanced is not None
    assert balanced.kind == "balanced"
    assert codes(balanced) == [EvidenceCode.HALF_WAY, EvidenceCode.EDGES_NEAR]
