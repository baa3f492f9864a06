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

from fedannot.custom.corrections.targets import AS_GIVEN, Targets
from fedannot.custom.data.site_data import SiteData
from fedannot.custom.interface.update_floor import TooFewSamplesError, UpdateFloor
from fedannot.custom.interface.views import SiteView, Trained
from fedannot.custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.lookup import find_method
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.site_tasks import TaskResult, UnknownTaskError, do_task
from fedannot.custom.settings import ClassifierSettings, TrainingSettings
from fedannot.custom.task_names import ESTIMATE_QUALITY
from fedannot.custom.training.batch import Batches
from fedannot.custom.training.batches import training_batches
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
    OutboundRegistry(find_method("segmentation", "fedia").outbound_fields).check("train", result.fields)
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


class OnSome(FedAvgSite):
    """Trains on some of the site's samples, and does not say on whose."""

    used = (0, 1, 2)

    def batches(self, data: SiteData, network: nn.Module, targets: Targets = AS_GIVEN) -> Batches:
        del targets
        flags = torch.zeros(data.num_samples, dtype=torch.bool)
        flags[list(self.used)] = True
        return training_batches(data, self.settings.training, torch.device("cpu"), used=flags)


def update_of(folder: Path, used: tuple[int, ...], floor: UpdateFloor, batch_size: int = 8) -> Any:
    """The update of a training on some of six samples, two of each patient."""
    settings = FedAvgSettings(training=TrainingSettings(batch_size=batch_size, local_epochs=2))
    data = make_data([(1,)] * 6)
    twice = tuple(replace(case, unit=f"patient {number // 2}") for number, case in enumerate(data.cases))
    site, half = HandmadeSite(folder, replace(data, cases=twice)), OnSome(settings)
    half.used = used
    view = site.view(half, floor=floor)
    return do_task(find_method("segmentation", "fedavg"), half, "train", Scale(), view)


class Scale(nn.Module):
    """One trained number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat((torch.zeros_like(images), self.weight * images), dim=1)


@pytest.mark.parametrize(
    ("used", "floor", "batch_size", "said"),
    [
        ((0, 1, 2, 3, 4, 5), UpdateFloor(3, 4), 8, ""),
        # The site has three patients, the training two of them.
        ((0, 1, 2, 3), UpdateFloor(3, 4), 8, "over 2 patients or volumes"),
        ((0, 2, 4), UpdateFloor(3, 3), 8, ""),
        ((0, 2, 4), UpdateFloor(3, 4), 8, "over 3 samples or patches"),
        # The last step of an epoch has two samples: what leaves is the sum of both.
        ((0, 1, 2, 3, 4, 5), UpdateFloor(3, 4), 4, ""),
        ((0, 1, 2, 3, 4, 5), UpdateFloor(3, 4), 3, "over 3 samples or patches"),
        ((0, 1, 2, 3, 4, 5), UpdateFloor(4, 1), 8, "over 3 patients or volumes"),
    ],
)
def test_an_update_leaves_if_it_is_of_enough_patients_and_samples(
    tmp_path: Path, used: tuple[int, ...], floor: UpdateFloor, batch_size: int, said: str
) -> None:
    """Of what was trained on, whatever the site has besides."""
    if not said:
        assert update_of(tmp_path, used, floor, batch_size).params is not None
        return
    with pytest.raises(TooFewSamplesError, match=said):
        update_of(tmp_path, used, floor, batch_size)


def test_what_a_method_says_of_its_training_counts(tmp_path: Path) -> None:
    with pytest.raises(TooFewSamplesError, match="over 2 patients"):
        done(tmp_path, "train", floor=UpdateFloor(3, 1))


def test_a_site_without_enough_patients_does_not_train(tmp_path: Path) -> None:
    site, half = HandmadeSite(tmp_path, make_data([(1,)] * 2)), Site(FedAvgSettings())
    network = Threshold(1)
    with pytest.raises(TooFewSamplesError, match="over 2 patients"):
        do_task(find_method("segmentation", "fedavg"), half, "train", network, site.view(half, floor=UpdateFloor(3)))
    assert float(network.state_dict()["scale"]) == 1.0
