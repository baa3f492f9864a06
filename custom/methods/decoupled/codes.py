"""Latent codes of decoupled predictions: their distributions, and encoders of images and annotations."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Gaussian:
    """Normal distributions of latent codes with diagonal covariance, one for every sample.

    Attributes:
        mean: ``(B, D)``.
        log_variance: ``(B, D)``.
    """

    mean: torch.Tensor
    log_variance: torch.Tensor

    def sample(self, generator: torch.Generator) -> torch.Tensor:
        """Draw a code for every sample ``(B, D)``, as a differentiable function of mean and variance."""
        noise = torch.randn(self.mean.shape, generator=generator).to(self.mean)
        return self.mean + noise * (0.5 * self.log_variance).exp()

    def sample_by(self, images: torch.Tensor) -> torch.Tensor:
        """Draw a code for every sample ``(B, D)`` whose noise follows from the sample's pixels.

        Args:
            images: ``(B, channels, H, W[, D])``.
        """
        draws = []
        for image in images.detach().float().cpu():
            generator = torch.Generator().manual_seed(zlib.crc32(image.contiguous().numpy().tobytes()))
            draws.append(torch.randn(self.mean.shape[1], generator=generator))
        return self.mean + torch.stack(draws).to(self.mean) * (0.5 * self.log_variance).exp()

    def divergence_from(self, prior: "Gaussian") -> torch.Tensor:
        """Return KL(self ‖ prior) of every sample ``(B,)``, summed over the D entries of the code (Eq. 1)."""
        ratio = self.log_variance - prior.log_variance
        distance = (self.mean - prior.mean).square() * (-prior.log_variance).exp()
        return 0.5 * (ratio.exp() + distance - 1 - ratio).sum(dim=1)


class DistributionEncoder(nn.Module):
    """Maps images, or images with annotations, to a normal distribution of latent codes (Eq. 2 and 3).

    Pairs of convolutions with max-pooling between them, the mean over all pixels, one linear layer: the encoder of the
    probabilistic U-Net (Kohl et al., NeurIPS 2018), of MONAI's blocks.

    Args:
        in_channels: channels of what is encoded.
        features: channels at each resolution.
        latent: entries D of a code.
        spatial_dims: 2 or 3.
    """

    def __init__(self, in_channels: int, features: Sequence[int], latent: int, spatial_dims: int) -> None:
        super().__init__()
        # MONAI takes 2 s, and a site process starts without it.
        from monai.networks.nets.basic_unet import Down, TwoConv  # noqa: PLC0415

        first, *others = features
        layers: list[nn.Module] = [TwoConv(spatial_dims, in_channels, first, "relu", "batch", bias=True)]
        for before, after in zip(features, others, strict=False):
            layers.append(Down(spatial_dims, before, after, "relu", "batch", bias=True))
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(features[-1], 2 * latent)

    def forward(self, images: torch.Tensor) -> Gaussian:
        """Encode ``(B, channels, H, W[, D])``."""
        pooled = self.layers(images).flatten(2).mean(dim=2)
        return Gaussian(*self.last(pooled).float().chunk(2, dim=1))


def spread(code: torch.Tensor, like: torch.Tensor, *, of_length_one: bool = False) -> torch.Tensor:
    """Return codes ``(B, D)`` at every pixel of a map ``(B, F, H, W[, D])``.

    Args:
        code: the codes.
        like: the map.
        of_length_one: whether spatial axes have length one instead.
    """
    single = code.reshape(*code.shape, *[1] * (like.ndim - 2))
    return single if of_length_one else single.expand(-1, -1, *like.shape[2:])
