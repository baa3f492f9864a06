"""The global model in fewer bits between controller and executor: the same bits, half of the bytes, attacks refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils import fobs

from fedannot.custom.aggregation.rounded_models import message_of_model, rounded_model
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.flare.messages import RECEIVED_MODEL, REFUSAL_HEADER
from fedannot.custom.flare.task_process import SiteContext
from fedannot.custom.networks.described import described_network
from fedannot.custom.refusals import RefusalCode
from fedannot.custom.task_names import TRAIN

SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "network": {"features": [16, 32, 64, 128, 128, 16], "upsample": "nontrainable"},
    "model_precision": "bf16",
}


class Noting(FederatedExecutor):
    """Does no task: takes note of the model that one comes with."""

    received: dict[str, torch.Tensor] | None = None

    def answer(self, task_name: str, shareable: Shareable, *arguments: Any, **options: Any) -> Shareable:
        self.received = dict(from_shareable(shareable).data)
        return make_reply(ReturnCode.OK)


@pytest.fixture(scope="module")
def executor() -> Noting:
    return Noting(SETTINGS)


@pytest.fixture(scope="module")
def model(executor: Noting) -> dict[str, torch.Tensor]:
    """What the server has: a model whose kernels are rounded."""
    network = described_network(executor.settings.network)
    return rounded_model(dict(network.state_dict()), [name for name, _ in network.named_parameters()]).params


@pytest.fixture
def made(tmp_path: Path) -> FLContext:
    for needed in ("startup", "local"):
        (tmp_path / needed).mkdir()
    context: FLContext = SiteContext("site-1", "job", str(tmp_path)).context()
    return context


def task_of(params: Any) -> Shareable:
    task: Shareable = DXO(DataKind.WEIGHTS, data=params).to_shareable()
    task.set_header(AppConstants.CURRENT_ROUND, 3)
    return task


def test_the_site_has_the_servers_bits_of_half_the_bytes(
    executor: Noting, model: dict[str, torch.Tensor], made: FLContext
) -> None:
    fobs.register(TensorDecomposer)
    message = message_of_model(model)
    sizes = [len(fobs.dumps(task_of(params))) for params in (message, model)]
    assert sizes[1] > 4_500_000
    assert 0.5 < sizes[0] / sizes[1] < 0.52
    task = task_of(message)
    assert executor.execute(TRAIN, task, made, Signal()).get_header(AppConstants.CURRENT_ROUND) == 3
    for received in (executor.received, made.get_prop(RECEIVED_MODEL)):
        assert received is not None
        assert list(received) == list(model)
        assert all(value.dtype == model[name].dtype for name, value in received.items())
        assert all(torch.equal(received[name], value) for name, value in model.items())
    # In one process other sites have the same task.
    assert all(from_shareable(task).data[name] is value for name, value in message.items())


Attack = Callable[[dict[str, torch.Tensor]], Any]


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (lambda sent: sent | {"conv_0.conv_0.conv.weight": sent["conv_0.conv_0.conv.weight"].half()}, "other type"),
        (lambda sent: sent | {"conv_0.conv_0.conv.weight": torch.zeros(1).expand(10**12)}, "other shape"),
        (lambda sent: sent | {"more": torch.zeros(1)}, "entries unexpected"),
        (lambda sent: dict(list(sent.items())[1:]), "entries missing"),
    ],
)
def test_what_is_no_such_model_reaches_no_task(
    executor: Noting,
    model: dict[str, torch.Tensor],
    made: FLContext,
    caplog: pytest.LogCaptureFixture,
    attack: Attack,
    said: str,
) -> None:
    executor.received = None
    reply = executor.execute(TRAIN, task_of(attack(message_of_model(model))), made, Signal())
    assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.MODEL_DOES_NOT_FIT.value
    assert reply.get_header(AppConstants.CURRENT_ROUND) == 3
    assert executor.received is made.get_prop(RECEIVED_MODEL) is None
    assert said in caplog.text
