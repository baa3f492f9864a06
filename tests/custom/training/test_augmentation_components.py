"""MONAI's dictionary transforms by their names: what they do to samples, and what is refused before a run."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from fedannot.custom.components.component import Component, ComponentError, read_component
from fedannot.custom.components.roles import Role
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.augmentation_components import TransformedBatches, try_transforms
from fedannot.custom.training.batches import SampleBatches, training_batches

CPU = torch.device("cpu")
BOTH = ["image", "label"]
FLIP = {"_target_": "RandFlipd", "keys": BOTH, "prob": 0.5, "spatial_axis": 0}
TURN = {"_target_": "RandRotated", "keys": BOTH, "prob": 1.0, "range_x": 0.4, "mode": ["bilinear", "nearest"]}
SHIFT = {"_target_": "RandShiftIntensityd", "keys": ["image"], "offsets": 0.5, "prob": 1.0}


def components(*tables: dict[str, Any]) -> list[Component]:
    return [read_component(table, Role.AUGMENTATION) for table in tables]


def samples(extents: Sequence[int] = (12, 9)) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(8, 1, *extents, generator=generator)
    return images, torch.randint(1, 200, (8, *extents), generator=generator).to(torch.uint8)


def test_each_sample_is_changed_by_itself_with_its_label_and_places() -> None:
    images, labels = samples()
    batches = TransformedBatches(SampleBatches(images, labels, 4, CPU, with_places=True), components(FLIP, SHIFT))
    assert (batches.samples_per_epoch, batches.steps_per_epoch) == (8, 2)
    flipped, offsets = [], []
    for batch in batches.epoch(torch.Generator().manual_seed(3)):
        assert batch.places is not None
        for sample, image, label, places in zip(batch.samples, batch.images, batch.labels, batch.places, strict=True):
            own, own_label = images[sample], labels[sample]
            flipped.append(not torch.equal(label[0], own_label))
            if flipped[-1]:
                own, own_label = own.flip(1), own_label.flip(0)
            assert torch.equal(label[0], own_label)
            rows, columns = places.long()
            assert torch.equal(labels[sample][rows, columns], own_label)
            offset = (image - own).mean()
            torch.testing.assert_close(image, own + offset)
            offsets.append(round(float(offset), 4))
    assert 0 < sum(flipped) < 8
    assert len(set(offsets)) == 8


def test_the_same_generator_gives_the_same_bits() -> None:
    batches = TransformedBatches(SampleBatches(*samples(), 4, CPU), components(TURN, SHIFT))
    first, again, other = (
        torch.cat([batch.images for batch in batches.epoch(torch.Generator().manual_seed(seed))]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("extents", [(16, 12), (16, 12, 8)])
def test_transforms_that_keep_shape_and_classes_pass_the_trial(extents: Sequence[int]) -> None:
    try_transforms(components(FLIP, TURN, SHIFT), (2, *extents))


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"_target_": "RandFlip", "prob": 1.0}, "'monai.transforms.RandFlip', which is no dictionary transform"),
        (
            FLIP | {"keys": ["picture"]},
            "monai.transforms.RandFlipd has the keys ['picture']; expected 'image', 'label'",
        ),
        (TURN | {"mode": "bilinear"}, "The transforms make labels between the classes; give those that move pixels "),
        (
            {"_target_": "Resized", "keys": BOTH, "spatial_size": [20, 20]},
            "make (1, 20, 20) of the image of the shape (1, 16, 12); expected the same shape.",
        ),
        ({"_target_": "DeleteItemsd", "keys": ["label"]}, "make None of the label of the shape (1, 16, 12)"),
        (FLIP | {"spatial_axis": 5}, "The transforms fail on an image of the shape (1, 16, 12): "),
        (
            {"_target_": "MapLabelValued", "keys": ["label"], "orig_labels": [1], "target_labels": [2]},
            "the classes [2]",
        ),
        (
            {"_target_": "RandShiftIntensityd", "keys": BOTH, "offsets": [3, 3], "prob": 0.1},
            "The transforms make the classes [3",
        ),
        (FLIP | {"keys": ["image"]}, "RandFlipd moves pixels, but its keys ['image'] lack 'label', so that image and "),
        (TURN | {"keys": ["label"], "mode": "nearest"}, "its keys ['label'] lack 'image'"),
        (
            {"_target_": "RandSmoothDeformd", "keys": ["image"], "spatial_size": [16, 12], "rand_size": [4, 4]},
            "RandSmoothDeformd moves pixels",
        ),
        ({"_target_": "CenterSpatialCropd", "keys": ["image"], "roi_size": [16, 12]}, "SpatialCropd moves pixels"),
        (FLIP | {"chance": 1}, "monai.transforms.RandFlipd has no argument 'chance'"),
        ({"_target_": "Lambdad", "keys": BOTH, "func": "print"}, "which is not allowed"),
        ({"_target_": "monai.losses.DiceLoss"}, "no monai.transforms.Transform"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_run(table: dict[str, Any], text: str) -> None:
    with pytest.raises(ComponentError) as error:
        try_transforms(components(table), (1, 16, 12))
    assert text in str(error.value)


@pytest.mark.parametrize(("before", "after"), [([1], [2]), ([3], [1]), ([5], [4]), ([0], [2]), ([1, 2], [2, 1])])
def test_classes_that_become_others_are_refused_whatever_their_number(before: list[int], after: list[int]) -> None:
    table = {"_target_": "MapLabelValued", "keys": ["label"], "orig_labels": before, "target_labels": after}
    with pytest.raises(ComponentError, match=r"The transforms make the classes \[\d\] of a mask with the classes"):
        try_transforms(components(table), (1, 16, 12), 5)


def test_what_changes_intensities_needs_no_label() -> None:
    coarser = {"_target_": "RandSimulateLowResolutiond", "keys": ["image"], "prob": 0.5}
    smooth = {"_target_": "RandSmoothFieldAdjustIntensityd", "keys": ["image"], "spatial_size": [16, 12, 16]}
    try_transforms(components(coarser, smooth | {"rand_size": [4, 4, 4]}, SHIFT, FLIP), (1, 16, 12, 16), 3)


def test_settings_name_transforms() -> None:
    images, labels = samples((32, 32))
    case = LoadedCase("a.png", "a", images, labels, None, None)
    description = ImageDescription(channels=1, size=(32, 32), classes=("object",), labels={0: 0, 1: 1})
    training = TrainingSettings.model_validate({"augmentation": [FLIP], "batch_size": 8})
    batches = training_batches(SiteData("site-1", (case,), description, ()), training, CPU)
    assert isinstance(batches, TransformedBatches)
    (batch,) = batches.epoch(torch.Generator().manual_seed(0))
    assert batch.images.shape == (8, 1, 32, 32)
