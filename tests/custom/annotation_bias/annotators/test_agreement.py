"""Agreement of annotators, against figures that others have published, brute force and scikit-learn."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from fedannot.custom.annotation_bias.annotators.agreement import (
    class_votes,
    estimate_kappa,
    fleiss_kappa,
    pair_agreements,
)
from fedannot.custom.annotation_bias.annotators.case_annotations import CaseAnnotations

# Fourteen raters, ten subjects, five categories: the worked example of the English Wikipedia, κ = 0.210.
PUBLISHED = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def by_pairs(votes):
    """κ by its definition: all pairs of raters of a subject, and pairs of votes drawn from all together."""
    raters = [[category for category, count in enumerate(row) for _ in range(count)] for row in votes]
    alike = [np.mean([one == other for one, other in combinations(given, 2)]) for given in raters]
    together = np.concatenate([np.array(given) for given in raters])
    expected = np.mean(together[:, None] == together[None, :])
    return (np.mean(alike) - expected) / (1 - expected)


def test_kappa_is_that_of_the_published_example():
    assert fleiss_kappa(np.array(PUBLISHED)) == pytest.approx(0.20993, abs=1e-5)


def test_kappa_is_that_of_all_pairs_also_where_the_number_of_raters_differs():
    rng = np.random.default_rng(0)
    for _ in range(20):
        votes = rng.multinomial(rng.integers(2, 6), [0.5, 0.3, 0.2], size=7)
        votes[0] += 1
        assert fleiss_kappa(votes) == pytest.approx(by_pairs(votes))


def test_kappa_says_nothing_of_one_category_and_refuses_single_votes():
    assert np.isnan(fleiss_kappa(np.array([[3, 0], [2, 0]])))
    assert np.isnan(fleiss_kappa(np.zeros((0, 2), dtype=np.intp)))
    with pytest.raises(ValueError, match="two votes for each subject, but found 1"):
        fleiss_kappa(np.array([[1, 0]]))


def squares(*classes):
    """A mask with one square of each class, 0 for none."""
    mask = np.zeros((1, 12, 12 * len(classes)), dtype=np.uint8)
    for index, label in enumerate(classes):
        mask[0, 3:9, 12 * index + 3 : 12 * index + 9] = label
    return mask


def test_objects_have_the_votes_that_annotators_give_them():
    masks = (squares(1, 2, 1), squares(1, 1, 0), squares(1, 2, 0))
    votes, units = class_votes([CaseAnnotations("p", ("a", "b", "c"), masks)], 2)
    # Only one of three has annotated the last square.
    assert votes.tolist() == [[3, 0], [1, 2]]
    assert units == ("p", "p")
    cases = [CaseAnnotations(f"p{n}", ("a", "b", "c"), masks) for n in range(4)]
    assert estimate_kappa(cases, 2, seed=0).value == pytest.approx(fleiss_kappa(np.tile(votes, (4, 1))))
    assert estimate_kappa(cases, 1, seed=0).patients == 0


def test_pairs_have_median_dice_and_hd95_and_ignore_what_either_ignores():
    one, other = np.zeros((1, 10, 10), dtype=np.uint8), np.zeros((1, 10, 10), dtype=np.uint8)
    one[0, 2:6, 2:6] = other[0, 2:6, 4:8] = 1
    hidden = one.copy()
    hidden[0, 2:6, 2:4] = 255
    cases = [CaseAnnotations("p", ("b", "a"), (one, other)), CaseAnnotations("q", ("c", "a"), (hidden, other))]
    pairs = {pair.annotators: pair for pair in pair_agreements(cases, 1, seed=0)}
    assert sorted(pairs) == [("a", "b"), ("a", "c")]
    assert pairs["a", "b"].dice.value == pytest.approx(f1_score(one.ravel(), other.ravel()))
    assert pairs["a", "b"].hd95.value == 2.0
    counted = hidden[0] != 255
    assert pairs["a", "c"].dice.value == pytest.approx(f1_score(hidden[0][counted], other[0][counted]))


def test_a_class_that_one_annotator_misses_has_dice_0_and_no_distance():
    (pair,) = pair_agreements([CaseAnnotations("p", ("a", "b"), (squares(0), squares(1)))], 1, seed=0)
    assert (pair.dice.value, pair.hd95.patients) == (0.0, 0)


def test_masks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="one mask of each annotator of the case 'p'"):
        CaseAnnotations("p", ("a", "a"), (squares(1), squares(1)))
    with pytest.raises(ValueError, match="all of one shape"):
        CaseAnnotations("p", ("a", "b"), (squares(1), squares(1, 1)))
