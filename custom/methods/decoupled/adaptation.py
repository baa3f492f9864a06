"""The personal part of decoupled predictions: what adapts the global prediction to a site, and the local one."""

from typing import Literal

import torch
from torch import nn
from torch.nn.functional import softplus

from .codes import spread
from .network import DecoupledNetwork, convolution_type

AdaptationForm = Literal["latent", "published", "feature", "image", "fixed"]

# Width of the adaptation network and number of its layers before the last one.
_ADAPTATION_WIDTH = 8
_ADAPTATION_LAYERS = 4
_PRELU_SLOPE = 0.25


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
            values = spread(self.matrix.expand(images.shape[0], -1), images, of_length_one=True)
        elif self.form == "latent":
            values = self.layers(spread(code, images, of_length_one=True))
        elif self.form == "published":
            values = self.layers(spread(code, images))
        elif self.form == "feature":
            values = self.layers(torch.cat([features.detach().float(), spread(code, features)], dim=1))
        else:
            values = self.layers(images)
        size = (values.shape[0], self._num_outputs, self._num_outputs, *values.shape[2:])
        # Softplus of a very negative number is zero.
        flips = softplus(values.float()).reshape(size).clamp_min(torch.finfo(torch.float32).tiny)
        normalised: torch.Tensor = flips / flips.sum(dim=1, keepdim=True)
        return normalised


def log_local_probabilities(log_global: torch.Tensor, adaptation: torch.Tensor) -> torch.Tensor:
    """Return log(W ⊙ p), the logarithm of the local prediction (Eq. 4), ``(B, C + 1, H, W[, D])``.

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
        """Return log(W ⊙ p) with the shared network's code, ``(B, C + 1, H, W[, D])``; its softmax is W ⊙ p."""
        features, code = self.shared.unet(images), self.shared.code(images)
        log_global = self.shared.segment(features, code).float().log_softmax(dim=1)
        return log_local_probabilities(log_global, self.adaptation(images, features, code))


def _pointwise_layers(in_channels: int, out_channels: int, spatial_dims: int) -> nn.Sequential:
    convolution = convolution_type(spatial_dims)
    layers: list[nn.Module] = []
    for channels in (in_channels, *[_ADAPTATION_WIDTH] * (_ADAPTATION_LAYERS - 1)):
        layer = convolution(channels, _ADAPTATION_WIDTH, 1)
        # PyTorch's own start weights would let next to nothing of the code through four narrow layers.
        nn.init.kaiming_normal_(layer.weight, a=_PRELU_SLOPE)
        layers += [layer, nn.PReLU(init=_PRELU_SLOPE)]
    return nn.Sequential(*layers, convolution(_ADAPTATION_WIDTH, out_channels, 1))


def _convolutional_layers(in_channels: int, out_channels: int, spatial_dims: int) -> nn.Sequential:
    """The network of the paper's supplement."""
    convolution = convolution_type(spatial_dims)
    normalisation = nn.InstanceNorm2d if spatial_dims == 2 else nn.InstanceNorm3d
    layers: list[nn.Module] = []
    for channels in (in_channels, *[_ADAPTATION_WIDTH] * (_ADAPTATION_LAYERS - 1)):
        layers += [
            convolution(channels, _ADAPTATION_WIDTH, 3, padding=1, bias=False),
            normalisation(_ADAPTATION_WIDTH, affine=True),
            nn.PReLU(),
        ]
    return nn.Sequential(*layers, convolution(_ADAPTATION_WIDTH, out_channels, 1))
