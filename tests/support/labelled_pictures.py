"""Pictures of one brightness with a class as their label, and a network whose class is the brightness."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from fedannot.custom.data.description import ClassificationDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.methods.fedgsca.label_selection import Selection


class Brightness(nn.Module):
    """The class is the brightness, rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return -self.scale * (images.mean(dim=(1, 2, 3))[:, None] - torch.arange(3)) ** 2


def make_data(
    labels: Sequence[int],
    brightness: Sequence[float],
    units: Sequence[str] | None = None,
    true: Sequence[int] | None = None,
) -> SiteData:
    cases = []
    for index, (label, value) in enumerate(zip(labels, brightness, strict=True)):
        clean = None if true is None else torch.tensor([true[index]], dtype=torch.uint8)
        unit = str(index) if units is None else units[index]
        image = torch.full((1, 1, 4, 4), float(value))
        cases.append(LoadedCase(f"{index}.png", unit, image, torch.tensor([label], dtype=torch.uint8), clean, None))
    description = ClassificationDescription(channels=1, size=(4, 4), classes=("a", "b", "c"))
    return SiteData("site-1", tuple(cases), description, ())


def selection(
    clean: Sequence[bool], pseudo: Sequence[bool] | None = None, labels: Sequence[int] | None = None
) -> Selection:
    """Clean samples are sure, of the others each is less likely than the one before."""
    is_clean = np.array(clean)
    is_pseudo = np.zeros(len(clean), dtype=bool) if pseudo is None else np.array(pseudo)
    given = np.zeros(len(clean), dtype=np.int64) if labels is None else np.array(labels)
    likely = np.where(is_clean, 0.9, np.linspace(0.3, 0.1, len(clean)))
    return Selection(0.6, likely, is_clean, given, is_clean | is_pseudo, is_pseudo)
