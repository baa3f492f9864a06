"""Losses against their closed forms, and the Dice loss that a site reports."""

import numpy as np
import pytest
import torch
from monai.losses import DiceCELoss, DiceLoss
from torch import nn

from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.losses import DiceRecord, build_loss, sample_dice_losses, segmentation_loss
from fedannot.transforms.ignored_label import IGNORED_LABEL

NAMES = ("ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice", "nr_dice")


def batch(num=3, side=6, classes=2, seed=0):
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(generator.normal(size=(num, classes + 1, side, side)).astype(np.float32))
    labels = torch.from_numpy(generator.integers(0, classes + 1, (num, 1, side, side)).astype(np.uint8))
    return logits, labels


def make_data(num, side, channels, num_classes, spatial_dims=2):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(num, channels, *[side] * spatial_dims)).astype(np.float32)
    labels = generator.integers(0, num_classes + 1, size=(num, *[side] * spatial_dims))
    return torch.from_numpy(logits), torch.from_numpy(labels)


def parts(logits, labels):
    """Probabilities and truth as float64 arrays, of the foreground classes."""
    probabilities = logits.double().softmax(1).numpy()[:, 1:]
    truth = np.stack([labels[:, 0].numpy() == label for label in range(1, logits.shape[1])], axis=1)
    return probabilities, truth.astype(float)


def dice(p, g):
    return 1 - 2 * (p * g).sum() / (p.sum() + g.sum())


def test_dice_losses_of_samples_are_those_of_the_closed_form():
    logits, labels = batch()
    p, g = parts(logits, labels)
    expected = [[dice(p[i, c], g[i, c]) for c in range(2)] for i in range(3)]
    np.testing.assert_allclose(sample_dice_losses(logits, labels).numpy(), expected, rtol=1e-5)
    assert segmentation_loss("dice")(logits, labels).item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_the_dice_loss_of_a_batch_takes_its_pixels_together():
    logits, labels = batch()
    p, g = parts(logits, labels)
    expected = np.mean([dice(p[:, c], g[:, c]) for c in range(2)])
    assert segmentation_loss("batch_dice")(logits, labels).item() == pytest.approx(expected, rel=1e-5)


def test_noise_robust_dice_is_that_of_the_closed_form():
    logits, labels = batch()
    p, g = parts(logits, labels)
    expected = np.mean(
        [(abs(p[:, c] - g[:, c]) ** 1.5).sum() / ((p[:, c] ** 2).sum() + g[:, c].sum()) for c in range(2)]
    )
    assert segmentation_loss("nr_dice")(logits, labels).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["dice", "batch_dice", "nr_dice"])
def test_losses_of_certain_answers(name):
    """0 for what is right everywhere; about 1 for what is wrong everywhere."""
    labels = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    labels[:, :, :3] = 1
    right = torch.where(labels == 1, 40.0, -40.0)
    loss = segmentation_loss(name)
    assert loss(torch.cat([-right, right], dim=1), labels).item() == pytest.approx(0, abs=1e-6)
    assert loss(torch.cat([right, -right], dim=1), labels).item() == pytest.approx(1, abs=1e-6)


def gradient_on_empty_sample(name, probability=0.3):
    """Gradient of the foreground logit in a sample without annotation, beside one with."""
    labels = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    labels[0, 0, :4] = 1
    foreground = torch.full((2, 1, 8, 8), float(np.log(probability / (1 - probability))), requires_grad=True)
    segmentation_loss(name)(torch.cat([torch.zeros_like(foreground), foreground], dim=1), labels).backward()
    return foreground.grad[1].mean().item()


def test_only_losses_of_the_batch_hold_foreground_down_where_nothing_is_annotated():
    assert abs(gradient_on_empty_sample("dice")) < 1e-7
    assert gradient_on_empty_sample("batch_dice") > 1e-4
    assert gradient_on_empty_sample("nr_dice") > 1e-4


