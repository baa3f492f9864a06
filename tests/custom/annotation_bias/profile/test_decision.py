"""What is known of a bias from images, and what counts as zero."""

import math
from dataclasses import replace

import pytest
from scipy import stats

from fedannot.custom.annotation_bias.fedavg_boundary import FedAvgBoundary
from fedannot.custom.annotation_bias.profile.decision import (
    ProfileEstimate,
    image_boundary_level,
    image_fedavg_boundary,
    profile_reference_level,
    tolerated_bias,
)
from fedannot.custom.annotation_bias.statuses import ReferenceKind
from fedannot.custom.methods.auto.image_decisions import decide_by_images
from fedannot.custom.methods.auto.settings import BiasSettings


def known(bias: float, **changes) -> ProfileEstimate:
    values = {"standard_error": 0.2, "half_width": 0.5, "unit": 1.0, "prominence": 0.6, "correlation": 0.97}
    return ProfileEstimate(patients=10, bias=bias, **{**values, **changes})


EXACT = {"standard_error": 0.05, "half_width": 0.2}


def moved(sites) -> list[str]:
    """Whose contours `auto` has moved before its first round."""
    corrections = decide_by_images([sites], BiasSettings()).corrections
    return sorted(site for site, asked in corrections.items() if asked)


@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ({}, True),
        ({"prominence": 0.29}, False),
        ({"correlation": 0.89}, False),
        ({"standard_error": 0.51}, False),
        ({"standard_error": math.inf}, False),
        ({"prominence": math.nan}, False),
    ],
)
def test_a_bias_is_known_by_prominence_correlation_and_error(changes, is_known):
    estimate = known(3.0, **changes)

    assert estimate.is_known is is_known
    assert estimate.as_estimate().is_known is is_known


def test_its_estimate_for_tests_has_the_standard_error_of_a_normal_interval():
    estimate = known(3.0).as_estimate()

    assert (estimate.patients, estimate.value, estimate.slope, estimate.auroc) == (10, 3.0, 1.0, 1.0)
    # Half of the interval of ten patients is 0.5.
    assert estimate.high - 3.0 == pytest.approx(1.6449 * 0.5 / stats.t.ppf(0.95, 9))


@pytest.mark.parametrize(
    ("biases", "kind", "value", "is_confident"),
    [
        # Alike and near the boundary: a convention.
        ([0.5, 1.0, 1.9], ReferenceKind.CONVENTION, 1.0, True),
        # Alike and far: of all sites a convention or an error.
        ([2.5, 3.0, 3.5], ReferenceKind.CONVENTION, 3.0, False),
        # Not alike: the image boundary.
        ([0.0, 1.0, 1.6], ReferenceKind.EDGES, 0.0, True),
        # One site has nobody to be like.
        ([4.0], ReferenceKind.EDGES, 0.0, True),
    ],
)
def test_the_level_is_a_convention_or_the_image_boundary(biases, kind, value, is_confident):
    level = profile_reference_level({str(index): known(bias, half_width=0.01) for index, bias in enumerate(biases)})

    assert (level.kind, level.value, level.is_confident) == (kind, value, is_confident)


@pytest.mark.parametrize(("half_width", "kind"), [(0.1, ReferenceKind.EDGES), (0.3, ReferenceKind.CONVENTION)])
def test_sites_that_may_lie_within_the_range_share_a_convention(half_width, kind):
    """2.0 px apart: for certain 1.8 or 1.4 px."""
    sites = {"a": known(0.5, half_width=half_width), "b": known(2.5, half_width=half_width)}

    assert profile_reference_level(sites).kind is kind


@pytest.mark.parametrize(("radius", "kind"), [(9.0, ReferenceKind.CONVENTION), (4.0, ReferenceKind.EDGES)])
def test_a_range_that_is_large_for_small_objects_is_no_convention(radius, kind):
    """For certain 1 px apart: a ninth of a radius of 9 px, a quarter of one of 4 px."""
    sites = {site: known(bias, half_width=0.1, radius=radius) for site, bias in (("a", -0.6), ("b", 0.6))}

    assert profile_reference_level(sites).kind is kind


def test_lengths_of_the_rule_are_pixels():
    sites = {"a": known(0.5, unit=0.25, half_width=0.05), "b": known(1.0, unit=0.25, half_width=0.05)}

    assert profile_reference_level(sites).kind is ReferenceKind.EDGES


def test_there_is_no_level_without_a_known_site():
    assert profile_reference_level({"a": known(1.0, prominence=0.1), "b": ProfileEstimate.absent()}) is None


def test_a_site_alone_is_moved_from_the_minimum_effect_on():
    assert moved({"a": known(1.5)}) == moved({"a": known(-1.5)}) == ["a"]
    assert not moved({"a": known(1.4)})
    # t = 1.5 / (1.6 / 1.83) = 1.7.
    assert not moved({"a": known(1.5, half_width=1.6)})
    assert not moved({"a": known(4.0, correlation=0.5)})


