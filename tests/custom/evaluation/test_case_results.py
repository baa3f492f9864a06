"""Results per case against MONAI's metrics and against brute force over all pairs of boundary pixels."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from monai.metrics import compute_dice, compute_hausdorff_distance, compute_surface_dice
from scipy import ndimage
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.case_results import (
    CaseResult,
    Detection,
    PixelSize,
    _case_results,
    class_result,
    lesion_f1,
    measured_cases,
)
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate

PIXELS = PixelSize(None, None)


def blobs(seed: int, shape: tuple[int, ...]) -> torch.Tensor:
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), 1.5)
    return torch.from_numpy(noise > 0.6 * noise.std())


def boundary(mask: torch.Tensor) -> np.ndarray:
    """The pixels of a mask with a neighbour along an axis that is not in it, or at the border: ``(n, axes)``."""
    padded = np.pad(mask.numpy(), 1)
    inner = padded.copy()
    for axis, step in itertools.product(range(padded.ndim), (-1, 1)):
        inner &= np.roll(padded, step, axis)
    return np.argwhere(padded & ~inner) - 1


def brute_force(found: torch.Tensor, true: torch.Tensor, spacing: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    points = [boundary(mask) * np.array(spacing) for mask in (found, true)]
    all_pairs = np.linalg.norm(points[0][:, None] - points[1][None], axis=-1)
    return all_pairs.min(axis=1), all_pairs.min(axis=0)


# MONAI 1.6 warns of an argument that it passes to itself.
@pytest.mark.filterwarnings("ignore:.*always_return_as_numpy:FutureWarning")
@pytest.mark.parametrize(("shape", "spacing"), [((24, 20), None), ((12, 14, 9), (1.0, 0.7, 3.0))], ids=["px", "mm"])
def test_metrics_are_monais_and_those_of_brute_force(shape: tuple[int, ...], spacing: tuple[float, ...] | None) -> None:
    found, true = blobs(1, shape), blobs(2, shape)
    size = PixelSize(spacing, None if spacing is None else math.prod(spacing) / 1000)
    result = class_result(1, found, true, size, tolerance=1.5)

    a, b = found[None, None], true[None, None]
    assert result.dice == pytest.approx(float(compute_dice(a, b, include_background=True)))
    monai_hd95 = compute_hausdorff_distance(a, b, include_background=True, percentile=95, spacing=spacing)
    assert result.hd95 == pytest.approx(float(monai_hd95))
    assert result.nsd == pytest.approx(float(compute_surface_dice(a, b, [1.5], True, spacing=spacing)))

    there, back = brute_force(found, true, spacing or (1.0, 1.0))
    assert result.hd95 == pytest.approx(max(np.percentile(there, 95), np.percentile(back, 95)), rel=1e-5)
    close = np.concatenate([there, back]) <= 1.5
    assert result.nsd == pytest.approx(close.mean())
    pixels = int(found.sum()) - int(true.sum())
    assert result.volume_difference == pytest.approx(pixels if spacing is None else pixels * 2.1 / 1000)


def mask(*pixels: int) -> torch.Tensor:
    values = torch.zeros(1, 9, dtype=torch.bool)
    values[0, list(pixels)] = True
    return values


@pytest.mark.parametrize(
    ("found", "true", "expected"),
    [
        ((), (2, 3), (0.0, None, 0.0, -2.0, 0.0, Detection.MISSED)),
        ((7,), (2, 3), (0.0, 5.0, 0.0, -1.0, 0.0, Detection.MISSED)),
        ((), (), (None, None, None, 0.0, None, Detection.LEFT_EMPTY)),
        ((1, 2), (), (None, None, None, 2.0, None, Detection.FALSE_POSITIVE)),
        ((2, 3), (2, 3), (1.0, 0.0, 1.0, 0.0, 1.0, Detection.DETECTED)),
    ],
    ids=["nothing predicted", "elsewhere", "both empty", "not annotated", "equal"],
)
def test_empty_masks(found: tuple[int, ...], true: tuple[int, ...], expected: tuple[object, ...]) -> None:
    """An empty prediction has Dice, NSD and F1 of 0 and no distance; without annotation there is nothing to overlap."""
    result = class_result(1, mask(*found), mask(*true), PIXELS)
    values = (result.dice, result.hd95, result.nsd, result.volume_difference, result.lesion_f1)
    shown = tuple(None if math.isnan(value) else pytest.approx(value, abs=0.3) for value in values)
    assert (*expected[:5], expected[5]) == (*shown, result.detection)


def most_pairs(matches: np.ndarray) -> int:
    """As many pairs as can be made, by trying all assignments."""
    if matches.shape[0] > matches.shape[1]:
        matches = matches.T
    rows = range(matches.shape[0])
    return max(
        sum(bool(matches[row, column]) for row, column in zip(rows, columns, strict=True))
        for columns in itertools.permutations(range(matches.shape[1]), len(rows))
    )


def test_lesion_f1_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        found, true = rng.random((2, 7, 7)) < 0.15
        parts = [
            [labelled == number for number in range(1, count + 1)]
            for labelled, count in (ndimage.label(values, np.ones((3, 3))) for values in (found, true))
        ]
        if not all(parts) or max(map(len, parts)) > 6:
            continue
        iou = np.array([[(one & other).sum() / (one | other).sum() for other in parts[1]] for one in parts[0]])
        expected = 2 * most_pairs(iou >= 0.3) / (len(parts[0]) + len(parts[1]))
        assert lesion_f1(found, true, min_iou=0.3) == pytest.approx(expected)


def test_a_lesion_counts_once() -> None:
    """A prediction over two lesions finds one of them: 2 · 1 / (1 + 2)."""
    assert lesion_f1(mask(*range(8)).numpy(), mask(0, 1, 2, 5, 6, 7).numpy()) == pytest.approx(2 / 3)


class FirstChannel(nn.Module):
    """Background where the image is not positive, else the class that its channel has the largest value of."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(images[:, :1]), images], dim=1)


