"""Pictures with squares as their annotation, a network that reads their brightness, and settings for it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from fedannot.custom.data.datalist import ExcludedCase
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.settings import NetworkSettings, TrainingSettings

SIDE = 16
SIX = [(1, 2)] * 6


class Threshold(nn.Module):
    """Logits by the distance of the intensity from the class number; independent of the other samples."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.num_classes = num_classes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return -self.scale * (images - torch.arange(self.num_classes + 1).view(1, -1, 1, 1)) ** 2


def settings(num_classes: int, **training: Any) -> FedAvgSettings:
    return FedAvgSettings(network=NetworkSettings(num_classes=num_classes), training=TrainingSettings(**training))


def make_data(
    classes_of_case: Sequence[Collection[int]],
    seed: int = 0,
    excluded: Sequence[str] = (),
    units: Sequence[str] | None = None,
) -> SiteData:
    """Pictures with a square for each of their classes, and images that are the label with noise."""
    generator = np.random.default_rng(seed)
    cases = []
    for number, classes in enumerate(classes_of_case):
        label = torch.zeros(1, SIDE, SIDE, dtype=torch.uint8)
        for index in classes:
            top = 1 + 5 * (index - 1)
            left = int(generator.integers(1, 9))
            label[:, top : top + 4, left : left + 5] = index
        noise = torch.from_numpy(0.3 * generator.normal(size=(1, 1, SIDE, SIDE)).astype(np.float32))
        unit = str(number) if units is None else units[number]
        cases.append(LoadedCase(f"{number}.png", unit, label[:, None].float() + noise, label, None, None))
    description = ImageDescription(channels=1, size=(SIDE, SIDE), classes=("a", "b"), labels={0: 0, 1: 1, 2: 2})
    return SiteData("site-1", tuple(cases), description, tuple(ExcludedCase(name, "broken") for name in excluded))


def as_slices(data: SiteData, slices_per_volume: int) -> SiteData:
    """The same samples as slices of volumes, a volume being a patient."""
    volumes = []
    for start in range(0, len(data.cases), slices_per_volume):
        parts = data.cases[start : start + slices_per_volume]
        image, label = torch.cat([case.image for case in parts]), torch.cat([case.label for case in parts])
        volumes.append(LoadedCase(f"{start}.nii", str(start), image, label, None, (1.0, 1.0), slice_spacing=2.0))
    return replace(data, cases=tuple(volumes))


def seen_without_fault(data: SiteData) -> SiteData:
    """The same site with images from which :class:`Threshold` reads the annotation."""
    return replace(data, cases=tuple(replace(case, image=case.label[:, None].float()) for case in data.cases))
