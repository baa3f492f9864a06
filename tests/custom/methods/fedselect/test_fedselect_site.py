"""FedSelect at a site: the losses of its cases, what it trains on, what it keeps and what leaves it."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_classes
from support.pictures import Threshold, as_slices, make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.corrections.targets import Targets
from fedannot.custom.interface.update_floor import UpdateFloor
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.fedselect import METHODS
from fedannot.custom.methods.fedselect.case_losses import case_losses, cases_in_use, sample_losses
from fedannot.custom.methods.fedselect.drawing import drawn_cases
from fedannot.custom.methods.fedselect.server import IS_SELECTIVE, SCORER, TRAINED_ROUND
from fedannot.custom.methods.fedselect.site import FedSelectSite
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.seeding import derive_seed
from fedannot.custom.task_names import MEASURE_SCORER_GRADIENT, TRAIN
from fedannot.custom.training.loop import train
from fedannot.custom.training.losses import segmentation_loss
from fedannot.transforms.errors import DataError

CELLS = make_classes([0, 0, 0, 0, 1, 1, 1, 2], [0.1, 0.2, 0.0, 1.0, 1.0, 1.1, 0.9, 2.0])
PICTURES = make_data([(1, 2)] * 4)
TRAINING = {"batch_size": 4, "local_epochs": 2, "learning_rate": 0.05}
TASKS = [("classification", Brightness, CELLS), ("segmentation", lambda: Threshold(2), PICTURES)]
# V is 0.5 of every loss.
FLAT = [0.0] * 301
# V falls with the loss: 1 at 0, and 0.5 at 1.
FALLING = [1.0] * 100 + [0.0] * 100 + [-0.1] * 100 + [10.0]


def site_part(task: str, **settings: Any) -> FedSelectSite:
    num_classes = {"classification": 3, "segmentation": 2}[task]
    values = {"rounds": 30, "network": {"in_channels": 1, "num_classes": num_classes}, "training": TRAINING}
    declared = next(method for method in METHODS if method.task == task)
    made = declared.site_part(declared.settings.model_validate(values | settings))
    assert isinstance(made, FedSelectSite)
    return made


def message(scorer: list[float], counted: int | None = None, *, selective: bool = True) -> dict[str, Any]:
    return {SCORER: scorer, IS_SELECTIVE: selective} | ({} if counted is None else {TRAINED_ROUND: counted})


@pytest.mark.parametrize(("task", "make", "data"), TASKS)
def test_a_flat_scorer_is_federated_averaging_on_the_drawn_cases(
    task: str, make: Any, data: Any, tmp_path: Path
) -> None:
    method, site = site_part(task), HandmadeSite(tmp_path, data)
    trained = []
    for selective in (True, False):
        network = make()
        outcome = method.train(network, site.view(method, 3, message(FLAT, selective=selective)))
        trained.append([parameter.detach().clone() for parameter in network.parameters()])
    units = [case.unit for case in data.cases]
    drawn = drawn_cases(
        torch.ones(len(units)), units, 0.6, derive_seed(method.settings.seed, "site-1", 3, "drawn cases")
    )
    assert outcome.trained_on == [data.cases[case].unit for case in drawn]
    # The same by federated averaging, on these cases as often as they were drawn.
    plain, network, view = FedAvgSite(method.settings), make(), site.view(method, 3)
    targets = replace(plain.targets(view), used=torch.tensor(drawn))
    plain.train_on(plain.batches(data, network, targets), network, view, targets)
    trained.append([parameter.detach().clone() for parameter in network.parameters()])
    for one, other, last in zip(*trained, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, last)


@pytest.mark.parametrize(
    ("task", "make", "data", "floor"),
    [
        (*TASKS[0], UpdateFloor(patients=6, samples_per_step=4)),
        (*TASKS[1], UpdateFloor(patients=3, samples_per_step=4)),
    ],
)
def test_a_site_with_a_minimum_of_its_own_is_refused_in_no_round(
    task: str, make: Any, data: Any, floor: UpdateFloor, tmp_path: Path
) -> None:
    """Federated averaging on all cases is not, either."""
    method, site = site_part(task), HandmadeSite(tmp_path, data)
    for number in range(1, 11):
        trained = method.train(make(), site.view(method, number, message(FALLING), floor=floor))
        assert trained.trained_on is not None
        floor.check_update(trained.outcome, method.settings.training, trained.trained_on)


def test_a_server_gets_no_update_of_one_patient_alone(tmp_path: Path) -> None:
    """Its V is 1 at the loss of one case and 0 elsewhere, by three units; a site of a federation has a floor."""
    method, site = site_part("classification"), HandmadeSite(tmp_path, CELLS)
    losses = case_losses(Brightness(), CELLS, method.settings).double()
    target = int(losses.argmax())
    first, bias, second = [0.0] * 100, [0.0] * 100, [0.0] * 100
    first[0], bias[0], second[0] = 1e4, -1e4 * (float(losses[target]) - 1e-3), 10.0
    scorer = [*first, *bias, *second, -40.0]
    for floor, is_one in ((UpdateFloor(3, 1), False), (UpdateFloor(), True)):
        trained = method.train(Brightness(), site.view(method, 2, message(scorer), floor=floor))
        assert trained.trained_on is not None
        share = Counter(trained.trained_on).most_common(1)[0][1] / len(trained.trained_on)
        assert (share > 0.5) is is_one


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({SCORER: None}, "Expected 301 finite numbers of a scorer"),
        ({SCORER: [0.0] * 5}, "Expected 301 finite numbers"),
        ({SCORER: [0.0] * 300 + [math.nan]}, "Expected 301 finite numbers"),
        ({SCORER: "0" * 301}, "Expected 301 finite numbers"),
        ({IS_SELECTIVE: None}, "whether cases are drawn by their weights, but got None"),
        ({IS_SELECTIVE: 1}, "whether cases are drawn by their weights, but got 1"),
        ({TRAINED_ROUND: [1]}, r"the number of a round from the server, but got \[1\]"),
        ({TRAINED_ROUND: 0}, "the number of a round from the server, but got 0"),
    ],
)
def test_what_a_server_may_not_say_is_refused_before_anything_is_computed(
    wrong: dict[str, Any], text: str, tmp_path: Path
) -> None:
    method, site = site_part("classification"), HandmadeSite(tmp_path, CELLS)
    with pytest.raises(ValueError, match=text):
        method.train(Brightness(), site.view(method, 2, message(FLAT) | wrong))
    assert not (site.run_folder / "margins").exists()


def test_cases_of_low_weight_are_not_drawn(tmp_path: Path) -> None:
    """The one of class 0 that looks like class 1 has the largest loss, and no weight."""
    method, site, network = site_part("classification"), HandmadeSite(tmp_path, CELLS), Brightness()
    losses = case_losses(network, CELLS, method.settings)
    steep = [1.0] * 100 + [0.0] * 100 + [-2.0] * 100 + [200.0 * float(losses.sort().values[-2:].mean())]
    worst = int(losses.argmax())
    for number in range(1, 9):
        outcome = method.train(Brightness(), site.view(method, number, message(steep)))
        assert CELLS.cases[worst].unit not in outcome.trained_on


@pytest.mark.parametrize(("task", "make", "data"), TASKS)
def test_the_mean_weight_leaves_and_margins_stay(task: str, make: Any, data: Any, tmp_path: Path) -> None:
    method, site = site_part(task), HandmadeSite(tmp_path, data)
    losses = case_losses(make(), data, method.settings)
    first = method.train(make(), site.view(method, 1, message(FALLING)))
    expected = (10.0 - 10.0 * losses).sigmoid().mean()
    assert first.fields["selection_weight"] == pytest.approx(float(expected), rel=1e-4)
    OutboundRegistry(METHODS[0].outbound_fields).without_small(TRAIN, dict(first.fields))
    kept = torch.load(site.run_folder / "margins" / "round_1.pt", weights_only=True)
    assert kept["losses"].shape == (len(data.cases),)
    assert (float(kept["smoothed"].min()), float(kept["smoothed"].max())) == (0.0, 1.0)
    second = method.train(make(), site.view(method, 4, message(FALLING, counted=1)))
    assert second.fields["selection_weight"] == first.fields["selection_weight"]
    assert (site.run_folder / "margins" / "round_4.pt").is_file()


def test_a_gradient_of_enough_proxy_patients_leaves(tmp_path: Path) -> None:
    method, site = site_part("classification"), HandmadeSite(tmp_path, CELLS)
    method.train(Brightness(), site.view(method, 1, message(FALLING)))
    view = site.view(method, 2, message(FALLING, counted=1))
    answers = [method.answer(MEASURE_SCORER_GRADIENT, Brightness(), view).fields for _ in range(2)]
    assert answers[0] == answers[1]
    OutboundRegistry(METHODS[1].outbound_fields).check(MEASURE_SCORER_GRADIENT, dict(answers[0]))
    assert answers[0]["num_proxy_patients"] == 3
    assert len(answers[0]["scorer_gradient"]) == 301
    assert any(answers[0]["scorer_gradient"])


@pytest.mark.parametrize(("fraction", "expected"), [(1.0, 8), (0.5, 4)])
def test_the_step_is_of_groups_of_patients_and_the_proxy_of_all_its_cases(
    fraction: float, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four pictures of one patient one is in the step; the proxy is no batch, be it all of the site."""
    units = ["a"] * 4 + ["b", "c", "d", "e"]
    data = replace(CELLS, cases=tuple(replace(case, unit=unit) for case, unit in zip(CELLS.cases, units, strict=True)))
    seen: dict[str, Any] = {}

    def spied(*arguments: Any, **others: Any) -> torch.Tensor:
        seen["sizes"] = (len(arguments[2][0]), sum(len(part) for part, _ in arguments[3]))
        seen.update(others)
        return torch.zeros(301)

    monkeypatch.setattr("fedannot.custom.methods.fedselect.site.scorer_gradient", spied)
    method, site = site_part("classification", proxy_fraction=fraction), HandmadeSite(tmp_path, data)
    method.train(Brightness(), site.view(method, 1, message(FALLING)))
    method.answer(MEASURE_SCORER_GRADIENT, Brightness(), site.view(method, 2, message(FALLING, 1)))
    assert seen["sizes"] == (5, expected)
    assert (sorted(seen["patients"]), seen["smallest_group"]) == (["a", "b", "c", "d", "e"], 3)


