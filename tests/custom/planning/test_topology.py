"""Levels of a U-Net, against nnU-Net's published ones and what PyTorch keeps and computes."""

import pytest
import torch
from monai.networks.nets.dynunet import DynUNet
from torch.utils.flop_counter import FlopCounterMode

from fedannot.apps.planning.machine import dynunet
from fedannot.custom.planning.topology import Topology


def test_levels_are_those_of_nnunet() -> None:
    # Isensee et al., 2021, supplement: hippocampus has four levels, prostate kernels of one slice in the first two.
    hippocampus = Topology.of((40, 56, 40), (1, 1, 1), 32)
    assert (hippocampus.patch, len(hippocampus.strides)) == ((40, 56, 40), 4)
    assert hippocampus.features == (32, 64, 128, 256)
    prostate = Topology.of((256, 320, 20), (0.62, 0.62, 3.6), 32)
    assert prostate.kernels[:3] == ((3, 3, 1), (3, 3, 1), (3, 3, 3))
    assert prostate.strides[1:4] == ((2, 2, 1), (2, 2, 1), (2, 2, 2))
    assert prostate.features[-1] == 320


def test_a_patch_is_a_multiple_of_its_strides_and_no_larger_than_the_images() -> None:
    topology = Topology.of((37, 51, 35), (1, 1, 1), 8)
    assert topology.patch == (32, 48, 32)
    assert all(size % step == 0 for size, step in zip(topology.patch, topology.total_strides, strict=True))


def test_whole_images_are_halved_only_while_that_is_even() -> None:
    topology = Topology.of((100, 120), (1, 1), 8, is_whole=True)
    assert (topology.patch, topology.total_strides) == ((100, 120), (4, 8))


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="16 pixels at least"):
        Topology.of((8, 12), (1, 1), 8)


@pytest.mark.parametrize(
    ("extents", "spacing", "width"), [((32, 32, 16), (0.5, 0.5, 2.0), 8), ((64, 96), (1.0, 1.0), 8)]
)
def test_memory_and_operations_are_those_of_pytorch(
    extents: tuple[float, ...], spacing: tuple[float, ...], width: int
) -> None:
    topology = Topology.of(extents, spacing, width)
    arguments = dynunet(topology) | {"deep_supervision": False}
    network = DynUNet(spatial_dims=len(extents), in_channels=1, out_channels=2, **arguments)
    pieces: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        pieces[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = network(torch.rand(2, 1, *topology.patch))
        output.sum().backward()
    weights = 4 * sum(parameter.numel() for parameter in network.parameters())
    # What is kept has the weights once, a step gradients, momentum and a copy more.
    assert topology.training_bytes(2) == pytest.approx(sum(pieces.values()) + 3 * weights, rel=0.1)
    assert topology.step_operations(2) == pytest.approx(counter.get_total_flops(), rel=0.3)
