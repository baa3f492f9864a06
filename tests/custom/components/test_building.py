"""A component's class and arguments."""

import ast
import contextlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from torch import nn

from fedannot.custom.components.building import (
    _reaches_outside,
    build_component,
    check_arguments,
    component_class,
    parameters_of,
)
from fedannot.custom.components.component import Component, ComponentError, read_component
from fedannot.custom.components.roles import DEFAULT_PACKAGES, Role

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
        ("fedannot.jobs.fedavg.job.SimEnv", Role.NETWORK),
        ("fedannot.custom.flare.executor.FederatedExecutor", Role.NETWORK),
        ("monai.losses.PerceptualLoss", Role.LOSS),
        ("monai.losses.perceptual.MedicalNetPerceptualSimilarity", Role.LOSS),
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


@pytest.mark.parametrize("module", ["fedannot.jobs.fedavg.job", "fedannot.apps.commands.preloaded"])
def test_neither_jobs_nor_commands_are_imported_whatever_an_operator_adds(module, monkeypatch):
    """Naming a class imports its module: a job's program would have begun a run."""
    imported = []
    monkeypatch.setattr("importlib.import_module", imported.append)
    with pytest.raises(ComponentError, match=r"allowed are classes of .*fedannot\.custom"):
        class_of(Component.model_construct(target=f"{module}.X", arguments={}))
    monkeypatch.setenv("FEDANNOT_COMPONENTS", "fedannot")
    with pytest.raises(ComponentError, match=r"nothing of .*fedannot\.apps, fedannot\.jobs"):
        class_of(f"{module}.X")
    assert imported == []


_OUTSIDE = {"hub", "download_url", "load_state_dict_from_url", "hf_hub_download", "urlopen", "urlretrieve", "locate"}


def _modules(package):
    """Every module of an allowed package, with its code."""
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations
    for file in (
        [file for folder in folders for file in Path(folder).rglob("*.py")] if folders else [Path(found.origin)]
    ):
        parts = file.relative_to(folders[0]).with_suffix("").parts if folders else ()
        yield ".".join((package, *(part for part in parts if part != "__init__"))), file.read_text(encoding="utf-8")


def _reaching(text):
    """The classes and functions of a module that mention what reaches outside, or what mentions it."""
    mentioned = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            mentioned[node.name] = names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    reaching = {name for name, names in mentioned.items() if names & _OUTSIDE}
    while more := {name for name, names in mentioned.items() if names & reaching} - reaching:
        reaching |= more
    return reaching


def test_nothing_that_can_be_named_downloads_or_imports():
    """Of the classes that can, those are left that do it for one argument alone, in which no text is taken."""
    word = re.compile(rf"\b({'|'.join(_OUTSIDE)})\b")
    found, left = set(), {}
    for module, text in (module for package in DEFAULT_PACKAGES for module in _modules(package)):
        for name in _reaching(text) if word.search(text) else ():
            found.add(f"{module}.{name}")
            for role in Role:
                with contextlib.suppress(ComponentError):
                    kind = component_class(Component.model_construct(target=f"{module}.{name}", arguments={}), role)
                    left[kind.__name__] = {key for key in parameters_of(kind) if _reaches_outside(key, "x")}
    assert found >= {"monai.losses.perceptual.PerceptualLoss", "monai.transforms.io.array.LoadImage"}
    assert left["PatchInferer"] == {"merger_cls"}
    assert [name for name, keys in left.items() if not keys] == []


@pytest.mark.parametrize("value", [True, 1, 0.5, "weights.pt"])
def test_no_yes_to_weights_is_taken(value):
    table = {"_target_": "EfficientNetBN", "model_name": "efficientnet-b0", "pretrained": value}
    with pytest.raises(ComponentError, match="nothing may be read, downloaded or looked up"):
        check_arguments(read_component(table, Role.NETWORK), Role.NETWORK)


@pytest.mark.parametrize(
    ("table", "role"),
    [
        ({"_target_": "PatchInferer", "merger_cls": "antigravity.X"}, Role.INFERER),
        ({"_target_": "UNet", "norm": ["group", {"path": "/etc/passwd"}]}, Role.NETWORK),
    ],
)
def test_no_text_names_a_class_or_a_file(table, role):
    """MONAI imports the module of a merger's name."""
    with pytest.raises(ComponentError, match="nothing may be read, downloaded or looked up here"):
        check_arguments(read_component(table, role), role)
    assert "antigravity" not in sys.modules


def test_what_a_class_gives_its_base_is_not_missing():
    component = read_component({"_target_": "SpatialPadd", "keys": "image", "spatial_size": [8, 8]}, Role.AUGMENTATION)
    assert build_component(component, Role.AUGMENTATION).keys == ("image",)


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
        (
            {"_target_": "FlexibleUNet", "backbone": "x", "pretrained": True},
            "nothing may be read, downloaded or looked up",
        ),
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
