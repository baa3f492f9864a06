"""Completeness, its weights and the trigger of a correction, against hand-worked cases and exact arithmetic."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.methods.fedia.completeness import Completeness, IouLine, completeness_weights, iou_of_dice_loss

getcontext().prec = 60


@pytest.mark.parametrize(
    ("annotated", "predicted", "value"), [(4, 10, 0.4), (10, 10, 1.0), (12, 10, 1.0), (0, 10, 0.0)]
)
def test_completeness_is_the_ratio_of_the_numbers_of_lesions(annotated, predicted, value):
    estimate = Completeness.of_counts(annotated, predicted)
    assert (estimate.value, estimate.is_estimable) == (value, True)


def test_without_a_prediction_there_is_no_estimate():
    for annotated in (0, 3):
        estimate = Completeness.of_counts(annotated, 0)
        assert (estimate.value, estimate.is_estimable) == (1.0, False)


def test_counts_below_zero_are_refused():
    with pytest.raises(ValueError, match=r"Expected counts from 0 up, but got num_annotated=-1, num_predicted=2\."):
        Completeness.of_counts(-1, 2)


@given(st.floats(0, 1))
def test_iou_of_a_dice_loss_is_that_of_two_sets(loss):
    """Sets A and B of size 1 with an overlap of o: Dice o, IoU o / (2 − o)."""
    overlap = 1 - loss
    assert iou_of_dice_loss(loss) == pytest.approx(overlap / (2 - overlap), abs=1e-12)


def test_iou_of_no_loss_is_none_and_impossible_losses_are_refused():
    assert math.isnan(iou_of_dice_loss(math.nan))
    for loss in (-0.1, 1.1):
        with pytest.raises(ValueError, match=r"Expected a Dice loss from 0 to 1"):
            iou_of_dice_loss(loss)


def test_line_by_hand():
    # Rounds 1, 2, 3 with 0.1, 0.3, 0.2: slope ((−1)(−0.1) + 0 + (1)(0)) / 2 = 0.05, mean 0.2 at round 2.
    line = IouLine.fit([0.1, 0.3, 0.2])
    assert line.slope == pytest.approx(0.05)
    assert line.intercept == pytest.approx(0.1)
    assert line.at(5) == pytest.approx(0.35)


def test_rounds_without_a_value_do_not_count():
    line = IouLine.fit([0.1, math.nan, 0.3, math.nan])
    assert (line.slope, line.intercept) == (pytest.approx(0.1), pytest.approx(0.0))
    level = IouLine.fit([math.nan, 0.4])
    assert (level.slope, level.intercept) == (0.0, 0.4)
    with pytest.raises(ValueError, match=r"at least one round of the warm-up"):
        IouLine.fit([math.nan])


@pytest.mark.parametrize(
    ("iou", "margin", "asks"), [(0.3, 0.03, True), (0.33, 0.03, False), (0.32, 0.03, False), (math.nan, 0.0, False)]
)
def test_correction_is_asked_for_below_the_line_by_more_than_the_margin(iou, margin, asks):
    assert IouLine(0.05, 0.1).asks_for_correction(5, iou, margin) is asks  # the line gives 0.35


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(1e-3, 1)), min_size=1, max_size=6),
)
def test_weights_are_the_softmax_in_exact_arithmetic(values):
    sites = {f"site-{index}": value for index, value in enumerate(values)}
    weights = completeness_weights(
        {site: value[0] for site, value in sites.items()}, {site: value[1] for site, value in sites.items()}
    )
    exponentials = {site: (Decimal(value[0]) / Decimal(value[1])).exp() for site, value in sites.items()}
    total = sum(exponentials.values())
    for site, weight in weights.items():
        assert weight == pytest.approx(float(exponentials[site] / total), rel=1e-9, abs=1e-300)
    assert sum(weights.values()) == pytest.approx(1.0)


def test_weights_by_hand():
    # Exponents 1 / 0.5 = 2 and 0.5 / 0.5 = 1: e² / (e² + e) = 1 / (1 + 1/e).
    weights = completeness_weights({"b": 0.5, "a": 1.0}, {"a": 0.5, "b": 0.5})
    assert list(weights) == ["a", "b"]
    assert weights["a"] == pytest.approx(1 / (1 + math.exp(-1)))


def test_no_loss_takes_all_the_weight_and_is_shared_by_equals():
    weights = completeness_weights({"a": 1.0, "b": 1.0, "c": 0.9}, {"a": 0.0, "b": 0.0, "c": 0.3})
    assert weights == {"a": 0.5, "b": 0.5, "c": 0.0}
    nothing_annotated = completeness_weights({"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.5})
    assert nothing_annotated == {"a": 0.5, "b": 0.5}
    assert np.isfinite(list(completeness_weights({"a": 1.0, "b": 1.0}, {"a": 1e-300, "b": 1.0}).values())).all()


@pytest.mark.parametrize(
    ("completeness", "loss", "reason"),
    [
        ({}, {}, r"of the same sites, but got \[\] and \[\]"),
        ({"a": 1.0}, {"b": 1.0}, r"of the same sites, but got \['a'\] and \['b'\]"),
        ({"a": -0.1}, {"a": 1.0}, r"finite values of completeness from 0 up"),
        ({"a": 1.0}, {"a": math.nan}, r"finite values of loss from 0 up"),
    ],
)
def test_values_that_give_no_weights_are_refused(completeness, loss, reason):
    with pytest.raises(ValueError, match=reason):
        completeness_weights(completeness, loss)


@pytest.mark.parametrize(("predicted", "matched", "value"), [(10, 4, 0.4), (10, 10, 1.0), (3, 0, 0.0), (0, 0, 1.0)])
def test_matched_lesions_give_the_fraction_of_the_predicted_ones(predicted, matched, value):
    estimate = Completeness.of_matches(7, predicted, matched)
    assert (estimate.value, estimate.num_annotated, estimate.num_predicted) == (value, 7, predicted)
    assert estimate.is_estimable == (predicted > 0)


def test_more_matches_than_predictions_are_refused():
    with pytest.raises(ValueError, match=r"Expected from 0 to 2 lesions that match, but got num_matched=3\."):
        Completeness.of_matches(5, 2, 3)


def test_lesions_that_the_model_misses_bias_the_ratio_and_not_the_matches():
    """40 % of 20,000 lesions are annotated, and the model finds each with probability 0.7, whoever annotated it."""
    generator = np.random.default_rng(0)
    annotated, result = (generator.random(20000) < share for share in (0.4, 0.7))
    counts = int(annotated.sum()), int(result.sum())
    assert Completeness.of_counts(*counts).value == pytest.approx(0.4 / 0.7, abs=0.02)
    assert Completeness.of_matches(*counts, int((annotated & result).sum())).value == pytest.approx(0.4, abs=0.02)
