"""Decoupled predictions at a site: all but W is shared, and W is near the identity after the warm-up."""

import copy
from pathlib import Path

import torch
from support.personal import DATA, changed, received, site_part, train_round, values
from support.site_views import HandmadeSite

from fedannot.custom.methods.decoupled.adaptation import AdaptationNetwork, LocalModel
from fedannot.custom.methods.decoupled.network import DecoupledNetwork


def test_all_but_w_is_trained_in_the_shared_network(tmp_path: Path) -> None:
    method = site_part("decoupled")
    network = received(method)
    before = values(network)
    train_round(method, network, tmp_path)
    assert {name.split(".")[0] for name in changed(before, values(network))} == {"unet", "prior", "posterior", "head"}


def test_the_sites_model_is_the_shared_one_with_its_adaptation(tmp_path: Path) -> None:
    method = site_part("decoupled")
    model = method.model_in_use(received(method), HandmadeSite(tmp_path, DATA).view(method))
    assert isinstance(model, LocalModel)


def test_the_warm_up_is_the_first_rounds(tmp_path: Path) -> None:
    """W goes to the identity in the warm-up, from a mean trace of about 1."""
    method = site_part("decoupled")
    start = received(method)
    traces = {}
    for number in (1, 2):
        network = copy.deepcopy(start)
        personal = method.start(network, seed=1)
        view = HandmadeSite(tmp_path, DATA).view(method, number)
        for _ in range(5):
            method.train_both(network, personal, method.batches(DATA, network), view)
        assert isinstance(network, DecoupledNetwork)
        assert isinstance(personal, AdaptationNetwork)
        images = torch.cat([case.image for case in DATA.cases])
        with torch.no_grad():
            flips = personal(images, network.unet(images), network.prior(images).mean)
        traces[number] = float(flips.diagonal(dim1=1, dim2=2).sum(-1).mean())
    assert traces[1] > traces[2] + 0.05
