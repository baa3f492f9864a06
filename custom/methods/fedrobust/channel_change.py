"""An affine change of the channels of images, and the steps by which an adversary makes it worse."""

import torch
from torch import nn


class ChannelChange(nn.Module):
    """x ↦ Λ x + δ at every pixel, with a matrix Λ over the channels and an offset δ for each of them.

    It begins with Λ = I and δ = 0. What it holds is of a site's images, and never leaves the site.

    Args:
        num_channels: of the images.

    Attributes:
        deviation: Λ − I, ``(channels, channels)``.
        offset: δ, ``(channels,)``.

    Example:
        >>> change = ChannelChange(2)
        >>> change(torch.tensor([[[3.0], [5.0]]])).tolist()
        [[[3.0], [5.0]]]
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.deviation = nn.Parameter(torch.zeros(num_channels, num_channels))
        self.offset = nn.Parameter(torch.zeros(num_channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return Λ x + δ of images ``(B, channels, H, W[, D])``, of the same shape."""
        matrix = torch.eye(len(self.offset)).to(self.deviation) + self.deviation
        pixels = images.flatten(start_dim=2)
        changed = torch.baddbmm(self.offset[:, None], matrix.expand(len(pixels), -1, -1), pixels)
        return changed.view(images.shape)

    def adversary(self, penalty: float, step: float) -> torch.optim.Optimizer:
        """Return what steps up ℓ − λ (‖Λ − I‖² + ‖δ‖²), given the gradient of the mean loss ℓ.

        A step adds s/(2λ) ∂ℓ/∂(Λ, δ), and takes s of what is there away.

        Args:
            penalty: λ.
            step: s.
        """
        # The penalty's gradient is 2λ times what is there: a decay of weights.
        return torch.optim.SGD(self.parameters(), lr=step / (2 * penalty), weight_decay=2 * penalty, maximize=True)
