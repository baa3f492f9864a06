"""ELR at a site: its loss, memory through patches and augmentation, and rounds that go on where the last one ended."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_classes
from support.pictures import Threshold, as_slices, make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.consensus_rule import ConsensusRule
from fedannot.custom.data.description import VolumeDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.methods.elr import METHODS
from fedannot.custom.methods.elr.prediction_memory import PredictionMemory, RememberedCase
from fedannot.custom.methods.elr.regularisation import (
    EarlyLearningObjective,
    early_learning_term,
    updated_targets,
)
from fedannot.custom.methods.elr.site import PREDICTION_FOLDER, ElrSite
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import training_batches
from fedannot.custom.training.loop import TrainingStopped
from fedannot.custom.training.losses import ClassCrossEntropy
from fedannot.custom.training.objectives import Step, SupervisedObjective

CELLS = make_classes([0, 0, 0, 0, 1, 1, 1, 2], [0.1, 0.2, 0.0, 1.0, 1.0, 1.1, 0.9, 2.0])
PICTURES = make_data([(1, 2)] * 4)
TRAINING = {"batch_size": 3, "local_epochs": 2, "learning_rate": 0.05}
STEP = Step(0, 0, 1)
TASKS = pytest.mark.parametrize(
    ("task", "network", "data"),
    [("classification", Brightness, CELLS), ("segmentation", lambda: Threshold(2), PICTURES)],
)


class Fixed(nn.Module):
    """The same logits of every sample or pixel."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([logits]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(len(images), -1)


def site_part(task: str, training: Any = None, **settings: Any) -> ElrSite:
    num_classes = {"classification": 3, "segmentation": 2}[task]
    values = {"rounds": 30, "network": {"in_channels": 1, "num_classes": num_classes}}
    declared = next(method for method in METHODS if method.task == task)
    read = declared.settings.model_validate(values | {"training": TRAINING | (training or {})} | settings)
    made = declared.site_part(read)
    assert isinstance(made, ElrSite)
    return made


def trained(method: SiteMethod, site: HandmadeSite, network: nn.Module, number: int = 1) -> list[torch.Tensor]:
    method.train(network, site.view(method, number))
    return [parameter.detach().clone() for parameter in network.parameters()]


def kept(folder: Path, number: int) -> dict[str, Any]:
    result: dict[str, Any] = torch.load(folder / "run" / PREDICTION_FOLDER / f"round_{number}.pt", weights_only=True)
    return result


def visits(content: dict[str, Any]) -> torch.Tensor:
    """Of every pixel, where samples have one size."""
    return content["values"].view(len(content["cases"]), content["outputs"], -1)[:, -1].int()


@TASKS
def test_without_weight_it_is_federated_averaging(task: str, network: Any, data: SiteData, tmp_path: Path) -> None:
    augmented = {"augmentation": ["flip", "rotation"]} if task == "segmentation" else {"augmentation": True}
    method = site_part(task, augmented, early_learning_weight=0)
    results = [trained(part, HandmadeSite(tmp_path, data), network()) for part in (method, FedAvgSite(method.settings))]
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert not (tmp_path / "run" / PREDICTION_FOLDER).exists()
    pulled = trained(site_part(task, augmented), HandmadeSite(tmp_path, data), network())
    assert not torch.equal(pulled[0], results[0][0])


def test_the_first_steps_have_the_published_loss(tmp_path: Path) -> None:
    memory = PredictionMemory([RememberedCase("a", 1, (1,))], 3, momentum=0.99, folder=tmp_path, exact=True)
    objective = EarlyLearningObjective(SupervisedObjective(ClassCrossEntropy()), memory, 1.0)
    batch = Batch(torch.zeros(1, 1, 1, 1), torch.tensor([0]), torch.tensor([0]))
    network = Fixed(2.0, 1.0, 0.0)
    loss = objective(network, batch, STEP)
    assert loss.item() == pytest.approx(0.402487, abs=1e-6)
    loss.backward()
    p = np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    target = 0.01 * p
    # t has no gradient: ∂/∂z log(1 − ⟨t, p⟩) = −p (t − ⟨t, p⟩) / (1 − ⟨t, p⟩).
    pull = -p * (target - target @ p) / (1 - target @ p)
    assert network.logits.grad is not None
    assert network.logits.grad[0].tolist() == pytest.approx((p - [1, 0, 0] + pull).tolist(), abs=1e-6)
    second = objective(network, batch, STEP).item()
    assert second == pytest.approx(-math.log(p[0]) + math.log(1 - (1 - 0.99**2) * p @ p), abs=1e-6)


