"""Losses of annotations that leave objects out at a known rate."""

import pytest
import torch

from fedannot.custom.training.batch import Batch
from fedannot.custom.training.corrected_loss import annotated_log_probabilities
from fedannot.custom.training.losses import segmentation_loss
from fedannot.custom.training.objectives import Step, SupervisedObjective

LOSSES = ("ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice", "nr_dice")
STEP = Step(number=0, epoch=0, epochs=1)


def test_what_is_annotated_by_hand():
    """Two classes with probabilities 0.5 and 0.3, of which 0.4 and all are annotated."""
    logits = torch.tensor([0.2, 0.5, 0.3]).log().view(1, 3, 1, 1)
    result = annotated_log_probabilities(logits, torch.tensor([[0.4, 1.0]])).exp().flatten()
    assert result.tolist() == pytest.approx([0.2 + 0.6 * 0.5, 0.4 * 0.5, 0.3])


def test_complete_annotations_change_nothing():
    logits = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    result = annotated_log_probabilities(logits, torch.ones(2, 2))
    torch.testing.assert_close(result, logits.log_softmax(dim=1))


def test_images_have_fractions_of_their_own():
    logits = torch.zeros(2, 2, 1, 1)
    result = annotated_log_probabilities(logits, torch.tensor([[1.0], [0.5]])).exp()[:, 1].flatten()
    assert result.tolist() == pytest.approx([0.5, 0.25])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_gradients_are_finite_whatever_is_missing(name: str, share: float):
    logits = (9 * torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))).requires_grad_()
    labels = torch.arange(32).view(2, 1, 4, 4) % 3
    segmentation_loss(name)(annotated_log_probabilities(logits, torch.full((2, 2), share)), labels).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_the_network_learns_what_is_there_and_not_what_is_annotated():
    """100 pixels look alike, all of them show an object, 30 are annotated: the cross entropy has its least at 1.

    Without the correction it has it at 0.3, and half as a threshold would find none of them.
    """
    labels = (torch.arange(100) < 30).long().view(1, 1, 10, 10)
    result = {}
    for share in (0.3, None):
        logit = torch.zeros((), requires_grad=True)
        optimizer = torch.optim.Adam([logit], lr=0.1)
        objective = SupervisedObjective(
            segmentation_loss("ce"), completeness=None if share is None else torch.tensor([[0.9], [share]])
        )

        def network(images: torch.Tensor, value: torch.Tensor = logit) -> torch.Tensor:
            return torch.stack([torch.zeros_like(images[:, 0]), value.expand_as(images[:, 0])], dim=1)

        for _ in range(400):
            optimizer.zero_grad()
            batch = Batch(torch.zeros(1, 1, 10, 10), labels, torch.tensor([1]))
            objective(network, batch, STEP).backward()  # type: ignore[arg-type]
            optimizer.step()
        result[share] = float(logit.detach().sigmoid())
    assert result[0.3] > 0.97
    assert result[None] == pytest.approx(0.3, abs=0.01)
