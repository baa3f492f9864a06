"""FedGP at a site: the centroid head against a loop by hand, negative learning, what leaves, and what is kept."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.labelled_pictures import Brightness, make_data
from support.site_views import HandmadeSite
from torch import nn
from torch.nn import functional

from fedannot.custom.components.component import ComponentError
from fedannot.custom.consensus_rule import ConsensusRule
from fedannot.custom.corrections.case_states import revert
from fedannot.custom.data.site_data import SiteData
from fedannot.custom.interface.views import Trained
from fedannot.custom.methods.fedgp import METHOD
from fedannot.custom.methods.fedgp.centroid_head import CentroidObjective, find_head, negative_losses
from fedannot.custom.methods.fedgp.centroids import OwnCentroids, as_head
from fedannot.custom.methods.fedgp.server import KNOWN_CLASSES
from fedannot.custom.methods.fedgp.site import CENTROID_FOLDER, FedGPSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.settings import ClassifierSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import ClassCrossEntropy
from fedannot.custom.training.objectives import Step, SupervisedObjective

LABELS, BRIGHTNESS = [0, 0, 0, 0, 1, 1, 1, 2], [0.1, 0.2, 0.0, 0.3, 1.0, 1.1, 0.9, 2.0]
DATA = make_data(LABELS, BRIGHTNESS)
TRAINING = {"batch_size": 3, "local_epochs": 2, "learning_rate": 0.05, "optimizer": "sgd", "augmentation": False}
FIRST = Step(0, 0, 1)


def site_part(**settings: Any) -> FedGPSite:
    values = {"rounds": 30, "warmup_rounds": 1, "network": {"in_channels": 1, "num_classes": 3}, "training": TRAINING}
    made = METHOD.site_part(METHOD.settings.model_validate(values | settings))
    assert isinstance(made, FedGPSite)
    return made


def site_of(folder: Path, data: SiteData = DATA) -> HandmadeSite:
    """A site of cases in memory, whose datalist has no reviewed ones."""
    folder.mkdir(exist_ok=True)
    (folder / "data.yaml").write_text("channels: 1\nsize: [4, 4]\nclasses: [a, b, c]\npipeline: classification\n")
    (folder / "datalist.json").write_text('{"training": []}')
    return HandmadeSite(folder, data)


class Small(nn.Module):
    """Features of the mean brightness, and a last layer."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.body, self.head = nn.Linear(1, 4), nn.Linear(4, 3)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.features(images))
        return logits

    def features(self, images: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(images.mean(dim=(1, 2, 3))[:, None]))


def trained(method: FedGPSite, site: HandmadeSite, network: nn.Module, number: int = 2, known: Any = (0, 1)) -> Trained:
    return method.train(network, site.view(method, number, {KNOWN_CLASSES: list(known)}))


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize(("number", "share"), [(1, 0.2), (2, 1.0)])
def test_without_cleaning_it_is_federated_averaging_with_a_centroid_head(
    number: int, share: float, tmp_path: Path
) -> None:
    """A loop by hand: own centroids go half of the way to each batch's means; the server has those of 0 and 1."""
    method = site_part(core_share=share, negative_weight=0.0)
    network, site = Small(), site_of(tmp_path, DATA)
    start, expected = Small(), Small()
    result = trained(method, site, network, number)

    generator = torch.Generator().manual_seed(site.view(method, number).training_seed)
    training = method.settings.training
    velocities = [torch.zeros_like(parameter) for parameter in expected.body.parameters()]
    own: dict[int, torch.Tensor] = {}
    seen: dict[int, list[torch.Tensor]] = {}
    received = expected.head.weight.detach()
    for _ in range(2):
        for batch in method.batches(DATA, expected).epoch(generator):
            features = expected.features(batch.images)
            for label in sorted(set(batch.labels.tolist())):
                rows = features[batch.labels == label].detach()
                own[label] = rows.mean(dim=0) if label not in own else (own[label] + rows.mean(dim=0)) / 2
                seen.setdefault(label, []).extend(rows)
            mine = torch.stack(
                [as_head(own[label][None])[0] if label in own else received[label] for label in range(3)]
            )
            servers = torch.stack([received[0], received[1], mine[2]])
            losses = [functional.cross_entropy(features @ head.T, batch.labels.long()) for head in (mine, servers)]
            loss = sum(losses) / 2 + 0.05 * features.norm(dim=1).mean()
            slopes = torch.autograd.grad(loss, list(expected.body.parameters()))
            for parameter, velocity, slope in zip(expected.body.parameters(), velocities, slopes, strict=True):
                velocity.mul_(training.momentum).add_(slope + training.weight_decay * parameter.detach())
                parameter.data -= 0.05 * velocity
    for name, value in network.state_dict().items():
        assert value.numpy() == pytest.approx(expected.state_dict()[name].numpy(), abs=1e-6), name
    # The last layer is as it was received, and can be trained again; the rest is not.
    assert torch.equal(network.head.weight, start.head.weight)
    assert torch.equal(network.head.bias, start.head.bias)
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert not torch.equal(network.body.weight, start.body.weight)
    # Class 2 is of one patient.
    sent = result.fields["class_centroids"]
    for label in (0, 1):
        assert sent[4 * label : 4 * label + 4] == pytest.approx(torch.stack(seen[label]).mean(dim=0).tolist(), abs=1e-6)
    assert all(map(math.isnan, sent[8:]))
    assert result.fields["num_centroid_patients"] == [4, 3, 0]


