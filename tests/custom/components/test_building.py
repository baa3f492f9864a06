"""A component's class and arguments."""

import sys

import pytest
from torch import nn

from fedannot.custom.components.building import build_component, check_arguments, component_class
from fedannot.custom.components.component import ComponentError, read_component
from fedannot.custom.components.roles import Role

OF_DATA = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}


def class_of(target, role=Role.NETWORK):
    return component_class(read_component(target, role), role)


@pytest.mark.parametrize(
    ("target", "role"),
    [
        ("monai.networks.nets.torch.nn.Linear", Role.NETWORK),
        ("torch.nn.modules.module.Module", Role.NETWORK),
        ("torch.nn.Module", Role.NETWORK),
        ("torch.nn.functional.Tensor", Role.NETWORK),
        ("torch.nn.modules.module.OrderedDict", Role.NETWORK),
        ("torch.nn.Parameter", Role.NETWORK),
        ("torch.nn.DataParallel", Role.NETWORK),
        ("torch.optim.SGD", Role.NETWORK),
        ("torch.optim.Optimizer", Role.OPTIMIZER),
        ("torch.nn.Linear", Role.OPTIMIZER),
        ("monai.networks.nets.CellSamWrapper", Role.NETWORK),
        ("monai.networks.nets.TorchVisionFCModel", Role.NETWORK),
        ("monai.networks.nets.MILModel", Role.NETWORK),
        ("fedannot.apps.commands.cli.App", Role.NETWORK),
        ("monai.transforms.LoadImage", Role.AUGMENTATION),
        ("monai.transforms.SaveImaged", Role.AUGMENTATION),
        ("monai.transforms.io.array.WriteFileMapping", Role.AUGMENTATION),
        ("monai.transforms.Lambda", Role.AUGMENTATION),
        ("monai.transforms.Lambdad", Role.AUGMENTATION),
        ("monai.transforms.LambdaDict", Role.AUGMENTATION),
        ("monai.transforms.RandLambdad", Role.AUGMENTATION),
        ("monai.transforms.TorchVisiond", Role.AUGMENTATION),
        ("monai.transforms.RandTorchIOd", Role.AUGMENTATION),
        ("monai.transforms.RandCuCIM", Role.AUGMENTATION),
        ("monai.transforms.DataStatsd", Role.AUGMENTATION),
        ("monai.transforms.io.dictionary.ImageReader", Role.AUGMENTATION),
        ("monai.inferers.ZarrAvgMerger", Role.INFERER),
        ("monai.inferers.Inferer", Role.INFERER),
        ("fedannot.Bundle", Role.NETWORK),
        ("fedannot.custom.settings.NetworkSettings", Role.NETWORK),
        ("fedannot.apps.runs.job.Path", Role.NETWORK),
        ("monai.networks.nets.NoSuchNet", Role.NETWORK),
        ("monai.networks.nets.UNet.Sequential", Role.NETWORK),
        ("monai.networks.nets.nowhere.UNet", Role.NETWORK),
    ],
)
def test_what_is_no_class_of_the_role_is_refused(target, role):
    with pytest.raises(ComponentError, match=r"_target_ is"):
        class_of(target, role)


@pytest.mark.parametrize(
    ("target", "role"),
    [
        ("SegResNet", Role.NETWORK),
        ("monai.networks.nets.segresnet.SegResNet", Role.NETWORK),
        ("torch.nn.Conv2d", Role.NETWORK),
        ("torch.nn.CrossEntropyLoss", Role.LOSS),
        ("RandFlipd", Role.AUGMENTATION),
        ("SlidingWindowInferer", Role.INFERER),
        ("ReduceLROnPlateau", Role.SCHEDULE),
    ],
)
def test_classes_of_the_role_are_found(target, role):
    assert class_of(target, role).__name__ == target.rpartition(".")[2]


def test_a_module_that_is_not_allowed_is_not_imported():
    with pytest.raises(ComponentError, match="nothing of"):
        class_of("fedannot.apps.commands.preloaded.App")
    assert "fedannot.apps.commands.preloaded" not in sys.modules


def test_the_closest_name_is_said():
    with pytest.raises(ComponentError, match=r"has no 'SegResNt'; did you mean 'SegResNet'"):
        class_of("SegResNt")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"_target_": "UNet", "channel": [4]},
            "has no argument 'channel'; did you mean 'channels'.* Allowed: spatial_dims",
        ),
        ({"_target_": "UNet"}, "misses the arguments channels, strides"),
        ({"_target_": "SegResNet", "out_channels": 5}, "argument 'out_channels' is 5, but follows .* as 2"),
        ({"_target_": "FlexibleUNet", "backbone": "x", "pretrained": True}, "nothing may be read or downloaded"),
        ({"_target_": "HoVerNet", "pretrained_url": "http://x"}, "'pretrained_url' is 'http://x'; nothing may be read"),
    ],
)
def test_arguments_fit_the_signature(table, said):
    with pytest.raises(ComponentError, match=said):
        check_arguments(read_component(table, Role.NETWORK), Role.NETWORK, OF_DATA)


def test_weights_that_a_class_would_download_are_turned_off():
    component = read_component({"_target_": "EfficientNetBN", "model_name": "efficientnet-b0"}, Role.NETWORK)
    assert check_arguments(component, Role.NETWORK)["pretrained"] is False


def test_arguments_of_a_base_class_are_known():
    component = read_component({"_target_": "DenseNet121", "dropout_prob": 0.1}, Role.NETWORK)
    built = build_component(component, Role.NETWORK, OF_DATA)
    assert built.class_layers.out.out_features == 2


def test_nested_components_are_built_and_checked():
    inner = {"_target_": "torch.nn.BCEWithLogitsLoss"}
    component = read_component({"_target_": "monai.losses.MaskedLoss", "loss": inner}, Role.LOSS)
    assert isinstance(build_component(component, Role.LOSS).loss, nn.BCEWithLogitsLoss)
    wrong = read_component({"_target_": "monai.losses.MaskedLoss", "loss": {"_target_": "torch.optim.SGD"}}, Role.LOSS)
    with pytest.raises(ComponentError, match=r"'torch.optim.SGD', which is no torch.nn.Module"):
        build_component(wrong, Role.LOSS)


def test_what_a_class_refuses_is_said_with_its_arguments():
    component = read_component({"_target_": "UNet", "channels": [4], "strides": []}, Role.NETWORK)
    with pytest.raises(
        ComponentError, match=r"monai.networks.nets.UNet cannot be built with .*'channels': .4.*ValueError"
    ):
        build_component(component, Role.NETWORK, OF_DATA)
