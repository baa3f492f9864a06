"""The forward correction against hand-worked numbers, matrix products and the cross entropy."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedannot.custom.training.corrected_loss import ForwardCorrected
from fedannot.transforms.ignored_label import IGNORED_LABEL

THREE = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]])


def logits_of(*probabilities):
    return torch.tensor(probabilities).log()


def random_batch(*extents, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 3, *extents, generator=generator)
    return logits, torch.randint(0, 3, (3, 1, *extents) if extents else (3,), generator=generator)


def with_gradient(loss, logits, labels):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits, labels)
    value.backward()
    return value.detach(), logits.grad


def test_two_classes_by_hand():
    """Class 0 is given as 1 in a fifth of all cases, class 1 always as itself."""
    loss = ForwardCorrected(torch.tensor([[0.8, 0.2], [0.0, 1.0]]))
    logits = logits_of([0.5, 0.5], [0.25, 0.75])
    # Given as 0: 0.8 · 0.5 = 0.4; given as 1: 0.2 · 0.25 + 1 · 0.75 = 0.8.
    assert loss(logits, torch.tensor([0, 1])).item() == pytest.approx(-(math.log(0.4) + math.log(0.8)) / 2, rel=1e-6)


def test_rows_are_true_and_columns_given_classes():
    # The true class is 1 for certain; it is given as 2 in two fifths of all cases and never as 0.
    certain = torch.tensor([[0.0, 80.0, 0.0]])
    assert ForwardCorrected(THREE)(certain, torch.tensor([2])).item() == pytest.approx(-math.log(0.4), rel=1e-6)


@pytest.mark.parametrize("extents", [(), (5, 4), (5, 4, 3)])
def test_equals_the_product_with_the_transposed_matrix(extents):
    logits, labels = random_batch(*extents)
    probabilities = logits.double().softmax(dim=1).numpy()
    given = np.einsum("ij,bi...->bj...", THREE.double().numpy(), probabilities)
    chosen = np.take_along_axis(given, labels.numpy().reshape(3, 1, *extents), axis=1)
    assert ForwardCorrected(THREE)(logits, labels).item() == pytest.approx(-np.log(chosen).mean(), rel=1e-6)


@pytest.mark.parametrize("extents", [(), (5, 4), (5, 4, 3)])
@pytest.mark.parametrize("scale", [1, 60])
def test_with_the_identity_it_is_the_cross_entropy(extents, scale):
    """Up to probabilities that are 0 in float32, where log (Tᵀ p) of plain numbers would be infinite."""
    logits, labels = random_batch(*extents)
    value, gradient = with_gradient(ForwardCorrected(torch.eye(3)), logits * scale, labels)
    expected, expected_gradient = with_gradient(cross_entropy, logits * scale, labels.squeeze(1) if extents else labels)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-6)


def test_the_gradient_is_that_of_the_closed_form():
    """d/dz_k of −log Σ_i T_iy p_i is p_k − T_ky p_k / Σ_i T_iy p_i."""
    logits, labels = random_batch()
    _, gradient = with_gradient(ForwardCorrected(THREE), logits, labels)
    p = logits.double().softmax(dim=1)
    column = THREE.double()[:, labels].T
    expected = (p - column * p / (column * p).sum(dim=1, keepdim=True)) / 3
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("transition", [THREE, torch.eye(3)])
def test_loss_and_gradient_are_finite_where_probabilities_are_zero(transition):
    logits = torch.tensor([[500.0, 0.0, -500.0], [-500.0, 500.0, 0.0], [0.0, -500.0, 500.0]])
    for label in range(3):
        value, gradient = with_gradient(ForwardCorrected(transition), logits, torch.full((3,), label))
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()


def test_a_class_that_is_never_given_teaches_nothing_where_it_is():
    loss = ForwardCorrected(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    logits = torch.tensor([[2.0, -1.0]])
    value, gradient = with_gradient(loss, logits, torch.tensor([1]))
    assert torch.isfinite(value)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-3)
    # The other is given whatever is true.
    value, gradient = with_gradient(loss, logits, torch.tensor([0]))
    torch.testing.assert_close((value, gradient), (torch.zeros(()), torch.zeros(1, 2)))


@pytest.mark.parametrize("extents", [(), (5, 4), (5, 4, 3)])
@pytest.mark.parametrize("kind", [torch.uint8, torch.int64])
def test_ignored_labels_are_left_out(extents, kind):
    logits, labels = random_batch(*extents)
    ignored = labels.clone()
    ignored[0] = IGNORED_LABEL
    if extents:
        ignored[1, 0, 2:] = IGNORED_LABEL
    counts = ignored != IGNORED_LABEL
    value, gradient = with_gradient(ForwardCorrected(THREE), logits, ignored.to(kind))
    pixels = logits.movedim(1, -1)[counts.squeeze(1) if extents else counts]
    expected = ForwardCorrected(THREE)(pixels, labels[counts])
    torch.testing.assert_close(value, expected)
    assert not gradient.masked_select(~(counts if extents else counts[:, None])).any()


def test_where_all_is_ignored_loss_and_gradient_are_zero():
    logits, labels = random_batch(5, 4)
    value, gradient = with_gradient(ForwardCorrected(THREE), logits, torch.full_like(labels, IGNORED_LABEL))
    assert value == 0
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_half_precision_is_computed_in_single():
    logits, labels = random_batch(5, 4)
    value = ForwardCorrected(THREE)(logits.half(), labels)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(ForwardCorrected(THREE)(logits, labels).item(), rel=1e-3)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        (torch.ones(2, 3) / 3, r"\(C, C\) of 2 to 255 classes, but got the shape \(2, 3\)"),
        (torch.ones(1, 1), r"but got the shape \(1, 1\)"),
        (torch.eye(256), r"but got the shape \(256, 256\)"),
        (torch.ones(2), r"but got the shape \(2,\)"),
        (
            torch.tensor([[1.5, -0.5], [0.0, 1.0]]),
            r"Expected probabilities .* but got \[\[1\.5, -0\.5\], \[0\.0, 1\.0\]\]",
        ),
        (torch.tensor([[1.0, 0.0], [math.nan, 1.0]]), r"Expected probabilities .*\[nan, 1\.0\]"),
        (torch.tensor([[0.5, 0.25], [0.5, 0.75]]), r"to sum to one, but got \[0\.75, 1\.25\]"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(transition, message):
    with pytest.raises(ValueError, match=message):
        ForwardCorrected(transition)
