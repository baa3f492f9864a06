"""A model that predicts masks which it is given."""

import numpy as np
import torch
from torch import nn

from fedannot.transforms.move_contour import MoveContour


class Recalls(nn.Module):
    """Predicts given masks, each for the image that it belongs to, moved outward by a distance."""

    def __init__(self, images: torch.Tensor, masks: torch.Tensor, outward: float = 0.0) -> None:
        super().__init__()
        move = MoveContour(outward)
        self.images = images
        self.masks = torch.stack([torch.from_numpy(np.asarray(move(mask.numpy()))) for mask in masks])
        self.certainty = nn.Parameter(torch.tensor(6.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result = [int((self.images - image).abs().flatten(1).sum(1).argmin()) for image in images]
        signs = self.masks[result].float()[:, None] * 2 - 1
        return torch.cat((-self.certainty * signs, self.certainty * signs), dim=1)
