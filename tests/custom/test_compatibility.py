"""Data that do not fit the network are refused with file, found, expected, and the settings that would fit."""

import re

import pytest

from fedannot.custom.compatibility import DataMismatchError, check_annotations, check_compatibility
from fedannot.custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    write_site_description,
)
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.fedgsca.settings import FedGSCASettings
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
    check_compatibility(folder, FedAvgSettings.model_validate(settings), site="site-1")


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
        (COLOUR, IN_2D, (3, 1, 2), (1, 1, 2), "--set network.in_channels=3"),
        (SLICES, IN_2D, (1, 2, 2), (1, 1, 2), "--set network.num_classes=2"),
        (
            VOLUMES,
            IN_2D,
            (1, 2, 3),
            (1, 1, 2),
            "--set network.num_classes=2 --set network.spatial_dims=3 --set training.patch=[96,96,64] "
            "(or another patch)",
        ),
        (SLICES, IN_3D, (1, 2, 2), (1, 2, 3), "--set network.spatial_dims=2 and without training.patch"),
    ],
)
def test_what_differs_is_said_with_the_settings_that_fit(tmp_path, description, settings, found, expected, options):
    text = (
        f"Site site-1: {tmp_path / 'data.yaml'} describes {found[0]} channels and {found[1]} foreground classes in "
        f"{found[2]} spatial dimensions, but the job's network expects {expected[0]} and {expected[1]} in "
        f"{expected[2]}; if the description is right, run the job with {options}, or write the same into its "
        "settings.conf."
    )
    with pytest.raises(DataMismatchError, match=f"^{re.escape(text)}$"):
        check(tmp_path, description, settings)


@pytest.mark.parametrize(("description", "settings"), [(PICTURE, IN_2D), (VOLUMES, IN_3D)])
def test_transforms_that_do_not_suit_the_samples_are_refused_before_a_run(tmp_path, description, settings):
    entry = {"_target_": "RandFlipd", "keys": ["image", "label"], "spatial_axis": 0}
    training = settings.get("training", {})
    check(tmp_path, description, settings | {"training": training | {"augmentation": [entry]}})
    entry["spatial_axis"] = 3
    text = f"Site site-1: {tmp_path / 'data.yaml'}: the job's key 'training.augmentation' names transforms that cannot "
    with pytest.raises(DataMismatchError, match=f"^{re.escape(text)}"):
        check(tmp_path, description, settings | {"training": training | {"augmentation": [entry]}})


def test_classes_under_a_job_with_masks_are_one_sentence_whatever_their_number(tmp_path):
    description = ClassificationDescription(channels=1, size=(64, 64), classes=("benign", "malignant"))
    text = (
        f"Site site-1: {tmp_path} holds images with one class each, but a job of 'fedavg' is for segmentation and "
        "needs images or volumes with masks; a job with task = classification fits, its method one of fedavg, fednoro, "
        "fedselect, fedcorr, elr, fedrobust, fedfixer, fedgp, fedgsca, auto_classification, audit_classification."
    )
    with pytest.raises(DataMismatchError, match=f"^{re.escape(text)}$"):
        check(tmp_path, description, {"network": {"num_classes": 2}})


def test_masks_under_a_job_with_classes_are_one_sentence(tmp_path):
    write_site_description(tmp_path, SLICES)
    text = (
        f"Site site-1: {tmp_path} holds slices of volumes with masks, but a job of 'fedgsca' is for classification and "
        "needs images with one class each; a job with task = segmentation fits, its method one of fedavg, auto, "
    )
    with pytest.raises(DataMismatchError, match=f"^{re.escape(text)}"):
        check_compatibility(tmp_path, FedGSCASettings(), site="site-1")


def test_a_description_that_cannot_be_read_names_the_site(tmp_path):
    with pytest.raises(DataError, match=r"^Site site-1: .*data\.yaml"):
        check_compatibility(tmp_path, FedAvgSettings(), site="site-1")


IGNORING = SliceDescription(size=(64, 64), ignore=(7,), **TWO)
ONE_OF_TWO = SliceDescription(size=(64, 64), annotated_classes=("organ",), classes=TWO["classes"], labels=ONE["labels"])


@pytest.mark.parametrize(
    ("description", "loss", "key"),
    [
        (IGNORING, "DiceCELoss", "ignore"),
        (IGNORING, "torch.nn.CrossEntropyLoss", None),
        (ONE_OF_TWO, {"_target_": "DiceLoss", "sigmoid": True}, "annotated_classes"),
        (ONE_OF_TWO, "DiceLoss", None),
        (SLICES, "DiceCELoss", None),
    ],
)
def test_a_loss_that_cannot_leave_out_what_is_not_annotated_is_refused(description, loss, key):
    settings = FedAvgSettings.model_validate({"network": {"num_classes": 2}, "training": {"loss": loss}})
    if key is None:
        check_annotations(description, settings, place="data.yaml")
        return
    with pytest.raises(
        DataMismatchError, match=rf"^data.yaml: key '{key}' tells of .* \(key 'training.loss'\) has no way"
    ):
        check_annotations(description, settings, place="data.yaml")


def test_a_loss_is_tried_with_the_outputs_that_a_site_trains_with():
    """Weights of three classes fit the network, but not a site that annotates one of two."""
    loss = {"_target_": "torch.nn.CrossEntropyLoss", "weight": [0.2, 1.0, 1.0]}
    settings = FedAvgSettings.model_validate({"network": {"num_classes": 2}, "training": {"loss": loss}})
    check_annotations(SLICES, settings, place="data.yaml")
    check_annotations(IGNORING, settings, place="data.yaml")
    text = r"^data.yaml: the job's key 'training.loss' names a loss that cannot be used: .*logits \(2, 2, 8, 8\)"
    with pytest.raises(DataMismatchError, match=text):
        check_annotations(ONE_OF_TWO, settings, place="data.yaml")
