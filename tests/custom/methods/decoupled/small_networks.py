"""Small networks of decoupled predictions, and what goes into them."""

import torch

from fedannot.custom.methods.decoupled.adaptation import AdaptationNetwork
from fedannot.custom.methods.decoupled.network import build_decoupled_network

SMALL = {"features": (4, 4, 8, 8, 8, 4), "encoder_features": (4, 8), "latent": 3}


def network(**changes):
    return build_decoupled_network(**(SMALL | changes)).eval()


def adaptation(form, *, seed=0, num_outputs=2, spatial_dims=2):
    torch.manual_seed(seed)
    return AdaptationNetwork(
        form, num_outputs=num_outputs, latent=3, features=4, in_channels=1, spatial_dims=spatial_dims
    )


def inputs(seed=0, *, size=(16, 16), batch=2):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(batch, 1, *size, generator=generator),
        torch.randn(batch, 4, *size, generator=generator),
        torch.randn(batch, 3, generator=generator),
    )