def test_a_certain_prediction_has_a_finite_pull(tmp_path: Path) -> None:
    """p is at most 1 − 10⁻⁴, and t adds up to at most 1, also of many classes in 16 bits."""
    memory = PredictionMemory([RememberedCase("a", 1, (1,))], 40, momentum=0.0, folder=tmp_path)
    network = Fixed(*[0.0] * 39, 200.0)
    objective = EarlyLearningObjective(SupervisedObjective(ClassCrossEntropy()), memory, 1.0)
    batch = Batch(torch.zeros(1, 1, 1, 1), torch.tensor([39]), torch.tensor([0]))
    for _ in range(3):
        loss = objective(network, batch, STEP)
    largest = 0.9999 / (0.9999 + 39e-4)
    assert loss.item() == pytest.approx(math.log(1 - 0.9999 * largest - 39e-8 / 1.0038), abs=1e-3)
    loss.backward()
    assert network.logits.grad is not None
    assert bool(network.logits.grad.isfinite().all())


def test_the_mean_is_over_what_counts() -> None:
    targets = torch.tensor([[[[0.5, 0.9]], [[0.0, 0.0]]]])
    predicted = torch.tensor([[[[0.4, 0.7]], [[0.6, 0.3]]]])
    counted = torch.tensor([[[True, False]]])
    assert float(early_learning_term(targets, predicted, counted)) == pytest.approx(math.log(0.8), rel=1e-6)
    assert float(early_learning_term(targets, predicted, counted & False)) == 0.0


def volumes() -> SiteData:
    """Two volumes of different sizes, each with a voxel that is ignored."""
    cases = []
    for number, extents in enumerate([(6, 5, 4), (3, 7, 4)]):
        label = torch.zeros(1, *extents, dtype=torch.uint8)
        label[0, 1, 1, 1], label[0, 2, 2, 2] = 1, 255
        image = torch.zeros(1, 1, *extents)
        cases.append(LoadedCase(f"{number}.nii", str(number), image, label, None, (1.0, 1.0, 1.0)))
    description = VolumeDescription(
        classes=("a",), labels={0: 0, 1: 1}, intensity="window", window=(0, 1), ignore=(255,)
    )
    return SiteData("site-1", tuple(cases), description, ())


VOLUMES = volumes()
PATCHES = {"patch": [4, 4, 4], "patches_per_volume": 2, "batch_size": 2}
FLIPS = [{"_target_": "RandFlipd", "keys": ["image", "label"], "prob": 0.5, "spatial_axis": axis} for axis in (0, 1)]


@pytest.mark.parametrize(
    ("data", "training"),
    [
        (VOLUMES, PATCHES | {"augmentation": ["flip"]}),
        (VOLUMES, PATCHES | {"augmentation": "nnunet"}),
        (VOLUMES, PATCHES | {"augmentation": ["rotation", "elastic"]}),
        (PICTURES, {"augmentation": FLIPS}),
        (as_slices(PICTURES, 2), {"augmentation": ["rotation", "flip"]}),
    ],
)
def test_a_prediction_is_remembered_where_the_pixel_lies_on_disk(
    data: SiteData, training: dict[str, Any], tmp_path: Path
) -> None:
    """A model that predicts a number of the place that a pixel comes from is remembered there, and nowhere else."""
    cases = [RememberedCase(case.name, len(case.image), tuple(case.image.shape[2:])) for case in data.cases]
    memory = PredictionMemory(cases, 2, momentum=0.5, folder=tmp_path)
    extents = [case.extents for case in cases for _ in range(case.samples)]
    numbers = [np.random.default_rng(0).random(extent).astype(np.float32) for extent in extents]
    counts = [np.zeros(extent, dtype=int) for extent in extents]
    batches = training_batches(
        data, TrainingSettings.model_validate(TRAINING | training), torch.device("cpu"), with_places=True
    )
    for batch in batches.epoch(torch.Generator().manual_seed(3)):
        assert batch.places is not None
        counted = batch.labels[:, 0] != 255
        predicted = torch.full((len(batch.images), 2, *batch.images.shape[2:]), 0.5)
        for number, sample in enumerate(batch.samples.tolist()):
            places, is_inside = batch.places[number].numpy(), (batch.places[number] >= 0).all(dim=0).numpy()
            here = np.where(is_inside, numbers[sample][tuple(places)], 0.5)
            predicted[number] = torch.from_numpy(np.stack([1 - here, here]))
            # Once for every image that shows it, however often the image does.
            shown = np.zeros_like(counts[sample])
            shown[tuple(places[:, is_inside & counted[number].numpy()])] = 1
            counts[sample] += shown
        targets = updated_targets(memory, predicted, counted, batch)
        assert not targets.movedim(1, -1)[~counted | (batch.places < 0).any(dim=1)].any()
    for sample, place in enumerate(numbers):
        assert memory.visits(sample).tolist() == counts[sample].tolist()
        expected = (1 - 0.5 ** counts[sample]) * place
        assert memory.targets(sample)[1] == pytest.approx(expected, abs=2e-5)
        if data is VOLUMES:
            assert counts[sample][2, 2, 2] == 0
    assert max(count.max() for count in counts) >= 1


