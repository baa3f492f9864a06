"""What the server concludes from the sites' difficulties, on hand-worked strengths and weights."""

import json
import math

import numpy as np
import pytest

from fedannot.custom.methods.feda3i.estimate import QualityAnswer, QualityEstimate, estimate_quality
from fedannot.custom.methods.feda3i.records import NoGroups
from fedannot.custom.methods.feda3i.two_groups import MIN_SITES, fit_two_groups

# Strengths by hand: a 1, b 2, c 3 (inner - outer); d 4, e 2 (outer - inner).
INNER = {"a": [2.0], "b": [3.0], "c": [3.5], "d": [1.0], "e": [0.5]}
OUTER = {"a": [1.0], "b": [1.0], "c": [0.5], "d": [5.0], "e": [2.5]}
QUANTITY = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.25, "e": 0.15}


def estimate_of(inner=INNER, outer=OUTER, larger=("a", "b", "c"), smaller=("d", "e"), reason=None, p_value=0.005):
    return QualityEstimate(dict(inner), dict(outer), larger, smaller, reason, p_value)


WITH_GROUPS = estimate_of()
WITHOUT_GROUPS = estimate_of(larger=(), smaller=(), reason=NoGroups.NOT_CONVERGED, p_value=0.4)
WITHOUT_SITES = estimate_of({}, {}, (), (), NoGroups.TOO_FEW_SITES, None)


def answer(inner, outer):
    return {"num_samples": 9, "inner_difficulty": inner, "outer_difficulty": outer, "num_estimated": [9] * len(inner)}


def estimated(answers, **options):
    return estimate_quality({site: QualityAnswer.of(fields) for site, fields in answers.items()}, **options)


def answers_of_two_groups(num_larger=4, num_smaller=4):
    """Sites that draw larger are hard inside their contours, the others outside."""
    answers = {}
    for index in range(num_larger):
        answers[f"larger-{index}"] = answer([2.0 + 0.05 * index], [0.5 - 0.04 * index])
    for index in range(num_smaller):
        answers[f"smaller-{index}"] = answer([0.5 + 0.03 * index], [2.0 - 0.05 * index])
    return answers


def test_strengths_by_hand():
    assert WITH_GROUPS.has_groups
    assert WITH_GROUPS.difficulty["c"] == [3.5, 0.5]
    assert WITH_GROUPS.strength == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 2.0}


def test_strengths_of_several_classes_sum_the_columns():
    estimate = estimate_of(
        {"a": [1.0, 0.5], "b": [0.25, 0.25]}, {"a": [0.25, 0.25], "b": [2.0, 1.0]}, larger=("a",), smaller=("b",)
    )
    assert estimate.difficulty == {"a": [1.0, 0.5, 0.25, 0.25], "b": [0.25, 0.25, 2.0, 1.0]}
    assert estimate.strength == {"a": 1.0, "b": 2.5}


def test_quality_weights_by_hand():
    # Group of a, b, c: margins to the noisiest 2, 1, 0 of 3, with a fraction of 3/4; d, e: margins 0, 2 of 2, with 1/4.
    weights = WITH_GROUPS.quality_weights(QUANTITY, balance=0.75, intra_only=False)
    assert weights == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.0, "d": 0.0, "e": 0.25})


def test_quality_weights_without_balance_between_the_groups():
    # The margins 2, 1, 0 and 0, 2 over their sum 5.
    weights = WITH_GROUPS.quality_weights(QUANTITY, balance=0.75, intra_only=True)
    assert weights == pytest.approx({"a": 0.4, "b": 0.2, "c": 0.0, "d": 0.0, "e": 0.4})


