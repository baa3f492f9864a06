"""Losses that wrong labels disturb less: the papers' values, their limits, and what jobs make of them."""

import math

import pytest
import torch
from monai.losses import DiceLoss

from fedannot.custom.components.component import read_component
from fedannot.custom.components.roles import Role
from fedannot.custom.training.component_loss import ComponentLoss, Ignoring
from fedannot.custom.training.losses import segmentation_loss
from fedannot.custom.training.noise_robust_losses import (
    GeneralizedCrossEntropy,
    NoiseRobustDice,
    SymmetricCrossEntropy,
)
from fedannot.transforms.ignored_label import IGNORED_LABEL

# Probabilities 0.665241, 0.244728, 0.090031; cross entropy 0.407606 of label 0, 2.407606 of label 2.
LOGITS = torch.tensor([[2.0, 1.0, 0.0]])
MODULE = "fedannot.custom.training.noise_robust_losses"


def value(loss: torch.nn.Module, label: int) -> float:
    return float(loss(LOGITS, torch.tensor([[label]])))


@pytest.mark.parametrize(("label", "expected"), [(0, 0.354614), (2, 1.163737)])
def test_generalised_cross_entropy_has_the_values_of_its_formula(label: int, expected: float) -> None:
    assert value(GeneralizedCrossEntropy(0.7), label) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_its_limits_are_cross_entropy_and_half_the_absolute_error(label: int) -> None:
    probability = float(LOGITS.softmax(dim=1)[0, label])
    assert value(GeneralizedCrossEntropy(1e-6), label) == pytest.approx(-math.log(probability), rel=1e-5)
    assert value(GeneralizedCrossEntropy(1.0), label) == pytest.approx(1 - probability, abs=1e-6)


def test_its_gradient_is_that_of_cross_entropy_times_a_power() -> None:
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.randint(4, (3, 1, 5), generator=torch.Generator().manual_seed(1))
    chosen = logits.log_softmax(dim=1).gather(1, labels)
    (expected,) = torch.autograd.grad((-chosen * chosen.detach().exp() ** 0.7).mean(), logits)
    (gradient,) = torch.autograd.grad(GeneralizedCrossEntropy(0.7)(logits, labels), logits)
    torch.testing.assert_close(gradient, expected)


def test_its_gradient_is_finite_where_the_model_is_wrong_beyond_doubt() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(GeneralizedCrossEntropy(0.1)(logits, torch.tensor([[1]])), logits)
    assert gradient.isfinite().all()


def test_truncated_labels_have_a_constant_and_no_gradient() -> None:
    loss, logits = GeneralizedCrossEntropy(0.7, truncation=0.5), LOGITS.clone().requires_grad_()
    assert value(loss, 0) == pytest.approx(0.354614, abs=1e-6)
    assert value(loss, 2) == pytest.approx((1 - 0.5**0.7) / 0.7, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([[2]])), logits)
    assert not gradient.any()


@pytest.mark.parametrize(("label", "expected"), [(0, 3.287048), (2, 9.584931)])
def test_symmetric_cross_entropy_has_the_values_of_its_formula(label: int, expected: float) -> None:
    assert value(SymmetricCrossEntropy(0.5, 1.0), label) == pytest.approx(expected, abs=2e-6)


def test_its_parts_are_cross_entropy_and_the_absolute_error() -> None:
    assert value(SymmetricCrossEntropy(1.0, 0.0), 2) == pytest.approx(2.407606, abs=1e-6)
    probability = float(LOGITS.softmax(dim=1)[0, 2])
    assert value(SymmetricCrossEntropy(0.0, 1.0), 2) == pytest.approx(9.21034 * (1 - probability), rel=1e-5)


@pytest.mark.parametrize(
    ("denominator", "exponent", "expected"),
    [
        ("squares", 1.0, 0.484848),
        ("squares", 1.5, 0.354996),
        ("squares", 2.0, 0.272727),
        ("linear", 1.0, 0.4),
        ("linear", 1.5, 0.292871),
    ],
)
def test_noise_robust_dice_has_the_values_of_its_formula(denominator: str, exponent: float, expected: float) -> None:
    foreground = torch.tensor([0.9, 0.6, 0.3, 0.2])
    logits = torch.stack([1 - foreground, foreground]).log()[None]
    labels = torch.tensor([1, 0, 1, 0])[None, None]
    assert float(NoiseRobustDice(exponent, denominator)(logits, labels)) == pytest.approx(expected, abs=2e-6)


