"""FedCurv at a site: its own curvature is sent, kept, and taken out of the mean that comes back."""

import copy
from pathlib import Path

import pytest
import torch
from support.pictures import make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.methods.fedcurv.server import CURVATURE_SAMPLES, IN_MEAN, NUM_CURVATURES
from fedannot.custom.methods.fedcurv.settings import FedCurvSettings
from fedannot.custom.methods.fedcurv.site import FedCurvSite
from fedannot.custom.networks.described import described_network

DATA = make_data([(1,)] * 4)


def method_of(weight: float = 1.0) -> FedCurvSite:
    values = {"rounds": 4, "network": {"features": (2, 2, 4, 4, 4, 2)}, "curvature_weight": weight}
    values["training"] = {"batch_size": 2, "local_epochs": 1, "learning_rate": 0.01}
    return FedCurvSite(FedCurvSettings.model_validate(values))


def curvature(network: nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in network.get_submodule("curvature").state_dict().values()])


def parameters(network: nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in network.parameters()])


def trained(site: HandmadeSite, number: int, start: nn.Module, weight: float = 1.0, **message: object) -> nn.Module:
    method, network = method_of(weight), copy.deepcopy(start)
    method.train(network, site.view(method, number, message))
    return network


def test_the_first_round_is_without_a_penalty_and_sends_what_it_keeps(tmp_path: Path) -> None:
    site, start = HandmadeSite(tmp_path, DATA), described_network(method_of().settings.network)
    network = trained(site, 1, start, weight=100.0)
    assert torch.equal(parameters(network), parameters(trained(site, 1, start, weight=0.0)))
    assert bool((curvature(network) != curvature(start)).any())
    kept = site.view(method_of(), 1).kept_tensors("curvature", 1)
    assert kept is not None
    assert torch.equal(torch.cat([value.flatten() for value in kept[1].values()]), curvature(network))


def mean_of(num_sites: int, *, itself: bool) -> dict[str, object]:
    """What a site learns of a mean of sites with 4 samples each."""
    return {NUM_CURVATURES: num_sites, CURVATURE_SAMPLES: 4 * num_sites} | ({IN_MEAN: True} if itself else {})


@pytest.mark.parametrize(("num_sites", "itself", "penalised"), [(1, True, False), (2, True, True), (1, False, True)])
def test_the_penalty_is_that_of_the_others(tmp_path: Path, num_sites: int, itself: bool, penalised: bool) -> None:
    """Alone in the mean a site asks nothing of itself."""
    site, start = HandmadeSite(tmp_path, DATA), described_network(method_of().settings.network)
    received = trained(site, 1, start)
    message = mean_of(num_sites, itself=itself)
    with_penalty = trained(site, 2, received, weight=100.0, **message)
    without = trained(site, 2, received, weight=0.0, **message)
    assert torch.equal(parameters(with_penalty), parameters(without)) is not penalised


def test_a_lost_curvature_is_said_and_counted_among_the_others(tmp_path: Path) -> None:
    first, start = HandmadeSite(tmp_path / "first", DATA), described_network(method_of().settings.network)
    received = trained(first, 1, start)
    lost = HandmadeSite(tmp_path / "lost", DATA)
    message = mean_of(1, itself=True)
    network = trained(lost, 2, received, weight=100.0, **message)
    assert lost.said == ["This site's own curvature after round 1 is not in curvature."]
    assert not torch.equal(parameters(network), parameters(trained(first, 2, received, weight=100.0, **message)))


def test_a_site_that_missed_the_last_mean_has_nothing_to_take_out(tmp_path: Path) -> None:
    site, start = HandmadeSite(tmp_path, DATA), described_network(method_of().settings.network)
    received = trained(site, 1, start)
    trained(site, 3, received, **mean_of(1, itself=False))
    assert site.said == []
    trained(site, 5, received, **mean_of(2, itself=True))
    assert site.said == ["This site's own curvature after round 4 is not in curvature."]
