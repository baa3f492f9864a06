import pytest
import torch

from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import preferred_device, ready_to_compute

FEATURES = (4, 4, 8, 8, 8, 4)


def test_preferred_device_is_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert preferred_device().type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert preferred_device().type == "cpu"


@pytest.mark.parametrize(("spatial_dims", "layout"), [(2, torch.channels_last), (3, torch.channels_last_3d)])
def test_a_network_computes_the_same_with_channels_last(spatial_dims, layout, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    network = build_network(features=FEATURES, spatial_dims=spatial_dims, in_channels=3, upsample="nontrainable")
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    images = torch.randn(2, 3, *(32,) * spatial_dims, generator=torch.Generator().manual_seed(0))
    expected = network(images)

    network.load_state_dict(before)
    network = ready_to_compute(network)
    result = network(images)

    assert network.get_submodule("conv_0")(images).is_contiguous(memory_format=layout)
    torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-4)
    network.load_state_dict(before)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
