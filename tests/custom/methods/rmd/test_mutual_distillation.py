"""RMD's pixels and teaching: by hand, by brute force, and against numpy and scipy, in 2D and 3D."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from torch import nn

from fedannot.custom.methods.rmd.distillation import distillation_loss
from fedannot.custom.methods.rmd.image_changes import ImageChange, draw_change, turned_places
from fedannot.custom.methods.rmd.mutual_objective import MutualObjective, Ramps
from fedannot.custom.methods.rmd.pixel_choice import smallest_pixels
from fedannot.custom.methods.rmd.settings import RmdSettings, TwoNetworksSettings
from fedannot.custom.methods.rmd.stage_dropout import RATES, stage_dropout
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.second_network import with_second_network
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import CrossEntropy
from fedannot.custom.training.objectives import Step, SupervisedObjective

EXTENTS = pytest.mark.parametrize("extents", [(9, 12), (6, 7, 5)])


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class PixelLogits(nn.Module):
    """Logits that are parameters, the same for every image."""

    layer_blocks = ("logits",)

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits.clone())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(len(images), *self.logits.shape[1:])


def test_the_smallest_are_those_of_a_sorted_list_the_first_of_equal_ones() -> None:
    values = torch.randint(4, (3, 5, 4), generator=torch.Generator().manual_seed(0)).float()
    counted = random(3, 5, 4, seed=1) > -0.5
    places = sorted(np.argwhere(counted.numpy()).tolist(), key=lambda place: (float(values[tuple(place)]), place))
    for fraction in (0.0, 0.1, 0.29, 0.5, 1.0):
        chosen = np.argwhere(smallest_pixels(values, counted, fraction).numpy()).tolist()
        assert chosen == sorted(places[: int(fraction * len(places) + 1e-9)])
    # 0.7 · 10 is no less than 7.
    assert int(smallest_pixels(torch.arange(10.0), torch.ones(10, dtype=torch.bool), 0.1 + 0.2 + 0.4).sum()) == 7


@pytest.mark.parametrize(("round_number", "dropped"), [(1, 0), (3, 1), (6, 2), (9, 2)])
def test_each_network_learns_of_the_pixels_with_the_smallest_loss_of_the_other(round_number: int, dropped: int) -> None:
    """Two epochs in a round: of four pixels up to a half is dropped, all of it from epoch 10 on."""
    first, second = random(1, 2, 1, 5), random(1, 2, 1, 5, seed=5)
    labels = torch.tensor([[[[0, 1, 1, 0, 255]]]], dtype=torch.uint8)
    network = with_second_network(PixelLogits(first), PixelLogits(second))
    settings = RmdSettings(rounds=20, dropped_fraction=0.5, distillation_weight=0)
    plain = SupervisedObjective(CrossEntropy())
    objective = MutualObjective((plain, plain), settings, round_number=round_number, seed=0)
    loss = objective(network, Batch(torch.zeros(1, 1, 1, 5), labels, torch.tensor([0])), Step(0, 0, 2))
    losses = []
    for logits in (first, second):
        z = logits[0, :, 0, :4].double().numpy()
        losses.append(np.log(np.exp(z).sum(0)) - z[[0, 1, 1, 0], range(4)])
    kept = [np.argsort(of_one)[: 4 - dropped] for of_one in losses]
    assert loss.item() == pytest.approx(losses[0][kept[1]].mean() + losses[1][kept[0]].mean(), rel=1e-6)
    assert not dropped or sorted(kept[0]) != sorted(kept[1])
    loss.backward()
    assert network.logits.grad is not None
    trained = network.logits.grad.abs().sum(dim=1).flatten().nonzero().flatten().tolist()
    assert trained == sorted(kept[1])


def test_what_rises_does_so_with_the_epochs_of_the_run() -> None:
    settings = RmdSettings(dropped_fraction=0.004, certain_fraction=0.8, distillation_weight=0.0009)
    start, middle, end = (Ramps.at(settings, epoch) for epoch in (0, 5, 10))
    assert (start.dropped, start.is_strong, middle.is_strong) == (0, False, False)
    assert (start.taught, start.weight) == pytest.approx((0.8 * math.exp(-5), 0.0009 * math.exp(-5)))
    assert (middle.dropped, middle.taught) == pytest.approx((0.002, 0.8 * math.exp(-1.25)))
    assert end == Ramps(0.004, 0.8, 0.0009, is_strong=True) == Ramps.at(settings, 300)


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    result: NDArray[Any] = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return result


@EXTENTS
def test_the_teaching_is_that_of_a_direct_version(extents: tuple[int, ...]) -> None:
    logits = [random(2, 3, *extents, seed=seed).double().requires_grad_() for seed in (0, 1)]
    targets = [random(2, 3, *extents, seed=seed).double().softmax(dim=1) for seed in (2, 3)]
    counted = random(2, *extents, seed=4) > -0.5
    loss = distillation_loss(logits, targets, counted, 0.3)
    loss.backward()  # type: ignore[no-untyped-call]
    total, number = 0.0, int(0.3 * int(counted.sum()))
    for own, other in ((0, 1), (1, 0)):
        z, t = logits[own].detach().numpy(), targets[other].numpy()
        distance = ((softmax(logits[other].detach().numpy()) - t) ** 2).sum(axis=1)
        distance[~counted.numpy()] = np.inf
        chosen = distance <= np.sort(distance, axis=None)[number - 1]
        assert chosen.sum() == number
        total += (t * (np.log(t) - np.log(softmax(z)))).sum(axis=1)[chosen].mean()
        # The teacher, and what is certain, have no gradient: it is that of the pupil's divergence alone.
        gradient = np.where(chosen[:, None], softmax(z) - t, 0.0) / number
        assert logits[own].grad is not None
        # Float32, as the loss is of networks.
        assert np.allclose(logits[own].grad.numpy(), gradient, atol=1e-6)
    assert loss.item() == pytest.approx(total, rel=1e-5)


def test_networks_that_agree_with_themselves_and_each_other_teach_nothing() -> None:
    logits = random(2, 3, 4, 4)
    counted = torch.ones(2, 4, 4, dtype=torch.bool)
    assert distillation_loss([logits] * 2, [logits.softmax(dim=1)] * 2, counted, 1.0).item() == pytest.approx(
        0, abs=1e-6
    )
    assert distillation_loss([logits] * 2, [logits.flip(0).softmax(dim=1)] * 2, counted, 0.0).item() == 0


@EXTENTS
def test_images_and_maps_change_as_scipy_says(extents: tuple[int, ...]) -> None:
    images = random(3, 2, *extents)
    change = draw_change(images, torch.Generator().manual_seed(3), is_strong=True)
    assert change.places is not None
    assert change.noise is not None
    counted = random(3, *extents, seed=1) > -1
    assert 0 < int(change.mirrored.sum()) < change.mirrored.numel()
    for index in range(3):
        axes = change.mirrored[index].nonzero().flatten().tolist()
        places = np.moveaxis(change.places[index].numpy().astype(np.float64), -1, 0)
        for channel in range(2):
            given = np.flip(images[index, channel].numpy(), axes)
            expected = map_coordinates(given, places, order=1, mode="nearest")
            assert np.allclose(change.of_maps(images)[index, channel].numpy(), expected, atol=1e-4)
        whole = np.flip(counted[index].numpy(), axes).astype(np.float64)
        result = change.of_counted(counted)[index].numpy()
        nearest = map_coordinates(whole, np.rint(places), order=0, mode="constant")
        # Places halfway between two pixels may go to either.
        is_clear = (np.abs(places - np.floor(places) - 0.5) > 1e-3).all(axis=0)
        assert is_clear.mean() > 0.9
        assert (result == (nearest > 0.5))[is_clear].all()
    assert torch.equal(change.of_images(images), change.of_maps(images) + change.noise)
    assert change.noise.std().item() == pytest.approx(0.02, rel=0.2)
    # A gentle change is mirroring alone, and two mirrorings are none.
    gentle = draw_change(images, torch.Generator().manual_seed(3), is_strong=False)
    assert (gentle.places, gentle.noise) == (None, None)
    assert torch.equal(gentle.of_images(gentle.of_images(images)), images)


def test_pictures_are_turned_and_enlarged_about_their_centre() -> None:
    image = random(1, 1, 5, 5)
    still = torch.zeros(1, 2, dtype=torch.bool)
    quarter = ImageChange(still, turned_places((5, 5), torch.tensor([math.pi / 2]), torch.ones(1)))
    assert torch.allclose(quarter.of_maps(image)[0, 0], torch.rot90(image[0, 0], -1), atol=1e-5)
    double = ImageChange(still, turned_places((5, 5), torch.zeros(1), torch.tensor([2.0])))
    assert torch.allclose(double.of_maps(image)[0, 0, ::2, ::2], image[0, 0, 1:4, 1:4], atol=1e-5)
    # A volume of a single slice stays one.
    flat = draw_change(random(1, 1, 5, 5, 1), torch.Generator().manual_seed(0), is_strong=True)
    assert bool(flat.of_maps(torch.ones(1, 1, 5, 5, 1)).eq(1).all())


class Stages(nn.Module):
    """An encoder of six scales and a way back, without parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Identity()
        self.coarser = nn.ModuleList(nn.AvgPool2d(2, ceil_mode=True) for _ in range(6))
        self.last = nn.Upsample(scale_factor=64)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        maps = [self.first(images)]
        for part in self.coarser:
            # What is dropped of one scale shows at that scale alone.
            maps.append(part(torch.ones_like(maps[-1])))
        return [*maps, self.last(torch.ones_like(maps[-1]))]