SCHEDULES: list[Any] = ["cosine", {"_target_": "CosineAnnealingLR"}, {"_target_": "StepLR", "step_size": 30}]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("task", "make", "data"), TASKS)
def test_the_step_has_the_rate_with_which_training_begins_the_round(
    task: str, make: Any, data: Any, schedule: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: dict[str, list[float]] = {"trained": [], "stepped": []}

    def seen(*arguments: Any, **others: Any) -> Any:
        rates["trained"].append(others["learning_rate"].in_round(arguments[3].local_epochs * 2)[0])
        assert arguments[1].steps_per_epoch == 2
        return train(*arguments, **others)

    def stepped(*arguments: Any, step: float, **others: Any) -> torch.Tensor:
        del arguments, others
        rates["stepped"].append(step)
        return torch.zeros(301)

    monkeypatch.setattr("fedannot.custom.methods.fedavg.site.train", seen)
    monkeypatch.setattr("fedannot.custom.methods.fedselect.site.scorer_gradient", stepped)
    # All cases, in two batches of an epoch.
    training = TRAINING | {"batch_size": len(data.cases) // 2, "schedule": schedule}
    method = site_part(task, training=training, case_fraction=1.0, proxy_fraction=1.0)
    site = HandmadeSite(tmp_path, data)
    for number in (15, 20, 25):
        method.train(make(), site.view(method, number, message(FALLING)))
        method.answer(MEASURE_SCORER_GRADIENT, make(), site.view(method, number, message(FALLING, number)))
    assert rates["stepped"] == rates["trained"]
    assert rates["stepped"] == sorted(rates["stepped"], reverse=True)
    assert rates["stepped"][-1] < 0.05


def test_cases_left_out_by_a_correction_are_neither_drawn_nor_scored_and_others_count_as_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, site = site_part("classification"), HandmadeSite(tmp_path, CELLS)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2])
    targets = Targets(labels, used=torch.arange(8) != 7)
    monkeypatch.setattr(FedSelectSite, "targets", lambda *_: targets)
    for number in range(1, 6):
        outcome = method.train(Brightness(), site.view(method, number, message(FLAT, selective=False)))
        assert CELLS.cases[7].unit not in outcome.trained_on
    assert outcome.fields["num_scored_patients"] == 7
    in_use = cases_in_use(CELLS, targets)
    assert [int(case.label) for case in in_use.cases] == labels[:7].tolist()
    kept = torch.load(site.run_folder / "margins" / "round_5.pt", weights_only=True)
    assert kept["cases"] == [case.name for case in CELLS.cases[:7]]
    # As many cases, but others: margins are not taken for theirs.
    targets = replace(targets, used=torch.arange(8) != 0)
    method.train(Brightness(), site.view(method, 6, message(FLAT, 5, selective=False)))
    assert "or of other cases" in site.said[-1]
    with pytest.raises(DataError, match="site-1: found all of 8 cases left out"):
        cases_in_use(CELLS, replace(targets, used=torch.zeros(8, dtype=torch.bool)))


