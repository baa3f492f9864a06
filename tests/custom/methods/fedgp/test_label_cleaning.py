"""FedGP's cleaning of labels: label propagation against scikit-learn and a linear system, and each rule by hand."""

from typing import Any

import numpy as np
import pytest
from sklearn.semi_supervised import LabelSpreading

from fedannot.custom.methods.fedgp.label_cleaning import Cleaning, cleaned_labels
from fedannot.custom.methods.fedgp.neighbour_graph import NeighbourGraph

RULES: dict[str, Any] = {"core_share": 0.5, "confidence": 0.3, "alpha": 0.5, "num_neighbours": 2}
AXES = np.eye(3)


def cleaned(features: Any, labels: list[int], own: Any = AXES, settled: Any = None, **changes: Any) -> Cleaning:
    decided = np.zeros(len(labels), dtype=bool) if settled is None else np.array(settled)
    values = np.array(features, dtype=np.float64)
    return cleaned_labels(values, np.array(labels), (AXES, np.array(own)), settled=decided, **RULES | changes)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.95])
def test_label_propagation_is_that_of_scikit_learn_and_solves_the_system(alpha: float) -> None:
    generator = np.random.default_rng(0)
    features = generator.random((30, 4))
    known = generator.choice([-1, 0, 1, 2], 30)
    graph = NeighbourGraph(features, 5)
    weights = graph.weights.toarray()
    scores = (np.arange(3) == known[:, None]).astype(np.float64)
    result = graph.propagated(scores, alpha)
    roots = np.sqrt(weights.sum(axis=1))
    smoothing = weights / roots[:, None] / roots
    expected = (1 - alpha) * np.linalg.solve(np.eye(30) - alpha * smoothing, scores)
    assert result == pytest.approx(expected, abs=1e-10)
    model = LabelSpreading(kernel=lambda *_: weights, alpha=alpha, max_iter=10_000, tol=1e-13).fit(features, known)
    assert result / result.sum(axis=1, keepdims=True) == pytest.approx(model.label_distributions_, abs=1e-9)


def test_neighbours_are_those_of_a_brute_force_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedannot.custom.methods.fedgp.neighbour_graph._ROWS", 4)
    features = np.random.default_rng(1).normal(size=(10, 3))
    graph = NeighbourGraph(features, 3)
    expected = np.zeros((10, 10))
    for index, row in enumerate(features):
        cosines = [row @ other / np.linalg.norm(row) / np.linalg.norm(other) for other in features]
        order = sorted((other for other in range(10) if other != index), key=lambda other: -cosines[other])[:3]
        assert graph.nearest[index].tolist() == order
        for other in order:
            expected[index, other] = expected[other, index] = max(cosines[other], 0.0)
    assert graph.weights.toarray() == pytest.approx(expected)


def test_few_samples_and_features_of_zero_have_fewer_neighbours() -> None:
    assert NeighbourGraph(np.ones((1, 2)), 20).propagated(np.ones((1, 1)), 0.5).tolist() == [[0.5]]
    graph = NeighbourGraph(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1]]), 20)
    assert graph.nearest.shape == (3, 2)
    assert graph.weights.toarray()[0].tolist() == [0.0, 0.0, 0.0]


def test_the_mean_nearby_is_that_of_the_nearest_others() -> None:
    graph = NeighbourGraph(np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.3]]), 1)
    assert graph.mean_nearby(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).tolist() == [[3, 4], [1, 2], [3, 4]]
    assert NeighbourGraph(np.ones((1, 2)), 5).mean_nearby(np.ones((1, 3))).tolist() == [[0.0] * 3]


def test_the_core_is_the_share_of_each_class_with_the_smallest_losses() -> None:
    """By class 0: losses of 3, 2, 1 and −1 on its axis; two of four. Of class 1 one of one."""
    features = [[-1, 9, 0], [1, 0, 0], [3, 0, 0], [2, 0, 0], [0, 0, 9]]
    result = cleaned(features, [0, 0, 0, 0, 1], confidence=1.0, num_neighbours=1)
    assert result.trusted.tolist() == [False, False, True, True, True]
    whole = cleaned(features, [0, 0, 0, 0, 1], core_share=1.0)
    assert whole.trusted.all()
    assert not whole.unlikely.any()
    assert whole.losses[1] == pytest.approx(np.log(np.e + 2) - 1)


