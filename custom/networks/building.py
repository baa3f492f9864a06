"""The networks, for segmentation and for classification, and their layer blocks, the units of aggregation."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import nn

from ..global_rng import briefly_seeded_rng
from ..settings import FEATURES, WIDTHS
from .block_order import blocks_in_order
from .start_weights import check_fits, read_state_dict

# Kind of the residual blocks, and their number in each of the four stages, by the network's depth.
_STAGES = {
    10: ("basic", [1, 1, 1, 1]),
    18: ("basic", [2, 2, 2, 2]),
    34: ("basic", [3, 4, 6, 3]),
    50: ("bottleneck", [3, 4, 6, 3]),
}
_LAST_LAYER = "fc"


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

    Example:
        >>> network = build_network(in_channels=1, num_classes=2, features=(4, 4, 8, 8, 8, 4))
        >>> import torch
        >>> network(torch.zeros(1, 1, 32, 32)).shape
        torch.Size([1, 3, 32, 32])
    """
    # MONAI takes 2 s, and a site process starts without it; also below.
    from monai.networks.nets.basic_unet import BasicUNet  # noqa: PLC0415

    with briefly_seeded_rng(seed):
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


def build_classifier(
    in_channels: int = 3,
    num_classes: int = 2,
    depth: int = 50,
    widths: Sequence[int] = WIDTHS,
    stem: str = "large",
    checkpoint: str = "",
    spatial_dims: int = 2,
    seed: int = 0,
) -> nn.Module:
    """Build MONAI's residual network for classification, initialised from a seed or a checkpoint.

    With the default widths and the large stem its entries have the names and shapes of the typical ResNet of PyTorch,
    so that checkpoints of it can be loaded.

    Args:
        in_channels: channels of the image, 1 for grey, 3 for RGB.
        num_classes: number of classes C, the number of outputs.
        depth: 10, 18, 34 or 50 layers.
        widths: channels of the four stages; with 50 layers a quarter of what leaves them.
        stem: ``"large"``, a 7×7 convolution of stride 2 and pooling; ``"small"``, for images of some tens of pixels, a
            3×3 convolution of stride 2 without pooling.
        checkpoint: file with a state dict, or one under the key ``state_dict`` or ``model``, read with
            ``weights_only``; a last layer for another number of classes is not taken from it.
        spatial_dims: 2 for images ``(B, C, H, W)``.
        seed: seed of the start weights; the global random state is left as it was.

    Raises:
        ModelFileError: if the checkpoint cannot be read, or an entry is missing, unknown or of another shape.

    Example:
        >>> network = build_classifier(num_classes=4, depth=10, widths=(4, 4, 8, 8))
        >>> import torch
        >>> network(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 4])
    """
    from monai.networks.nets.resnet import ResNet  # noqa: PLC0415

    block, layers = _STAGES[depth]
    is_large = stem == "large"
    with briefly_seeded_rng(seed):
        network: nn.Module = ResNet(
            block,
            layers,
            list(widths),
            spatial_dims=spatial_dims,
            n_input_channels=in_channels,
            conv1_t_size=7 if is_large else 3,
            conv1_t_stride=2,
            no_max_pool=not is_large,
            bias_downsample=False,
            num_classes=num_classes,
        )
    if checkpoint:
        load_checkpoint(network, Path(checkpoint))
    return network


def load_checkpoint(network: nn.Module, file: Path) -> None:
    """Give a classifier the weights of a checkpoint; a last layer for another number of classes is not taken.

    Raises:
        ModelFileError: if the checkpoint cannot be read, or an entry is missing, unknown or of another shape.
    """
    wanted, result = network.state_dict(), read_state_dict(file)
    last = [name for name in wanted if name.startswith(f"{_LAST_LAYER}.")]
    if any(name not in result or result[name].shape != wanted[name].shape for name in last):
        result |= {name: wanted[name] for name in last}
    check_fits(file, result, wanted)
    network.load_state_dict(result)


def layer_blocks(network: nn.Module, prefixes: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the names of a network's layer blocks in forward order.

    The configured prefixes come first; else a network says it by an attribute ``layer_blocks`` (a sequence of parameter
    name prefixes). A network in MONAI's form is run once to see in which order its modules run, see
    :func:`fedannot.custom.networks.block_order.blocks_in_order`. Of MONAI's ``BasicUNet`` and ``ResNet`` as settings
    without ``_target_`` describe them, the children that have parameters are the blocks, which are registered in
    forward order: conv_0, down_1..4, upcat_4..1, final_conv, or conv1, bn1, layer1..4, fc.

    Raises:
        ValueError: if nothing says which blocks the network has.

    Example:
        >>> layer_blocks(build_network(features=(4, 4, 8, 8, 8, 4)))[:3]
        ('conv_0', 'down_1', 'down_2')
    """
    if prefixes:
        return tuple(prefixes)
    declared = getattr(network, "layer_blocks", None)
    if declared is not None:
        return tuple(declared)
    if extents := vars(network).get("pass_extents"):
        blocks = blocks_in_order(network, vars(network)["pass_channels"], extents)
        # A network stays as it is once it is built.
        vars(network)["layer_blocks"] = blocks
        return blocks
    if type(network).__name__ in ("BasicUNet", "ResNet"):
        return tuple(name for name, child in network.named_children() if child.state_dict())
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
