"""Data that do not fit the network are refused with file, found, expected, and the settings that would fit."""

import re

import pytest

from fedannot.custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    write_site_description,
)
from fedannot.custom.data_fit import check_data_fit
from fedannot.custom.method_settings import FedAvgSettings
from fedannot.transforms.errors import DataError

ONE = {"classes": ("lesion",), "labels": {0: 0, 1: 1}}
TWO = {"classes": ("organ", "lesion"), "labels": {0: 0, 1: 1, 2: 2}}
PICTURE = ImageDescription(channels=1, size=(64, 64), **ONE)
COLOUR = ImageDescription(channels=3, size=(64, 64), **ONE)
SLICES = SliceDescription(size=(64, 64), **TWO)
VOLUMES = VolumeDescription(**TWO)
IN_2D = {}
IN_3D = {"network": {"spatial_dims": 3, "num_classes": 2}, "training": {"patch": [32, 32, 32]}}


def check(folder, description, settings):
    write_site_description(folder, description)
    check_data_fit(folder, FedAvgSettings.model_validate(settings), site="site-1")


@pytest.mark.parametrize(
    ("description", "settings"),
    [
        (PICTURE, IN_2D),
        (COLOUR, {"network": {"in_channels": 3}}),
        (SLICES, {"network": {"num_classes": 2}}),
        (VOLUMES, IN_3D),
    ],
)
def test_data_that_fit(tmp_path, description, settings):
    check(tmp_path, description, settings)


@pytest.mark.parametrize(
    ("description", "settings", "found", "expected", "options"),
    [
        (COLOUR, IN_2D, (3, 1, 2), (1, 1, 2), "--set network.in_channels=3."),
        (SLICES, IN_2D, (1, 2, 2), (1, 1, 2), "--set network.num_classes=2."),
        (
            VOLUMES,
            IN_2D,
            (1, 2, 3),
            (1, 1, 2),
            "--set network.num_classes=2 --set network.spatial_dims=3 --set training.patch=[96,96,64] "
            "(or another patch).",
        ),
        (SLICES, IN_3D, (1, 2, 2), (1, 2, 3), "--set network.spatial_dims=2 and without training.patch."),
    ],
)
def test_what_differs_is_said_with_the_settings_that_fit(tmp_path, description, settings, found, expected, options):
    text = (
        f"Site site-1: {tmp_path / 'data.yaml'} describes {found[0]} channels and {found[1]} foreground classes in "
        f"{found[2]} spatial dimensions, but the job's network expects {expected[0]} and {expected[1]} in "
        f"{expected[2]}. If the description is right, run the job with {options}"
    )
    with pytest.raises(DataError, match=f"^{re.escape(text)}$"):
        check(tmp_path, description, settings)


def test_pictures_for_classification_are_refused_whatever_their_classes(tmp_path):
    description = ClassificationDescription(channels=1, size=(64, 64), classes=("benign", "malignant"))
    text = r"data\.yaml has the pipeline 'classification', but the job 'fedavg' trains a network for segmentation; "
    with pytest.raises(
        DataError, match=text + "expected one of image2d, volume_slices, volume, whose cases have masks"
    ):
        check(tmp_path, description, {"network": {"num_classes": 2}})


def test_a_description_that_cannot_be_read_names_the_site(tmp_path):
    with pytest.raises(DataError, match=r"^Site site-1: .*data\.yaml"):
        check_data_fit(tmp_path, FedAvgSettings(), site="site-1")