@pytest.mark.parametrize(
    ("absent", "expected"),
    [
        # Margins of a, b are 1, 0 and of d, e 0, 2, with half of the weight each.
        (("c",), {"a": 0.5, "b": 0.0, "d": 0.0, "e": 0.5}),
        # A group of one has all of its half.
        (("a", "b", "d"), {"c": 0.5, "e": 0.5}),
        # Without a group the other has everything.
        (("d", "e"), {"a": 2 / 3, "b": 1 / 3, "c": 0.0}),
        (("a", "b", "c", "d", "e"), {}),
    ],
)
def test_a_site_that_never_sent_a_model_takes_no_part(absent, expected):
    quantity = {site: share for site, share in QUANTITY.items() if site not in absent}
    total = sum(quantity.values())
    weights = WITH_GROUPS.quality_weights(
        {site: share / total for site, share in quantity.items()}, balance=0.5, intra_only=False
    )
    assert weights == pytest.approx(expected)


def test_a_site_without_an_estimate_keeps_its_quantity_weight():
    quantity = {site: 0.8 * share for site, share in QUANTITY.items()} | {"late": 0.2}
    weights = WITH_GROUPS.quality_weights(quantity, balance=0.5, intra_only=False)
    # The others divide 0.8: margins 2, 1, 0 of 3 and 0, 2 of 2, with 0.4 each.
    assert weights == pytest.approx({"a": 0.8 / 3, "b": 0.4 / 3, "c": 0.0, "d": 0.0, "e": 0.4, "late": 0.2})


def test_only_sites_without_an_estimate_sent_a_model():
    assert WITH_GROUPS.quality_weights({"x": 0.25, "y": 0.75}, balance=0.5, intra_only=False) == {"x": 0.25, "y": 0.75}


@pytest.mark.parametrize("estimate", [WITHOUT_GROUPS, WITHOUT_SITES])
@pytest.mark.parametrize("intra_only", [False, True])
def test_without_groups_there_is_no_strength_and_sites_weigh_by_quantity(estimate, intra_only):
    assert not estimate.has_groups
    assert estimate.strength == {}
    assert estimate.quality_weights(QUANTITY, balance=0.5, intra_only=intra_only) == QUANTITY


@pytest.mark.parametrize("estimate", [WITH_GROUPS, WITHOUT_GROUPS, WITHOUT_SITES])
def test_estimate_comes_back_from_its_plain_values(estimate):
    assert QualityEstimate.from_dict(estimate.to_dict()) == estimate
    through_json = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    assert QualityEstimate.from_dict(through_json) == estimate


def test_plain_values_are_one_entry_per_site():
    values = WITH_GROUPS.to_dict()
    assert list(values["sites"]) == ["a", "b", "c", "d", "e"]
    assert values["sites"]["a"] == {"inner": [2.0], "outer": [1.0], "group": "larger", "strength": 1.0}
    assert values["sites"]["d"] == {"inner": [1.0], "outer": [5.0], "group": "smaller", "strength": 4.0}
    assert (values["reason"], values["p_value"]) == (None, 0.005)
    assert WITHOUT_GROUPS.to_dict()["sites"]["a"] == {"inner": [2.0], "outer": [1.0], "group": None, "strength": None}


def answers_of_one_direction():
    """Twelve sites that all draw larger, by evenly spread offsets, on which difficulties depend as exponentials."""
    generator, answers = np.random.default_rng(0), {}
    for index, offset in enumerate(np.linspace(0, 3, 12).tolist()):
        inner, outer = (math.exp(sign * offset) * (1 + 0.05 * generator.standard_normal()) for sign in (1, -1))
        answers[f"site-{index:02}"] = answer([inner], [outer])
    return answers


def test_of_logarithms_one_direction_is_no_two_groups():
    given = answers_of_one_direction()
    assert estimated(given, seed=0, level=0.05).has_groups
    result = estimated(given, seed=0, level=0.05, logarithms=True)
    assert not result.has_groups
    assert result.p_value > 0.5


def test_of_logarithms_two_directions_are_two_groups_and_strengths_are_of_difficulties():
    result = estimated(answers_of_two_groups(), seed=0, level=0.05, logarithms=True)
    assert result.larger == tuple(f"larger-{index}" for index in range(4))
    assert result.strength["larger-1"] == pytest.approx(1.59)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e-9])
def test_logarithms_of_what_has_none_are_those_of_a_hundredth(value):
    answers, same = ({**answers_of_two_groups(), "odd": answer([item], [2.0])} for item in (value, 0.01))
    result = estimated(answers, seed=0, level=0.05, logarithms=True)
    assert (result.p_value, result.smaller) == (
        estimated(same, seed=0, level=0.05, logarithms=True).p_value,
        (*("odd",), *(f"smaller-{index}" for index in range(4))),
    )