@pytest.mark.parametrize("counted", [None, 1, 7])
def test_without_margins_or_with_few_patients_nothing_leaves(counted: int | None, tmp_path: Path) -> None:
    few = replace(CELLS, cases=tuple(replace(case, unit=str(n % 2)) for n, case in enumerate(CELLS.cases)))
    method, site = site_part("classification"), HandmadeSite(tmp_path, few)
    trained = method.train(Brightness(), site.view(method, 1, message(FALLING)))
    assert trained.fields == {}
    answer = method.answer(MEASURE_SCORER_GRADIENT, Brightness(), site.view(method, 2, message(FALLING, counted)))
    assert answer.fields["num_proxy_patients"] == 0
    assert all(map(math.isnan, answer.fields["scorer_gradient"]))
    assert len(site.said) == (1 if counted == 7 else 0)


def test_the_losses_of_samples_are_those_of_the_training_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 3, 4, 4, generator=generator)
    labels = torch.randint(0, 3, (3, 4, 4), generator=generator, dtype=torch.uint8)
    labels[1, 0] = 255
    for name, with_dice in (("ce", False), ("ce_dice", True)):
        loss: nn.Module = segmentation_loss(name)
        expected = [float(loss(logits[n : n + 1], labels[n : n + 1, None])) for n in range(3)]
        assert sample_losses(logits, labels, with_dice=with_dice).tolist() == pytest.approx(expected, rel=1e-5)
    classes = torch.tensor([2, 0, 1])
    expected = nn.functional.cross_entropy(logits[:, :, 0, 0], classes, reduction="none").tolist()
    assert sample_losses(logits[:, :, 0, 0], classes, with_dice=False).tolist() == pytest.approx(expected)


def test_a_volume_counts_by_its_pixels_and_not_by_slices_that_are_ignored() -> None:
    volume = as_slices(PICTURES, 4).cases[0]
    label = volume.label.clone()
    label[1:3], label[3, :8] = 255, 255
    settings, network = site_part("segmentation", training=TRAINING | {"loss": "ce"}).settings, Threshold(2)
    with torch.no_grad():
        expected = nn.functional.cross_entropy(network(volume.image), label.long(), ignore_index=255)
    ignored = replace(volume, label=torch.full_like(label, 255))
    data = replace(PICTURES, cases=(replace(volume, label=label), ignored))
    losses = case_losses(network, data, settings)
    assert losses.tolist() == pytest.approx([float(expected), 0.0], rel=1e-5)