def test_pixels_whose_prediction_is_not_finite_keep_what_they_have(tmp_path: Path) -> None:
    memory = PredictionMemory([RememberedCase("a", 1, (1, 2))], 2, momentum=0.5, folder=tmp_path)
    places = torch.tensor([[[[0, 0]], [[0, 1]]]], dtype=torch.int32)
    batch = Batch(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), torch.tensor([0]), places)
    predicted = torch.tensor([[[[math.nan, 0.25]], [[math.nan, 0.75]]]])
    updated_targets(memory, predicted, torch.ones(1, 1, 2, dtype=torch.bool), batch)
    assert memory.visits(0).tolist() == [[0, 1]]
    assert memory.targets(0)[1, 0].tolist() == pytest.approx([0.0, 0.375], abs=1e-5)


@TASKS
def test_a_round_goes_on_from_the_last_one_with_the_same_bits(
    task: str, network: Any, data: SiteData, tmp_path: Path
) -> None:
    method = site_part(task)
    whole, again = network(), network()
    site = HandmadeSite(tmp_path / "whole", data)
    for number in (1, 2):
        trained(method, site, whole, number)
    # Another process continues after round 1, which it has lost nothing of; what came later does not count.
    first = HandmadeSite(tmp_path / "first", data)
    for number in (1, 2):
        trained(method, first, network(), number)
    trained(method, HandmadeSite(tmp_path / "unused", data), again, 1)
    other = HandmadeSite(tmp_path / "other", data)
    view = other.view(site_part(task), 2, earlier_folders=[first.run_folder], continued_round=1)
    site_part(task).train(again, view)
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), again.parameters(), strict=True))
    one, two = kept(tmp_path / "whole", 2), kept(tmp_path / "other", 2)
    assert one["cases"] == two["cases"]
    assert torch.equal(one["values"], two["values"])
    # Two epochs in each of two rounds.
    assert visits(one).unique().tolist() == [4]


@pytest.mark.parametrize("rule", ["soft", "random-per-epoch"])
@TASKS
def test_several_annotators(task: str, network: Any, data: SiteData, rule: str, tmp_path: Path) -> None:
    """Whatever rule makes labels of their annotations, a pixel is visited once in an epoch."""
    cases = tuple(replace(case, annotations=torch.stack([case.label] * 2, dim=1)) for case in data.cases)
    several = replace(data, cases=cases, consensus=ConsensusRule.parse(rule))
    trained(site_part(task, {"consensus": rule}), HandmadeSite(tmp_path, several), network())
    assert visits(kept(tmp_path, 1)).unique().tolist() == [2]


def test_memory_takes_two_bytes_for_each_class_and_the_visits(tmp_path: Path) -> None:
    trained(site_part("segmentation"), HandmadeSite(tmp_path, PICTURES), Threshold(2))
    values = kept(tmp_path, 1)["values"]
    assert values.numel() * values.element_size() == 4 * 16 * 16 * (2 + 1) * 2
    files = list((tmp_path / "run").rglob("*"))
    assert [file.name for file in files if file.is_file()] == ["round_1.pt"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_a_damaged_memory_starts_at_0_with_a_warning(tmp_path: Path) -> None:
    method, site = site_part("classification"), HandmadeSite(tmp_path, CELLS)
    fresh = trained(method, HandmadeSite(tmp_path / "fresh", CELLS), Brightness(), 2)
    trained(method, site, Brightness(), 1)
    file = site.run_folder / PREDICTION_FOLDER / "round_1.pt"
    file.write_bytes(file.read_bytes()[:300])
    assert torch.equal(trained(method, site, Brightness(), 2)[0], fresh[0])
    assert ["cannot be used" in said for said in site.said] == [True]


def test_a_site_that_has_kept_nothing_says_so_from_the_second_round_on(tmp_path: Path) -> None:
    for number, said in ((1, False), (2, True)):
        site = HandmadeSite(tmp_path / str(number), CELLS)
        trained(site_part("classification"), site, Brightness(), number)
        assert ["nothing is kept" in line for line in site.said] == [True] * said


def test_a_training_that_is_given_up_keeps_nothing(tmp_path: Path) -> None:
    method, site = site_part("classification"), HandmadeSite(tmp_path, CELLS)
    site.stopped = True
    with pytest.raises(TrainingStopped):
        method.train(Brightness(), site.view(method, 1))
    assert list(site.run_folder.iterdir()) == []


def test_a_new_case_starts_at_0(tmp_path: Path) -> None:
    method = site_part("classification")
    trained(method, HandmadeSite(tmp_path, replace(CELLS, cases=CELLS.cases[1:])), Brightness(), 1)
    site = HandmadeSite(tmp_path, CELLS)
    trained(method, site, Brightness(), 2)
    assert visits(kept(tmp_path, 2)).flatten().tolist() == [2] + [4] * 7
    text = "Round 2: 1 of 8 cases are new or have another size; averages of predictions start at 0 there."
    assert site.said == [text]
