import copy
import platform
import subprocess
import sys

import pytest
import torch
from torch import nn

from fedannot.custom.networks import devices
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import (
    SubsampledConv2d,
    params_in_main_memory,
    preferred_device,
    processor_name,
    ready_to_compute,
)

FEATURES = (4, 4, 8, 8, 8, 4)


def test_the_processor_is_called_as_the_system_calls_it(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(devices, "_CPU_FILE", tmp_path / "cpuinfo")
    assert processor_name() in (platform.processor(), platform.machine())
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n")
    assert processor_name() == "Some CPU @ 2 GHz"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert processor_name() == "Some GPU"


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


@pytest.mark.parametrize(
    ("channels", "size"), [(8, (31, 32)), (8, (33, 64)), (8, (64, 64)), (2, (7, 8)), (4, (16, 16)), (7, (64, 64))]
)
def test_a_strided_convolution_of_few_channels_is_the_same_convolution(channels, size):
    """Its values and gradients, relative to sums in double precision; PyTorch's own kills the process at 64 × 64."""
    convolution = ready_to_compute(nn.Conv2d(channels, 16, 1, 2)).to("cpu")
    assert isinstance(convolution, SubsampledConv2d)
    images = torch.rand(4, channels, *size).contiguous(memory_format=torch.channels_last).requires_grad_()
    result = convolution(images)
    chosen, weight = images.detach().double()[:, :, ::2, ::2], convolution.weight.detach().double()[:, :, 0, 0]
    expected = torch.einsum("bchw,oc->bohw", chosen, weight) + convolution.bias.detach().double()[:, None, None]
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
    gradient = torch.rand(result.shape)
    result.backward(gradient)
    of_weight = torch.einsum("bohw,bchw->oc", gradient.double(), chosen)
    torch.testing.assert_close(convolution.weight.grad[:, :, 0, 0].double(), of_weight, rtol=1e-4, atol=1e-4)
    of_images = torch.zeros(images.shape, dtype=torch.float64)
    of_images[:, :, ::2, ::2] = torch.einsum("bohw,oc->bchw", gradient.double(), weight)
    torch.testing.assert_close(images.grad.double(), of_images, rtol=1e-5, atol=1e-5)


def test_small_images_have_the_bits_that_they_always_had():
    plain = nn.Conv2d(8, 16, 1, 2)
    images = torch.rand(4, 8, 32, 32).contiguous(memory_format=torch.channels_last)
    expected = plain(images)
    assert torch.equal(ready_to_compute(copy.deepcopy(plain)).to("cpu")(images), expected)


@pytest.mark.parametrize(
    "kept", [nn.Conv2d(16, 16, 1, 2), nn.Conv2d(8, 8, 3, 2), nn.Conv2d(8, 8, 1), nn.Conv3d(8, 8, 1, 2)]
)
def test_other_convolutions_stay_what_they_are(kept):
    assert type(ready_to_compute(copy.deepcopy(kept))) is type(kept)


# The seed of a crash: a process dies, or another object of it is overwritten.
TRAINED = """
import torch
from fedannot.custom.networks.building import build_classifier
from fedannot.custom.networks.copying import NetworkTemplate
from fedannot.custom.networks.devices import ready_to_compute

torch.manual_seed(0)
built = ready_to_compute(build_classifier(1, 3, 10, {widths}, "small"))
network = NetworkTemplate(built).copy()
for _ in range({steps}):
    network(torch.rand(4, 1, {size}, {size})).sum().backward()
    others = [torch.randn(37 * number + 1) for number in range(50)]
print("trained")
"""


# By the vectors of the processor, the first or the second kills a process in which PyTorch computes them.
@pytest.mark.parametrize(("widths", "size", "steps"), [((8, 16, 32, 64), 128, 2), ((4, 8, 8, 8), 28, 30)])
def test_a_narrow_classifier_is_trained(widths, size, steps):
    code = TRAINED.format(widths=widths, size=size, steps=steps)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr


@pytest.mark.parametrize("shape", [(3, 5, 3, 3), (2, 1, 3, 2), (4, 6, 3, 2, 5), (4, 6, 1, 1)])
def test_kernels_are_sent_in_the_order_of_their_axes(shape):
    build = nn.Conv2d if len(shape) == 4 else nn.Conv3d
    network = ready_to_compute(build(shape[1], shape[0], shape[2:])).to("cpu")
    expected = torch.arange(float(network.weight.numel())).view(shape)
    with torch.no_grad():
        network.weight.copy_(expected)
    sent = params_in_main_memory(network)["weight"]
    assert sent.numpy().tobytes() == expected.numpy().tobytes()
    assert sent.stride() == expected.stride()
