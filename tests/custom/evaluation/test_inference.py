"""Inference: a case's samples come back together and in order, whole volumes as if the window were not there."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.components.component import Component
from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.inference import Inference, evaluating
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import NetworkSettings, TrainingSettings


def make_case(label, shift=0.2):
    """A case of samples with labels (S, H, W[, D]), which its image tells up to a shift."""
    return LoadedCase("a", "a", label[:, None].float() + shift, label, None, None)


def random_case(*shape, num_classes=2, seed=0):
    labels = np.random.default_rng(seed).integers(0, num_classes + 1, size=shape)
    return make_case(torch.from_numpy(labels.astype(np.uint8)))


class Threshold(nn.Module):
    """Predicts the class that the intensity rounds to; only in evaluation mode, and what it is given is noted."""

    def __init__(self, num_classes):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.num_classes = num_classes
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, images):
        assert not self.training
        assert not torch.is_grad_enabled()
        self.shapes.append(tuple(images.shape))
        classes = torch.arange(self.num_classes + 1).view(1, -1, *[1] * (images.ndim - 2))
        return -((images - classes) ** 2) + self.bias


@pytest.mark.parametrize(("batch_size", "batches"), [(1, [1] * 9), (2, [2, 2, 2, 2, 1]), (4, [4, 4, 1]), (20, [9])])
def test_samples_of_all_cases_fill_the_batches_and_come_back_by_case(batch_size, batches):
    cases = [random_case(count, 6, 7, seed=count) for count in (1, 4, 1, 3)]
    network = Threshold(2)
    predictions = list(Inference(batch_size).predictions(network, cases))
    assert [len(prediction) for prediction in predictions] == [1, 4, 1, 3]
    for case, prediction in zip(cases, predictions, strict=True):
        assert torch.equal(prediction, case.label)
        assert prediction.dtype == torch.uint8
    assert [shape[0] for shape in network.shapes] == batches


def test_pictures_are_predicted_with_the_bits_of_stacked_ones():
    network = build_network(features=(2, 2, 4, 4, 4, 2)).eval()
    images = torch.randn(5, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    cases = [LoadedCase("a", "a", image[None], torch.zeros(1, 32, 32), None, None) for image in images]
    batches = list(Inference(2).batches(cases))
    with torch.inference_mode():
        for batch, stacked in zip(batches, torch.split(images, 2), strict=True):
            assert torch.equal(Inference(2).logits(network, batch.images), network(stacked))


@pytest.mark.parametrize("shape", [(20, 33, 18), (16, 16, 16), (9, 40, 16), (5, 6, 7)])
def test_a_window_over_a_volume_gives_what_the_network_says_of_every_voxel(shape):
    case = random_case(1, *shape)
    network = Threshold(2)
    inference = Inference(3, window=(16, 16, 16))
    (prediction,) = inference.predictions(network, [case])
    assert torch.equal(prediction, case.label)
    assert {shape[2:] for shape in network.shapes} == {(16, 16, 16)}
    assert max(shape[0] for shape in network.shapes) <= 3
    classes = torch.arange(3).view(1, -1, 1, 1, 1)
    with evaluating(network):
        torch.testing.assert_close(inference.logits(network, case.image), -((case.image - classes) ** 2))


class Border(nn.Module):
    """Class 1 within four voxels of either end of what it is given, where a window sees too little; else class 0."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.full((1,), 0.1))

    def forward(self, images):
        border = torch.ones_like(images)
        border[:, :, 4:-4] = -1.0
        return torch.cat((-border, border + self.bias), dim=1)


def test_windows_overlap_by_half_and_their_middle_decides():
    (prediction,) = Inference(2, window=(16, 16, 16)).predictions(Border(), [random_case(1, 40, 16, 16)])
    assert prediction[0, :, 8, 8].tolist() == [1] * 4 + [0] * 32 + [1] * 4


def test_volumes_of_differing_sizes_run_one_at_a_time():
    cases = [random_case(1, *size) for size in ((16, 18, 20), (30, 16, 17))]
    assert [tuple(batch.images.shape) for batch in Inference(8, (16, 16, 16)).batches(cases)] == [
        (1, 1, 16, 18, 20),
        (1, 1, 30, 16, 17),
    ]


@pytest.mark.parametrize("training", [True, False])
def test_every_module_comes_back_in_its_own_mode(training):
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).train(training)
    network[1].eval()
    list(Inference(1).predictions(network, [random_case(2, 4, 4)]))
    assert [module.training for module in network.modules()] == [training, training, False]


def test_mode_comes_back_after_an_error():
    network = nn.Conv2d(3, 2, 1).train()
    with pytest.raises(RuntimeError, match="channels"):
        list(Inference(1).predictions(network, [random_case(1, 4, 4)]))
    assert network.training


