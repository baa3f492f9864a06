"""What a site does when it is asked, by the task's name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_labelled
from support.pictures import Threshold, make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.data.site_data import SiteData
from fedannot.custom.methods.feda3i.outbound import ESTIMATE_QUALITY
from fedannot.custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.lookup import find_method
from fedannot.custom.methods.views import SiteView, Trained
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.site_tasks import TaskResult, UnknownTaskError, do_task
from fedannot.custom.settings import ClassifierSettings
from fedannot.custom.training.loop import TrainingOutcome


class Site(FedAvgSite):
    """Notes what it is asked, and trains without a step."""

    def before_task(self, site: SiteView) -> None:
        site.info("before")

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(1.0)
        return Trained(TrainingOutcome(0.5, 7), {"has_corrected": True}, trained_on=("a", "b", "b"))

    def model_in_use(self, network: nn.Module, site: SiteView) -> nn.Module:
        site.info("in use")
        return network


def done(folder: Path, task: str, method: str = "fedavg", kind: str = "segmentation", **view: Any) -> Any:
    """The result of a task and what was said."""
    classes = kind == "classification"
    settings: Any = (
        ClassificationSettings(network=ClassifierSettings(in_channels=1, num_classes=3))
        if classes
        else FedAvgSettings()
    )
    data: SiteData = make_labelled([0, 1, 2], [0, 1, 2]) if classes else make_data([(1,)] * 4)
    site, half = HandmadeSite(folder, data), Site(settings)
    made = replace(site.view(half, 3), **view)
    network = Brightness() if classes else Threshold(1)
    return do_task(find_method(kind, method), half, task, network, made), site.said


def test_training_is_answered_with_the_trained_model_and_the_methods_own_fields(tmp_path: Path) -> None:
    result, said = done(tmp_path, "train", "fedia")
    assert isinstance(result, TaskResult)
    assert float(result.params["scale"]) == 2.0
    assert (result.fields["num_samples"], result.fields["has_corrected"]) == (4, True)
    assert "train_loss" not in result.fields, "two patients were trained on"
    OutboundRegistry(find_method("segmentation", "fedia").leaves).check("train", result.fields)
    assert said == ["before", "Round 3: loss 0.5000 after 7 steps."]


def test_whether_data_are_the_phantom_is_said(tmp_path: Path) -> None:
    assert done(tmp_path, "train")[0].fields["embedded_data"] is False
    site = HandmadeSite(tmp_path, make_data([(1,)] * 4), embedded=True)
    half = Site(FedAvgSettings())
    result = do_task(find_method("segmentation", "fedavg"), half, "train", Threshold(1), site.view(half))
    assert result.fields["embedded_data"] is True


@pytest.mark.parametrize(("kind", "task"), [("segmentation", "validate"), ("classification", "validate_classes")])
def test_the_model_that_the_site_would_use_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, task: str
) -> None:
    cases = make_labelled([0, 1, 2], [0, 1, 2]) if kind == "classification" else make_data([(1,)] * 4)
    monkeypatch.setattr(SiteView, "validation_data", lambda self: cases)
    result, said = done(tmp_path, task, kind=kind)
    assert (result.params, result.samples) == (None, {})
    assert result.fields["num_samples"] == len(cases.cases)
    OutboundRegistry().check(task, result.fields)
    assert said == ["before", "in use"]


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("segmentation", "validate_classes"),
        ("classification", "validate"),
        ("segmentation", ESTIMATE_QUALITY),
        ("segmentation", "dance"),
    ],
)
def test_a_task_of_another_method_or_kind_is_unknown(tmp_path: Path, kind: str, task: str) -> None:
    with pytest.raises(UnknownTaskError) as caught:
        done(tmp_path, task, kind=kind)
    assert str(caught.value) == f"Task {task!r} is not known to the method 'fedavg' for {kind}."
