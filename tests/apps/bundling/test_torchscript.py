"""TorchScript of every network: the same bits as the network in the evaluation, for batches of any length."""

import io
from typing import Any

import pytest
import torch
from torch import nn

from fedannot.apps.bundling.torchscript import to_torchscript
from fedannot.custom.methods.decoupled.settings import DecoupledNetworkSettings, DecoupledSettings
from fedannot.custom.methods.decoupled.site import DecoupledSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.settings import ClassifierSettings, NetworkSettings
from fedannot.transforms.errors import DataError

FEATURES = (4, 4, 8, 8, 8, 4)
NETWORKS: dict[str, Any] = {
    "2D": NetworkSettings(features=FEATURES),
    "3D": NetworkSettings(features=FEATURES, spatial_dims=3, upsample="nontrainable"),
    "decoupled": DecoupledNetworkSettings(features=FEATURES, encoder_features=(4, 8)),
    "classifier": ClassifierSettings(depth=10, widths=(4, 8, 8, 8), stem="small"),
}


def trained(network: nn.Module) -> nn.Module:
    """Weights, and statistics of normalisation, that are all of some size."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                tensor.add_(0.3 * (torch.rand(tensor.shape, generator=generator) - (0 if "var" in name else 0.5)))
    return network


def assert_same_bits(network: nn.Module, size: tuple[int, ...], channels: int) -> None:
    buffer = io.BytesIO()
    torch.jit.save(to_torchscript(network, channels, size), buffer)  # type: ignore[no-untyped-call]
    buffer.seek(0)
    loaded = torch.jit.load(buffer)  # type: ignore[no-untyped-call]
    prepared = ready_to_compute(network).eval()
    for batch in (1, 2, 5, 8):
        images = torch.randn(batch, channels, *size, generator=torch.Generator().manual_seed(batch))
        with torch.inference_mode():
            expected = prepared(images)
            assert torch.equal(loaded(images), expected)
        assert len(expected.unique()) > batch


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    settings = NETWORKS[name]
    # Not multiples of 16.
    size = (38, 52) if settings.spatial_dims == 2 else (34, 32, 18)
    assert_same_bits(trained(described_network(settings)), size, settings.in_channels)


@pytest.mark.parametrize("form", ["latent", "published", "feature", "image", "fixed"])
def test_personal_models_in_every_form(form: Any) -> None:
    network = DecoupledNetworkSettings(features=FEATURES, encoder_features=(4, 8))
    settings = DecoupledSettings(adaptation=form, network=network)
    method, shared = DecoupledSite(settings), described_network(network)
    personal = method.start(shared, seed=1)
    assert_same_bits(trained(method.local_model(shared, personal)), (32, 36), 1)


def test_the_network_is_left_as_it_is_and_the_encoder_of_annotations_left_out() -> None:
    network = described_network(NETWORKS["decoupled"])
    network.train()
    network.test_code = "sampled"
    traced = to_torchscript(network, 1, (32, 32))
    assert (network.training, network.test_code) == (True, "sampled")
    # A draw cannot be traced.
    mean = described_network(NETWORKS["decoupled"]).eval()
    images = torch.randn(3, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(traced(images), mean(images))
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert {name.split(".")[0] for name in traced.state_dict()} == {"prior", "unet", "head"}
    assert {name.split(".")[0] for name in network.state_dict()} == {"posterior", "prior", "unet", "head"}


def test_weights_that_are_not_finite_are_refused() -> None:
    network = described_network(NETWORKS["2D"])
    with torch.no_grad():
        next(network.parameters()).fill_(torch.nan)
    with pytest.raises(DataError, match=r"as TorchScript differs from BasicUNet .* Are its weights finite\?"):
        to_torchscript(network, 1, (32, 32))
