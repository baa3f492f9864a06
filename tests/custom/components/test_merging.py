"""Changes of settings by dotted keys, where components are among them."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel

from fedannot.custom.components.component import Component, component_or
from fedannot.custom.components.merging import apply_changes, component_places, merged, names_a_component
from fedannot.custom.components.roles import Role
from fedannot.custom.settings import NetworkSettings

PLACES = ("network", "training.loss")
FILE = {"num_classes": 2, "in_channels": 3, "features": [4], "upsample": "deconv"}
UNET = {"_target_": "UNet", "channels": [4, 8]}


def test_places_are_blocks_and_fields_with_a_component():
    class Training(BaseModel):
        loss: Annotated[Literal["ce"] | Component, component_or(Role.LOSS, "ce")] = "ce"
        rate: float = 1.0

    class Settings(BaseModel):
        network: NetworkSettings = NetworkSettings()
        training: Training = Training()

    assert component_places(Settings) == (*PLACES, "inferer")


@pytest.mark.parametrize(
    ("changes", "network"),
    [
        ({"network": "SegResNet"}, {"num_classes": 2, "in_channels": 3, "_target_": "SegResNet"}),
        ({"network._target_": "UNet", "network.channels": [4, 8]}, {"num_classes": 2, "in_channels": 3, **UNET}),
        ({"network.channels": [4, 8], "network._target_": "UNet"}, {"num_classes": 2, "in_channels": 3, **UNET}),
        ({"network": UNET}, {"num_classes": 2, "in_channels": 3, **UNET}),
        ({"network": {**UNET, "num_classes": 5}}, {"num_classes": 5, "in_channels": 3, **UNET}),
        ({"network.features": [8]}, {**FILE, "features": [8]}),
        (
            {"network": {"_target_": "UNet", "norm": {"name": "group"}}},
            {"num_classes": 2, "in_channels": 3, "_target_": "UNet", "norm": {"name": "group"}},
        ),
    ],
)
def test_another_network_begins_with_arguments_of_its_own(changes, network):
    values = {"network": dict(FILE), "rounds": 3}
    apply_changes(values, merged(changes), PLACES)
    assert values == {"network": network, "rounds": 3}


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("ce", {"training.loss": "DiceLoss"}, "DiceLoss"),
        ("ce", {"training.loss._target_": "DiceLoss"}, {"_target_": "DiceLoss"}),
        ("DiceLoss", {"training.loss.sigmoid": True}, {"_target_": "DiceLoss", "sigmoid": True}),
        ({"_target_": "DiceLoss", "sigmoid": True}, {"training.loss": "ce"}, "ce"),
        (
            {"_target_": "DiceLoss", "sigmoid": True},
            {"training.loss": {"_target_": "FocalLoss", "gamma": 1}},
            {"_target_": "FocalLoss", "gamma": 1},
        ),
    ],
)
def test_a_field_is_a_name_or_a_component(before, changes, after):
    values = {"training": {"loss": before}}
    apply_changes(values, merged(changes), PLACES)
    assert values == {"training": {"loss": after}}
    assert names_a_component(values, "training.loss") is (after != "ce")


def test_later_changes_leave_nothing_of_an_earlier_component():
    of_set = {"network._target_": "UNet", "network.channels": [4], "network.num_classes": 3, "rounds": 2}
    assert merged(of_set, {"network": "SegResNet"}) == {
        "network.num_classes": 3,
        "rounds": 2,
        "network": "SegResNet",
    }
    assert merged({"network": "SegResNet"}, {"network": UNET}) == {
        "network._target_": "UNet",
        "network.channels": [4, 8],
    }
    assert merged(of_set, {"network.channels": [8]})["network.channels"] == [8]
