"""Two sites that differ in one patient's image, under weights made so that training overflows at one of them.

What leaves must not tell them apart but by a bounded update under noise: a result that is missing would.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants
from PIL import Image

from fedannot.custom.data.location import DATA_VARIABLE
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.flare.outbound_filter import OutboundFilter
from fedannot.custom.flare.privacy_filter import PrivacyFilter
from fedannot.custom.flare.privacy_ledger import LEDGER_FILE
from fedannot.custom.flare.task_process import SiteContext
from fedannot.custom.interface.views import Trained
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.noise_source import with_noise

SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "rounds": 1,
    "network": {"in_channels": 1, "num_classes": 1, "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4]},
    "training": {"learning_rate": 0.01, "batch_size": 3, "local_epochs": 1},
}
CLIP, SIGMA = 0.5, 2.0
SITES = ("one", "neighbour")
_FIRST = "conv_0.conv_0.conv.weight"

Params = dict[str, torch.Tensor]


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Path]:
    """Two workspaces of one site, whose data differ in one image; threads are as before afterwards."""
    before = torch.get_num_threads()
    for site in SITES:
        data = tmp_path / site / "data"
        write_phantom_federation(data, LesionImages(), num_sites=1, seed=0, images_per_site=3, test_images=1)
        for needed in ("startup", "local"):
            (tmp_path / site / needed).mkdir()
    file = min((tmp_path / "neighbour" / "data" / "site-1" / "images").glob("*.png"))
    places = np.indices(np.asarray(Image.open(file)).shape).sum(axis=0)
    Image.fromarray(np.where(places % 2, 255, 0).astype(np.uint8)).save(file)
    yield tmp_path
    torch.set_num_threads(before)


def answer(folder: Path, params: Params, monkeypatch: pytest.MonkeyPatch, *, private: bool = True) -> Shareable:
    """What leaves a site that is asked to train these weights; its noise is the same at every call."""
    monkeypatch.setenv(DATA_VARIABLE, str(folder / "data"))
    task = DXO(DataKind.WEIGHTS, data=params).to_shareable()
    task.set_header(AppConstants.CURRENT_ROUND, 1)
    fl_ctx = SiteContext("site-1", "job", str(folder)).context()
    fl_ctx.set_prop(FLContextKey.TASK_NAME, "train", private=True, sticky=False)
    reply = FederatedExecutor(SETTINGS).execute("train", task, fl_ctx, Signal())
    if not private:
        return reply
    noise = PrivacyFilter(clip_norm=CLIP, noise_multiplier=SIGMA)
    noise.random_bytes = np.random.default_rng(7).bytes
    return OutboundFilter().process(noise.process(reply, fl_ctx), fl_ctx)


def crafted(scale: float) -> Params:
    """Weights with which the variance of the first layer's outputs is near the largest float32."""
    params = {
        name: tensor.clone()
        for name, tensor in described_network(FederatedExecutor(SETTINGS).settings.network).state_dict().items()
    }
    params[_FIRST] *= scale
    return params


def overflows(folder: Path, params: Params, monkeypatch: pytest.MonkeyPatch) -> bool:
    trained = from_shareable(answer(folder, params, monkeypatch, private=False)).data
    return not all(bool(torch.isfinite(tensor).all()) for tensor in trained.values())


def separating(sites: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Params, str, str]:
    """Weights that overflow at one of the sites alone, and the names of that site and the other one."""
    for scale in np.geomspace(1e17, 4e17, 15):
        params = crafted(float(scale))
        over = {site: overflows(sites / site, params, monkeypatch) for site in SITES}
        if len(set(over.values())) == 2:
            return params, *sorted(SITES, key=over.__getitem__, reverse=True)
    raise AssertionError("No weights tell the two sites apart; the test tests nothing.")


def raise_if_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a training that diverges fail, as one of another method may."""
    train: Callable[..., Trained] = FedAvgSite.train

    def checked(self: FedAvgSite, network: torch.nn.Module, site: Any) -> Trained:
        trained = train(self, network, site)
        if not all(bool(torch.isfinite(tensor).all()) for tensor in network.state_dict().values()):
            raise FloatingPointError("The loss of a patient is not finite.")
        return trained

    monkeypatch.setattr(FedAvgSite, "train", checked)


@pytest.mark.parametrize("fails", [False, True], ids=["diverges", "fails"])
def test_what_leaves_does_not_say_at_which_of_two_neighbouring_sites_training_overflowed(
    sites: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    params, overflown, other = separating(sites, monkeypatch)
    if fails:
        raise_if_not_finite(monkeypatch)
    left = {site: answer(sites / site, dict(params), monkeypatch) for site in SITES}
    assert [reply.get_return_code() for reply in left.values()] == [ReturnCode.OK] * 2
    headers = [reply.get(ReservedHeaderKey.HEADERS) for reply in left.values()]
    assert headers[0] == headers[1]
    results = {site: from_shareable(reply) for site, reply in left.items()}
    assert results["one"].meta == results["neighbour"].meta
    assert (sites / "one" / LEDGER_FILE).read_bytes() == (sites / "neighbour" / LEDGER_FILE).read_bytes()
    described = [{name: (of.shape, of.dtype) for name, of in result.data.items()} for result in results.values()]
    assert described[0] == described[1] == {name: (of.shape, of.dtype) for name, of in params.items()}
    # Where it overflowed: the received model and the noise, entry by entry, and nothing else.
    noise = np.random.default_rng(7).bytes
    for name in sorted(name for name, of in params.items() if of.is_floating_point()):
        drawn = torch.from_numpy(with_noise(np.zeros(params[name].numel()), SIGMA * CLIP, noise))
        expected = params[name].double() + drawn.reshape(params[name].shape)
        expected = expected.clamp(min=0.0) if name.endswith("running_var") else expected
        assert torch.equal(results[overflown].data[name], expected.float())
    # The other one differs by a bounded update, with the same noise: rounding to the grid moves an entry by a cell.
    apart = torch.cat(
        [
            (results[other].data[name].double() - results[overflown].data[name].double()).flatten()
            for name in params
            if name != _FIRST
        ]
    )
    cell = SIGMA * CLIP / 2**8
    assert 0 < float(apart.norm()) <= CLIP + cell * len(apart) ** 0.5
    assert float(apart.abs().max()) <= CLIP + cell


def test_a_site_without_private_updates_is_refused_as_before(sites: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, overflown, _ = separating(sites, monkeypatch)
    raise_if_not_finite(monkeypatch)
    reply = answer(sites / overflown, params, monkeypatch, private=False)
    assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