def test_where_a_site_is_moved_others_follow_to_the_same_boundary():
    assert moved({"a": known(0.6), "b": known(4.0)}) == ["a", "b"]
    assert moved({"a": known(0.4, half_width=0.1), "b": known(4.0)}) == ["b"]
    # 0.7 / 1.83 is less than 0.6 / √2, 0.9 / 1.83 more.
    assert moved({"a": known(0.6, half_width=0.7), "b": known(4.0)}) == ["a", "b"]
    assert moved({"a": known(0.6, half_width=0.9), "b": known(4.0)}) == ["b"]
    # A site that images do not know is no reason.
    near = {"a": known(0.6, half_width=0.2), "b": known(-1.4, half_width=0.2)}
    assert not moved(near | {"c": known(4.0, correlation=0.5)})


def test_a_site_that_is_not_known_follows_if_it_fits_the_others():
    """Left behind it would move the model away from where the others are moved to."""
    others = {"a": known(-3.0), "b": known(3.0), "c": known(4.0)}
    assert moved(others | {"d": known(-3.0, correlation=0.85)}) == ["a", "b", "c", "d"]
    assert moved(others | {"d": known(-3.0, standard_error=0.9, half_width=1.8)}) == ["a", "b", "c", "d"]
    assert moved(others | {"d": known(-3.0, correlation=0.75)}) == ["a", "b", "c"]
    assert moved(others | {"d": known(-3.0, standard_error=2.5, half_width=4.6)}) == ["a", "b", "c"]
    # By itself it proves nothing.
    assert not moved({"a": known(0.0), "b": known(0.1), "d": known(-4.0, correlation=0.85)})


@pytest.mark.parametrize(("num_far", "follows"), [(1, False), (3, False), (4, True)])
def test_others_follow_where_more_than_a_third_of_the_sites_is_far(num_far, follows):
    """One bad site of ten, or three, do not decide for the others, nor move federated averaging's contours."""
    sites = {str(index): known(3.0 if index < num_far else -0.6, radius=9.0, **EXACT) for index in range(10)}

    assert moved(sites) == (sorted(sites) if follows else [])
    assert profile_reference_level(sites).tolerated == (0.0 if follows else 1.5)


@pytest.mark.parametrize(("radius", "follows"), [(12.0, False), (9.0, False), (6.0, True), (3.0, True)])
def test_the_smaller_the_objects_the_smaller_the_tolerated_bias(radius, follows):
    """Seven sites of ten 1.2 px too small: within a sixth of a radius of 9 px, not of 6 px."""
    sites = {str(index): known(-1.2 if index < 7 else 0.9, radius=radius, **EXACT) for index in range(10)}

    assert tolerated_bias(sites) == pytest.approx(max(radius / 6, 0.5))
    assert moved(sites) == (sorted(sites) if follows else [])
    assert image_boundary_level(sites, is_asked=True).tolerated == 0


@pytest.mark.parametrize("lie", [1e6, 1e-6])
def test_a_radius_that_is_no_object_s_has_nobody_s_bias_tolerated(lie):
    honest, lying = known(3.0, radius=9.0), known(0.0, radius=lie)
    assert tolerated_bias({"a": honest, "b": lying}) <= 1.5
    assert tolerated_bias({"a": honest, "b": honest, "c": lying}) == 1.5


@pytest.mark.parametrize("radius", [3.0, 9.0, 60.0])
@pytest.mark.parametrize(("bias", "is_moved"), [(1.2, False), (1.6, True), (4.0, True)])
def test_a_site_alone_is_corrected_from_one_and_a_half_pixels_on_whatever_its_objects(radius, bias, is_moved):
    assert bool(moved({"a": known(bias, radius=radius)})) == is_moved


def test_a_site_alone_has_nothing_tolerated_though_its_objects_are_large():
    level = profile_reference_level({"a": known(4.0, radius=60.0)})
    assert (level.tolerated, level.minimum_effect) == (0.0, 1.5)


@pytest.mark.parametrize(("is_asked", "minimum_effect"), [(False, 1.5), (True, 0.5)])
def test_who_asks_for_the_image_boundary_tolerates_nothing(is_asked, minimum_effect):
    """All sites about 1 px off, of objects with a radius of 9 px."""
    sites = {"a": known(0.9, radius=9.0), "b": known(1.0, radius=9.0), "c": known(1.1, radius=9.0)}
    assert image_boundary_level(sites, is_asked=is_asked).minimum_effect == minimum_effect
    assert image_boundary_level({"a": sites["a"]}, is_asked=is_asked).minimum_effect == 1.5


