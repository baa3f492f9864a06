"""A site's own threshold: the model at it by hand, the best one by brute force, where there is nothing to choose."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.pictures import as_slices, make_data
from torch import nn

from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.personal.own_threshold import THRESHOLDS, AtThreshold, own_threshold
from fedannot.transforms.ignored_label import IGNORED_LABEL


class Logits(nn.Module):
    """The image is the logit of every class, times the class."""

    def __init__(self, num_classes: int = 1) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.num_classes = num_classes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        foreground = [self.scale * images[:, :1] * (2 - number) for number in range(1, self.num_classes + 1)]
        return torch.cat([torch.zeros_like(images[:, :1]), *foreground], dim=1)


@pytest.mark.parametrize(("threshold", "found"), [(0.2, [0, 1, 1]), (0.5, [0, 0, 1]), (0.85, [0, 0, 0])])
def test_a_pixel_is_foreground_where_its_probability_exceeds_the_threshold(threshold: float, found: list[int]) -> None:
    # Probabilities 0.12, 0.38 and 0.82.
    images = torch.tensor([-2.0, -0.5, 1.5]).reshape(1, 1, 1, 3)
    assert AtThreshold(Logits(), threshold)(images).argmax(dim=1).flatten().tolist() == found
    assert torch.equal(AtThreshold(Logits(), 0.5)(images), Logits()(images))


def noisy(num_classes: int, bias: float, seed: int = 0):
    """Pictures with one or two classes, of which the network sees too much or too little."""
    data = make_data([(1,), (1, 2), (2,), (), (1,)] if num_classes == 2 else [(1,)] * 4 + [()], seed=seed)
    generator = torch.Generator().manual_seed(seed)
    cases = []
    for case in data.cases:
        wanted = torch.where(case.label == 2, -1.5, torch.where(case.label == 1, 1.5, -1.5)).float()[:, None]
        image = wanted + bias + torch.randn(wanted.shape, generator=generator)
        cases.append(replace(case, image=image))
    return replace(data, cases=tuple(cases))


@pytest.mark.parametrize("num_classes", [1, 2])
@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.5])
@pytest.mark.parametrize("sliced", [False, True])
def test_it_is_the_best_of_all_by_the_score_that_counts(num_classes: int, bias: float, sliced: bool) -> None:
    data = noisy(num_classes, bias)
    data = as_slices(data, 2) if sliced else data
    model, inference = Logits(num_classes), Inference(3)
    dice = [
        evaluate(AtThreshold(model, threshold), data.cases, num_classes, inference).mean_dice
        for threshold in THRESHOLDS
    ]
    best = max(value for value in dice if value is not None)
    chosen = own_threshold(model, data.cases, num_classes, inference)
    assert dice[THRESHOLDS.index(chosen)] == pytest.approx(best, abs=1e-9)
    assert bias == 0 or (chosen > 0.5) == (bias > 0)


def test_of_equally_good_ones_it_is_the_typical_one() -> None:
    data = make_data([(1,), (1,)])
    cases = [replace(case, image=20 * case.label[:, None].float() - 10) for case in data.cases]
    assert own_threshold(Logits(), cases, 1, Inference(2)) == 0.5
    empty = [replace(case, label=torch.zeros_like(case.label)) for case in cases]
    assert own_threshold(Logits(), empty, 1, Inference(2)) == 0.5


@pytest.mark.parametrize(("beside", "chosen"), [(0, 0.6), (IGNORED_LABEL, 0.5)])
def test_ignored_pixels_count_nowhere(beside: int, chosen: float) -> None:
    """What is found beside the object is a mistake that a higher threshold avoids, unless nothing is said there."""
    image = torch.full((1, 1, 8, 8), -4.0)
    image[..., :2, :], image[..., 4:, :] = (math.log(p / (1 - p)) for p in (0.7, 0.58))
    label = torch.zeros(1, 8, 8, dtype=torch.uint8)
    label[:, :2], label[:, 4:] = 1, beside
    (case,) = make_data([(1,)]).cases
    assert own_threshold(Logits(), [replace(case, image=image, label=label)], 1, Inference(1)) == chosen


def test_a_network_stays_in_the_mode_that_it_was_in() -> None:
    model = Logits().train()
    own_threshold(model, make_data([(1,)]).cases, 1, Inference(1))
    assert model.training
    assert np.isclose(AtThreshold(model, 0.9).shift, math.log(9))
