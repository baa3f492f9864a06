"""The shared network of decoupled predictions: a U-Net that takes a latent code, and the encoders of the code."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import one_hot

from ....transforms.ignored_label import IGNORED_LABEL
from ...global_rng import briefly_seeded_rng
from ...networks.building import build_network, layer_blocks
from ...settings import FEATURES
from .codes import DistributionEncoder, Gaussian, spread
from .settings import ENCODER_FEATURES, LATENT, TestCode


class DecoupledNetwork(nn.Module):
    """The shared part of decoupled predictions: segmentation network θ^s, prior ψ and posterior φ.

    The segmentation network is MONAI's ``BasicUNet`` whose last feature map is joined with the latent code, the same at
    every pixel, and goes through three 1×1 convolutions; see Gao et al., *Decoupling Predictions in Distributed
    Learning for Multi-Center Left Atrial MRI Segmentation*, MICCAI 2022, Sec. 2.

    Args:
        unet: a network of :func:`fedannot.custom.networks.build_network`.
        prior: encodes images.
        posterior: encodes images and annotations.
        num_outputs: number of classes with the background.
        latent: entries D of a code.
        spatial_dims: 2 or 3.
        test_code: what a prediction takes as the code, see :class:`DecoupledNetworkSettings`.
    """

    def __init__(
        self,
        unet: nn.Module,
        prior: DistributionEncoder,
        posterior: DistributionEncoder,
        *,
        num_outputs: int,
        features: int,
        latent: int,
        spatial_dims: int,
        test_code: TestCode = "mean",
    ) -> None:
        super().__init__()
        self.test_code = test_code
        self.posterior = posterior
        self.prior = prior
        unet.final_conv = nn.Identity()
        self.layer_blocks = ("posterior", "prior", *(f"unet.{name}" for name in layer_blocks(unet)), "head")
        self.unet = unet
        self.head = _head(features, latent, num_outputs, spatial_dims)
        self.num_outputs = num_outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits ``(B, C + 1, H, W[, D])`` of the global prediction with :meth:`code` as the code."""
        return self.segment(self.unet(images), self.code(images))

    def code(self, images: torch.Tensor) -> torch.Tensor:
        """Return the codes ``(B, D)`` of a prediction for images ``(B, channels, H, W[, D])``.

        They are the prior's mean or a draw from it. The draw's seed is a hash of the image, so it depends on no batch.
        """
        prior: Gaussian = self.prior(images)
        return prior.mean if self.test_code == "mean" else prior.sample_by(images)

    def segment(self, features: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        """Return the logits for a last feature map ``(B, F, H, W[, D])`` and codes ``(B, D)``."""
        logits: torch.Tensor = self.head(torch.cat([features, spread(code, features).to(features)], dim=1))
        return logits

    def encode_annotated(self, images: torch.Tensor, labels: torch.Tensor) -> Gaussian:
        """Return the posterior (Eq. 3) for images ``(B, channels, H, W[, D])`` and labels ``(B, 1, H, W[, D])``.

        Ignored pixels are of no class.
        """
        counts = labels != IGNORED_LABEL
        known = labels.long().masked_fill(~counts, 0)[:, 0]
        classes = one_hot(known, self.num_outputs).movedim(-1, 1).to(images) * counts
        encoded: Gaussian = self.posterior(torch.cat([images, classes], dim=1))
        return encoded


def build_decoupled_network(
    in_channels: int = 1,
    num_classes: int = 1,
    features: Sequence[int] = FEATURES,
    spatial_dims: int = 2,
    upsample: str = "deconv",
    latent: int = LATENT,
    encoder_features: Sequence[int] = ENCODER_FEATURES,
    test_code: TestCode = "mean",
    seed: int = 0,
) -> nn.Module:
    """Build the shared part of decoupled predictions, initialised from a seed.

    Args:
        in_channels: see :func:`fedannot.custom.networks.build_network`, also for the next ones.
        num_classes: number of foreground classes C.
        features: widths of the U-Net.
        spatial_dims: 2 or 3.
        upsample: MONAI's upsampling mode.
        latent: entries D of a latent code.
        encoder_features: channels of the encoders at each resolution.
        test_code: see :class:`DecoupledNetworkSettings`.
        seed: seed of the start weights; the global random state is left as it was.
    """
    unet = build_network(in_channels, num_classes, features, spatial_dims, upsample, seed)
    with briefly_seeded_rng(seed):
        num_outputs = num_classes + 1
        return DecoupledNetwork(
            unet,
            DistributionEncoder(in_channels, encoder_features, latent, spatial_dims),
            DistributionEncoder(in_channels + num_outputs, encoder_features, latent, spatial_dims),
            num_outputs=num_outputs,
            features=features[-1],
            latent=latent,
            spatial_dims=spatial_dims,
            test_code=test_code,
        )


def convolution_type(spatial_dims: int) -> type[nn.Conv2d] | type[nn.Conv3d]:
    """Return PyTorch's convolution of two or three dimensions."""
    return nn.Conv2d if spatial_dims == 2 else nn.Conv3d


def _head(features: int, latent: int, num_outputs: int, spatial_dims: int) -> nn.Sequential:
    """Three 1×1 convolutions over the last feature map and the code, in which the code has no say at the start.

    A code is drawn with noise as large as the feature map; given a say at once it hides the map for hundreds of steps.
    """
    convolution = convolution_type(spatial_dims)
    widths = ((features + latent, features), (features, features), (features, num_outputs))
    first, second, last = (convolution(*channels, 1) for channels in widths)
    for layer in (first, second, last):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    with torch.no_grad():
        first.weight[:, features:] = 0
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
