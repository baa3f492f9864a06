"""FedFixer at a site: scores and losses by hand, who chooses whose samples, and rounds that go on from the last one."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.labelled_pictures import Brightness, make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.consensus_rule import ConsensusRule
from fedannot.custom.data.site_data import SiteData
from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.fedfixer import METHOD
from fedannot.custom.methods.fedfixer.confidence import ConfidentObjective
from fedannot.custom.methods.fedfixer.sample_scores import kept_samples, sample_scores
from fedannot.custom.methods.fedfixer.site import OWN_MODEL_FOLDER, FedFixerSite
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import ClassCrossEntropy
from fedannot.custom.training.objectives import Step, SupervisedObjective

LABELS, BRIGHTNESS = [0, 0, 0, 0, 1, 1, 1, 2], [0.1, 0.2, 0.0, 0.3, 1.0, 1.1, 0.9, 2.0]
RIGHT = make_data(LABELS, BRIGHTNESS)
# The fourth sample looks like class 1.
ONE_WRONG = make_data(LABELS, [*BRIGHTNESS[:3], 1.0, *BRIGHTNESS[4:]])
ALL_BUT_THE_FOURTH = [True] * 3 + [False] + [True] * 4
TRAINING = {"batch_size": 3, "local_epochs": 2, "learning_rate": 0.05}


def site_part(training: Any = None, **settings: Any) -> FedFixerSite:
    values = {"rounds": 30, "warmup_rounds": 1, "network": {"in_channels": 1, "num_classes": 3}}
    made = METHOD.site_part(
        METHOD.settings.model_validate(values | {"training": TRAINING | (training or {})} | settings)
    )
    assert isinstance(made, FedFixerSite)
    return made


def trained(method: SiteMethod, site: HandmadeSite, network: nn.Module, number: int = 2) -> torch.Tensor:
    method.train(network, site.view(method, number))
    (parameter,) = network.parameters()
    return parameter.detach().clone()


def own_model(folder: Path, number: int = 2) -> torch.Tensor:
    kept = torch.load(folder / "run" / OWN_MODEL_FOLDER / f"round_{number}.pt", weights_only=True)
    result: torch.Tensor = kept["scale"]
    return result


def test_scores_are_the_loss_of_the_label_less_the_mean_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(20, 5, generator=generator), torch.randint(5, (20,), generator=generator)
    losses = -logits.double().log_softmax(dim=1).numpy()
    expected = losses[range(20), labels] - losses.mean(axis=1)
    assert sample_scores(logits, labels).numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_a_uniform_prediction_has_the_score_0_and_is_kept(num_classes: int) -> None:
    uniform = torch.full((1, num_classes), 0.1).softmax(dim=1).log()
    scores = sample_scores(uniform, torch.tensor([1]))
    assert scores.tolist() == [0.0]
    assert kept_samples(scores, torch.tensor([True]), ["a"], patients=0, samples=0).tolist() == [True]


@pytest.mark.parametrize(
    ("patients", "samples", "expected"),
    [(1, 1, "10000"), (2, 1, "10100"), (3, 1, "11100"), (9, 1, "11101"), (1, 2, "10100"), (1, 3, "11100")],
)
def test_the_least_doubtful_come_along_until_there_are_enough(patients: int, samples: int, expected: str) -> None:
    """The fourth is no candidate, and never comes along; the third looks least wrong of the others."""
    scores = torch.tensor([-1.0, 0.6, 0.5, -2.0, 0.7])
    candidates, units = torch.tensor([True, True, True, False, True]), ["a", "b", "c", "d", "a"]
    kept = kept_samples(scores, candidates, units, patients=patients, samples=samples)
    assert "".join(str(int(value)) for value in kept) == expected


def test_what_is_not_a_number_says_nothing_against_a_sample() -> None:
    scores = torch.tensor([math.nan, 1.0])
    assert kept_samples(scores, torch.ones(2, dtype=torch.bool), "ab", patients=0, samples=0).tolist() == [True, False]


def test_the_regulariser_by_hand() -> None:
    """The gradient is p − y − β (p − π)."""
    logits, frequencies = nn.Parameter(torch.tensor([[2.0, 1.0, 0.0]])), torch.tensor([0.5, 0.25, 0.25])
    network = nn.Identity()
    objective = ConfidentObjective(SupervisedObjective(ClassCrossEntropy()), frequencies, 0.1)
    loss = objective(network, Batch(logits, torch.tensor([0]), torch.tensor([0])), Step(0, 0, 1))
    expected = 0.407606 - 0.1 * (0.5 * 0.407606 + 0.25 * 1.407606 + 0.25 * 2.407606)
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    loss.backward()
    p = np.array([0.665241, 0.244728, 0.090031])
    assert logits.grad is not None
    assert logits.grad[0].numpy() == pytest.approx(p - [1, 0, 0] - 0.1 * (p - [0.5, 0.25, 0.25]), abs=1e-5)
    # Of a class that is out of the question the regulariser is bounded.
    far = torch.tensor([[0.0, 500.0, 500.0]])
    loss = objective(network, Batch(far, torch.tensor([1]), torch.tensor([0])), Step(0, 0, 1))
    assert loss.item() == pytest.approx(math.log(2) + 0.1 * (0.5 * math.log(1e-8) + 0.5 * math.log(0.5)), abs=1e-5)


def test_frequencies_are_of_all_labels_for_both_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that a model leaves out count in them, too."""
    seen = []

    def spied(supervised: Any, frequencies: torch.Tensor, weight: float) -> ConfidentObjective:
        seen.append(frequencies.tolist())
        return ConfidentObjective(supervised, frequencies, weight)

    monkeypatch.setattr("fedannot.custom.methods.fedfixer.site.ConfidentObjective", spied)
    trained(site_part(confidence_weight=0.1), HandmadeSite(tmp_path, ONE_WRONG), Brightness())
    counts = torch.bincount(ONE_WRONG.labels.long(), minlength=3)
    assert seen == [(counts / counts.sum()).tolist()] * 2


