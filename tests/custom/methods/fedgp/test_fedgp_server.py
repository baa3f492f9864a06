"""FedGP at the server: the last layer is the mean of the sites' centroids, and what becomes of others' claims."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.rounds import round_of

from fedannot.custom.aggregation.weighting import LayerWeights, quantity_weights
from fedannot.custom.methods.fedgp.centroids import as_head
from fedannot.custom.methods.fedgp.server import KNOWN_CLASSES, FedGPServer
from fedannot.custom.methods.fedgp.settings import FedGPSettings

NETWORK = {"in_channels": 1, "num_classes": 2, "depth": 10, "widths": (2, 2, 2, 3)}
BEFORE = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]])
# (0, 1, 2) less its mean, over its deviation √(2/3), is (−r, 0, r) with r = √1.5.
R = math.sqrt(1.5)
SENT = {"a": [0.0, 1.0, 2.0, 2.0, 3.0, 4.0], "b": [0.0, 20.0, 40.0, 7.0, 6.0, 5.0]}
ROWS = {"a": [[-R, 0.0, R], [-R, 0.0, R]], "b": [[-R, 0.0, R], [R, 0.0, -R]]}


def server_part(**settings: Any) -> FedGPServer:
    values = {"rounds": 9, "warmup_rounds": 1, "network": NETWORK}
    return FedGPServer(FedGPSettings.model_validate(values | settings))


def combined(server: FedGPServer, sent: Any, number: int = 1, said: Any = None) -> torch.Tensor:
    """The last layer after a round in which sites sent centroids, and layers that nobody reads."""
    reports = {
        site: {"num_samples": size, "class_centroids": values, "num_centroid_patients": [3, 3]}
        for size, (site, values) in zip((1, 3, 4), sent.items(), strict=False)
    }
    samples = {site: report["num_samples"] for site, report in reports.items()}
    made = round_of(number, reports=reports, num_samples=samples, said=said)
    server.before_round(made)
    server.sites_to_train(made, sorted(sent))
    weights = server.weights(made)
    if weights is None:
        weights = LayerWeights.same_in_all_blocks(quantity_weights(samples), made.blocks)
    average = {"fc.weight": torch.full((2, 3), 9.0), "fc.bias": torch.ones(2), "conv1.weight": torch.ones(1)}
    model = server.combine(replace(made, params={"fc.weight": BEFORE}, average=average, weighed=weights))
    assert model["fc.bias"].tolist() == [0.0, 0.0]
    assert model["conv1.weight"].tolist() == [1.0]
    return model["fc.weight"]


def near(rows: Any) -> Any:
    return pytest.approx(torch.tensor(rows).numpy(), abs=1e-4)


def test_the_last_layer_is_the_mean_of_centroids_that_are_normalised() -> None:
    """Of class 1 both are one direction, of class 2 they are opposite; long features count no more than short ones."""
    said: list[str] = []
    server = server_part()
    assert server.message(round_of(1)) == {KNOWN_CLASSES: []}
    assert combined(server, SENT, said=said).numpy() == near([[-R, 0.0, R], [0.0, 0.0, 0.0]])
    assert server.message(round_of(2)) == {KNOWN_CLASSES: [0, 1]}
    assert said == []
    by_samples = combined(server_part(weighting="quantity"), SENT)
    assert by_samples.numpy() == near([[-R, 0.0, R], [R / 2, 0.0, -R / 2]])


def test_of_one_site_they_are_its_centroids() -> None:
    own = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    layer = combined(server_part(), {"a": own.flatten().tolist()})
    expected = (own - own.mean(dim=1, keepdim=True)) / own.std(dim=1, keepdim=True, correction=0)
    assert layer.numpy() == pytest.approx(expected.numpy(), abs=1e-4)
    assert torch.equal(layer, as_head(own.double()).float())


def test_a_class_that_no_site_sends_keeps_its_row_and_the_log_says_so() -> None:
    server, said = server_part(), list[str]()
    withheld = {"a": [*SENT["a"][:3], *[math.nan] * 3], "b": [*SENT["b"][:3], *[None] * 3]}
    assert combined(server, withheld, said=said).numpy() == near([[-R, 0.0, R], BEFORE[1].tolist()])
    assert server.message(round_of(2)) == {KNOWN_CLASSES: [0]}
    assert said == [
        "No site has sent a centroid of the classes [2] so far: the global model cannot tell them. A site sends none "
        "of fewer than three patients, and none where its update is private."
    ]
    again = server_part()
    again.restore(server.state(), ())
    assert again.message(round_of(2)) == {KNOWN_CLASSES: [0]}
    assert again.describe(round_of(9)) == {"known_classes": [0]}


def test_centroids_of_another_network_are_not_used() -> None:
    said: list[str] = []
    layer = combined(server_part(), {"a": [9.0] * 8, "b": SENT["b"]}, said=said)
    assert layer.numpy() == near(ROWS["b"])
    assert "The centroids of a are not used: found 8 values, expected 2 × 3" in said[0]


def test_a_liar_moves_a_centroid_no_farther_than_any_other_site() -> None:
    """However long its centroid is, its row is as long as another; a bound on updates holds beside."""
    honest = {"a": [1.0, 2.0, 0.0, *SENT["a"][3:]], "b": [1.0, 2.0, 0.0, *SENT["a"][3:]]}
    sent = {"c": [1e6, 0.0, 2e6, *SENT["a"][3:]], **honest}
    assert combined(server_part(), sent)[0].numpy() == near([0.0, R / 3, -R / 3])
    before, row, lie = BEFORE[0], torch.tensor([0.0, R, -R]), torch.tensor([0.0, -R, R])
    factor = torch.dist(row, before) / torch.dist(lie, before)
    bounded = combined(server_part(influence={"max_update_ratio": 1.0}), sent)[0]
    assert factor < 0.6
    assert bounded.numpy() == near(((2 * row + before + factor * (lie - before)) / 3).tolist())


def test_with_a_robust_rule_they_are_medians() -> None:
    sent = SENT | {"c": [7.0, 7.5, 8.0, *[math.nan] * 3]}
    layer = combined(server_part(aggregation={"rule": "median"}, min_sites=3), sent)
    assert layer.numpy() == near([[-R, 0.0, R], [0.0, 0.0, 0.0]])