@pytest.mark.parametrize("lie", [{"patients": 10**9}, {"patients": 10**9, "samples": 10**9}])
def test_a_site_that_claims_many_cases_does_not_have_the_others_moved(lie):
    """Nine sites 0.6 px too small stay, as they would without it."""
    honest = {str(index): known(-0.6, radius=9.0, half_width=0.2, samples=8) for index in range(9)}
    claims = {"samples": 0} | lie
    sites = {site: replace(one, samples=min(claims["samples"], 8)) for site, one in honest.items()}

    level = profile_reference_level(sites | {"liar": replace(known(3.0, radius=9.0), **claims)})

    assert (level.kind, level.tolerated, level.minimum_effect) == (ReferenceKind.EDGES, 1.5, 1.5)


def test_samples_count_and_not_patients_where_all_say_them():
    """Two of six sites with most of the samples of few patients: federated averaging follows them."""
    sites = {site: known(0.0, radius=9.0, half_width=0.2, samples=10) for site in "cdef"}
    sites |= {site: replace(known(3.0, radius=9.0), patients=3, samples=30) for site in "ab"}
    assert profile_reference_level(sites).tolerated == 0.0
    unsaid = sites | {"a": replace(sites["a"], samples=0)}
    assert profile_reference_level(unsaid).tolerated == 1.5


def test_without_radii_objects_are_taken_as_of_nine_pixels():
    assert tolerated_bias({"a": known(0.5), "b": known(3.0, radius=60.0, prominence=0.0)}) == 1.5
    assert tolerated_bias({"a": known(0.5, radius=4.5, unit=0.5)}) == 1.5


def test_nothing_is_moved_where_all_sites_are_alike_and_far():
    sites = {"a": known(4.0), "b": known(4.5)}

    assert not moved(sites)


def test_nothing_is_moved_where_one_may_have_the_convention_of_the_others_by_its_interval():
    sites = {str(index): known(bias, half_width=0.6) for index, bias in enumerate((0.0, 0.1, -0.1, 2.4))}

    assert profile_reference_level(sites).kind is ReferenceKind.CONVENTION
    assert not moved(sites)


def groups_of(site: str, count: int, bias: float, **changes) -> dict[str, ProfileEstimate]:
    """The groups of one site's annotators, who have one vote together."""
    return {f"{site}/{number}": known(bias, votes=1 / count, **changes) for number in range(1, count + 1)}


def test_votes_count_as_if_every_site_had_as_many_groups():
    biases = {"a": (0.1,), "b": (-0.2,), "c": (0.6, 0.3, -0.1, 0.5), "d": (0.2, 0.4)}
    shared = {
        f"{site}/{number}": known(bias, votes=1 / len(own), radius=9.0 + bias)
        for site, own in biases.items()
        for number, bias in enumerate(own)
    }
    repeated = {
        f"{site}/{number}/{copy}": known(bias, radius=9.0 + bias)
        for site, own in biases.items()
        for number, bias in enumerate(own)
        for copy in range(4 // len(own))
    }
    first, second = profile_reference_level(shared), profile_reference_level(repeated)
    assert (first.kind, first.value) == (ReferenceKind.CONVENTION, pytest.approx(second.value))
    assert tolerated_bias(shared) == pytest.approx(tolerated_bias(repeated))


def test_a_site_with_many_groups_decides_no_more_than_a_site_with_one():
    honest = {name: known(0.0, radius=9.0, samples=10) for name in ("a", "b", "c")}
    # That its objects are huge would have every bias of the others tolerated; that it is far would have all moved.
    for lie in ({"bias": 0.0, "radius": 400.0}, {"bias": 4.0, "radius": 9.0}):
        others = {**honest, "c": known(1.4, radius=9.0, samples=10)}
        sites = {**others, **groups_of("liar", 8, **lie, samples=10)}
        alone = {**others, "liar": known(**lie, samples=80)}
        assert tolerated_bias(sites) == tolerated_bias(alone)
        assert image_boundary_level(sites).tolerated == image_boundary_level(alone).tolerated
        assert moved(sites) == [name for name in sites if name.partition("/")[0] in moved(alone)]
    # Nor do groups that claim next to nothing, by which the claims of honest sites would be cut.
    tiny = {**{name: known(0.0, radius=9.0, samples=80) for name in "abc"}, **groups_of("liar", 8, 4.0, samples=1)}
    assert image_fedavg_boundary(tiny) == FedAvgBoundary(0.0, 0.0)
    # Curves of one site in groups, none of which fits, do not have the class taken for one that images do not show.
    unfit = groups_of("liar", 8, 0.0, correlation=0.5)
    assert decide_by_images([{**honest, **unfit}], BiasSettings()).reference_levels[0] is not None
    # And groups of one site alone have no convention with others.
    assert profile_reference_level(groups_of("one", 3, 1.0)).kind is ReferenceKind.EDGES