@pytest.mark.parametrize(("number", "weight", "data"), [(1, 0.1, ONE_WRONG), (2, 0.0, RIGHT)])
def test_in_the_warmup_and_where_all_are_kept_it_is_federated_averaging(
    number: int, weight: float, data: SiteData, tmp_path: Path
) -> None:
    method = site_part(confidence_weight=weight)
    result = trained(method, HandmadeSite(tmp_path, data), Brightness(), number)
    averaged = trained(FedAvgSite(method.settings), HandmadeSite(tmp_path / "averaged", data), Brightness(), number)
    assert torch.equal(result, averaged)
    assert (tmp_path / "run" / OWN_MODEL_FOLDER).exists() == (number == 2)


@pytest.mark.parametrize(("weight", "data"), [(0.5, RIGHT), (0.0, ONE_WRONG)])
def test_the_regulariser_and_a_sample_left_out_each_change_the_model(
    weight: float, data: SiteData, tmp_path: Path
) -> None:
    method = site_part(confidence_weight=weight)
    result = trained(method, HandmadeSite(tmp_path, data), Brightness())
    averaged = trained(FedAvgSite(method.settings), HandmadeSite(tmp_path / "averaged", data), Brightness())
    assert not torch.equal(result, averaged)


@pytest.mark.parametrize("weight", [10.0, 1e4])
def test_with_a_large_lambda_its_own_model_is_the_global_one(weight: float, tmp_path: Path) -> None:
    """Steps of 1/λ go to w_t − ∇ℓ/λ, so that ‖θ − w_t‖ falls as 1/λ."""
    steps = {"optimizer": "sgd", "momentum": 0, "weight_decay": 0, "learning_rate": 1 / weight}
    method = site_part(steps, personal_proximal_weight=weight)
    trained(method, HandmadeSite(tmp_path, RIGHT), Brightness())
    assert 0 < abs(float(own_model(tmp_path)) - 1) < 2 / weight


class Chosen(FedFixerSite):
    """Notes which samples are trained on, in order: the own model's, then the global one's."""

    def batches(self, data: SiteData, network: nn.Module, targets: Any = None) -> Any:
        chosen.append((copy.deepcopy(network), [True] * 8 if targets.used is None else targets.used.tolist()))
        return super().batches(data, network, targets)


chosen: list[tuple[nn.Module, list[bool]]] = []


