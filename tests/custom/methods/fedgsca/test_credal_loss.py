"""Credal losses against a plain reading of the equations, and β over the rounds."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.methods.fedgsca.credal_loss import CredalLoss, scheduled_beta

ALPHA = 0.05


def plain(probabilities, label, alpha, beta, uniform=False):
    """Eq. 14 to 17 of one sample, class by class."""
    p, classes = list(probabilities), range(len(probabilities))
    if uniform and any(p[y] >= beta for y in classes if y != label):
        return 0.0
    possible = [1 if y == label or p[y] >= beta else alpha for y in classes]
    if sum(p[y] for y in classes if possible[y] == alpha) <= alpha:
        return 0.0
    inside = sum(p[y] for y in classes if possible[y] == 1)
    outside = sum(p[y] for y in classes if possible[y] == alpha)
    projected = [(1 - alpha) * p[y] / inside if possible[y] == 1 else alpha * p[y] / outside for y in classes]
    return sum(r * math.log(r / p[y]) for y, r in enumerate(projected) if r > 0)


def loss_of(probabilities, labels, beta=0.75, alpha=ALPHA, **options):
    logits = torch.tensor(np.log(probabilities))
    return float(CredalLoss(alpha, beta, **options)(logits, torch.tensor(labels)))


def test_by_hand():
    # Nothing but the label is plausible: KL of (0.95, 0.05 · 3/4, 0.05 · 1/4) from (0.2, 0.6, 0.2).
    expected = 0.95 * math.log(0.95 / 0.2) + 0.0375 * math.log(0.0375 / 0.6) + 0.0125 * math.log(0.0125 / 0.2)
    assert loss_of([[0.2, 0.6, 0.2]], [0]) == pytest.approx(expected, rel=1e-5)
    # The second class is plausible, too, and the third has more than α.
    first, second, third = 0.95 * 0.1 / 0.9, 0.95 * 0.8 / 0.9, 0.05
    expected = first * math.log(first / 0.1) + second * math.log(second / 0.8) + third * math.log(third / 0.1)
    assert loss_of([[0.1, 0.8, 0.1]], [0]) == pytest.approx(expected, rel=1e-5)
    # In the credal set: label and confident class have 0.96 together.
    assert loss_of([[0.1, 0.86, 0.04]], [0]) == 0.0
    assert loss_of([[0.96, 0.02, 0.02]], [0]) == 0.0


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from([0.3, 0.55, 0.75]), st.booleans())
def test_the_mean_is_that_of_the_equations(seed, num_classes, beta, uniform):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(num_classes, 0.3), 16) + 1e-6
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = generator.integers(0, num_classes, 16).tolist()
    expected = np.mean([plain(p, y, ALPHA, beta, uniform) for p, y in zip(probabilities, labels, strict=True)])
    assert loss_of(probabilities, labels, beta, uniform=uniform) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_uniform_labels_drop_what_another_class_claims():
    claimed, torn = [0.1, 0.8, 0.1], [0.3, 0.4, 0.3]
    assert loss_of([claimed], [0]) > 0
    assert loss_of([claimed], [0], uniform=True) == 0
    assert loss_of([claimed], [1], uniform=True) == pytest.approx(loss_of([claimed], [1]))
    assert loss_of([torn], [0], uniform=True) == pytest.approx(loss_of([torn], [0])) != 0


def test_a_prediction_is_drawn_to_the_label_and_the_projection_has_no_gradient():
    logits = torch.zeros(1, 3, requires_grad=True)
    CredalLoss(ALPHA, 0.75)(logits, torch.tensor([0])).backward()
    # The gradient of KL(r ‖ softmax) is softmax - r.
    projected = torch.tensor([[0.95, 0.025, 0.025]])
    torch.testing.assert_close(logits.grad, torch.full((1, 3), 1 / 3) - projected)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[200.0, -200.0, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    loss = CredalLoss(ALPHA, 0.75)(logits, torch.tensor([1, 0, 2]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_every_class_may_be_plausible():
    # Two classes, both at least β: nothing is outside, whatever α is.
    logits = torch.zeros(1, 2, requires_grad=True)
    loss = CredalLoss(0.0, 0.4)(logits, torch.tensor([0]))
    loss.backward()
    assert loss == 0
    assert torch.equal(logits.grad, torch.zeros(1, 2))


def test_beta_over_the_rounds():
    cosine = [scheduled_beta("cosine", 0.75, 0.55, number, 5) for number in range(1, 6)]
    assert cosine == pytest.approx([0.75, 0.65 + 0.1 * math.sqrt(0.5), 0.65, 0.65 - 0.1 * math.sqrt(0.5), 0.55])
    linear = [scheduled_beta("linear", 0.75, 0.55, number, 5) for number in range(1, 6)]
    assert linear == pytest.approx([0.75, 0.7, 0.65, 0.6, 0.55])
    assert {scheduled_beta("constant", 0.75, 0.55, number, 5) for number in range(1, 6)} == {0.75}
    assert scheduled_beta("cosine", 0.75, 0.55, 1, 1) == 0.75