def test_its_limits_are_the_soft_dice_loss_and_that_of_v_net() -> None:
    """Of one class: 1 − 2 Σ p g / (Σ p + Σ g) by MONAI, and with squares 1 − 2 Σ p g / (Σ p² + Σ g²)."""
    logits = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(2, (3, 1, 5, 4), generator=torch.Generator().manual_seed(1))
    for exponent, denominator in ((1.0, "linear"), (2.0, "squares")):
        dice = DiceLoss(
            include_background=False,
            to_onehot_y=True,
            softmax=True,
            squared_pred=denominator == "squares",
            batch=True,
            smooth_nr=0.0,
            smooth_dr=0.0,
        )
        loss = NoiseRobustDice(exponent, denominator)(logits, labels)
        assert float(loss) == pytest.approx(float(dice(logits, labels)), rel=1e-5)


def test_with_a_linear_denominator_classes_count_alike() -> None:
    """A class that no pixel has is 1 whatever its probabilities; the other one is worked out by hand."""
    probabilities = torch.tensor([[0.1, 0.5, 0.8], [0.7, 0.4, 0.1], [0.2, 0.1, 0.1]])
    labels = torch.tensor([1, 1, 0])[None, None]
    by_hand = (0.3 + 0.6 + 0.1) / (0.7 + 0.4 + 0.1 + 2)
    loss = NoiseRobustDice(1.0, "linear")(probabilities.log()[None], labels)
    assert float(loss) == pytest.approx((by_hand + 1) / 2, rel=1e-4)


def test_the_name_in_settings_is_the_published_form() -> None:
    logits = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(3, (2, 1, 4, 4), generator=torch.Generator().manual_seed(1))
    assert torch.equal(segmentation_loss("nr_dice")(logits, labels), NoiseRobustDice(1.5, "squares")(logits, labels))


@pytest.mark.parametrize(
    "loss",
    [
        {"_target_": f"{MODULE}.GeneralizedCrossEntropy", "q": 0.5},
        {"_target_": f"{MODULE}.GeneralizedCrossEntropy", "truncation": 0.3},
        {"_target_": f"{MODULE}.SymmetricCrossEntropy", "alpha": 0.1},
        {"_target_": f"{MODULE}.NoiseRobustDice", "denominator": "linear"},
    ],
)
def test_jobs_name_them_and_ignored_pixels_do_not_count(loss: dict[str, object]) -> None:
    built = ComponentLoss(read_component(loss, Role.LOSS))
    assert built.ignoring(3, 2) is not Ignoring.NOT
    assert built.follows_from_probabilities(3, 2)
    logits = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(3, (2, 1, 4, 4), generator=torch.Generator().manual_seed(1))
    half = labels.clone()
    half[:, :, 2:] = IGNORED_LABEL
    expected = built(logits[:, :, :2], labels[:, :, :2])
    assert float(built(logits, half)) == pytest.approx(float(expected), rel=1e-5)


def test_images_are_classified_with_them() -> None:
    loss = ComponentLoss(read_component(f"{MODULE}.GeneralizedCrossEntropy", Role.LOSS))
    assert float(loss(LOGITS, torch.tensor([0]))) == pytest.approx(0.354614, abs=1e-6)


@pytest.mark.parametrize(
    ("loss", "arguments"),
    [
        (GeneralizedCrossEntropy, {"q": 0.0}),
        (GeneralizedCrossEntropy, {"q": 1.5}),
        (GeneralizedCrossEntropy, {"truncation": 1.0}),
        (SymmetricCrossEntropy, {"beta": -1.0}),
        (NoiseRobustDice, {"exponent": 3.0}),
        (NoiseRobustDice, {"denominator": "cubes"}),
    ],
)
def test_arguments_out_of_range_are_refused(loss: type[torch.nn.Module], arguments: dict[str, object]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=name):
        loss(**arguments)