@pytest.mark.parametrize("name", ["dice", "batch_dice", "nr_dice", "ce_dice", "ce_batch_dice"])
@pytest.mark.parametrize("certain", [0.0, 50.0, -50.0])
def test_losses_and_gradients_are_finite_on_empty_masks(name, certain):
    logits = torch.stack([torch.full((2, 4, 4), certain), torch.full((2, 4, 4), -certain)], dim=1).requires_grad_()
    loss = segmentation_loss(name)(logits, torch.zeros(2, 1, 4, 4, dtype=torch.uint8))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_record_over_annotated_samples_is_a_mean_over_samples_and_classes_that_are_annotated():
    logits, labels = batch(num=5)
    labels[1] = 0
    labels[2][labels[2] == 2] = 0
    p, g = parts(logits, labels)
    present = [(i, c) for i in range(5) for c in range(2) if g[i, c].any()]
    assert len(present) == 7
    record = DiceRecord(annotated_only=True, device=torch.device("cpu"))
    numbers = torch.tensor([40, 41, 42, 43, 40])
    for part in (slice(0, 2), slice(2, 5)):
        record.add(logits[part], labels[part], numbers[part])
    assert record.mean == pytest.approx(np.mean([dice(p[i, c], g[i, c]) for i, c in present]), rel=1e-5)
    assert record.samples == {40, 42, 43}


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_record_over_annotated_samples_has_the_bits_of_a_selection(scale):
    logits = scale * torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 3, (64, 1, 8, 8), generator=torch.Generator().manual_seed(1))
    labels[::3][labels[::3] == 2] = 0
    record = DiceRecord(annotated_only=True, device=torch.device("cpu"))
    record.add(logits, labels, torch.arange(64))
    counts = torch.stack([(labels == label).flatten(1).any(dim=1) for label in (1, 2)], dim=1)
    assert not counts.all()
    selected = sample_dice_losses(logits, labels)[counts]
    assert record.mean == float(selected.flip(0).sum(dtype=torch.float64)) / len(selected)


def test_record_over_all_samples_counts_those_without_annotation_as_one():
    logits, labels = batch(num=4, classes=1)
    labels[:2] = 0
    p, g = parts(logits, labels)
    record = DiceRecord(annotated_only=False, device=torch.device("cpu"))
    record.add(logits, labels, torch.arange(4))
    assert record.samples == {0, 1, 2, 3}
    expected = (2 + sum(dice(p[i, 0], g[i, 0]) for i in (2, 3))) / 4
    assert record.mean == pytest.approx(expected, abs=1e-5)


def test_record_without_a_sample_that_counts_is_undefined():
    record = DiceRecord(annotated_only=True, device=torch.device("cpu"))
    assert np.isnan(record.mean)
    record.add(torch.zeros(2, 2, 4, 4), torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.arange(2))
    assert np.isnan(record.mean)
    assert record.samples == frozenset()


@pytest.mark.parametrize("spatial_dims", [2, 3])
def test_cross_entropy_is_that_of_the_closed_form(spatial_dims):
    images, labels = make_data(num=3, side=4, channels=3, num_classes=2, spatial_dims=spatial_dims)
    logits = images.numpy().astype(np.float64)
    log_sum = np.log(np.exp(logits).sum(axis=1))
    chosen = np.take_along_axis(logits, labels.numpy()[:, None], axis=1)[:, 0]
    for kind in (torch.uint8, torch.int64):
        loss = segmentation_loss("ce")(images, labels[:, None].to(kind))
        assert loss.item() == pytest.approx((log_sum - chosen).mean(), rel=1e-6)


def test_dice_part_is_the_mean_soft_dice_loss_over_foreground_classes():
    images, labels = make_data(num=3, side=6, channels=3, num_classes=2)
    probabilities = images.double().softmax(dim=1).numpy()
    losses = []
    for sample in range(3):
        for label in (1, 2):
            truth = labels[sample].numpy() == label
            overlap = 2 * probabilities[sample, label][truth].sum()
            losses.append(1 - overlap / (probabilities[sample, label].sum() + truth.sum()))
    cross_entropy = nn.functional.cross_entropy(images, labels).item()
    assert segmentation_loss("ce_dice")(images, labels[:, None]).item() == pytest.approx(
        cross_entropy + np.mean(losses), rel=1e-5
    )


@pytest.mark.parametrize("certain", [0.0, 50.0, -50.0])
def test_ce_dice_and_its_gradient_are_finite_on_empty_masks(certain):
    logits = torch.stack([torch.full((2, 4, 4), certain), torch.full((2, 4, 4), -certain)], dim=1).requires_grad_()
    loss = segmentation_loss("ce_dice")(logits, torch.zeros(2, 1, 4, 4, dtype=torch.uint8))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_unknown_loss_is_refused():
    with pytest.raises(ValueError, match=r"Expected a loss among 'ce', 'dice', 'batch_dice', .*, but got name='mse'"):
        segmentation_loss("mse")