def test_predictions_leave_gradients_on_for_the_caller():
    predictions = Inference(1).predictions(Threshold(2), [random_case(2, 4, 4)])
    next(predictions)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_the_window_is_the_patch_of_the_training():
    training = TrainingSettings(batch_size=3, patch=(32, 32, 16))
    assert Inference.of(FedAvgSettings(training=TrainingSettings(batch_size=3))) == Inference(3)
    settings = FedAvgSettings(network=NetworkSettings(spatial_dims=3), training=training)
    assert Inference.of(settings) == Inference(3, (32, 32, 16))


class Uneven(nn.Module):
    """Logits that depend on where a pixel is; of images, or of pixels."""

    def __init__(self, *, of_images=False):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
        self.of_images = of_images

    def forward(self, images):
        ramp = torch.arange(images.shape[-1]) + 3 * torch.arange(images.shape[2]).view(-1, *[1] * (images.ndim - 3))
        logits = images[:, :1] * ramp / 7 * self.factor.view(1, 3, *[1] * (images.ndim - 2))
        return logits.flatten(2).mean(dim=2) if self.of_images else logits


@pytest.mark.parametrize(
    ("shape", "window", "of_images"),
    [((2, 1, 6, 8), None, False), ((2, 1, 6, 8), None, True), ((1, 1, 10, 9, 16), (8, 8, 8), False)],
)
def test_mirroring_is_the_mean_of_the_probabilities_of_all_mirrored_images(shape, window, of_images):
    images = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    network = Uneven(of_images=of_images)
    plain = Inference(2, window)
    probabilities = []
    for flags in itertools.product([False, True], repeat=len(shape) - 2):
        axes = [axis for axis, flag in enumerate(flags, start=2) if flag]
        logits = plain.logits(network, torch.flip(images, axes))
        probabilities.append((logits if of_images else torch.flip(logits, axes)).softmax(dim=1))
    assert len(probabilities) == Inference(2, window, mirroring=True).num_passes(len(shape) - 2)
    result = Inference(2, window, mirroring=True).logits(network, images)
    torch.testing.assert_close(result.softmax(dim=1), torch.stack(probabilities).mean(dim=0))
    torch.testing.assert_close(result.exp().sum(dim=1), torch.ones_like(result[:, 0]))
    assert not torch.allclose(probabilities[0], probabilities[1])


@pytest.mark.parametrize("axes", [(), (1,), (0, 1)])
def test_images_are_mirrored_along_the_given_axes_alone(axes):
    images = torch.randn(2, 1, 6, 8, generator=torch.Generator().manual_seed(0))
    network, inference = Uneven(of_images=False), Inference(2, mirroring=True, mirror_axes=axes)
    views = {(): [[]], (1,): [[], [3]], (0, 1): [[], [2], [3], [2, 3]]}[axes]
    expected = torch.stack([network(images.flip(view)).flip(view).softmax(dim=1) for view in views]).mean(dim=0)
    torch.testing.assert_close(inference.logits(network, images).softmax(dim=1), expected)
    assert inference.num_passes(2) == len(views)


@pytest.mark.parametrize("axes", [[2], [0, 0]])
def test_axes_that_samples_do_not_have_are_refused(axes):
    with pytest.raises(ValueError, match=r"'training.mirror_axes' is .*expected different axes from 0 to 1"):
        FedAvgSettings(training=TrainingSettings(mirror_axes=axes))


def test_mirroring_keeps_outputs_that_overflow_finite():
    class Overflowing(Uneven):
        def forward(self, images):
            return super().forward(images) * 1e38 * 1e38

    result = Inference(1, mirroring=True).logits(Overflowing(), torch.ones(1, 1, 4, 4))
    assert result.isfinite().all()


@pytest.mark.parametrize(
    ("window", "roi_size", "expected"),
    [
        (None, None, (96, 64)),
        (None, [32, 48], (32, 48)),
        (None, [32, -1], (32, 64)),
        ((16, 16, 8), None, (16, 16, 8)),
        ((16, 16, 8), 32, (32, 32, 32)),
    ],
)
def test_the_network_runs_at_the_extents_of_its_window(window, roi_size, expected):
    inferer = (
        None
        if roi_size is None
        else Component(target="monai.inferers.SlidingWindowInferer", arguments={"roi_size": roi_size})
    )
    assert Inference(1, window, inferer=inferer).extents((96, 64)) == expected


def test_mirroring_is_a_setting_of_all_tasks():
    settings = FedAvgSettings(inference={"mirroring": True}, training=TrainingSettings(batch_size=3))
    assert Inference.of(settings) == Inference(3, mirroring=True)
    classification = read_job_settings(
        {"task": "classification", "method": "fedavg", "network": {}, "training": {}, "inference": {"mirroring": True}}
    )
    assert Inference.of(classification).mirroring