def case(name: str, image: torch.Tensor, label: torch.Tensor, **values: object) -> LoadedCase:
    return LoadedCase(name, name, image, label, None, **{"spacing": None, **values})  # type: ignore[arg-type]


def test_cases_are_measured_as_rounds_score_them() -> None:
    """Pictures, and slices that are a volume together; batches cross the borders of cases."""
    generator = torch.Generator().manual_seed(0)
    cases = [
        case(
            f"{n}",
            torch.randn(n + 1, 2, 16, 16, generator=generator),
            torch.randint(0, 3, (n + 1, 16, 16), generator=generator, dtype=torch.uint8),
        )
        for n in range(3)
    ]
    cases[1].label[0, :4] = 255
    model, inference = FirstChannel(), Inference(batch_size=4)
    measured = list(measured_cases(model, cases, 2, inference))
    scores = evaluate(model, cases, 2, inference)
    for index in range(2):
        dice = [of_case.results[index].dice for of_case in measured]
        assert np.mean(dice) == pytest.approx(scores.dice[index], abs=1e-6)
    # The distance of slices is not known here, that of pixels is.
    is_known = [[math.isfinite(result.hd95) for result in of_case.results] for of_case in measured]
    assert is_known == [[True, True], [False, False], [False, False]]

    counted = [int((one.label != 255).sum()) for one in cases]
    assert [of_case.bins.count.sum() for of_case in measured] == counted
    right = [int((model(one.image).argmax(1) == one.label).sum()) for one in cases]
    assert [of_case.bins.correct.sum() for of_case in measured] == right


def results(of_case: LoadedCase, labels: tuple[int, ...] | None = None) -> tuple[CaseResult, ...]:
    (measured,) = measured_cases(FirstChannel(), [of_case], 2, Inference(batch_size=2), labels)
    return measured.results


def test_background_stands_for_classes_that_are_not_annotated_in_the_calibration() -> None:
    """With logits 0, 3, 1 the first class is predicted; where it is background, p0 + p1 is the confidence."""

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Parameter(torch.tensor([0.0, 3.0, 1.0]))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.scores[None, :, None, None] + 0 * images[:, :1]

    of_case = case("a", torch.ones(1, 2, 4, 4), torch.zeros(1, 4, 4, dtype=torch.uint8))
    first, _, last = torch.tensor([0.0, 3.0, 1.0]).softmax(0).tolist()
    (measured,) = measured_cases(Constant(), [of_case], 2, Inference(batch_size=2), (2,))
    assert (measured.bins.correct.sum(), measured.bins.confidence.sum()) == (16, pytest.approx(16 * (1 - last)))
    (measured,) = measured_cases(Constant(), [of_case], 2, Inference(batch_size=2))
    assert (measured.bins.correct.sum(), measured.bins.confidence.sum()) == (0, pytest.approx(16 * (1 - first - last)))


def test_unknown_classes_sizes_and_ignored_cases() -> None:
    image, label = torch.ones(2, 2, 4, 4), torch.ones(2, 4, 4, dtype=torch.uint8)
    assert [result.label for result in results(case("a", image, label), (2,))] == [2]
    assert results(case("a", image, torch.full_like(label, 255))) == ()
    unknown = results(case("a", image, label, spacing=(1.0, 1.0)))[0]
    assert math.isnan(unknown.hd95)
    assert math.isnan(unknown.nsd)
    assert math.isnan(unknown.volume_difference)
    assert unknown.dice == 1.0
    known = results(case("a", image, torch.zeros_like(label), spacing=(1.0, 2.0), slice_spacing=5.0))[0]
    assert known.volume_difference == pytest.approx(32 * 10 / 1000)


def test_objects_count_whatever_their_class_and_confused_pixels_beside_them() -> None:
    """Three annotated objects: one found, one found as the other class, one missed; one is invented."""
    true, predicted = torch.zeros(1, 1, 14, dtype=torch.uint8), torch.zeros(1, 1, 14, dtype=torch.uint8)
    true[..., 0:3], true[..., 4:7], true[..., 8:10] = 1, 2, 2
    predicted[..., 0:3], predicted[..., 4:7], predicted[..., 12:13] = 1, 1, 1
    case = LoadedCase("a", "a", torch.zeros(1, 1, 1, 14), true, None, None)
    first, second = _case_results(case, predicted, [1, 2], 2.0)
    # Two pairs of three annotated and three predicted objects.
    assert first.foreground_f1 == second.foreground_f1 == pytest.approx(2 * 2 / 6)
    assert (first.confused_fraction, second.confused_fraction) == (0.0, pytest.approx(3 / 5))
    # What a site does not annotate is background: nothing is confused, and the second class is no object.
    (alone,) = _case_results(case, predicted, [2], 2.0)
    assert (alone.foreground_f1, alone.confused_fraction) == (0.0, 0.0)
    assert math.isnan(_case_results(replace(case, label=true * 0), predicted, [1], 2.0)[0].confused_fraction)