def test_the_loss_is_that_of_the_settings():
    logits, labels = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)), torch.ones(2, 1, 4, 4).long()
    for name in NAMES:
        expected = segmentation_loss(name)(logits, labels)
        assert torch.equal(build_loss(TrainingSettings(loss=name))(logits, labels), expected)


def test_the_loss_of_classes_is_the_mean_cross_entropy():
    logits = torch.tensor([[0.0, 0.0], [np.log(3.0), 0.0]])
    loss = build_loss(ClassifierTrainingSettings())(logits.half(), torch.tensor([0, 1]))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx((np.log(2.0) + np.log(4.0)) / 2, rel=1e-3)


# --- the ignored label


def noise_robust_dice_without_ignored(logits, labels):
    """In the operations of a loss that knows no ignored label."""
    probabilities = logits.softmax(dim=1)[:, 1:]
    annotated = torch.cat([labels == label for label in range(1, logits.shape[1])], dim=1).float()
    pixels = [0, *range(2, labels.ndim)]
    distance = (probabilities - annotated).abs().pow(1.5).sum(pixels)
    return (distance / ((probabilities.square() + annotated).sum(pixels) + 1e-5)).mean()


FOREGROUND_DICE = {"include_background": False, "to_onehot_y": True, "softmax": True}
KNOWING_NO_IGNORED_LABEL = {
    "ce": lambda logits, labels: nn.functional.cross_entropy(logits, labels.squeeze(1).long()),
    "dice": DiceLoss(**FOREGROUND_DICE),
    "batch_dice": DiceLoss(**FOREGROUND_DICE, batch=True),
    "ce_dice": DiceCELoss(**FOREGROUND_DICE),
    "ce_batch_dice": DiceCELoss(**FOREGROUND_DICE, batch=True),
    "nr_dice": noise_robust_dice_without_ignored,
}


def with_gradient(loss, logits, labels):
    logits = logits.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    value = loss(logits, labels)
    value.backward()
    return value.detach(), logits.grad


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["usual", "channels last"])
@pytest.mark.parametrize(
    ("extents", "classes"),
    [
        ((67, 53), 1),  # here MONAI's own option for ignored labels gives other bits
        ((67, 53), 3),
        ((33, 20, 29), 2),
    ],
)
def test_losses_of_labels_without_ignored_ones_are_those_of_the_libraries_bit_for_bit(name, layout, extents, classes):
    generator = torch.Generator().manual_seed(4)
    for _ in range(5):
        logits = torch.randn(4, classes + 1, *extents, generator=generator)
        labels = torch.randint(0, classes + 1, (4, 1, *extents), generator=generator).to(torch.uint8)
        if layout == "channels last":
            logits = logits.to(memory_format=torch.channels_last if len(extents) == 2 else torch.channels_last_3d)
        value, gradient = with_gradient(segmentation_loss(name), logits, labels)
        expected, expected_gradient = with_gradient(KNOWING_NO_IGNORED_LABEL[name], logits, labels)
        assert torch.equal(value, expected)
        assert torch.equal(gradient, expected_gradient)


def some_ignored(num=3, side=6, classes=2):
    """A batch, and which of its pixels count: in the last sample half of them, one of every class ignored."""
    logits, labels = batch(num, side, classes)
    counts = torch.from_numpy(np.random.default_rng(5).random(labels.shape) > 0.3)
    ignored = labels.masked_fill(~counts, IGNORED_LABEL)
    assert all((labels[~counts] == label).any() for label in range(classes + 1))
    return logits, labels, ignored, counts


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64])
def test_losses_are_those_of_the_closed_form_over_the_pixels_that_count(kind):
    logits, labels, ignored, counts = some_ignored()
    counts = counts.numpy()
    p, g = (values * counts for values in parts(logits, labels))
    of_samples = np.array([[dice(p[i, c], g[i, c]) for c in range(2)] for i in range(3)])
    of_batch = np.mean([dice(p[:, c], g[:, c]) for c in range(2)])
    robust = np.mean([(abs(p[:, c] - g[:, c]) ** 1.5).sum() / ((p[:, c] ** 2).sum() + g[:, c].sum()) for c in range(2)])
    log_p = logits.double().log_softmax(1).numpy()
    entropy = -np.take_along_axis(log_p, labels.numpy().astype(int), axis=1)[counts].mean()
    expected = {
        "ce": entropy,
        "dice": of_samples.mean(),
        "batch_dice": of_batch,
        "ce_dice": entropy + of_samples.mean(),
        "ce_batch_dice": entropy + of_batch,
        "nr_dice": robust,
    }
    ignored = ignored.to(kind)
    np.testing.assert_allclose(sample_dice_losses(logits, ignored).numpy(), of_samples, rtol=1e-5)
    assert {name: segmentation_loss(name)(logits, ignored).item() for name in NAMES} == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_is_predicted_at_ignored_pixels_changes_nothing(name):
    logits, _, ignored, counts = some_ignored()
    value, gradient = with_gradient(segmentation_loss(name), logits, ignored)
    changed = torch.where(counts, logits, logits.flip(1) * 5)
    assert torch.equal(segmentation_loss(name)(changed, ignored), value)
    assert not gradient.masked_select(~counts).any()
    assert gradient.masked_select(counts).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extents", [(6, 5), (6, 5, 4)])
