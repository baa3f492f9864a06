"""FedGP at the server: the last layer is the mean of the sites' centroids, and what becomes of others' claims."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.rounds import round_of

from fedannot.custom.aggregation.weighting import LayerWeights, quantity_weights
from fedannot.custom.methods.fedgp.server import KNOWN_CLASSES, FedGPServer
from fedannot.custom.methods.fedgp.settings import FedGPSettings

NETWORK = {"in_channels": 1, "num_classes": 2, "depth": 10, "widths": (2, 2, 2, 2)}
BEFORE = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
SENT = {"a": [0.0, 1.0, 2.0, 3.0], "b": [4.0, 1.0, 2.0, 1.0]}


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
    average = {"fc.weight": torch.full((2, 2), 9.0), "fc.bias": torch.ones(2), "conv1.weight": torch.ones(1)}
    model = server.combine(replace(made, params={"fc.weight": BEFORE}, average=average, weighed=weights))
    assert model["fc.bias"].tolist() == [0.0, 0.0]
    assert model["conv1.weight"].tolist() == [1.0]
    return model["fc.weight"]


def test_the_last_layer_is_the_mean_of_centroids() -> None:
    said: list[str] = []
    server = server_part()
    assert server.message(round_of(1)) == {KNOWN_CLASSES: []}
    assert combined(server, SENT, said=said).tolist() == [[2.0, 1.0], [2.0, 2.0]]
    assert server.message(round_of(2)) == {KNOWN_CLASSES: [0, 1]}
    assert said == []
    assert combined(server_part(weighting="quantity"), SENT).tolist() == [[3.0, 1.0], [2.0, 1.5]]


def test_of_one_site_they_are_its_centroids() -> None:
    own = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(combined(server_part(), {"a": own.flatten().tolist()}), own)


def test_a_class_that_no_site_sends_keeps_its_row_and_the_log_says_so() -> None:
    server, said = server_part(), list[str]()
    withheld = {"a": [1.0, 1.0, math.nan, math.nan], "b": [5.0, 1.0, None, None]}
    assert combined(server, withheld, said=said).tolist() == [[3.0, 1.0], [3.0, 4.0]]
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
    assert combined(server_part(), {"a": [9.0] * 6, "b": SENT["b"]}, said=said).tolist() == [[4.0, 1.0], [2.0, 1.0]]
    assert "The centroids of a are not used: found 6 values, expected 2 × 2" in said[0]


def test_a_liar_moves_a_centroid_no_farther_than_its_bound() -> None:
    honest = {"a": [2.0, 2.0, 3.0, 4.0], "b": [2.0, 2.0, 3.0, 4.0]}
    layer = combined(server_part(influence={"max_update_ratio": 1.0}), {"c": [1e3, 2.0, 3.0, 4.0], **honest})
    assert layer[0].tolist() == pytest.approx([2.0, 2.0])


def test_with_a_robust_rule_they_are_medians() -> None:
    sent = SENT | {"c": [1.0, 900.0, math.nan, math.nan]}
    layer = combined(server_part(aggregation={"rule": "median"}, min_sites=3), sent)
    assert layer.tolist() == [[1.0, 1.0], [2.0, 2.0]]