def test_a_long_centroid_does_not_take_the_samples_of_others() -> None:
    """Positive features as means have them: products with the longest mean are the largest of nearly all."""
    directions = torch.eye(4) + 0.5
    centroids = directions * torch.tensor([1.0, 2.0, 3.0, 9.0])[:, None]
    assert (directions @ centroids.T).argmax(dim=1).tolist() == [3, 3, 3, 3]
    assert (directions @ as_head(centroids).T).argmax(dim=1).tolist() == [0, 1, 2, 3]


def test_negative_learning_by_hand() -> None:
    """p = (0.665241, 0.244728, 0.090031); the gradient of −ln(1 − p_2) by the logits is p_2 (e_2 − p) / (1 − p_2)."""
    logits = torch.tensor([[2.0, 1.0, 0.0]] * 3, requires_grad=True)
    unlikely = torch.tensor([[False, False, True], [False, True, True], [False] * 3])
    losses = negative_losses(logits, unlikely)
    p = torch.tensor([0.665241, 0.244728, 0.090031])
    expected = [-math.log(1 - 0.090031), -(math.log(1 - 0.244728) + math.log(1 - 0.090031)) / 2, 0.0]
    assert losses.tolist() == pytest.approx(expected, abs=1e-6)
    losses[0].backward()
    assert logits.grad is not None
    by_hand = p[2] * (torch.tensor([0.0, 0.0, 1.0]) - p) / (1 - p[2])
    assert logits.grad[0].numpy() == pytest.approx(by_hand.numpy(), abs=1e-6)
    sure = negative_losses(torch.tensor([[0.0, 100.0]]), torch.tensor([[False, True]]))
    assert sure.item() == pytest.approx(-math.log(1e-7), rel=1e-3)


def test_the_loss_of_a_batch_with_a_doubtful_sample_by_hand() -> None:
    """Of two samples one counts with its label, by half; the other's weight is 0.1 of its negative loss, by half."""
    head = nn.Linear(3, 3)
    head.weight.data = torch.eye(3)
    images, samples = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]), torch.tensor([0, 1])
    batch = Batch(images, torch.tensor([0, 0]), samples)
    own = OwnCentroids(3, 3)
    rows = [(1.0, 0.0, -1.0), (0.5, -1.0, 0.5), (-1.0, 0.0, 1.0)]
    own.rows, own.known = torch.tensor(rows), torch.tensor([False, True, True])
    objective = CentroidObjective(
        SupervisedObjective(ClassCrossEntropy()),
        head,
        own,
        {0, 1, 2},
        norm_weight=0.0,
        trusted=torch.tensor([True, False]),
        unlikely=torch.tensor([[False] * 3, [True, False, False]]),
        negative_weight=0.1,
    )
    loss = objective(head, batch, FIRST)
    # The own centroid of class 0 is the first sample, (2, 1, 0). Normalised they are r (1, 0, −1), (1, −2, 1) / √2 and
    # r (−1, 0, 1) with r = √1.5. So the first sample has the products (2r, 0, −2r), the second (−2r, 0, 2r).
    r = math.sqrt(1.5)
    labelled = [
        math.log(sum(map(math.exp, products))) - products[0] for products in ((2 * r, 0.0, -2 * r), (2.0, 1.0, 0.0))
    ]
    shares = [math.exp(row[0]) / sum(map(math.exp, row)) for row in ((-2 * r, 0.0, 2 * r), (0.0, 1.0, 2.0))]
    expected = sum(labelled) / 2 / 2 - 0.1 * sum(math.log(1 - share) for share in shares) / 2 / 2
    assert loss.item() == pytest.approx(expected, abs=1e-4)
    assert own.known.all()


# Features by which classes can be told: the fourth sample looks like class 1.
ONE_WRONG = make_data(LABELS, [*BRIGHTNESS[:3], 1.0, *BRIGHTNESS[4:]])