def test_sites_that_draw_larger_and_smaller_are_distinguished():
    answers = answers_of_two_groups()
    estimate = estimated(answers, seed=0, level=0.05)
    assert estimate.has_groups
    assert estimate.larger == tuple(f"larger-{index}" for index in range(4))
    assert estimate.smaller == tuple(f"smaller-{index}" for index in range(4))
    assert estimate.p_value is not None
    assert estimate.p_value <= 0.05
    for site, reported in answers.items():
        assert estimate.difficulty[site] == reported["inner_difficulty"] + reported["outer_difficulty"]
    # Draws larger: 2.05 - 0.46; draws smaller: 1.95 - 0.53.
    assert estimate.strength["larger-1"] == pytest.approx(1.59)
    assert estimate.strength["smaller-1"] == pytest.approx(1.42)
    assert QualityEstimate.from_dict(estimate.to_dict()) == estimate


def test_the_order_of_the_answers_changes_nothing():
    answers = answers_of_two_groups()
    first = estimated(answers, seed=3, level=0.05)
    assert estimated(dict(reversed(answers.items())), seed=3, level=0.05) == first


@pytest.mark.parametrize(
    "incomplete",
    [
        answer([math.nan], [math.nan]),
        answer([math.nan], [0.5]),
        answer([0.5], [math.nan]),
        answer([math.inf], [0.5]),
    ],
)
def test_a_site_that_could_not_estimate_has_no_estimate_and_changes_nothing(incomplete):
    answers = answers_of_two_groups()
    estimate = estimated(answers | {"incomplete": incomplete}, seed=0, level=0.05)
    assert estimate == estimated(answers, seed=0, level=0.05)
    assert "incomplete" not in estimate.to_dict()["sites"]


def test_a_site_needs_an_estimate_of_every_class():
    two_classes = {
        site: answer(reported["inner_difficulty"] * 2, reported["outer_difficulty"] * 2)
        for site, reported in answers_of_two_groups().items()
    }
    two_classes["larger-0"]["inner_difficulty"] = [2.0, math.nan]
    estimate = estimated(two_classes, seed=0, level=1.0)
    assert set(estimate.inner) == set(estimate.outer) == set(two_classes) - {"larger-0"}


def test_too_few_estimates_give_no_groups():
    answers = answers_of_two_groups(1, 1) | {
        f"nothing-{index}": answer([math.nan], [math.nan]) for index in range(MIN_SITES)
    }
    estimate = estimated(answers, seed=0, level=0.05)
    assert estimate.reason is NoGroups.TOO_FEW_SITES
    assert (estimate.larger, estimate.smaller, estimate.p_value) == ((), (), None)
    assert set(estimate.inner) == {"larger-0", "smaller-0"}


def test_seed_and_level_reach_the_test_of_two_groups():
    one_group = {f"site-{index}": answer([1.0 + 0.1 * index**2], [1.0 - 0.02 * index]) for index in range(5)}
    rows = {site: reported["inner_difficulty"] + reported["outer_difficulty"] for site, reported in one_group.items()}
    strict = estimated(one_group, seed=4, level=0.01)
    assert not strict.has_groups
    assert strict.p_value == fit_two_groups(rows, seed=4, level=0.01).p_value
    assert strict.reason is NoGroups.ONE_IS_ENOUGH
    assert estimated(one_group, seed=4, level=1.0).has_groups


def test_values_that_no_site_can_have_end_nothing():
    """Their squares would overflow."""
    answers = answers_of_two_groups() | {"liar": answer([1e300], [-1e300])}
    result = estimated(answers, seed=0, level=1.0)
    assert result.has_groups
    assert result.difficulty["liar"] == [1000.0, -1000.0]
    assert all(
        map(
            math.isfinite, result.quality_weights(dict.fromkeys(answers, 1 / 9), balance=0.5, intra_only=False).values()
        )
    )
