"""The inside part of IOP-FL: federated averaging, and a moving average of what a site has trained."""

from pathlib import Path

import pytest
import torch
from support.personal import DATA, averaged_alone, received, same, site_part, train_round, values
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.methods.iop_fl.site import OwnAverage


def test_the_shared_network_is_that_of_federated_averaging(tmp_path: Path) -> None:
    method = site_part("iop_fl")
    network = received(method)
    train_round(method, network, tmp_path)
    seed = HandmadeSite(tmp_path, DATA).view(method, 2).training_seed
    assert same(values(network), averaged_alone(method.settings, received(method), seed))


@pytest.mark.parametrize(("momentum", "kept"), [(0.0, 3), (1.0, 1)])
def test_the_own_model_is_the_last_or_the_first_at_the_ends(momentum: float, kept: int, tmp_path: Path) -> None:
    method = site_part("iop_fl", personal_momentum=momentum)
    trained = {}
    for number in (1, 2, 3):
        network = received(method)
        train_round(method, network, tmp_path, number)
        trained[number] = values(network)
    view = HandmadeSite(tmp_path, DATA).view(method, 3)
    own = values(method.model_in_use(received(method), view))
    # Numbers of batches are the last model's.
    assert all(torch.equal(own[name], trained[kept][name]) for name in own if own[name].is_floating_point())


def test_models_count_by_their_age() -> None:
    average, network = OwnAverage(nn.Linear(1, 1, bias=False)), nn.Linear(1, 1, bias=False)
    for weight in (8.0, 4.0, 2.0):
        nn.init.constant_(network.weight, weight)
        average.add(network, 0.5)
    # 8, then (8 + 4) / 2 = 6, then (6 + 2) / 2.
    assert float(average.model.weight) == 4.0


def test_averages_of_three_rounds_of_three_sites() -> None:
    """The shared weight begins at 0, and site k adds k in each round: 1, 2, 3, then their mean 2 and so on."""
    sites = [OwnAverage(nn.Linear(1, 1, bias=False)) for _ in range(3)]
    averages, shared = [], 0.0
    for _ in range(3):
        for number, average in enumerate(sites, start=1):
            network = nn.Linear(1, 1, bias=False)
            nn.init.constant_(network.weight, shared + number)
            average.add(network, 0.9)
        shared += 2.0
        averages.append([float(average.model.weight) for average in sites])
    for result, expected in zip(averages, ((1, 2, 3), (1.2, 2.2, 3.2), (1.58, 2.58, 3.58)), strict=True):
        assert result == pytest.approx(expected)


def test_before_its_first_round_a_site_has_the_shared_model(tmp_path: Path) -> None:
    method = site_part("iop_fl")
    network = received(method)
    assert method.model_in_use(network, HandmadeSite(tmp_path, DATA).view(method, 1)) is network