def test_dropout_grows_with_the_depth_and_ends_with_the_pass() -> None:
    network, images = Stages(), torch.ones(4, 64, 64, 64)
    blocks = ["first", *(f"coarser.{index}" for index in range(6)), "last"]
    with stage_dropout(network, blocks, 2, torch.Generator().manual_seed(0)):
        *maps, last = network(images)
    assert bool((last == 1).all())
    for output, rate in zip(maps, (*RATES, RATES[-1], RATES[-1]), strict=True):
        assert sorted(output.unique().tolist()) == pytest.approx([0.0, 1 / (1 - rate)])
        assert (output == 0).float().mean().item() == pytest.approx(rate, abs=3 * math.sqrt(0.25 / output.numel()))
    assert all(bool((output == 1).all()) for output in network(images))


@pytest.mark.parametrize("axes", [2, 3])
def test_a_step_has_the_same_bits_again_and_ignored_pixels_have_no_part(axes: int) -> None:
    network = described_network(TwoNetworksSettings(spatial_dims=axes, num_classes=2, features=(2,) * 6))
    settings = RmdSettings(dropped_fraction=0.1, ramp_epochs=1, distillation_weight=1.0)
    plain = SupervisedObjective(CrossEntropy())
    images = random(1, 1, *(32,) * axes)
    labels = torch.randint(3, images.shape, generator=torch.Generator().manual_seed(0)).to(torch.uint8)

    def step(labels: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
        network.zero_grad()
        objective = MutualObjective((plain, plain), settings, round_number=2, seed=7)
        loss = objective(network.train(), Batch(images, labels, torch.tensor([0])), Step(0, 0, 1))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item(), [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]

    (loss, gradients), (again, same) = step(labels), step(labels)
    assert loss == again
    assert all(torch.equal(one, other) for one, other in zip(gradients, same, strict=True))
    assert len(gradients) == len(list(network.parameters()))
    nothing, zeros = step(torch.full_like(labels, 255))
    assert nothing == 0
    assert not any(bool(gradient.any()) for gradient in zeros)