def test_each_model_chooses_the_other_s_samples(tmp_path: Path) -> None:
    """The own model of round 1, as it was kept, takes every label for wrong that the global one takes for right."""
    frozen = {"optimizer": "sgd", "momentum": 0, "weight_decay": 0, "learning_rate": 1e-30}
    method, site = Chosen(site_part(frozen).settings), HandmadeSite(tmp_path, ONE_WRONG)
    trained(method, site, Brightness())
    assert [used for _, used in chosen] == [ALL_BUT_THE_FOURTH] * 2
    file = site.run_folder / OWN_MODEL_FOLDER / "round_2.pt"
    torch.save({"scale": torch.tensor([-1.0])}, file)
    chosen.clear()
    trained(method, site, Brightness(), 3)
    (own, for_own), (shared, for_shared) = chosen
    assert [next(model.parameters()).item() for model in (own, shared)] == [-1.0, 1.0]
    assert for_own == ALL_BUT_THE_FOURTH
    # Of one sample no update is: those come along that it doubts least, the borders between classes.
    assert sum(for_shared) == 3
    assert for_shared[3]
    expected = (
        "Round 3: of 8 samples the global model chose 7 for the site's own model, which chose 3 for the global one."
    )
    assert site.said[-1] == expected


def test_a_round_goes_on_from_the_last_one_with_the_same_bits(tmp_path: Path) -> None:
    method, whole, again = site_part(), Brightness(), Brightness()
    site, first = HandmadeSite(tmp_path / "whole", ONE_WRONG), HandmadeSite(tmp_path / "first", ONE_WRONG)
    for number in (2, 3):
        trained(method, site, whole, number)
        # Another process continues after round 2; what came later does not count.
        trained(method, first, Brightness(), number)
    trained(method, HandmadeSite(tmp_path / "unused", ONE_WRONG), again, 2)
    other = HandmadeSite(tmp_path / "other", ONE_WRONG)
    site_part().train(again, other.view(method, 3, earlier_folders=[first.run_folder], continued_round=2))
    assert torch.equal(whole.scale, again.scale)
    assert torch.equal(own_model(tmp_path / "whole", 3), own_model(tmp_path / "other", 3))
    assert not torch.equal(own_model(tmp_path / "whole", 3), own_model(tmp_path / "whole", 2))
    assert not any("anew" in said for said in site.said + other.said)
    files = [file for file in (tmp_path / "whole").rglob("*") if file.is_file()]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


@pytest.mark.parametrize("damage", ["cut", "of another network", "lost"])
def test_an_own_model_that_cannot_be_used_begins_anew_with_a_warning(damage: str, tmp_path: Path) -> None:
    method, site = site_part(), HandmadeSite(tmp_path, ONE_WRONG)
    fresh = trained(method, HandmadeSite(tmp_path / "fresh", ONE_WRONG), Brightness(), 3)
    trained(method, site, Brightness(), 2)
    file = site.run_folder / OWN_MODEL_FOLDER / "round_2.pt"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:300])
    elif damage == "lost":
        file.unlink()
    else:
        torch.save({"scale": torch.ones(2)}, file)
    assert torch.equal(trained(method, site, Brightness(), 3), fresh)
    assert torch.equal(own_model(tmp_path, 3), own_model(tmp_path / "fresh", 3))
    assert sum("initialises it again" in said for said in site.said) == 1


def test_an_own_model_that_is_not_finite_is_not_kept(tmp_path: Path) -> None:
    site, network = HandmadeSite(tmp_path, RIGHT), Brightness()
    network.scale.data.fill_(math.nan)
    trained(site_part(), site, network)
    assert list(site.run_folder.iterdir()) == []
    assert sum("is not finite, and is not kept" in said for said in site.said) == 1


@pytest.mark.parametrize("rule", ["soft", "random-per-epoch"])
def test_several_annotators(rule: str, tmp_path: Path) -> None:
    cases = tuple(replace(case, annotations=torch.stack([case.label] * 2, dim=1)) for case in ONE_WRONG.cases)
    several = replace(ONE_WRONG, cases=cases, consensus=ConsensusRule.parse(rule))
    chosen.clear()
    method = Chosen(site_part({"consensus": rule}).settings)
    trained(method, HandmadeSite(tmp_path, several), Brightness())
    assert [used for _, used in chosen] == [ALL_BUT_THE_FOURTH] * 2