class Bumps(nn.Module):
    """A feature for each of the brightnesses 0, 1 and 2."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.tensor([1.0])), nn.Linear(3, 3)
        self.head.weight.data, self.head.bias.data = as_head(torch.eye(3)), torch.zeros(3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        distances = images.mean(dim=(1, 2, 3))[:, None] - torch.arange(3.0)
        logits: torch.Tensor = self.head(self.scale * (-2 * distances.square()).exp())
        return logits


class Chosen(FedGPSite):
    """Notes the labels and samples that are trained on."""

    def batches(self, data: SiteData, network: nn.Module, targets: Any = None) -> Any:
        chosen.append((data.labels.tolist(), None if targets.used is None else targets.used.tolist()))
        return super().batches(data, network, targets)


chosen: list[Any] = []


@pytest.mark.parametrize(("weight", "used"), [(0.0, False), (0.1, True)])
def test_a_wrong_label_does_not_count_which_can_be_reverted(weight: float, used: bool, tmp_path: Path) -> None:
    """With a weight it is trained on by negative learning alone."""
    chosen.clear()
    method = Chosen(site_part(negative_weight=weight, neighbours=3, core_share=0.6).settings)
    site = site_of(tmp_path, ONE_WRONG)
    outcome = trained(method, site, Bumps(), known=(0, 1, 2))
    assert chosen == [(LABELS, None if used else [index != 3 for index in range(8)])]
    assert outcome.fields["num_centroid_patients"] == [3, 3, 0]
    assert len(outcome.trained_on or ()) == 7 + used
    stored = site.view(method, 3).corrections.latest()
    assert stored is not None
    (case,) = stored.corrections.cases
    assert case.new_class is not None
    assert (case.image, case.new_class.given, case.new_class.becomes) == ("3.png", "a", "")
    assert (case.new_class.predicted, stored.corrections.provenance.method) == ("b", "fedgp")
    assert "of 8 labels 1 do not count" in site.said[-1]
    revert(stored.folder, ["3.png"])
    for number in (3, 4):
        outcome = trained(method, site, Bumps(), number, known=(0, 1, 2))
        assert chosen[-1] == (LABELS, None)
        assert outcome.fields["num_centroid_patients"] == [4, 3, 0]


def test_a_round_goes_on_from_the_last_one_with_the_same_bits(tmp_path: Path) -> None:
    method, whole, again = site_part(), Small(), Small()
    site, first = site_of(tmp_path / "whole", ONE_WRONG), site_of(tmp_path / "first", ONE_WRONG)
    for number in (1, 2):
        trained(method, site, whole, number)
        trained(method, first, Small() if number == 2 else again, number)
    other = site_of(tmp_path / "other", ONE_WRONG)
    view = other.view(method, 2, {KNOWN_CLASSES: [0, 1]}, earlier_folders=[first.run_folder], continued_round=1)
    site_part().train(again, view)
    assert same(whole, again)
    files = [place / CENTROID_FOLDER / "round_2.pt" for place in (site.run_folder, other.run_folder)]
    kept = [torch.load(file, weights_only=True)["rows"] for file in files]
    assert torch.equal(*kept)
    forgetful = copy.deepcopy(again)
    anew = site_of(tmp_path / "anew", ONE_WRONG)
    trained(method, anew, forgetful, 2)
    assert any("initialises it again" in said for said in anew.said)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_too_few_patients_send_no_centroid(tmp_path: Path) -> None:
    site = site_of(tmp_path, make_data([0, 0, 0, 1], [0.0, 0.1, 0.2, 1.0], units=["a", "a", "b", "c"]))
    assert trained(site_part(), site, Small(), 1).fields == {}
    assert "too few patients for a class centroid" in site.said[-1]


@pytest.mark.parametrize("rule", ["soft", "random-per-epoch"])
def test_several_annotators(rule: str, tmp_path: Path) -> None:
    cases = tuple(replace(case, annotations=torch.stack([case.label] * 2, dim=1)) for case in ONE_WRONG.cases)
    several = replace(ONE_WRONG, cases=cases, consensus=ConsensusRule.parse(rule))
    models = []
    for name, data in (("several", several), ("one", ONE_WRONG)):
        method, network = site_part(training=TRAINING | {"consensus": rule} if data is several else TRAINING), Bumps()
        trained(method, site_of(tmp_path / name, data), network, known=(0, 1, 2))
        models.append(network)
    # Annotators who agree are as one; who is drawn changes the order of samples.
    assert models[0].scale.item() == pytest.approx(models[1].scale.item(), abs=1e-5 if rule == "soft" else 0.01)
    assert abs(models[0].scale.item() - 1.0) > 0.04


class Squashed(Small):
    """What the last layer says is changed."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images).tanh()


def test_the_last_layer_is_found_or_the_network_is_refused() -> None:
    settings = ClassifierSettings(in_channels=1, num_classes=3, depth=10, widths=(2, 2, 2, 2))
    assert find_head(described_network(settings), settings) == "fc"
    assert find_head(Small(), settings) == "head"
    for network in (Brightness(), Squashed()):
        with pytest.raises(ComponentError, match="has no linear layer with 3 outputs whose output is what the network"):
            find_head(network, settings)
