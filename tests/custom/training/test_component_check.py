"""Optimizers, schedules and inferers that are classes: what they do, and what is refused before a run."""

import monai.losses
import pytest
import torch
from monai.inferers import SlidingWindowInferer
from torch import nn

from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.settings import SettingsError, TrainingSettings
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.component_check import check_training
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective
from fedannot.custom.training.schedules import LearningRate

CPU = torch.device("cpu")


def test_a_loss_an_optimizer_and_a_schedule_by_settings_are_a_plain_loop():
    """Three steps of AdamW, whose rate falls with each, give the same parameters to the last bit."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(6, 1, 8, 8, generator=generator)
    labels = (images[:, 0] > 0.3).to(torch.uint8)
    training = TrainingSettings.model_validate(
        {
            "loss": {"_target_": "DiceFocalLoss", "softmax": True, "to_onehot_y": True},
            "optimizer": {"_target_": "AdamW", "weight_decay": 0.05},
            "schedule": {"_target_": "CosineAnnealingLR", "eta_min": 1e-4},
            "learning_rate": 0.01,
            "batch_size": 2,
            "local_epochs": 1,
        }
    )
    check_training(FedAvgSettings(training=training), "settings.conf")
    torch.manual_seed(1)
    network, plain = (nn.Conv2d(1, 2, 3, padding=1) for _ in range(2))
    plain.load_state_dict(network.state_dict())
    train(
        network,
        SampleBatches(images, labels, 2, CPU),
        training_objective(training),
        training,
        learning_rate=LearningRate(training, 1, rounds=1),
        seed=3,
    )
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.01, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3, eta_min=1e-4)
    loss = monai.losses.DiceFocalLoss(softmax=True, to_onehot_y=True)
    for chosen in torch.randperm(6, generator=torch.Generator().manual_seed(3)).split(2):
        optimizer.zero_grad()
        loss(plain(images[chosen]), labels[chosen][:, None]).backward()
        optimizer.step()
        scheduler.step()
    assert all(map(torch.equal, network.state_dict().values(), plain.state_dict().values()))


@pytest.mark.parametrize(
    ("schedule", "make"),
    [
        ("PolynomialLR", lambda optimizer: torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=12)),
        (
            {"_target_": "MultiStepLR", "milestones": [3, 7]},
            lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7]),
        ),
        (
            {"_target_": "OneCycleLR", "max_lr": 0.1},
            lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 12, cycle_momentum=False),
        ),
    ],
)
def test_the_steps_of_a_schedule_are_those_of_all_rounds(schedule, make):
    training = TrainingSettings.model_validate({"schedule": schedule, "learning_rate": 0.01})
    rates = [rate for number in (1, 2, 3) for rate in LearningRate(training, number, rounds=3).in_round(4)]
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.01)
    scheduler, expected = make(optimizer), []
    for _ in range(12):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == expected


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("training.loss", {"_target_": "DiceLoss", "smoth": 1}, "has no argument 'smoth'"),
        ("training.loss", "monai.losses.DiceLos", "has no 'DiceLos'"),
        ("training.optimizer", {"_target_": "AdamW", "momentum": 0.9}, "has no argument 'momentum'"),
        ("training.optimizer", {"_target_": "AdamW", "lr": 0.3}, "follows from other settings"),
        ("training.optimizer", "LBFGS", "makes no step"),
        ("training.schedule", "ReduceLROnPlateau", "no schedule of a run"),
        ("training.schedule", "StepLR", "misses the arguments step_size"),
        ("inferer", "SlidingWindowInferer", "misses the arguments roi_size"),
        ("inferer", "monai.losses.DiceLoss", "which is no monai.inferers.Inferer"),
        ("inferer", {"_target_": "SliceInferer", "roi_size": [8, 8]}, "cannot run a network"),
        ("inferer", "SaliencyInferer", "SaliencyInferer"),
        ("training.loss", "torch.nn.MSELoss", "cannot be computed of logits"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_run_with_file_key_and_reason(key, value, said):
    block, _, name = key.rpartition(".")
    settings = FedAvgSettings.model_validate({block: {name: value}} if block else {name: value})
    with pytest.raises(SettingsError) as error:
        check_training(settings, "settings.conf")
    assert str(error.value).startswith(f"settings.conf: key {key!r}: ")
    assert said in str(error.value)


def test_short_forms_are_not_tried(monkeypatch):
    monkeypatch.delattr("fedannot.custom.training.component_check.ComponentLoss")
    check_training(FedAvgSettings())


def test_an_inferer_takes_the_place_of_patch_and_overlap():
    generator = torch.Generator().manual_seed(0)
    images, network = torch.randn(1, 1, 40, 36, 34, generator=generator), nn.Conv3d(1, 2, 3, padding=1)
    settings = FedAvgSettings.model_validate(
        {
            "network": {"spatial_dims": 3},
            "training": {"patch": [32, 16, 16], "batch_size": 3},
            "inferer": {"_target_": "SlidingWindowInferer", "overlap": 0.25},
        }
    )
    with torch.inference_mode():
        expected = SlidingWindowInferer(roi_size=(32, 16, 16), sw_batch_size=3, overlap=0.25)(images, network)
    inference = Inference.of(settings)
    assert torch.equal(inference.logits(network, images), expected)
    assert not torch.equal(Inference(3, (32, 16, 16)).logits(network, images), expected)
    assert inference.inferer.table() == {
        "_target_": "monai.inferers.SlidingWindowInferer",
        "sw_batch_size": 3,
        "roi_size": [32, 16, 16],
        "overlap": 0.25,
    }