def test_another_label_counts_where_both_heads_say_it_with_confidence() -> None:
    """A probability of e/(e + 2) = 0.576 of the third, labelled 0 as the first; the last is like it, but labelled 2."""
    features, labels = [[3, 0, 0], [0, 0, 3], [1, 0, 0], [1, 0, 0]], [0, 2, 0, 2]
    assert cleaned(features, labels, confidence=0.57).trusted.tolist() == [True, True, True, False]
    assert cleaned(features, labels, confidence=0.58).trusted.tolist() == [True, True, False, False]
    # Another class is nearest to the site's own centroids.
    assert not cleaned(features, labels, own=AXES[[1, 0, 2]], confidence=0.0).trusted[2:].any()
    # What a review has decided counts.
    settled = cleaned(features, labels, settled=[False, False, False, True], confidence=0.58)
    assert settled.trusted.tolist() == [True, True, False, True]


def test_nearness_is_by_angle_and_confidence_by_product_with_the_servers() -> None:
    """A long centroid of class 1 has the larger product, class 0 the smaller angle; the probability is that of 0."""
    features, labels, long = [[2, 0, 0], [0, 0, 1], [1, 0.5, 0]], [0, 2, 0], AXES * [[1.0], [10.0], [1.0]]
    values = {"settled": np.zeros(3, dtype=bool), "core_share": 0.5, "alpha": 0.5, "num_neighbours": 2}
    probability = np.exp(1) / (np.exp(1) + np.exp(5) + 1)
    for confidence, counts in ((probability - 1e-6, True), (probability + 1e-6, False)):
        result = cleaned_labels(np.array(features), np.array(labels), (long, AXES), confidence=confidence, **values)
        assert result.trusted.tolist() == [True, True, counts]


def test_the_class_of_the_propagation_and_that_of_the_neighbours_stay_open() -> None:
    """The last is labelled 3, between the axes 0 and 1 of four classes: both heads say 0, most neighbours are of 1."""
    axes = np.eye(4)
    features = [[3, 0, 0, 0], [0, 3, 0, 0], [0.1, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3], [1, 0.9, 0.1, 0]]
    values = {"settled": np.zeros(6, dtype=bool), "core_share": 0.5, "confidence": 1.0, "alpha": 0.1}
    labels = np.array([0, 1, 1, 2, 3, 3])
    values["settled"][:5] = True
    result = cleaned_labels(np.array(features), labels, (axes, axes), num_neighbours=3, **values)
    assert result.trusted.tolist() == [True] * 5 + [False]
    graph = NeighbourGraph(np.array(features), 3)
    said = np.vstack([axes[labels[:5]], axes[0]])
    assert graph.propagated(said, 0.1)[5].argmax() == 0
    assert graph.nearest[5].tolist() == [0, 2, 1]
    assert result.unlikely.tolist() == [[False] * 4] * 5 + [[False, False, True, True]]
    # The class of the propagation stays open though the neighbours have others.
    values["alpha"], chosen = 0.1, [1, 2]
    near_one = np.array([[3, 0, 0, 0], [0, 3, 0, 0], [0.1, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3], [0.1, 1, 0.9, 0]])
    open_classes = ~cleaned_labels(near_one, labels, (axes, axes), num_neighbours=2, **values).unlikely[5]
    assert open_classes.sum() == 2
    assert open_classes[chosen[0]]
    two = cleaned_labels(
        np.array(features)[:, :2],
        np.array([0, 0, 1, 1, 1, 1]),
        (AXES[:2, :2], AXES[:2, :2]),
        settled=np.zeros(6, dtype=bool),
        **RULES | {"confidence": 1.0},
    )
    # Of two classes both stay open.
    assert not two.trusted.all()
    assert not two.unlikely.any()
