"""The loss at several scales: consistency by hand, scaled networks of any extents, and whole objectives."""

import math

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from torch import nn
from torch.nn.functional import cross_entropy, interpolate

from fedannot.custom.components.component import ComponentError
from fedannot.custom.methods.adele.multi_scale import MultiScaleObjective, consistency_term
from fedannot.custom.methods.adele.scaled_network import ScaledNetwork, accepted_by, padded_extents
from fedannot.custom.methods.adele.settings import AdeleSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import DiceRecord, segmentation_loss
from fedannot.custom.training.objectives import Step, SupervisedObjective

STEP = Step(0, 0, 1)


class Pointwise(nn.Module):
    """A 1 × 1 convolution that notes which extents it saw, and refuses those that its `fits` does."""

    def __init__(self, fits: object = lambda extents: True, axes: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = (nn.Conv2d if axes == 2 else nn.Conv3d)(1, 2, 1)
        self.fits, self.seen = fits, list[tuple[int, ...]]()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert self.accepts(tuple(images.shape[2:]))
        self.seen.append(tuple(images.shape))
        return self.layer(images)

    def accepts(self, extents: tuple[int, ...]) -> bool:
        return bool(self.fits(extents))  # type: ignore[operator]


def images(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).normal(size=shape).astype(np.float32))


def test_the_divergence_is_that_of_the_mean_of_confident_images() -> None:
    """By scipy: images below the threshold, and ignored pixels, add nothing; the mean is over all pixels that count."""
    logits = [6 * images(3, 3, 2, 2) * factor for factor in (1.0, 0.5, -0.2)]
    for one in logits:
        one[1] = 0.1 * one[1]
    counted = torch.ones(3, 2, 2, dtype=torch.bool)
    counted[0, 0, 1] = False
    p = [softmax(one.numpy().astype(np.float64), axis=1) for one in logits]
    q = np.clip(np.mean(p, axis=0), 1e-3, 1 - 1e-3)
    divergence = sum(rel_entr(one, q) for one in p).sum(axis=1)  # type: ignore[attr-defined]
    largest = np.where(counted.numpy(), q.max(axis=1), 0).reshape(3, -1).max(axis=1)
    threshold = float(np.sort(largest)[:2].mean())
    assert largest[1] < threshold < largest[[0, 2]].min()
    expected = (divergence * counted.numpy() * (largest >= threshold)[:, None, None]).sum() / 11
    assert consistency_term(logits, counted, threshold).item() == pytest.approx(expected, rel=1e-5)
    assert consistency_term(logits, torch.zeros_like(counted), 0.0).item() == 0
    assert consistency_term(logits, counted, 1.0).item() == 0


def test_certain_predictions_that_disagree_have_a_finite_gradient() -> None:
    logits = [(sign * torch.tensor([500.0, -500.0]).view(1, 2, 1, 1)).requires_grad_() for sign in (1, -1, 1)]
    value = consistency_term(logits, torch.ones(1, 1, 1, dtype=torch.bool), 0.5)
    assert value.item() == pytest.approx(2 * math.log(3 / 2) + math.log(3), rel=1e-5)
    value.backward()  # type: ignore[no-untyped-call]
    assert all(one.grad is not None and bool(one.grad.isfinite().all()) for one in logits)


def test_without_weight_it_is_the_mean_cross_entropy_of_the_scales() -> None:
    network, pictures = Pointwise(), images(2, 1, 10, 20)
    labels = torch.randint(0, 2, (2, 1, 10, 20), generator=torch.Generator().manual_seed(0))
    batch, loss = Batch(pictures, labels, torch.tensor([0, 1])), segmentation_loss("ce")
    dice = DiceRecord(annotated_only=False, device=torch.device("cpu"))
    options = {"scales": (0.7, 1.0, 1.5), "threshold": 0.0, "accepts": network.accepts}
    own, scaled = SupervisedObjective(loss, dice), SupervisedObjective(loss)
    value = MultiScaleObjective(own, scaled, weight=0.0, **options)(network, batch, STEP)  # type: ignore[arg-type]
    assert [seen[2:] for seen in network.seen] == [(7, 14), (10, 20), (15, 30)]
    every = [
        interpolate(network.layer(interpolate(pictures, size=size, mode="bilinear")), size=(10, 20), mode="bilinear")
        for size in ((7, 14), (10, 20), (15, 30))
    ]
    expected = torch.stack([cross_entropy(one, labels[:, 0]) for one in every]).mean()
    torch.testing.assert_close(value, expected)
    assert dice.mean == pytest.approx(segmentation_loss("dice")(every[1], labels).item())
    weighted = MultiScaleObjective(own, scaled, weight=2.0, **options)(network, batch, STEP)  # type: ignore[arg-type]
    term = consistency_term(every, torch.ones(2, 10, 20, dtype=torch.bool), 0.0)
    assert term.item() > 0
    torch.testing.assert_close(weighted, expected + 2 * term)


@pytest.mark.parametrize(
    ("fits", "seen"),
    [
        (lambda extents: all(extent % 8 == 0 for extent in extents), (2, 1, 16, 16)),
        (lambda extents: extents == (16, 20), (2, 1, 16, 20)),
    ],
    ids=["multiples of 8", "one size"],
)
@pytest.mark.parametrize("scale", [0.7, 1.5])
def test_networks_that_take_no_scaled_extents_see_more_or_windows(
    fits: object, seen: tuple[int, ...], scale: float
) -> None:
    """A pointwise network gives the same logits, whatever goes on beyond the border or overlaps."""
    network, free = Pointwise(fits), Pointwise()
    pictures = images(2, 1, 16, 20)
    result = ScaledNetwork(network, scale, network.accepts)(pictures)
    torch.testing.assert_close(result, ScaledNetwork(free, scale, free.accepts)(pictures))
    if scale == 0.7:
        assert network.seen == [seen]
    elif seen[3] == 20:
        assert network.seen == [(8, 1, 16, 20)]


def test_volumes_are_scaled_along_all_axes() -> None:
    network = Pointwise(axes=3)
    result = ScaledNetwork(network, 0.5, network.accepts)(images(1, 1, 8, 6, 4))
    assert (network.seen, tuple(result.shape)) == ([(1, 1, 4, 3, 2)], (1, 2, 8, 6, 4))


def test_the_networks_of_jobs_say_what_they_take() -> None:
    """MONAI's SwinUNETR and the like take multiples alone, as this one does; that of fedannot goes on at the border."""
    plain = accepted_by(AdeleSettings.model_validate({"network": {"num_classes": 1}}))
    assert (plain((45, 67)), plain((16, 16))) == (True, False)
    arguments = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "channels": [4, 8], "strides": [2]}
    network = {"_target_": "monai.networks.nets.AttentionUnet", **arguments}
    accepts = accepted_by(AdeleSettings.model_validate({"network": network}))
    assert padded_extents((45, 68), accepts) == (46, 68)


def test_extents_that_a_network_refuses_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refused(settings: AdeleSettings, extents: tuple[int, ...]) -> None:
        del settings
        tried.append(extents)
        raise ComponentError("no")

    monkeypatch.setattr("fedannot.custom.methods.adele.scaled_network.dry_run", refused)
    network = {"_target_": "UNet", "channels": [4, 8], "strides": [2]}
    accepts = accepted_by(AdeleSettings.model_validate({"network": network}))
    assert [accepts(extents) for extents in ((45, 68), (45, 68), (46, 68))] == [False] * 3
    assert tried == [(45, 68), (46, 68)]
