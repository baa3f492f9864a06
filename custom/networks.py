"""The segmentation network and its layer blocks, the units of layer-wise aggregation."""

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from .light_monai import unused_packages_absent

FEATURES = (16, 32, 64, 128, 256, 16)


def build_network(
    in_channels: int = 1,
    num_classes: int = 1,
    features: Sequence[int] = FEATURES,
    spatial_dims: int = 2,
    upsample: str = "deconv",
    seed: int = 0,
) -> nn.Module:
    """Build MONAI's ``BasicUNet`` with batch normalisation and ReLU, initialised from a seed.

    With the default features it is the nearest form of FedA³I's U-Net: ten blocks, one after the other.

    Args:
        in_channels: channels of the image, 1 for grey, 3 for RGB.
        num_classes: number of foreground classes C; the network has C + 1 output channels (background first).
        features: widths of the five encoder levels and of the last decoder level.
        spatial_dims: 2 for images ``(B, C, H, W)``, 3 for volumes ``(B, C, H, W, D)``.
        upsample: MONAI's upsampling mode, ``"deconv"`` or ``"nontrainable"`` (linear interpolation).
        seed: seed of the start weights; the global random state is left as it was.
    """
    with unused_packages_absent():
        from monai.networks.nets.basic_unet import BasicUNet

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: nn.Module = BasicUNet(
            spatial_dims=spatial_dims,
            in_channels=in_channels,
            out_channels=num_classes + 1,
            features=tuple(features),
            act="relu",
            norm="batch",
            upsample=upsample,
        )
    return network


def layer_blocks(network: nn.Module, prefixes: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the names of a network's layer blocks in forward order.

    The configured prefixes come first; else a network says it by an attribute ``layer_blocks`` (a sequence of parameter
    name prefixes); else the children of MONAI's ``BasicUNet``, which are registered in forward order, are its blocks:
    conv_0, down_1..4, upcat_4..1, final_conv.

    Raises:
        ValueError: if nothing says which blocks the network has.
    """
    if prefixes:
        return tuple(prefixes)
    declared = getattr(network, "layer_blocks", None)
    if declared is not None:
        return tuple(declared)
    if type(network).__name__ == "BasicUNet":
        return tuple(name for name, _ in network.named_children())
    raise ValueError(
        f"Expected a network that declares its blocks in forward order, but {type(network).__name__} has no attribute "
        "'layer_blocks'; name the parameter prefixes in the job's setting 'blocks'."
    )


def assign_blocks(names: Iterable[str], blocks: Sequence[str]) -> dict[str, str]:
    """Map every entry of a state dict to its layer block, the one whose name is a prefix of the entry's.

    Raises:
        ValueError: if an entry belongs to no block or to several, or if a block has no entry.
    """
    assignment: dict[str, str] = {}
    for name in names:
        owners = [block for block in blocks if name == block or name.startswith(f"{block}.")]
        if len(owners) != 1:
            raise ValueError(f"Expected exactly one layer block for {name!r} among {list(blocks)}, but found {owners}.")
        assignment[name] = owners[0]
    if unused := [block for block in blocks if block not in assignment.values()]:
        raise ValueError(f"Expected parameters in every layer block, but found none in {unused}.")
    return assignment
