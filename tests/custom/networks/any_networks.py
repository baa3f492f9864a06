"""Networks of MONAI by settings, small, and the blocks that they have in forward order, written by hand."""

from typing import Any

import pytest
from torch import nn

from fedannot.custom.settings import ClassifierSettings, NetworkSettings

NEED_EINOPS = ("SwinUNETR", "ViT")

NETWORKS: dict[str, dict[str, Any]] = {
    "BasicUNet": {"features": [4, 4, 8, 8, 8, 4]},
    "UNet": {"channels": [4, 8, 16], "strides": [2, 2], "num_res_units": 1},
    "DynUNet": {
        "kernel_size": [3, 3, 3, 3],
        "strides": [1, 2, 2, 2],
        "upsample_kernel_size": [2, 2, 2],
        "filters": [4, 8, 16, 16],
        "deep_supervision": True,
        "deep_supr_num": 2,
    },
    "SegResNet": {"init_filters": 8, "blocks_down": [1, 2, 2, 4]},
    "AttentionUnet": {"channels": [4, 8, 16], "strides": [2, 2]},
    "SwinUNETR": {"feature_size": 12, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 4]},
    "DenseNet121": {"init_features": 8, "growth_rate": 4, "block_config": [2, 2, 2, 2]},
    "EfficientNetBN": {"model_name": "efficientnet-b0"},
    "ViT": {"img_size": 32, "patch_size": 8, "hidden_size": 12, "mlp_dim": 24, "num_layers": 2, "num_heads": 2},
}
CLASSIFIERS = ("DenseNet121", "EfficientNetBN", "ViT")

BLOCKS = {
    "BasicUNet": "conv_0 down_1 down_2 down_3 down_4 upcat_4 upcat_3 upcat_2 upcat_1 final_conv",
    "UNet": "model.0 model.1.submodule.0 model.1.submodule.1 model.1.submodule.2 model.2",
    "DynUNet": "input_block downsamples.0 downsamples.1 bottleneck upsamples.0 deep_supervision_heads.1 upsamples.1 "
    "deep_supervision_heads.0 upsamples.2 output_block",
    "SegResNet": "convInit down_layers.0 down_layers.1 down_layers.2 down_layers.3.0 down_layers.3.1 down_layers.3.2 "
    "down_layers.3.3 down_layers.3.4 up_samples.0 up_layers.0 up_samples.1 up_layers.1 up_samples.2 up_layers.2 "
    "conv_final",
    "AttentionUnet": "model.0 model.1.submodule.0 model.1.submodule.1.submodule model.1.submodule.1.upconv "
    "model.1.submodule.1.attention model.1.submodule.1.merge model.1.upconv model.1.attention model.1.merge model.2",
    "SwinUNETR": "swinViT encoder1 encoder2 encoder3 encoder4 encoder10 decoder5 decoder4 decoder3 decoder2 decoder1 "
    "out",
    "DenseNet121": "features.conv0 features.norm0 features.denseblock1 features.transition1 features.denseblock2 "
    "features.transition2 features.denseblock3 features.transition3 features.denseblock4 features.norm5 class_layers",
    "EfficientNetBN": "_conv_stem _bn0 _blocks.0 _blocks.1 _blocks.2 _blocks.3 _blocks.4 _blocks.5 _blocks.6 "
    "_conv_head _bn1 _fc",
    "ViT": "cls_token patch_embedding blocks.0 blocks.1 norm classification_head",
}


def settings_of(name: str, **changes: Any) -> NetworkSettings | ClassifierSettings:
    if name in NEED_EINOPS:
        pytest.importorskip("einops")
    kind = ClassifierSettings if name in CLASSIFIERS else NetworkSettings
    return kind.model_validate({"_target_": name, "in_channels": 1, **NETWORKS[name], **changes})


class ReadsItsWeights(nn.Sequential):
    """It divides its weights by the largest, as no class of MONAI does."""

    def __init__(self, in_channels: int, out_channels: int, width: int) -> None:
        last = nn.Linear(width, width)
        super().__init__(nn.Conv2d(in_channels, out_channels, 1), last)
        last.weight.data.div_(last.weight.max().item())
