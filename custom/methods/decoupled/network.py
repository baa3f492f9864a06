"""The networks of decoupled predictions: a U-Net that takes a latent code, encoders of the code, and what adapts to a
site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import one_hot, softplus

from ...networks.building import build_network, layer_blocks
from ...settings import ENCODER_FEATURES, FEATURES, LATENT

AdaptationForm = Literal["latent", "published", "feature", "image", "fixed"]

# Width of the adaptation network and number of its layers before the last one.
_ADAPTATION_WIDTH = 8
_ADAPTATION_LAYERS = 4
_PRELU_SLOPE = 0.25


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

    def divergence_from(self, prior: "Gaussian") -> torch.Tensor:
        """Return KL(self ‖ prior) of every sample ``(B,)``, summed over the D entries of the code."""
        ratio = self.log_variance - prior.log_variance
        distance = (self.mean - prior.mean).square() * (-prior.log_variance).exp()
        return 0.5 * (ratio.exp() + distance - 1 - ratio).sum(dim=1)


class DistributionEncoder(nn.Module):
    """Maps images, or images with annotations, to a normal distribution of latent codes.

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
        from monai.networks.nets.basic_unet import Down, TwoConv

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
    ) -> None:
        super().__init__()
        self.posterior = posterior
        self.prior = prior
        unet.final_conv = nn.Identity()
        self.layer_blocks = ("posterior", "prior", *(f"unet.{name}" for name in layer_blocks(unet)), "head")
        self.unet = unet
        self.head = _head(features, latent, num_outputs, spatial_dims)
        self.num_outputs = num_outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits ``(B, C + 1, H, W[, D])`` of the global prediction with the prior's mean as the code."""
        return self.segment(self.unet(images), self.prior(images).mean)

    def segment(self, features: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        """Return the logits for a last feature map ``(B, F, H, W[, D])`` and codes ``(B, D)``."""
        logits: torch.Tensor = self.head(torch.cat([features, _spread(code, features).to(features)], dim=1))
        return logits

    def encode_annotated(self, images: torch.Tensor, labels: torch.Tensor) -> Gaussian:
        """Return the posterior for images ``(B, channels, H, W[, D])`` and labels ``(B, 1, H, W[, D])``."""
        classes = one_hot(labels[:, 0].long(), self.num_outputs).movedim(-1, 1).to(images)
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
        seed: seed of the start weights; the global random state is left as it was.
    """
    unet = build_network(in_channels, num_classes, features, spatial_dims, upsample, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        num_outputs = num_classes + 1
        return DecoupledNetwork(
            unet,
            DistributionEncoder(in_channels, encoder_features, latent, spatial_dims),
            DistributionEncoder(in_channels + num_outputs, encoder_features, latent, spatial_dims),
            num_outputs=num_outputs,
            features=features[-1],
            latent=latent,
            spatial_dims=spatial_dims,
        )


class AdaptationNetwork(nn.Module):
    """The personal part θ^p: how this site's annotations differ from the generic ones. It never leaves the site.

    Its result is W, with W[i, j] the probability that the site annotates class i where class j is right; the columns
    sum to one. The forms differ in what W is made of:

    - ``latent``: the code, through layers without spatial normalisation; W is the same at every pixel of a sample;
    - ``published``: the code at every pixel, through two blocks of two 3×3 convolutions with instance normalisation.
      That normalisation removes a code that is the same everywhere, so W hardly depends on it;
    - ``feature``: the code and the segmentation network's last feature map, through 1×1 layers. The map is taken as it
      is: this part does not train the shared one;
    - ``image``: the image alone, through the convolutions of the published form (the ablation ImgAdapt);
    - ``fixed``: nothing, one matrix for all samples (the ablation FixedAdapt).

    Args:
        form: what W is made of.
        num_outputs: number of classes with the background.
        latent: entries D of a code.
        features: channels of the last feature map.
        in_channels: channels of the image.
        spatial_dims: 2 or 3.
    """

    def __init__(
        self,
        form: AdaptationForm,
        *,
        num_outputs: int,
        latent: int,
        features: int,
        in_channels: int,
        spatial_dims: int,
    ) -> None:
        super().__init__()
        self.form = form
        self._num_outputs = num_outputs
        sources = {"latent": latent, "published": latent, "feature": latent + features, "image": in_channels}
        if form == "fixed":
            self.matrix = nn.Parameter(torch.zeros(num_outputs**2))
        elif form in ("latent", "feature"):
            self.layers = _pointwise_layers(sources[form], num_outputs**2, spatial_dims)
        else:
            self.layers = _convolutional_layers(sources[form], num_outputs**2, spatial_dims)

    def forward(self, images: torch.Tensor, features: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        """Return W ``(B, C + 1, C + 1, H, W[, D])``, its spatial axes of length one where all pixels have the same.

        Args:
            images: ``(B, channels, H, W[, D])``.
            features: the segmentation network's last feature map ``(B, F, H, W[, D])``.
            code: ``(B, D)``.
        """
        if self.form == "fixed":
            values = _spread(self.matrix.expand(images.shape[0], -1), images, of_length_one=True)
        elif self.form == "latent":
            values = self.layers(_spread(code, images, of_length_one=True))
        elif self.form == "published":
            values = self.layers(_spread(code, images))
        elif self.form == "feature":
            values = self.layers(torch.cat([features.detach().float(), _spread(code, features)], dim=1))
        else:
            values = self.layers(images)
        size = (values.shape[0], self._num_outputs, self._num_outputs, *values.shape[2:])
        # Softplus of a very negative number is zero.
        flips = softplus(values.float()).reshape(size).clamp_min(torch.finfo(torch.float32).tiny)
        normalised: torch.Tensor = flips / flips.sum(dim=1, keepdim=True)
        return normalised


def log_local_probabilities(log_global: torch.Tensor, adaptation: torch.Tensor) -> torch.Tensor:
    """Return log(W ⊙ p), the logarithm of the local prediction, ``(B, C + 1, H, W[, D])``.

    Args:
        log_global: log p ``(B, C + 1, H, W[, D])``.
        adaptation: W ``(B, C + 1, C + 1, H, W[, D])``, or with spatial axes of length one.
    """
    return torch.logsumexp(adaptation.log() + log_global.unsqueeze(1), dim=2)


class LocalModel(nn.Module):
    """A site's own prediction: the shared network and the site's adaptation.

    Args:
        shared: the shared part.
        adaptation: the site's own part.
    """

    def __init__(self, shared: DecoupledNetwork, adaptation: AdaptationNetwork) -> None:
        super().__init__()
        self.shared = shared
        self.adaptation = adaptation

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return log(W ⊙ p) with the prior's mean as the code, ``(B, C + 1, H, W[, D])``; its softmax is W ⊙ p."""
        features, code = self.shared.unet(images), self.shared.prior(images).mean
        log_global = self.shared.segment(features, code).float().log_softmax(dim=1)
        return log_local_probabilities(log_global, self.adaptation(images, features, code))


def _spread(code: torch.Tensor, like: torch.Tensor, *, of_length_one: bool = False) -> torch.Tensor:
    """Codes ``(B, D)`` at every pixel of a map ``(B, F, H, W[, D])``."""
    single = code.reshape(*code.shape, *[1] * (like.ndim - 2))
    return single if of_length_one else single.expand(-1, -1, *like.shape[2:])


def _convolution(spatial_dims: int) -> type[nn.Conv2d] | type[nn.Conv3d]:
    return nn.Conv2d if spatial_dims == 2 else nn.Conv3d


def _head(features: int, latent: int, num_outputs: int, spatial_dims: int) -> nn.Sequential:
    """Three 1×1 convolutions over the last feature map and the code, in which the code has no say at the start.

    A code is drawn with noise as large as the feature map; given a say at once it hides the map for hundreds of steps.
    """
    convolution = _convolution(spatial_dims)
    widths = ((features + latent, features), (features, features), (features, num_outputs))
    first, second, last = (convolution(*channels, 1) for channels in widths)
    for layer in (first, second, last):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    with torch.no_grad():
        first.weight[:, features:] = 0
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


def _pointwise_layers(in_channels: int, out_channels: int, spatial_dims: int) -> nn.Sequential:
    convolution = _convolution(spatial_dims)
    layers: list[nn.Module] = []
    for channels in (in_channels, *[_ADAPTATION_WIDTH] * (_ADAPTATION_LAYERS - 1)):
        layer = convolution(channels, _ADAPTATION_WIDTH, 1)
        # PyTorch's own start weights would let next to nothing of the code through four narrow layers.
        nn.init.kaiming_normal_(layer.weight, a=_PRELU_SLOPE)
        layers += [layer, nn.PReLU(init=_PRELU_SLOPE)]
    return nn.Sequential(*layers, convolution(_ADAPTATION_WIDTH, out_channels, 1))


def _convolutional_layers(in_channels: int, out_channels: int, spatial_dims: int) -> nn.Sequential:
    """The network of the paper's supplement."""
    convolution = _convolution(spatial_dims)
    normalisation = nn.InstanceNorm2d if spatial_dims == 2 else nn.InstanceNorm3d
    layers: list[nn.Module] = []
    for channels in (in_channels, *[_ADAPTATION_WIDTH] * (_ADAPTATION_LAYERS - 1)):
        layers += [
            convolution(channels, _ADAPTATION_WIDTH, 3, padding=1, bias=False),
            normalisation(_ADAPTATION_WIDTH, affine=True),
            nn.PReLU(),
        ]
    return nn.Sequential(*layers, convolution(_ADAPTATION_WIDTH, out_channels, 1))
