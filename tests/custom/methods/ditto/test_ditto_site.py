"""Ditto at a site: federated averaging, and beside it a network that stays near the received one."""

from pathlib import Path

from support.personal import DATA, averaged_alone, received, same, site_part, train_round, values
from support.site_views import HandmadeSite


def test_the_shared_network_is_that_of_federated_averaging(tmp_path: Path) -> None:
    method = site_part("ditto")
    network = received(method)
    train_round(method, network, tmp_path)
    seed = HandmadeSite(tmp_path, DATA).view(method, 2).training_seed
    assert same(values(network), averaged_alone(method.settings, received(method), seed))


def test_the_personal_network_stays_near_where_the_weight_is_large(tmp_path: Path) -> None:
    distances = []
    for weight in (0.0, 100.0):
        method = site_part("ditto", personal_proximal_weight=weight)
        for number in (1, 2, 3, 4):
            personal, _ = train_round(method, received(method), tmp_path / str(weight), number)
        start = dict(received(method).named_parameters())
        distances.append(sum(float((personal[name] - value).square().sum()) for name, value in start.items()))
    assert distances[1] < 0.5 * distances[0]