def test_a_batch_in_which_all_is_ignored_has_loss_and_gradient_zero(name, extents):
    logits = torch.randn(2, 3, *extents, generator=torch.Generator().manual_seed(0))
    labels = torch.full((2, 1, *extents), IGNORED_LABEL, dtype=torch.uint8)
    value, gradient = with_gradient(segmentation_loss(name), logits, labels)
    assert value == 0
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("name", ["ce", "ce_dice", "ce_batch_dice"])
def test_pixels_of_weight_zero_alone_have_no_cross_entropy(name):
    loss = build_loss(TrainingSettings(loss=name, class_weights=(0.0, 1.0, 2.0)))
    rest = name.removeprefix("ce").removeprefix("_")
    logits, labels = batch()
    for background in (torch.zeros_like(labels), labels.masked_fill(labels != 0, IGNORED_LABEL)):
        value, gradient = with_gradient(loss, logits, background)
        expected = with_gradient(segmentation_loss(rest), logits, background) if rest else (0.0, 0 * logits)
        assert value == expected[0]
        torch.testing.assert_close(gradient, expected[1])
    if name == "ce":
        weight = torch.tensor([0.0, 1.0, 2.0])
        plain = lambda logits, labels: nn.functional.cross_entropy(logits, labels[:, 0].long(), weight)  # noqa: E731
        for ours, torchs in zip(with_gradient(loss, logits, labels), with_gradient(plain, logits, labels), strict=True):
            assert torch.equal(ours, torchs)


def test_classes_of_weight_zero_alone_have_no_cross_entropy():
    loss = build_loss(ClassifierTrainingSettings(class_weights=(0.0, 1.0)))
    logits = torch.tensor([[0.5, 0.0], [2.0, 0.0]])
    value, gradient = with_gradient(loss, logits, torch.tensor([0, 0]))
    assert value == 0
    assert torch.equal(gradient, torch.zeros(2, 2))
    labels, weight = torch.tensor([0, 1]), torch.tensor([0.0, 1.0])
    assert torch.equal(loss(logits, labels), nn.functional.cross_entropy(logits, labels, weight))


@pytest.mark.parametrize("annotated_only", [True, False])
def test_a_record_leaves_out_samples_of_which_all_is_ignored(annotated_only):
    logits, labels = batch(num=4, classes=1)
    labels[1] = IGNORED_LABEL
    record = DiceRecord(annotated_only=annotated_only, device=torch.device("cpu"))
    record.add(logits, labels, torch.arange(4))
    p, g = parts(logits, labels)
    assert record.samples == {0, 2, 3}
    assert record.mean == pytest.approx(np.mean([dice(p[i, 0], g[i, 0]) for i in (0, 2, 3)]), rel=1e-5)


def test_weights_of_classes_keep_their_precision_after_logits_of_less() -> None:
    settings = TrainingSettings(loss="ce", class_weights=(1.0, 1.001))
    logits, labels = torch.tensor([[[[0.5, -1.0]], [[0.25, 2.0]]]]), torch.tensor([[[[0, 1]]]])
    expected = build_loss(settings)(logits, labels)
    loss = build_loss(settings)
    loss(logits.bfloat16(), labels)
    assert torch.equal(loss(logits, labels), expected)
