"""A component's form, checked without importing its class."""

import subprocess
import sys
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel

from fedannot.custom.components.building import component_class
from fedannot.custom.components.component import Component, ComponentError, component_or, read_component
from fedannot.custom.components.roles import Role
from fedannot.custom.settings import ClassifierSettings, NetworkSettings

NETWORK = "monai.networks.nets."


@pytest.mark.parametrize(
    ("written", "role", "target"),
    [
        ("SegResNet", Role.NETWORK, "monai.networks.nets.SegResNet"),
        ("monai.networks.nets.SegResNet", Role.NETWORK, "monai.networks.nets.SegResNet"),
        ({"_target_": "DiceLoss", "sigmoid": True}, Role.LOSS, "monai.losses.DiceLoss"),
        ("AdamW", Role.OPTIMIZER, "torch.optim.AdamW"),
        ("CosineAnnealingLR", Role.SCHEDULE, "torch.optim.lr_scheduler.CosineAnnealingLR"),
        ("RandFlipd", Role.AUGMENTATION, "monai.transforms.RandFlipd"),
        ("SlidingWindowInferer", Role.INFERER, "monai.inferers.SlidingWindowInferer"),
    ],
)
def test_a_name_without_a_package_is_one_of_its_role(written, role, target):
    assert read_component(written, role).target == target


def test_a_component_is_written_as_it_is_read():
    table = {"_target_": f"{NETWORK}UNet", "channels": [4, 8], "norm": ["group", {"num_groups": 2}], "bias": False}
    component = read_component(table, Role.NETWORK)
    assert component.table() == table
    assert read_component(component.table(), Role.NETWORK) == component
    assert read_component(component, Role.NETWORK) is component


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.Eval",
        "torch.Tensor",
        "torch.nnx.Module",
        "monai.networks.nets",
        "monai.networks.nets.torch.hub.Load",
        "monai.networks.nets.__loader__.Load",
        "torch.nn.Module.__init__",
        "torch.nn._reduction.Get",
        "monai.networks.nets/UNet",
        "monai.networks.nets.UNet\n",
        "monai.networks.nets..UNet",
        ".UNet",
        "subprocess.Popen",
        "fedannotx.Popen",
        "",
        3,
        None,
        ["UNet"],
        "U" * 300,
    ],
)
def test_targets_outside_the_packages_are_refused_by_their_form_or_their_class(target):
    with pytest.raises(ComponentError, match="_target_ is"):
        component_class(read_component({"_target_": target}, Role.NETWORK), Role.NETWORK)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"act": "$__import__('os').system('id')"}, "expressions and references are not allowed"),
        ({"act": " $1"}, "expressions and references"),
        ({"act": "@optimizer"}, "expressions and references"),
        ({"act": "%other.json::key"}, "expressions and references"),
        ({"norm": ["group", {"num_groups": "$2"}]}, "argument 'norm.num_groups' is '\\$2'"),
        ({"_disabled_": "true"}, "found the argument '_disabled_'"),
        ({"_requires_": ["x"]}, "found the argument '_requires_'"),
        ({"_mode_": "callable"}, "found the argument '_mode_'"),
        ({"inner": {"_target_": "os.system"}}, "_target_ is 'os.system'"),
        ({"inner": {"_target_": f"{NETWORK}UNet", "_mode_": "debug"}}, "found the argument '_mode_'"),
        ({"inner": [[{"_target_": "builtins.Print"}]]}, "allowed are classes of monai.networks.nets"),
        ({"a b": 1}, "found the argument 'a b'"),
        ({"__class__": 1}, "found the argument '__class__'"),
        ({"act": float("nan")}, "argument 'act' is nan"),
        ({"act": object()}, "argument 'act' is <object"),
        ({"act": "x" * 201}, "a text of 201 characters; at most 200"),
        ({"act": [[[[[[[1]]]]]]]}, "nested more than 6 deep"),
    ],
)
def test_arguments_are_numbers_texts_and_lists_of_them(arguments, said):
    with pytest.raises(ComponentError, match=said):
        read_component({"_target_": "UNet", **arguments}, Role.NETWORK)


def test_an_operator_adds_a_package(monkeypatch):
    with pytest.raises(ComponentError, match=r"allowed are classes of"):
        read_component("hospital.nets.OwnNet", Role.NETWORK)
    monkeypatch.setenv("FEDANNOT_COMPONENTS", "hospital.nets, other")
    assert read_component("hospital.nets.OwnNet", Role.NETWORK).target == "hospital.nets.OwnNet"
    with pytest.raises(ComponentError, match=r"fedannot\.transforms, hospital\.nets, other"):
        read_component("hospital.OwnNet", Role.NETWORK)


def test_a_setting_is_one_of_its_short_forms_or_a_component():

    class Choice(BaseModel):
        loss: Annotated[Literal["ce", "dice"] | Component, component_or(Role.LOSS, "ce", "dice")] = "ce"

    assert Choice(loss="dice").model_dump() == {"loss": "dice"}
    assert Choice(loss="DiceLoss").model_dump(mode="json") == {"loss": {"_target_": "monai.losses.DiceLoss"}}
    assert Choice.model_validate(Choice(loss="DiceLoss").model_dump()) == Choice(loss="DiceLoss")
    with pytest.raises(ValueError, match=r"Expected 'ce', 'dice', or the name of a class such as 'monai.losses.NAME'"):
        Choice(loss="cee")
    with pytest.raises(ValueError, match=r"Expected the name of a class"):
        Choice(loss=3)


def test_a_network_is_a_component_and_keeps_what_data_and_task_decide():
    settings = NetworkSettings.model_validate({"_target_": "UNet", "channels": [4, 8], "num_classes": 2})
    assert settings.model_dump() == {
        "in_channels": 1,
        "num_classes": 2,
        "spatial_dims": 2,
        "_target_": "monai.networks.nets.UNet",
        "channels": [4, 8],
    }
    assert NetworkSettings.model_validate(settings.model_dump(mode="json")) == settings
    assert ClassifierSettings.model_validate("DenseNet121").model_dump()["in_channels"] == 3


def test_the_network_of_the_settings_is_written_as_before():
    assert list(NetworkSettings().model_dump()) == [
        "in_channels",
        "num_classes",
        "spatial_dims",
        "features",
        "upsample",
    ]
    assert NetworkSettings().component is None
    for values in ({"component": "UNet"}, {"component": {"target": "os.system"}}):
        with pytest.raises(ValueError, match=r"name a network by '_target_'"):
            NetworkSettings.model_validate(values)


def test_settings_with_a_component_are_checked_without_pytorch():
    code = (
        "import sys; from fedannot.custom.methods.lookup import read_job_settings as read;"
        "print(read({'method': 'fedavg', 'network': 'SegResNet'}).network.component.name);"
        "sys.exit(any(name in sys.modules for name in ('torch', 'monai')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout.strip(), result.returncode) == ("SegResNet", 0), result.stderr
