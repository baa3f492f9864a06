"""Two groups by nine votes: against hand cases and scikit-learn's mixtures."""

from collections import Counter

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from fedannot.custom.mixtures.voted_groups import voted_higher_group


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize(
    ("table", "higher"),
    [
        ([[0.2], [0.22], [0.5], [0.52]], [False, False, True, True]),
        ([[0.2] * 40, [0.22] * 40, [0.5] * 40, [0.52] * 40], [False, False, True, True]),
        ([[0.0, 1.0], [0.1, 0.9], [1.0, 0.8]], [False, False, True]),
        ([[0.3, 0.3]] * 4, [False] * 4),
    ],
)
def test_the_group_with_larger_means_is_found(table: list[list[float]], higher: list[bool], refine: bool) -> None:
    assert voted_higher_group(np.array(table), refine=refine).tolist() == higher


def test_the_vote_is_that_of_scikit_learns_mixtures() -> None:
    generator = np.random.default_rng(5)
    for _ in range(3):
        table = generator.normal(0, 0.1, size=(12, 2))
        table[generator.permutation(12)[:5]] += 0.8
        votes: Counter[tuple[bool, ...]] = Counter()
        for seed in range(9):
            mixture = GaussianMixture(2, random_state=seed).fit(table)
            larger = int(mixture.means_.sum(axis=1).argmax())
            votes[tuple((mixture.predict(table) == larger).tolist())] += 1
        assert voted_higher_group(table).tolist() == list(votes.most_common(1)[0][0])


def test_order_of_the_rows_does_not_matter() -> None:
    table = np.array([[0.1, 0.2], [0.9, 0.8], [0.15, 0.1], [0.8, 1.0], [0.0, 0.0]])
    expected = voted_higher_group(table)
    order = [3, 0, 4, 2, 1]
    assert voted_higher_group(table[order]).tolist() == expected[order].tolist()
